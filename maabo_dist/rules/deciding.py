"""Which of the rules that match a row decides its class: the one whose precision is most certainly high.

`maabo apply`, the HTTP API and the CASE expressions of SQL and Polars exports all decide in this order. `RuleMiner`
classifies by the mean class shares of all matching rules instead, since scikit-learn expects probabilities.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from maabo_dist.contract.rules import RuleRecord, Verdict
from maabo_dist.rules.matching import Mask
from maabo_dist.rules.statistics import wilson

# In place of an index: no rule decides.
NO_RULE = -1


def decision_order(rules: Sequence[RuleRecord], effect: float = 1.0) -> list[int]:
    """Return the indices of the rules, the one that decides before all others first.

    They are ordered by the lower end of the 95 % Wilson interval of their precision, on held-out rows where a rule
    covers some, otherwise on mined rows; ties are in the order of the document. Rules that failed on held-out rows are
    left out: they never decide. In the interval, `effect` rows are worth one.
    """
    strengths = {
        index: _lowest_precision(rule, effect) for index, rule in enumerate(rules) if rule.verdict is not Verdict.FAILED
    }
    return sorted(strengths, key=lambda index: (-strengths[index], index))


def deciding_rules(covered: Mask, order: Sequence[int]) -> npt.NDArray[np.int64]:
    """(rows): the index of the rule that decides each row; NO_RULE if none of the order matches it."""
    if not len(order):
        return np.full(covered.shape[1], NO_RULE, np.int64)
    ordered = covered[list(order)]
    return np.where(ordered.any(axis=0), np.array(order, np.int64)[ordered.argmax(axis=0)], NO_RULE)


def _lowest_precision(rule: RuleRecord, effect: float) -> float:
    if rule.holdout is not None and rule.holdout.precision_low is not None:
        return rule.holdout.precision_low
    hits = rule.train.counts[rule.label] + rule.validation.counts[rule.label]
    low, _ = wilson(hits, rule.mined_n, effect)
    return 0.0 if low is None else low
