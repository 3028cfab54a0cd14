"""The score that says whether other rows will confirm a rule: as by hand, and as often as it says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from maabo_dist.findings.confirmation import confirmation_scores
from maabo_dist.findings.selection import wilson_low
from tests.reference import findings as slow


@st.composite
def counts(draw):
    """Hits and rows of a rule, and of all rows; neither the rule nor its class has all of them."""
    all_rows = draw(st.integers(10, 10_000))
    rows, all_hits = draw(st.integers(1, all_rows - 1)), draw(st.integers(1, all_rows - 1))
    hits = draw(st.integers(max(0, rows + all_hits - all_rows), min(rows, all_hits)))
    return hits, rows, all_hits, all_rows


def scores_of(*rules, effect=1.0):
    hits, rows, all_hits, all_rows = (np.array(column) for column in zip(*rules, strict=True))
    return confirmation_scores(hits, rows, all_hits, float(all_rows[0]), effect)


@given(counts())
def test_scores_are_those_of_the_slow_twin(rule):
    assert scores_of(rule)[0] == pytest.approx(slow.confirmation_score(*rule), rel=1e-9, abs=1e-9)


@given(counts(), st.sampled_from([2, 5]))
def test_rows_that_are_worth_less_count_for_less(rule, effect):
    more = tuple(effect * count for count in rule)

    assert scores_of(more, effect=float(effect))[0] == pytest.approx(scores_of(rule)[0], rel=1e-9, abs=1e-9)


def test_a_rule_for_all_rows_is_never_confirmed():
    assert scores_of((40, 100, 40, 100))[0] < -1e6


@pytest.mark.parametrize(
    ("all_rows", "share", "precision", "other"),
    [
        (900, 0.1, 0.7, 0.4),
        (900, 0.7, 0.6, 0.2),
        (900, 0.3, 0.62, 0.47),
        (600, 0.5, 0.75, 0.55),
        (600, 0.05, 1.0, 0.5),
        (3000, 0.05, 0.15, 0.03),
    ],
)
def test_other_rows_confirm_rules_about_as_often_as_the_scores_say(all_rows, share, precision, other):
    """Rules that nobody selected, in 2,000 pairs of samples: one to score them, and a smaller one to test them."""
    rng, times = np.random.default_rng(0), 2000
    rows, fewer = int(share * all_rows), int(share * all_rows) // 3

    hits, others = rng.binomial(rows, precision, times), rng.binomial(all_rows - rows, other, times)
    scores = confirmation_scores(hits, np.full(times, rows), hits + others, float(all_rows))
    new_hits = rng.binomial(fewer, precision, times)
    new_base = (new_hits + rng.binomial(all_rows // 3 - fewer, other, times)) / (all_rows // 3)

    confirmed = float(np.mean(wilson_low(new_hits, np.full(times, fewer)) > new_base))
    expected = float(np.mean(norm.cdf(scores)))
    # The estimates lean towards the usual share, so they promise too little rather than too much.
    assert confirmed - 0.12 < expected < confirmed + 0.03
