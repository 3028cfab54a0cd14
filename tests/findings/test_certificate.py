"""The certificate: bounds and shuffles equal to the slow twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.findings.certificate import ShuffledSearch, certify, log_bounds, log_rule_counts
from tests.reference import findings as slow

LOGICS = st.tuples(st.integers(0, 3))
SEARCHES = st.lists(st.lists(st.tuples(st.floats(-20, 0), LOGICS), max_size=5), max_size=30)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 3))
def test_the_number_of_possible_rules_is_that_of_a_list_of_them(cuts, length):
    counts = log_rule_counts(np.array(cuts), length)

    expected = slow.rule_count(cuts, length)
    assert counts[length] == pytest.approx(np.log(max(1, expected)), abs=1e-12)


@given(st.lists(st.tuples(st.floats(-20, 0), LOGICS), min_size=1, max_size=6), SEARCHES)
def test_shuffled_searches_give_step_down_p_values(rules, searches):
    values, logic = np.array([value for value, _ in rules]), [logic for _, logic in rules]
    ordered = [sorted(search, key=lambda rule: rule[0]) for search in searches]
    shuffled = [ShuffledSearch(tuple(v for v, _ in search), tuple(x for _, x in search)) for search in ordered]

    log_p = certify(values, np.zeros(len(values)), logic, shuffled).log_p

    expected = np.minimum(1.0, 1.25 * np.array(slow.adjusted_p(values.tolist(), logic, searches)))
    assert np.exp(log_p) == pytest.approx(expected if searches else np.ones(len(values)))


def test_a_rule_that_passes_the_bound_needs_no_shuffles():
    certification = certify(np.array([-30.0, -2.0]), log_bounds(np.array([-30.0, -2.0]), 5, 2), [(0,), (1,)], [])

    assert certification.log_p == pytest.approx([-30 + np.log(10) + np.log(5), 0.0])
    assert certification.certified.tolist() == [True, False]
    assert certification.margins == pytest.approx([30 - np.log(10) - np.log(100), -np.log(100)])
