"""Pruning: equal to the reference, and correct about planted conditions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.data.columns import Columns, Feature, FeatureKind
from maabo_dist.rules.leaves import LeafFilter, reliable_leaves
from maabo_dist.rules.pruning import Multiplicity, feature_q_values, prune
from maabo_dist.rules.rule import NO_LITERAL
from maabo_dist.settings import MiningSettings
from maabo_dist.study import split_for
from maabo_dist.trees.training import depth_search
from tests import factories
from tests.reference import pruning as slow


def leaves_of(columns, subset_size=3, min_samples=4, max_gini=0.4, level=0.01, seed=0):
    split = split_for(columns, MiningSettings(seed=seed))
    gini = max_gini / (1 - 1 / len(columns.classes))
    limits = {"min_samples": min_samples, "gini": gini, "significance": level}
    study = factories.make_study(columns, split, preset="paper", literals="supported", **limits)
    forest = depth_search(study.table, factories.every_subset(columns.count, subset_size), 4)
    return reliable_leaves(forest, LeafFilter.of(study)), study


def planted(seed, noise=6, rows=600):
    """Return a table in which feature 0 large and feature 1 small nearly determine the class; the others are noise."""
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(2 + noise, rows))
    right = (matrix[0] > 0.2) & (matrix[1] < 0.3)
    labels = np.where(random.random(rows) < np.where(right, 0.95, 0.25), 1, 0).astype(np.int32)
    features = tuple(Feature(f"x{k}", f"x{k}", FeatureKind.NUMBER) for k in range(len(matrix)))
    return Columns.from_matrix(matrix, labels, features, ("no", "yes"), "y")


@settings(max_examples=40)
@given(
    st.integers(0, 10**6), st.integers(2, 4), st.sampled_from([0.5, 0.05, 0.001]), st.sampled_from(["balanced", "none"])
)
def test_the_remaining_conditions_equal_the_reference(seed, classes, level, class_weight):
    rng = np.random.default_rng(seed)
    columns, split = factories.make_planted(rng, 150, 4, classes, signal=0.95), factories.make_split(rng, 150)
    former = {"preset": "paper", "literals": "supported", "min_samples": 4, "gini": 0.9}
    study = factories.make_study(columns, split, class_weight=class_weight, significance=level, **former)
    table, limits = study.table, LeafFilter.of(study)
    leaves = factories.make_rules(rng, columns, split, 10, weights=table.weights)

    pruned = prune(leaves, study)

    q_values, factor, expected = slow.pruned(columns, split, slow.rules_of(leaves), table.shares, level)
    assert pruned.multiplicity.feature_q == pytest.approx(q_values, rel=1e-9)
    assert pruned.multiplicity.factor == factor
    remaining = dict(zip(pruned.source.tolist(), slow.rules_of(pruned.leaves), strict=True))
    for index, (conditions, counts, closest) in enumerate(expected):
        gini = slow.gini(counts, table.weights)
        if min(closest, abs(gini - limits.max_gini)) > 1e-9:
            reliable = conditions and sum(counts) >= limits.min_samples and gini < limits.max_gini
            assert remaining.get(index) == (conditions if reliable else None)
            if reliable:
                at = pruned.source.tolist().index(index)
                assert pruned.leaves.counts[at].tolist() == counts
                assert pruned.leaves.gini[at] == pytest.approx(gini, rel=1e-9, abs=1e-12)
    before, after = (sum(map(len, rules)) for rules in (slow.rules_of(leaves.take(pruned.source)), remaining.values()))
    assert (pruned.dropped, pruned.lost) == (before - after, len(leaves) - len(remaining))


@pytest.mark.parametrize("seed", range(3))
def test_leaves_of_trees_keep_the_conditions_of_the_reference(seed):
    columns = factories.make_columns(np.random.default_rng(seed), 120, 4, 2 + seed % 2, signal=0.8)
    leaves, study = leaves_of(columns, level=0.3)
    leaves = leaves.take(np.arange(0, len(leaves), max(1, len(leaves) // 12)))

    pruned = prune(leaves, study)

    _, _, expected = slow.pruned(columns, study.split, slow.rules_of(leaves), study.table.shares, 0.3)
    assert len(pruned.leaves)
    for index, rule in zip(pruned.source.tolist(), slow.rules_of(pruned.leaves), strict=True):
        conditions, _, closest = expected[index]
        assert closest < 1e-9 or rule == conditions


def test_rows_are_counted_again_for_the_conditions_that_are_left():
    columns = planted(3)
    leaves, study = leaves_of(columns, min_samples=30)
    train = study.split.train

    pruned = prune(leaves, study).leaves

    assert len(pruned)
    for logic, bounds, counts in zip(pruned.logic, pruned.bounds, pruned.counts, strict=True):
        covered = np.ones(len(train), bool)
        for literal, bound in zip(logic, bounds, strict=True):
            if literal != NO_LITERAL:
                covered &= slow.holds(columns, train, literal, bound)
        assert np.bincount(columns.labels[train][covered], minlength=2).tolist() == counts.tolist()
    assert (pruned.sizes >= 30).all()
    assert (pruned.gini < 0.4).all()


def test_noise_is_dropped_and_planted_conditions_are_kept():
    noisy = kept = both = 0
    for seed in range(5):
        columns = planted(seed)
        leaves, study = leaves_of(columns, min_samples=30, max_gini=0.3)
        logic = prune(leaves, study).leaves.logic
        used = [{literal // 2 for literal in row.tolist() if literal != NO_LITERAL} for row in logic]
        noisy += sum(bool(features - {0, 1}) for features in used)
        both += sum(features == {0, 1} for features in used)
        kept += len(used)

    assert both > 20
    assert noisy < 0.05 * kept


def test_where_classes_are_shuffled_nothing_matters():
    misled = conditions = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        columns = factories.columns_of(rng.normal(size=(8, 150)).round(1), rng.integers(0, 2, 150))
        leaves, study = leaves_of(columns, subset_size=2, min_samples=5, level=0.05, seed=seed)
        pruned = prune(leaves, study)
        misled += (pruned.multiplicity.feature_q <= 0.05).any()
        conditions += len(leaves)

    assert conditions > 1000
    assert misled <= 0.05 * 120


def test_a_feature_is_measured_against_all_of_the_table():
    p = np.array([[0.01, 0.3], [0.04, 0.5], [0.02, 1.0]])
    logic = np.array([[0, 2], [1, 2], [5, NO_LITERAL]], np.int32)

    q_values = feature_q_values(logic, p, features=10)

    # By Simes 0.02, 0.5 and 0.02; the two best of ten features are at 10 / 2 times that.
    assert q_values.tolist() == pytest.approx([0.1, 1, 0.1, 1, 1, 1, 1, 1, 1, 1])


def test_a_condition_must_satisfy_both_requirements():
    many = Multiplicity(np.array([0.001, 0.2]), factor=5.0)

    assert many.adjust(0, 0.002) == 0.01
    assert many.adjust(0, 0.0001) == 0.001
    assert many.adjust(1, 0.0001) == 0.2
    assert many.adjust(0, 0.7) == 1.0


def test_no_leaves_are_pruned_to_no_leaves():
    columns = planted(1)
    leaves, study = leaves_of(columns, min_samples=10_000)

    pruned = prune(leaves, study)

    assert (len(pruned.leaves), pruned.dropped, pruned.lost) == (0, 0, 0)
