"""What speaks for conditions: equal to the slow twin, and in step with what was kept and dropped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, hypergeom

from maabo_dist.mining import mine
from maabo_dist.rules.support import combined, condition_test, fisher
from maabo_dist.settings import MiningSettings
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


@given(st.floats(1e-12, 1), st.floats(1e-12, 1))
def test_two_p_values_are_combined_by_fishers_method(first, second):
    expected = chi2.sf(-2 * (np.log(first) + np.log(second)), 4)

    assert combined(first, second) == pytest.approx(expected, rel=1e-6)


def test_nothing_is_less_likely_than_impossible():
    assert combined(0.0, 0.5) == 0.0


@given(st.integers(0, 10**6), st.integers(1, 4))
def test_a_condition_is_tested_as_the_slow_twin_does(seed, size):
    rng = np.random.default_rng(seed)
    columns, split = factories.make_columns(rng, 80, 5, kinds=("rounded", "few")), factories.make_split(rng, 80)
    literals = np.sort(rng.choice(10, size, replace=False)).tolist()
    premise = [(literal, float(np.median(columns.column(literal // 2)))) for literal in literals]

    for index, part in enumerate(premise):
        others = premise[:index] + premise[index + 1 :]
        expected = slow.p_of(columns, split, premise, index, 1)
        if not np.isnan(expected):  # SciPy says nothing of no rows
            assert condition_test(columns, split, 1, others, part).p == pytest.approx(expected, rel=1e-6)


def test_what_was_kept_is_supported_and_what_was_dropped_is_said_with_its_p_value():
    result = mined(a_table())

    lost = [rule for rule in result.rules if rule.dropped]
    assert lost
    assert result.dropping.conditions > 0
    for rule in result.rules:
        assert len(rule.tests) == len(rule.conditions)
        assert len(rule.dropped_tests) == len(rule.dropped)
        assert all(test.p <= 0.05 * (1 + 1e-9) for test in rule.tests)
    assert np.mean([test.p > 0.05 for rule in lost for test in rule.dropped_tests]) > 0.9


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
