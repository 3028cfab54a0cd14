"""Refitted thresholds: equal to the reference to the last bit, never worse, and correct about planted thresholds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.data.split import Split
from maabo_dist.rules.leaves import LeafFilter, Leaves, weighted_gini
from maabo_dist.rules.matching import covered_rows
from maabo_dist.rules.refitting import refit
from maabo_dist.rules.rule import NO_LITERAL
from tests import factories
from tests.reference import pruning, refitting

every_weight = st.sampled_from(["balanced", "none"])


def draw_leaves(seed, classes, class_weight, rows=80, count=12, kinds=tuple(factories.KINDS)):
    """Return (leaves, study); as after pruning, all leaves are large and pure."""
    rng = np.random.default_rng(seed)
    columns, split = factories.make_planted(rng, rows, 4, classes, kinds), factories.make_split(rng, rows)
    options = {"min_samples": int(rng.integers(1, 9)), "gini": rng.uniform(0.8, 1)}
    study = factories.make_study(columns, split, class_weight=class_weight, **options)
    leaves, limits = factories.make_rules(rng, columns, split, count, weights=study.table.weights), LeafFilter.of(study)
    return leaves.take(np.flatnonzero(limits.accepts(leaves.counts, leaves.gini))), study


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 4), every_weight)
def test_thresholds_equal_the_reference(seed, classes, class_weight):
    leaves, study = draw_leaves(seed, classes, class_weight)

    fitted = refit(leaves, study)

    for rule, refitted, gini in zip(pruning.rules_of(leaves), pruning.rules_of(fitted), fitted.gini, strict=True):
        expected, _ = refitting.refitted(rule, study)
        counts = pruning.class_counts(study.columns, study.split.train, expected)
        purity = pruning.gini(counts, study.table.weights)
        assert refitted == expected
        assert gini == pytest.approx(purity, rel=1e-9, abs=1e-12)


@given(st.integers(0, 10**6), st.integers(2, 4), every_weight)
def test_no_rule_loses_its_size_purity_class_or_features(seed, classes, class_weight):
    leaves, study = draw_leaves(seed, classes, class_weight)

    fitted = refit(leaves, study)

    assert np.array_equal(fitted.logic, leaves.logic)
    limits = LeafFilter.of(study)
    assert (fitted.sizes >= limits.min_samples).all()
    assert (fitted.gini < limits.max_gini).all()
    before, after = ([pruning.heaviest(row, study.table.shares) for row in each.counts] for each in (leaves, fitted))
    assert after == before


@given(st.integers(0, 10**6), st.integers(2, 4), every_weight)
def test_rows_are_counted_by_the_thresholds_that_are_left(seed, classes, class_weight):
    leaves, study = draw_leaves(seed, classes, class_weight)

    fitted = refit(leaves, study)

    train, labels = study.split.train, study.columns.labels[study.split.train]
    for rows, counts, gini in zip(
        covered_rows(study.columns, train, fitted.logic, fitted.bounds), fitted.counts, fitted.gini, strict=True
    ):
        assert np.bincount(labels[rows], minlength=classes).tolist() == counts.tolist()
        assert gini == weighted_gini(counts, study.table.weights)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 3))
def test_a_converged_rule_does_not_change(seed, classes):
    leaves, study = draw_leaves(seed, classes, "balanced", kinds=("rounded", "few"))
    rests = [refitting.refitted(rule, study)[1] for rule in pruning.rules_of(leaves)]
    leaves = leaves.take(np.flatnonzero(rests))

    once = refit(leaves, study)
    twice = refit(once, study)

    assert np.array_equal(once.bounds, twice.bounds)
    assert np.array_equal(once.counts, twice.counts)


def one_rule(study, **conditions):
    """Return a leaf from its conditions, such as x0=(">", 0.3)."""
    parts = sorted((2 * int(name[1:]) + (op == ">"), bound) for name, (op, bound) in conditions.items())
    logic, bounds = np.full((1, 4), NO_LITERAL, np.int32), np.zeros((1, 4))
    logic[0, : len(parts)], bounds[0, : len(parts)] = zip(*parts, strict=True)
    labels, rows = study.columns.labels[study.split.train], covered(study, logic, bounds)[0]
    counts = np.bincount(labels[rows], minlength=len(study.columns.classes)).astype(np.int32)
    gini = np.array([weighted_gini(counts, study.table.weights)])
    return Leaves(logic, bounds, counts[None], gini, np.zeros(1, np.int64), np.zeros(1), 1, 1)


def covered(study, logic, bounds):
    return covered_rows(study.columns, study.split.train, logic, bounds)


def planted_xor(seed, rows=600):
    """Class 1 where exactly one of x0 > 0.3 and x1 > −0.2 holds, with no noise."""
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(-1, 1, size=(3, rows))
    columns = factories.columns_of(matrix, (matrix[0] > 0.3) != (matrix[1] > -0.2))
    split = factories.make_split(rng, rows)
    return columns, split


@pytest.mark.parametrize("seed", range(5))
def test_the_cell_of_an_xor_gets_the_thresholds_that_were_planted(seed):
    columns, split = planted_xor(seed)
    study = factories.make_study(columns, split, min_samples=20, gini=0.9)
    narrow = one_rule(study, x0=(">", 0.55), x1=("<=", -0.5))
    wide = one_rule(study, x0=(">", 0.1), x1=("<=", -0.1))

    for leaf in (narrow, wide):
        fitted = refit(leaf, study)

        cell = one_rule(study, x0=(">", 0.3), x1=("<=", -0.2))
        assert fitted.bounds[0, :2] == pytest.approx(cell.bounds[0, :2], abs=0.05)
        # Beyond the corner of the cell is the other cell of the class: a row of it may be inside.
        assert (covered(study, fitted.logic, fitted.bounds) >= covered(study, cell.logic, cell.bounds)).all()
        assert fitted.gini[0] == 0.0


def test_both_ends_of_an_interval_are_fitted():
    rng = np.random.default_rng(2)
    values = rng.uniform(-1, 1, 500)
    columns = factories.columns_of([values], (values > -0.4) & (values <= 0.5))
    split = factories.make_split(rng, 500)
    study = factories.make_study(columns, split, min_samples=10, gini=0.8)
    leaf = one_rule(study, x0=(">", -0.1))
    leaf.logic[0, :2], leaf.bounds[0, :2] = (0, 1), (0.2, -0.1)

    fitted = refit(leaf, study)

    assert fitted.bounds[0, :2] == pytest.approx([0.5, -0.4], abs=0.02)


def test_a_tie_of_classes_is_decided_exactly():
    # Above 0.5 are half of class 0 and half of class 1, which rounding makes the heavier; above 1.5, class 1 alone.
    values = [0, 0, 1, 1] + [0] * 7 + [2] * 7 + [0] * 5
    columns = factories.columns_of([values], np.repeat([0, 1, 2], [4, 14, 5]), classes=3)
    split = Split(np.arange(23), np.arange(1), np.arange(0))
    study = factories.make_study(columns, split, min_samples=2, gini=0.9)
    leaf = one_rule(study, x0=(">", 0.5))
    assert (leaf.counts * study.table.weights).argmax() == 1

    fitted = refit(leaf, study)

    assert [pruning.heaviest(each.counts[0], study.table.shares) for each in (leaf, fitted)] == [0, 0]


def test_equal_rules_are_fitted_alike_and_none_gives_none():
    leaves, study = draw_leaves(4, 2, "balanced")
    doubled = leaves.take(np.repeat(np.arange(len(leaves)), 2))

    fitted, alone = (refit(each, study) for each in (doubled, leaves))

    assert len(leaves)
    assert fitted.bounds.tolist() == np.repeat(alone.bounds, 2, axis=0).tolist()
    assert fitted.tree.tolist() == doubled.tree.tolist()
    assert len(refit(leaves.take(np.arange(0)), study)) == 0
