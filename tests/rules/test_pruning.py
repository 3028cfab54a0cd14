"""Conditions that earn their place: equal to the slow twin, and right about what was planted."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from maabo_dist.data.columns import Columns
from maabo_dist.data.features import Feature, FeatureKind
from maabo_dist.mining import split_for
from maabo_dist.rules import LeafFilter, reliable_leaves
from maabo_dist.rules.leaves import NO_LITERAL
from maabo_dist.rules.pruning import _fisher, _Tally, product_bar, prune
from maabo_dist.settings import MiningSettings
from maabo_dist.trees import TrainingTable, depth_search
from tests import factories
from tests.reference import pruning as slow


def leaves_of(columns, subset_size=3, min_samples=4, max_gini=0.4, seed=0):
    split = split_for(columns, MiningSettings(seed=seed))
    table = TrainingTable.build(columns, split)
    wanted = LeafFilter(min_samples, max_gini, table.weights)
    forest = depth_search(table, factories.every_subset(columns.count, subset_size), 4)
    return reliable_leaves(forest, wanted), split, wanted, table


def planted(seed, noise=6, rows=600):
    """Feature 0 large and feature 1 small decide the class, nearly; the others are noise."""
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(2 + noise, rows))
    right = (matrix[0] > 0.2) & (matrix[1] < 0.3)
    labels = np.where(random.random(rows) < np.where(right, 0.95, 0.25), 1, 0).astype(np.int32)
    features = tuple(Feature(f"x{k}", f"x{k}", FeatureKind.NUMBER) for k in range(len(matrix)))
    return Columns.from_matrix(matrix, labels, features, ("no", "yes"), "y")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 3), st.sampled_from([0.3, 0.05, 0.001]))
def test_what_stays_is_what_the_slow_twin_keeps(seed, classes, level):
    columns = factories.make_columns(np.random.default_rng(seed), 120, 5, classes)
    leaves, split, wanted, table = leaves_of(columns)
    assume(len(leaves))

    pruned = prune(leaves, columns, split, wanted, table.shares, level)

    found = {int(place): row for place, row in zip(pruned.source, pruned.leaves.logic, strict=True)}
    for place in range(min(len(leaves), 12)):
        label = int((leaves.counts[place] * table.weights).argmax())
        conditions, closest = slow.pruned(columns, split, leaves.logic[place], leaves.bounds[place], label, level)
        if place in found and closest > 1e-6:
            kept = [literal for literal in found[place] if literal != NO_LITERAL]
            assert kept == [literal for literal, _ in conditions]


def test_rows_are_counted_anew_for_what_is_left():
    columns = planted(3)
    leaves, split, wanted, table = leaves_of(columns, min_samples=30)

    pruned = prune(leaves, columns, split, wanted, table.shares, 0.01).leaves

    assert len(pruned)
    for logic, bounds, counts in zip(pruned.logic, pruned.bounds, pruned.counts, strict=True):
        covered = np.ones(len(split.train), bool)
        for literal, bound in zip(logic, bounds, strict=True):
            if literal != NO_LITERAL:
                covered &= slow.holds(columns, split.train, literal, bound)
        assert np.bincount(columns.labels[split.train][covered], minlength=2).tolist() == counts.tolist()
    assert (pruned.sizes >= 30).all()
    assert (pruned.gini < wanted.max_gini).all()


def test_noise_goes_and_what_was_planted_stays():
    noisy = kept = both = 0
    for seed in range(5):
        columns = planted(seed)
        leaves, split, wanted, table = leaves_of(columns, min_samples=30, max_gini=0.3)
        logic = prune(leaves, columns, split, wanted, table.shares, 0.01).leaves.logic
        used = [{literal // 2 for literal in row.tolist() if literal != NO_LITERAL} for row in logic]
        noisy += sum(bool(features - {0, 1}) for features in used)
        both += sum(features == {0, 1} for features in used)
        kept += len(used)

    assert both > 20
    assert noisy < 0.05 * kept


@given(st.integers(1, 60), st.integers(0, 60), st.data())
def test_the_test_is_fishers(rows, others, data):
    hits, other_hits = data.draw(st.integers(0, rows)), data.draw(st.integers(0, others))
    tally = _Tally(np.array([other_hits, hits]), np.array([others, rows]))

    expected = hypergeom.sf(hits - 1, rows + others, hits + other_hits, rows)

    assert _fisher(tally, 0) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("level", [0.5, 0.05, 0.001, 1e-9])
def test_the_bar_on_the_product_is_fishers_method(level):
    bar = product_bar(level)

    assert slow.combined(bar, 1.0) == pytest.approx(level, rel=1e-9)


def test_nothing_in_gives_nothing_out():
    columns = planted(1)
    leaves, split, wanted, table = leaves_of(columns, min_samples=10_000)

    pruned = prune(leaves, columns, split, wanted, table.shares, 0.01)

    assert (len(pruned.leaves), pruned.dropped, pruned.lost) == (0, 0, 0)
