"""Rows with sampling weights: trees, evidence and figures are those of the table in which rows are repeated."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.data.split import Split
from maabo_dist.data.weights import UNIT, weight_units
from maabo_dist.findings import evidence
from maabo_dist.findings.findings import Evidence
from maabo_dist.mining.local import mine
from maabo_dist.rules.leaves import LeafFilter, reliable_leaves
from maabo_dist.rules.pruning import prune
from maabo_dist.rules.publishing import measure_support
from maabo_dist.rules.refitting import refit
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
from maabo_dist.trees.training import TrainingTable, depth_search
from tests import factories


def repeated_twice(columns, split, numbers):
    """The same table twice: with weights that are numbers of rows, and with repeated rows."""
    rows = np.repeat(np.arange(columns.rows), numbers)
    starts = np.cumsum(numbers) - numbers

    def places(part):
        return np.concatenate([np.arange(starts[row], starts[row] + numbers[row]) for row in part])

    repeated = replace(columns, codes=columns.codes[:, rows], labels=columns.labels[rows])
    parts = Split(*(places(part) if len(part) else part for part in (split.train, split.validation, split.holdout)))
    return replace(columns, weights=numbers * UNIT), repeated, parts


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 4), st.sampled_from(["balanced", "none"]))
def test_trees_are_those_of_repeated_rows(seed, classes, class_weight):
    rng = np.random.default_rng(seed)
    columns, split = factories.make_columns(rng, 60, 4, classes), factories.make_split(rng, 60)
    weighted, repeated, parts = repeated_twice(columns, split, rng.integers(1, 5, 60))
    subsets = factories.every_subset(4, 2)

    forest, expected = (
        depth_search(TrainingTable.build(table, rows, class_weight=class_weight), subsets, 4, whole=True)
        for table, rows in ((weighted, split), (repeated, parts))
    )

    for name in ("scores", "depths", "offsets", "feature", "threshold", "left", "counts"):
        np.testing.assert_array_equal(getattr(forest, name), getattr(expected, name), err_msg=name)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 3))
def test_evidence_is_that_of_repeated_rows(seed, classes):
    rng = np.random.default_rng(seed)
    columns, split = factories.make_planted(rng, 150, 4, classes), factories.make_split(rng, 150)
    weighted, repeated, parts = repeated_twice(columns, split, rng.integers(1, 4, 150))
    studies = [factories.make_study(weighted, split), factories.make_study(repeated, parts)]
    leaves = [
        reliable_leaves(
            depth_search(study.table, factories.every_subset(4, 2), 3, whole=True), LeafFilter.of(studies[1])
        )
        for study in studies
    ]

    found, expected = (
        Evidence.collect(each, as_if_independent(study)) for each, study in zip(leaves, studies, strict=True)
    )

    assert found.table.mined.totals.tolist() == expected.table.mined.totals.tolist()
    np.testing.assert_array_equal(found.rules.counts, expected.rules.counts)
    np.testing.assert_array_equal(found.rules.log_p, expected.rules.log_p)
    assert found.logic == expected.logic
    covered = evidence.cover(found.table.bits, found.table.mined, found.rules.conditions)
    mined = found.table.mined
    for label in range(classes):
        rows, hits = evidence.count_added(mined, covered, np.arange(len(covered)), mined.everything, label)
        np.testing.assert_array_equal(rows, expected.rules.rows)
        np.testing.assert_array_equal(hits, expected.rules.counts[:, label])


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(2, 3))
def test_pruned_and_refitted_rules_are_those_of_repeated_rows(seed, classes):
    rng = np.random.default_rng(seed)
    columns, split = factories.make_planted(rng, 120, 4, classes), factories.make_split(rng, 120)
    weighted, repeated, parts = repeated_twice(columns, split, rng.integers(1, 4, 120))
    mining = {"preset": "paper", "literals": "supported", "min_samples": 5, "gini": 0.9}
    studies = [factories.make_study(weighted, split, **mining), factories.make_study(repeated, parts, **mining)]
    leaves = factories.make_rules(rng, repeated, parts, 10, weights=studies[1].table.weights)

    pruned, expected = (prune(leaves, as_if_independent(study)) for study in studies)
    fitted, expected_fit = (refit(each.leaves, study) for each, study in zip((pruned, expected), studies, strict=True))

    for name in ("logic", "bounds", "counts", "gini"):
        np.testing.assert_array_equal(getattr(pruned.leaves, name), getattr(expected.leaves, name), err_msg=name)
        np.testing.assert_array_equal(getattr(fitted, name), getattr(expected_fit, name), err_msg=name)


def as_if_independent(study):
    """Return the study without its design effect: weights that are numbers of rows lose nothing."""
    return replace(study, design_effect=1.0)


@given(st.integers(0, 10**6))
def test_figures_are_those_of_the_weighted_table(seed):
    rng = np.random.default_rng(seed)
    labels, covered = rng.integers(0, 2, 40).astype(np.int32), rng.random(40) < 0.5
    weights = rng.gamma(1, 1, 40) + 0.01
    covered[0] = labels[0] = 1

    support = measure_support(covered, labels, 1, ("no", "yes"), weight_units(weights))

    inside, hits, positives = weights[covered].sum(), weights[covered & (labels == 1)].sum(), weights[labels == 1].sum()
    assert support.precision == pytest.approx(hits / inside, abs=1e-3)
    assert support.recall == pytest.approx(hits / positives, abs=1e-3)
    assert support.lift == pytest.approx(hits / inside / (positives / weights.sum()), rel=1e-2)
    assert support.n == pytest.approx(40 * inside / weights.sum(), abs=1)
    assert support.rows == pytest.approx(40, abs=1)


def sampled(seed, *, effect=0.0, rows=600, of_class=False):
    """A table with sampling weights, of rows or of classes, whose class depends on the first column by `effect`."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(5, rows)).round(2)
    labels = rng.random(rows) < 0.4 + effect * (matrix[0] > 0.3)
    weights = np.where(labels, 0.3, 1.7) if of_class else rng.gamma(1.5, 1, rows) + 0.1
    return replace(factories.columns_of(matrix, labels), weights=weight_units(weights))


