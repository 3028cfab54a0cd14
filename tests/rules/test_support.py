"""What speaks for conditions: equal to the slow twin, and in step with what was kept and dropped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from maabo_dist.mining.local import mine
from maabo_dist.rules.leaves import LeafFilter, reliable_leaves
from maabo_dist.rules.pruning import Multiplicity, prune
from maabo_dist.rules.support import condition_test, fisher, reasons
from maabo_dist.settings import MiningSettings
from maabo_dist.trees.depth_search import depth_search
from tests import factories
from tests.reference import pruning as slow


def a_table(seed=1, rows=600, features=8):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(features, rows))
    right = (matrix[0] > 0.2) & (matrix[1] < 0.3)
    return factories.columns_of(matrix, rng.random(rows) < np.where(right, 0.95, 0.25))


def mined(columns, **settings):
    given_ = {"literals": "supported", "min_samples": 30, "gini": 0.5, **settings}
    return mine(columns, MiningSettings(**given_))


@given(st.integers(1, 80), st.integers(0, 80), st.data())
def test_the_test_is_fishers(rows, others, data):
    hits, other_hits = data.draw(st.integers(0, rows)), data.draw(st.integers(0, others))

    expected = hypergeom.sf(hits - 1, rows + others, hits + other_hits, rows)

    assert fisher(hits, rows, other_hits, others) == pytest.approx(expected, rel=1e-8)


def test_a_test_on_many_rows_neither_overflows_nor_drowns():
    assert fisher(60_000, 100_000, 40_000, 100_000) == 0.0
    assert fisher(50_100, 100_000, 49_900, 100_000) == pytest.approx(
        hypergeom.sf(50_099, 200_000, 100_000, 100_000), rel=1e-6
    )


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_a_condition_is_tested_as_the_slow_twin_does(seed, size):
    rng = np.random.default_rng(seed)
    columns, split = factories.make_columns(rng, 80, 5, kinds=("rounded", "few")), factories.make_split(rng, 80)
    literals = np.sort(rng.choice(10, size, replace=False)).tolist()
    premise = [(literal, float(np.median(columns.column(literal // 2)))) for literal in literals]
    once = Multiplicity(np.zeros(columns.count), 1.0)

    for index, part in enumerate(premise):
        others = premise[:index] + premise[index + 1 :]
        training, validation = slow.both_p_values(columns, split, premise, index, 1)
        test = condition_test(columns, split, 1, others, part, once)
        assert (test.training, test.validation) == pytest.approx((training, validation), rel=1e-6)
        assert test.p == pytest.approx(slow.combined(training, validation), rel=1e-6)


def test_a_p_value_is_adjusted_for_the_number_of_tests_and_for_its_feature():
    rng = np.random.default_rng(5)
    columns, split = a_table(), factories.make_split(rng, 600)
    feature_q = np.array([1e-3, 0.2, *[1.0] * 6])
    known, condition = (2, 0.3), (1, 0.2)

    once, often = (
        condition_test(columns, split, 1, [known], condition, Multiplicity(q, factor))
        for q, factor in ((np.zeros(8), 1.0), (feature_q, 1e6))
    )
    beside = condition_test(columns, split, 1, [condition], known, Multiplicity(feature_q, 1e6))

    assert (once.training, once.validation) == (often.training, often.validation)
    assert often.p == max(1e-3, min(1.0, 1e6 * once.p))
    assert beside.p >= 0.2


def test_what_was_kept_is_supported():
    result = mined(a_table())

    assert result.rules
    assert result.dropping.conditions > 0
    for rule in result.rules:
        assert len(rule.tests) == len(rule.conditions)
        assert len(rule.dropped_tests) == len(rule.dropped)
        assert all(test.p <= 0.05 * (1 + 1e-9) for test in rule.tests)


def test_what_was_dropped_is_said_with_its_p_value():
    columns = a_table()
    split = factories.make_split(np.random.default_rng(1), columns.rows)
    study = factories.make_study(columns, split, min_samples=15, gini=0.9, significance=0.05)
    forest = depth_search(study.table, factories.every_subset(columns.count, 3), 4, whole=True)
    before = reliable_leaves(forest, LeafFilter(15, 0.45, study.table.weights))
    pruned = prune(before, study)
    labels = [slow.heaviest(counts, study.table.shares) for counts in pruned.leaves.counts]

    found = reasons(pruned, before, pruned.leaves, labels, study)

    kept = [test.p for why in found for test in why.tests]
    dropped = [test.p for why in found for test in why.dropped_tests]
    assert len(dropped) == sum(len(why.dropped) for why in found) > 50
    assert max(kept) <= 0.05 * (1 + 1e-9)
    assert np.mean([p > 0.05 for p in dropped]) > 0.9
    leaves = [{*rule} for rule in slow.rules_of(before.take(pruned.source))]
    for why, rule in zip(found, slow.rules_of(pruned.leaves), strict=True):
        assert len(why.tests) == len(rule)
        assert {*why.dropped, *rule} in leaves


def test_a_condition_on_a_probe_is_dropped_in_silence():
    columns = a_table()

    result = mined(columns, probes=40, trees=3000)

    names = {feature.column for feature in columns.features}
    assert all(condition.feature in names for rule in result.rules for condition in rule.dropped)
    assert all(len(rule.dropped) == len(rule.dropped_tests) for rule in result.rules)


def test_where_all_conditions_stay_none_is_tested():
    result = mined(a_table(), literals="paper")

    assert result.dropping is None
    assert not any(rule.tests or rule.dropped or rule.dropped_tests for rule in result.rules)
