"""The certificate: bounds and shuffles equal to the slow twin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.findings.certificate import (
    MARGIN,
    MAX_REPORTED,
    ShuffledSearch,
    certify,
    count_needed,
    count_tolerated,
    log_bounds,
    log_rule_counts,
)
from tests.reference import findings as slow

LOGICS = st.tuples(st.integers(0, 3))
SEARCHES = st.lists(st.lists(st.tuples(st.floats(-20, 0), LOGICS), max_size=5), max_size=30)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(1, 3))
def test_the_number_of_possible_rules_is_that_of_a_list_of_them(cuts, length):
    counts = log_rule_counts(2 * np.array(cuts), np.array([k * (k - 1) // 2 for k in cuts]), length)

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


def shuffled(*statistics):
    return ShuffledSearch(statistics, tuple((10 + index,) for index in range(len(statistics))))


@pytest.mark.parametrize(("searches", "tolerated"), [(0, -1), (23, -1), (24, 0), (48, 0), (49, 1), (999, 39)])
def test_as_many_searches_are_tolerated_as_the_level_allows(searches, tolerated):
    assert count_tolerated(searches) == tolerated

    beaten = [shuffled(-9.0)] * tolerated + [shuffled(-1.0)] * (searches - max(0, tolerated))
    one_more = [shuffled(-9.0)] * (tolerated + 1) + [shuffled(-1.0)] * (searches - tolerated - 1)
    values = np.array([-8.0])
    if tolerated >= 0:
        assert certify(values, np.zeros(1), [(0,)], beaten).certified.all()
        assert not certify(values, np.zeros(1), [(0,)], one_more).certified.any()


def test_more_searches_of_the_same_kind_leave_the_margin_of_a_rule_as_it_is():
    few = [shuffled(-2.0 - 0.1 * number) for number in range(24)]
    many = few * 10

    margins = [certify(np.array([-8.0]), np.zeros(1), [(0,)], searches).margins[0] for searches in (few, many)]

    assert margins == pytest.approx([8 - 4.3, 8 - 4.3])


def test_a_search_whose_reported_rules_are_all_excluded_still_counts_with_its_last():
    rules = MAX_REPORTED + 1
    logic = [(index,) for index in range(rules)]
    values = np.array([-30.0] * MAX_REPORTED + [-3.0])
    reported = ShuffledSearch(tuple(-9.0 + 0.01 * index for index in range(MAX_REPORTED)), tuple(logic[:-1]))

    log_p = certify(values, np.zeros(rules), logic, [reported] + [shuffled()] * 23).log_p

    assert np.exp(log_p[-1]) == pytest.approx(2 / 25 / 0.8)


STRONGEST = st.lists(st.one_of(st.floats(-12, 12), st.just(np.inf)), min_size=24, max_size=24)


@given(STRONGEST, st.floats(-9, 3), st.randoms())
def test_the_searches_needed_do_not_depend_on_the_order_in_which_they_become_known(strongest, undecided, random):
    order, known, counts = list(range(24)), {}, []
    random.shuffle(order)
    for number in order:
        known[number] = strongest[number]
        counts.append(count_needed(known, undecided, 24))
        if all(each in known for each in range(counts[-1])):
            break

    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == slow.searches_needed(strongest, undecided, MARGIN)
    assert count_needed(known, None, 24) == 24


@given(st.lists(st.floats(-15, 3), min_size=1, max_size=8), STRONGEST)
def test_searches_that_are_not_needed_would_make_no_further_rule_a_finding(values, strongest):
    values, logic = np.array(values), [(index,) for index in range(len(values))]
    bounds = log_bounds(values, 3, 2)
    searches = [shuffled() if value == np.inf else shuffled(value) for value in strongest]

    def strong(used):
        certification = certify(values, bounds, logic, used)
        return certification.certified & (certification.margins >= MARGIN)

    by_bound = strong([])
    if by_bound.all():
        return
    needed = count_needed(dict(enumerate(strongest)), values[~by_bound].min(), 24)
    if needed < 24:
        assert strong(searches).tolist() == strong(searches[:needed]).tolist() == by_bound.tolist()
