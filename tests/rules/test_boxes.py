"""Boxes equal their reference, and become rules that trees miss."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.rules import boxes
from maabo_dist.rules.boxes import LevelTable, add_boxes
from maabo_dist.rules.leaves import no_leaves
from maabo_dist.rules.matching import covered_rows
from maabo_dist.rules.rule import NO_LITERAL
from maabo_dist.settings import MiningSettings, TableSettings
from maabo_dist.study import Study
from tests import factories
from tests.reference import boxes as slow

AUTO = MiningSettings(preset="auto")


def a_study(seed, rows=120, features=6, classes=2, **options):
    columns = factories.make_columns(np.random.default_rng(seed), rows, features, classes)
    return Study.build(columns, AUTO.model_copy(update=options))


def directions(logic, subset):
    literals = {literal // 2: bool(literal % 2) for literal in logic if literal != NO_LITERAL}
    return tuple(literals.get(feature) for feature in subset)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(2, 3),
    st.integers(40, 200),
    st.sampled_from([(2, False), (2, True), (3, False), (3, True), (4, False)]),
)
def test_the_strongest_box_of_each_direction_equals_the_reference(seed, classes, rows, shape):
    size, finer = shape
    study = a_study(seed, rows, 6, classes)
    study = replace(study, plan=replace(study.plan, tenths=finer))
    subset = np.sort(np.random.default_rng(seed).permutation(study.columns.count)[:size])
    table = LevelTable.build(study, subset[None, :])

    rated = table.rate(subset[None, :].astype(np.int32), np.zeros(1, np.int64), 5)

    labels = study.columns.labels[study.tree_split.train]
    cuts = ((1, 10), (1, 6), (1, 3), (2, 3), (5, 6), (9, 10)) if finer else ((1, 3), (2, 3))
    expected = slow.strongest([study.table.train_codes[feature] for feature in subset], labels, classes, cuts)
    found = {
        directions(logic, subset.tolist()): strength
        for logic, strength in zip(rated.logic.tolist(), rated.strengths.tolist(), strict=True)
    }
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 3))
def test_boxes_are_leaves_with_the_counts_of_the_rows_that_they_cover(seed, classes):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boxes, "_least_strength", lambda _features: 0.0)
        study = a_study(seed, 200, 6, classes)
        subsets = np.array([[0, 1, 2], [1, 3, 5]], np.int32)

        leaves = add_boxes(no_leaves(5, classes), study, subsets, np.array([0.5, 0.7]))

    train, labels = study.tree_split.train, study.columns.labels
    for covered, counts in zip(
        covered_rows(study.columns, train, leaves.logic, leaves.bounds), leaves.counts, strict=True
    ):
        assert np.bincount(labels[train][covered], minlength=classes).tolist() == counts.tolist()
    assert {(tree, score) for tree, score in zip(leaves.tree.tolist(), leaves.score.tolist(), strict=True)} <= {
        (0, 0.5),
        (1, 0.7),
    }


def parity(seed, features, rows=3000):
    rng = np.random.default_rng(seed)
    cells = rng.random((rows, features))
    odd = (cells[:, [3, 5, 8]] > 0.5).sum(axis=1) % 2 == 1
    wrong = rng.random(rows) < 0.05
    frame = pd.DataFrame(cells, columns=[f"x{k}" for k in range(features)])
    return frame.assign(y=np.where(odd ^ wrong, "odd", "even"))


@pytest.mark.parametrize("features", [9, 40])
def test_a_parity_of_three_features_is_found_though_no_tree_sees_it(features):
    columns = prepare(parity(1, features), TableSettings(target="y")).columns

    result = mine(columns, AUTO)

    assert len(result.rules) == 8
    assert {tuple(condition.name for condition in rule.conditions) for rule in result.rules} == {("x3", "x5", "x8")}
    assert all(abs(condition.value - 0.5) < 0.05 for rule in result.rules for condition in rule.conditions)


def test_a_subset_without_a_tree_has_no_boxes():
    study = Study.build(prepare(parity(1, 9), TableSettings(target="y")).columns, AUTO)
    subsets = np.array([[3, 5, 8]], np.int32)

    grown = add_boxes(no_leaves(5, 2), study, subsets, np.array([0.5]))
    failed = add_boxes(no_leaves(5, 2), study, subsets, np.array([np.nan]))

    assert len(grown) == 8
    assert len(failed) == 0
