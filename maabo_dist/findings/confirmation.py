"""How sure it is that other rows, a third as many as were mined, will confirm a rule.

They confirm it if the lower 95 % Wilson limit of its precision among them is above the share of its class. The
precision to expect there has two errors: that of the sample it was estimated from, and that of the sample it is tested
on, which has three times the variance. Both are errors of a difference, between the rule's rows and all rows: a rule
that covers most rows differs little from them, but by as much in every sample.

The p-value of a rule does not tell this. For a rule that covers most rows it is tiny, although the Wilson limit of
other rows hardly exceeds the share of the class; and a small rule without any exception is confirmed more often than
its p-value suggests.
"""

from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist.findings.evidence import Floats
from maabo_dist.findings.rowbits import Ints
from maabo_dist.rules.statistics import Z_95

# How many times fewer the other rows are.
FEWER_ROWS = 3.0
# The search chose the rule because it looked good. The estimates include this many more rows with the usual share of
# the class.
USUAL_ROWS = 3.0
# The scores from which other rows are likely, and nearly certain, to confirm a rule.
LIKELY_SCORE, STRONG_SCORE = 1.0, 2.33

Strengths = npt.NDArray[np.int8]


class Strength(IntEnum):
    """How sure it is that other rows will confirm a rule."""

    WEAK = 0
    LIKELY = 1
    STRONG = 2


def strengths_of(scores: Floats) -> Strengths:
    """(rules): the strength that each score is."""
    return ((scores >= LIKELY_SCORE).astype(np.int8) + (scores >= STRONG_SCORE)).astype(np.int8)


def confirmation_scores(hits: Ints, rows: Ints, all_hits: Ints, all_rows: float, effect: float = 1.0) -> Floats:
    """(rules): by how many standard errors the expected precision exceeds the one that confirms the rule.

    `hits` are rows of the rule's class among its `rows`, and `all_hits` among `all_rows`; `effect` rows are worth one.
    A score of 2.33 is a probability of 99 %, for a rule that was not selected.
    """
    base, share = all_hits / all_rows, rows / all_rows
    within, outside = rows / effect, (all_rows - rows) / effect
    precision = _estimate(hits / effect, within, base)
    other = _estimate((all_hits - hits) / effect, outside, base)
    needed = base + Z_95 * np.sqrt(base * (1 - base) * FEWER_ROWS / np.maximum(within, 1.0))
    variance = precision * (1 - precision) / np.maximum(within, 1.0) + other * (1 - other) / np.maximum(outside, 1.0)
    error = (1 - share) * np.sqrt(variance * (FEWER_ROWS + 1))
    # A rule that covers all rows has no error, and is never confirmed.
    scores: Floats = (precision - needed) / np.maximum(error, 1e-9)
    return scores


def _estimate(hits: Any, rows: Any, base: Any) -> Any:
    return (hits + USUAL_ROWS * base) / (rows + USUAL_ROWS)