@pytest.mark.parametrize("of_class", [False, True])
def test_chance_is_not_certified(of_class):
    published = [bool(mine(sampled(seed, of_class=of_class), MiningSettings(seed=seed)).rules) for seed in range(20)]

    assert sum(published) <= 2


@pytest.mark.parametrize("of_class", [False, True])
def test_an_effect_is_found_and_certified_by_shuffles(of_class):
    columns = sampled(3, effect=0.45, rows=1200, of_class=of_class)

    result = mine(columns, MiningSettings(seed=3))

    assert {condition.feature for rule in result.rules for condition in rule.conditions} == {"x0"}
    assert {rule.certificate.method for rule in result.rules} == {"shuffles"}
    assert result.design_effect > 1.2
    shares = np.bincount(columns.labels, weights=columns.weights) / columns.weights.sum()
    assert result.base_rates == pytest.approx(shares, abs=0.03)


@pytest.mark.parametrize("of_class", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_shuffled_study_is_the_study_of_the_shuffled_columns(of_class, grouped):
    columns = sampled(1, of_class=of_class)
    if grouped:
        columns = replace(columns, groups=(np.arange(columns.rows) // 3).astype(np.int32))
    study = Study.build(columns, MiningSettings(strategy="single"))

    shuffled = study.with_shuffled_labels(1)

    expected = TrainingTable.build(shuffled.columns, study.split)
    for name, array in shuffled.table._asdict().items():
        np.testing.assert_array_equal(array, getattr(expected, name), err_msg=name)
    moved = (shuffled.columns.weights != columns.weights).any()
    assert moved == of_class
    if of_class:  # each class keeps its weight
        assert len(set(zip(shuffled.columns.labels.tolist(), shuffled.columns.weights.tolist(), strict=True))) == 2


def test_equal_weights_change_nothing():
    columns = factories.make_clear(np.random.default_rng(4), rows=200)
    settings = MiningSettings(certify=24, seed=4)

    weighted = mine(replace(columns, weights=np.full(200, UNIT)), settings)

    assert weighted.digest == mine(columns, settings).digest
    assert weighted.rules
