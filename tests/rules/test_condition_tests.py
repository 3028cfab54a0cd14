"""P-values of conditions: equal to the reference, and consistent with the conditions kept and dropped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.mining.local import mine
from maabo_dist.rules.conditions import conditions_of
from maabo_dist.rules.leaves import LeafFilter, reliable_leaves
from maabo_dist.rules.pruning import Multiplicity, condition_tests, prune, with_condition_tests
from maabo_dist.rules.publishing import TreeRecords, publish
from maabo_dist.rules.selection import Selection
from maabo_dist.settings import MiningSettings
from maabo_dist.trees.training import depth_search
from tests import factories
from tests.reference import pruning as slow


def a_table(seed=1, rows=600, features=8):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(features, rows))
    right = (matrix[0] > 0.2) & (matrix[1] < 0.3)
    return factories.columns_of(matrix, rng.random(rows) < np.where(right, 0.95, 0.25))


def mined(columns, **settings):
    given_ = {"preset": "paper", "literals": "supported", "min_samples": 30, "gini": 0.5, **settings}
    return mine(columns, MiningSettings(**given_))


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_the_tests_of_conditions_equal_the_reference(seed, size):
    rng = np.random.default_rng(seed)
    columns, split = factories.make_columns(rng, 80, 5, kinds=("rounded", "few")), factories.make_split(rng, 80)
    study = factories.make_study(columns, split)
    logic = np.sort(rng.choice(10, size, replace=False)).astype(np.int32)
    bounds = np.array([np.median(columns.column(literal // 2)) for literal in logic])
    once = Multiplicity(np.zeros(columns.count), 1.0)

    for index, test in enumerate(condition_tests(logic, bounds, 1, once, study)):
        rule = list(zip(logic.tolist(), bounds.tolist(), strict=True))
        training, validation = slow.both_p_values(columns, split, rule, index, 1)
        assert (test.training, test.validation) == pytest.approx((training, validation), rel=1e-6)
        assert test.p == pytest.approx(slow.combined(training, validation), rel=1e-6)


def test_a_p_value_is_adjusted_for_the_number_of_tests_and_for_its_feature():
    rng = np.random.default_rng(5)
    columns, split = a_table(), factories.make_split(rng, 600)
    study = factories.make_study(columns, split)
    feature_q = np.array([1e-3, 0.2, *[1.0] * 6])
    logic, bounds = np.array([1, 2], np.int32), np.array([0.2, 0.3])

    (once, _), (often, other) = (
        condition_tests(logic, bounds, 1, Multiplicity(q, factor), study)
        for q, factor in ((np.zeros(8), 1.0), (feature_q, 1e6))
    )

    assert (once.training, once.validation) == (often.training, often.validation)
    assert often.p == max(1e-3, min(1.0, 1e6 * once.p))
    assert other.p >= 0.2


def test_conditions_that_stay_are_supported():
    result = mined(a_table())

    assert result.rules
    assert result.pruning.conditions > 0
    for rule in result.rules:
        assert len(rule.tests) == len(rule.conditions)
        assert len(rule.dropped_tests) == len(rule.dropped)
        assert all(test.p <= 0.05 * (1 + 1e-9) for test in rule.tests)


def test_dropped_conditions_are_listed_with_their_p_values():
    columns = a_table()
    split = factories.make_split(np.random.default_rng(1), columns.rows)
    study = factories.make_study(columns, split, min_samples=15, gini=0.9, significance=0.05)
    forest = depth_search(study.table, factories.every_subset(columns.count, 3), 4, whole=True)
    before = reliable_leaves(forest, LeafFilter(15, 0.45, study.table.weights))
    pruned = prune(before, study)
    everything = Selection(np.arange(len(pruned.leaves)), np.full(len(pruned.leaves), -1), np.zeros(len(pruned.leaves)))
    records = TreeRecords(forest.subsets, forest.depths, forest.best_scores)
    rules = publish(pruned.leaves, everything, study, records)

    tested = with_condition_tests(rules, pruned.leaves, before, pruned, study)

    kept = [test.p for rule in tested for test in rule.tests]
    dropped = [test.p for rule in tested for test in rule.dropped_tests]
    assert len(dropped) == sum(len(rule.dropped) for rule in tested) > 50
    assert max(kept) <= 0.05 * (1 + 1e-9)
    assert np.mean([p > 0.05 for p in dropped]) > 0.9
    leaves = [
        {*conditions_of(columns.features, *leaf.conditions(index))}
        for leaf in [before.take(pruned.source)]
        for index in range(len(leaf))
    ]
    for rule in tested:
        assert len(rule.tests) == len(rule.conditions)
        assert {*rule.dropped, *rule.conditions} in leaves


def test_dropped_conditions_on_probes_are_not_listed():
    columns = a_table()

    result = mined(columns, probes=40, trees=3000)

    names = {feature.column for feature in columns.features}
    assert all(condition.feature in names for rule in result.rules for condition in rule.dropped)
    assert all(len(rule.dropped) == len(rule.dropped_tests) for rule in result.rules)


def test_where_all_conditions_stay_none_is_tested():
    result = mined(a_table(), literals="paper")

    assert result.pruning is None
    assert not any(rule.tests or rule.dropped or rule.dropped_tests for rule in result.rules)
