"""Rules with thresholds on a grid: against their slow twin, and what they certify."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.findings.candidates import CandidateRules, measure
from maabo_dist.findings.conditions import index_conditions
from maabo_dist.findings.findings import Evidence
from maabo_dist.findings.grid import PARTS, grid_choices, grid_cuts, log_p_on_grid
from maabo_dist.findings.rowbits import MinedRows
from maabo_dist.rules.leaves import LeafFilter, reliable_leaves
from maabo_dist.trees.training import depth_search
from tests import factories
from tests.reference import findings as slow


def rules_of(seed, features, rows, values):
    """Rules of trees on columns with so many values, as candidates with all their conditions."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, values, (features, rows)).astype(float)
    labels = (matrix[0] >= values / 2) & (rng.random(rows) < 0.9)
    columns, split = factories.columns_of(matrix, labels), factories.make_split(rng, rows)
    study = factories.make_study(columns, split, min_samples=5, gini=1.0)
    forest = depth_search(study.table, factories.every_subset(features, 2), 3, whole=True)
    leaves = reliable_leaves(forest, LeafFilter.of(study))
    mined = MinedRows.build(columns.labels, study.mined_rows, 2)
    table, conditions = index_conditions(leaves, columns, mined)
    return study, table, measure(conditions, np.arange(len(leaves)) % 2, leaves.tree, table)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([2, 5, 40, 10**6]))
def test_moved_rules_are_those_of_the_slow_twin(seed, values):
    study, table, rules = rules_of(seed, 3, 300, values)

    moved = log_p_on_grid(rules, table, study.columns)

    mined = np.sort(table.mined.rows)
    for conditions, label, log_p in zip(rules.conditions, rules.labels.tolist(), moved.tolist(), strict=True):
        own = conditions[conditions >= 0]
        rule = list(zip(table.literals[own, 0].tolist(), table.bounds[own, 0].tolist(), strict=True))
        assert log_p == pytest.approx(slow.log_p_on_grid(study.columns, mined, rule, label), abs=1e-9)
    assert grid_choices(table, study.columns).singles.tolist() == slow.grid_choices(study.columns, mined)


@given(st.lists(st.integers(0, 50), min_size=2, max_size=400))
def test_every_cut_of_the_grid_has_rows_on_both_sides(codes):
    cuts = grid_cuts(np.array(codes))

    assert len(cuts) <= len(PARTS)
    assert all(min(codes) < cut <= max(codes) for cut in cuts.tolist())
    assert (len(cuts) > 0) == (len(set(codes)) > 1) or max(codes.count(code) for code in codes) > 0.9 * len(codes)


def test_a_grid_certifies_rules_that_are_too_weak_for_all_possible_thresholds():
    study, table, rules = rules_of(1, 30, 2000, 10**6)
    evidence = Evidence.of_rules(rules, table, study)

    exact = evidence.statistics + np.log(2 * 2 * rules.conditions.shape[1])

    assert (evidence.log_bounds <= np.minimum(0, exact) + 1e-9).all()
    assert ((evidence.log_bounds < np.log(0.01)) & (exact > np.log(0.01))).any()


def test_labels_do_not_move_the_grid():
    study, table, rules = rules_of(2, 3, 500, 10**6)
    shuffled = np.random.default_rng(0).permutation(study.columns.labels)
    mined = MinedRows.build(shuffled, study.mined_rows, 2)

    for codes in study.columns.codes:
        assert grid_cuts(codes[mined.rows]).tolist() == grid_cuts(codes[table.mined.rows]).tolist()
    assert isinstance(rules, CandidateRules)
