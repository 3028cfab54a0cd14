"""The status of rules on new rows, by corrected tests."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from maabo_dist.contract.checks import CheckStatus
from maabo_dist.new_data.judging import documented_precision, judge_rules
from maabo_dist.rules.statistics import holm, wilson
from tests.report.handmade import AGE, make_document, make_held_out, make_rule

CLASSES = ("0", "1")


def documented(*evidence):
    """Return a rule for class 1 for each pair of misses and hits on held-out rows."""
    rules = [make_rule(AGE, number=n + 1, holdout=make_held_out(counts)) for n, counts in enumerate(evidence)]
    return make_document(*rules, holdout=100).rules


def judged(evidence, counts, totals, **options):
    options = {"significance": 0.05} | options
    return judge_rules(documented(*evidence), CLASSES, np.array(counts), np.array(totals), **options)


def statuses(*arguments, **options):
    return [check.status.value for check in judged(*arguments, **options)]


def test_a_rule_as_precise_as_documented_holds():
    assert statuses([(20, 80)], [[20, 80]], [500, 500]) == ["holds"]


def test_a_rule_that_is_better_than_chance_but_less_precise_drifted():
    assert statuses([(5, 95)], [[60, 140]], [500, 500]) == ["drifted"]


def test_a_rule_at_the_base_rate_failed():
    assert statuses([(20, 80)], [[100, 100]], [500, 500]) == ["failed"]


def test_a_rule_that_covers_few_rows_or_none_is_untested():
    assert statuses([(20, 80), (20, 80)], [[1, 3], [0, 0]], [500, 500]) == ["untested", "untested"]


def test_a_rule_that_is_clearly_wrong_failed_even_on_few_rows():
    # At a base rate of 0.9, ten rows cannot confirm a precision of 0.97, but ten misses refute it.
    assert statuses([(3, 97)], [[10, 0]], [100, 900]) == ["failed"]


def test_a_lower_base_rate_makes_the_same_precision_significant():
    assert statuses([(40, 60)], [[40, 60]], [900, 100]) == ["holds"]


def test_more_rules_need_more_evidence():
    one = judged([(20, 80)], [[2, 12]], [500, 500])
    many = judged([(20, 80)] * 12, [[2, 12]] * 12, [500, 500])

    assert one[0].p == many[0].p
    assert many[0].p_adjusted == pytest.approx(12 * many[0].p)


def test_the_figures_of_a_rule():
    (check,) = judged([(20, 80)], [[10, 30]], [150, 50])

    assert (check.n, check.hits, check.counts) == (40, 30, {"0": 10, "1": 30})
    assert (check.precision, check.coverage, check.base_rate, check.recall) == (0.75, 0.2, 0.25, 0.6)
    assert check.lift == pytest.approx(3.0)
    assert (check.precision_low, check.precision_high) == wilson(30, 40)
    assert check.p == pytest.approx(hypergeom.sf(29, 200, 50, 40))
    assert check.drift_p == pytest.approx(hypergeom.sf(79, 140, 110, 100))


def test_rows_of_groups_count_less():
    alone, grouped = (judged([(20, 80)], [[10, 30]], [150, 50], effect=effect)[0] for effect in (1.0, 4.0))

    assert grouped.p > alone.p
    assert grouped.precision == alone.precision
    assert grouped.precision_low < alone.precision_low


def test_evidence_is_that_of_held_out_rows_or_of_mined_ones():
    held_out, mined = make_document(
        make_rule(AGE, holdout=make_held_out((1, 9))), make_rule(AGE, number=2, counts=(2, 8))
    ).rules

    assert documented_precision(held_out).model_dump() == {"rows": "holdout", "n": 10, "hits": 9, "precision": 0.9}
    assert documented_precision(mined).model_dump() == {"rows": "mined", "n": 20, "hits": 16, "precision": 0.8}


def test_no_rules_give_no_outcome():
    assert judge_rules((), CLASSES, np.zeros((0, 2), np.int64), np.array([5, 5]), significance=0.05) == ()


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=6, max_size=6),
    st.tuples(st.integers(40, 300), st.integers(40, 300)),
)
def test_a_status_follows_from_the_figures(evidence, counts, totals):
    evidence = [each if sum(each) else (1, 1) for each in evidence]
    for check in judged(evidence, counts[: len(evidence)], totals):
        significant = check.p_adjusted is not None and check.p_adjusted <= 0.05
        below = check.drift_p_adjusted is not None and check.drift_p_adjusted <= 0.05
        if check.status is CheckStatus.HOLDS:
            assert significant
            assert not below
        if check.status is CheckStatus.DRIFTED:
            assert below
        if check.status is CheckStatus.UNTESTED:
            assert not significant
            assert not below
        if check.status is CheckStatus.FAILED:
            assert not significant


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_what_its_step_down_procedure_rejects(p_values):
    for level in (0.01, 0.05, 0.2):
        order = np.argsort(p_values, kind="stable")
        rejected = set()
        for step, index in enumerate(order):
            if p_values[index] * (len(p_values) - step) > level:
                break
            rejected.add(index)

        assert set(np.flatnonzero(holm(p_values) <= level)) == rejected


def test_rules_without_an_effect_seldom_hold():
    rng = np.random.default_rng(1)
    totals, wrong = np.array([600, 400]), 0
    for _ in range(300):
        labels = rng.permutation(np.repeat([0, 1], totals))
        counts = [np.bincount(labels[rng.random(1000) < share], minlength=2) for share in (0.1, 0.2, 0.3, 0.5)]
        wrong += any(check.status is CheckStatus.HOLDS for check in judged([(20, 80)] * 4, counts, totals))

    assert wrong <= 0.05 * 300 + 3 * np.sqrt(300 * 0.05 * 0.95)
