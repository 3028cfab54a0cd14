"""From counts of rows to the outcome of a check: intervals, corrected tests and a status for each rule."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from maabo_dist.contract.checks import CheckStatus, DocumentedPrecision, RuleCheck
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.data.groups import effective_counts
from maabo_dist.rules.statistics import fisher_test, holm, wilson

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def judge_rules(
    rules: Sequence[RuleRecord],
    classes: Sequence[str],
    counts: Ints,
    totals: Ints,
    *,
    significance: float,
    effect: float = 1.0,
) -> tuple[RuleCheck, ...]:
    """Return the outcome for each rule.

    `counts` is (rules, C): the rows of each class that a rule covers. `totals` is (C): all rows of each class. In
    intervals and tests, `effect` rows are worth one.
    """
    if not rules:
        return ()
    documented = [documented_precision(rule) for rule in rules]
    labels = np.array([classes.index(rule.label) for rule in rules])
    rows, n = int(totals.sum()), counts.sum(axis=1)
    hits, of_class = counts[np.arange(len(rules)), labels], totals[labels]
    tested = n > 0
    p = _confirmation_tests(hits, n, of_class, rows, effect)
    adjusted = _adjust(p, tested)
    drift = _drift_tests(documented, hits, n, effect)
    drift_adjusted = _adjust(drift, tested)
    expected = np.array([0.0 if each.precision is None else each.precision for each in documented]) * n
    expected_hits = np.minimum(np.floor(expected + 0.5).astype(np.int64), of_class)
    # Rows enough to tell: as precise as documented, the rule would be confirmed, even by the strictest correction.
    enough = _confirmation_tests(expected_hits, n, of_class, rows, effect) * tested.sum() <= significance
    confirmed, drifted = tested & (adjusted <= significance), tested & (drift_adjusted <= significance)
    checks = []
    for index, (rule, record) in enumerate(zip(rules, documented, strict=True)):
        covered, found, in_class = int(n[index]), int(hits[index]), int(of_class[index])
        low, high = wilson(found, covered, effect)
        precision = found / covered if covered else None
        useless = precision is None or precision * rows <= in_class
        checks.append(
            RuleCheck(
                id=rule.id,
                text=rule.text,
                label=rule.label,
                status=_status(
                    confirmed=bool(confirmed[index]),
                    drifted=bool(drifted[index]),
                    enough=bool(tested[index] and enough[index]),
                    useless=useless,
                ),
                n=covered,
                counts=dict(zip(classes, counts[index].tolist(), strict=True)),
                coverage=covered / rows,
                base_rate=in_class / rows,
                precision=precision,
                precision_low=low,
                precision_high=high,
                recall=found / in_class if in_class else None,
                lift=None if precision is None or not in_class else precision * rows / in_class,
                documented=record,
                p=float(p[index]) if covered else None,
                p_adjusted=float(adjusted[index]) if covered else None,
                drift_p=float(drift[index]) if covered else None,
                drift_p_adjusted=float(drift_adjusted[index]) if covered else None,
            )
        )
    return tuple(checks)


def documented_precision(rule: RuleRecord) -> DocumentedPrecision:
    """Return the evidence for a rule on held-out rows, or on mined rows if it covers none of these."""
    if rule.holdout is not None and rule.holdout.n:
        held_out = rule.holdout
        hits = held_out.counts[rule.label]
        return DocumentedPrecision(rows="holdout", n=held_out.n, hits=hits, precision=held_out.precision)
    hits = rule.train.counts[rule.label] + rule.validation.counts[rule.label]
    return DocumentedPrecision(rows="mined", n=rule.mined_n, hits=hits, precision=rule.mined_precision)


def _status(*, confirmed: bool, drifted: bool, enough: bool, useless: bool) -> CheckStatus:
    """Return the status; `useless` rules are no more precise than the base rate."""
    if confirmed:
        return CheckStatus.DRIFTED if drifted else CheckStatus.HOLDS
    if enough or (drifted and useless):
        return CheckStatus.FAILED
    return CheckStatus.DRIFTED if drifted else CheckStatus.UNTESTED


def _confirmation_tests(hits: Ints, n: Ints, of_class: Ints, rows: int, effect: float) -> Floats:
    """P-values: the chance of at least these hits among n rows that are drawn from all rows."""
    in_hits, in_misses, out_hits, out_misses = (
        effective_counts(each, effect)
        for each in (hits, n - hits, of_class - hits, np.maximum(rows - n - of_class + hits, 0))
    )
    return fisher_test(in_hits, in_hits + in_misses, out_hits, out_hits + out_misses)


def _drift_tests(documented: Sequence[DocumentedPrecision], hits: Ints, n: Ints, effect: float) -> Floats:
    """P-values: the chance that the documented rows have at least so many of the hits of both samples."""
    before_hits = np.array([each.hits for each in documented], np.int64)
    before_misses = np.array([each.n for each in documented], np.int64) - before_hits
    one_hits, one_misses, two_hits, two_misses = (
        effective_counts(each, effect) for each in (before_hits, before_misses, hits, n - hits)
    )
    return fisher_test(one_hits, one_hits + one_misses, two_hits, two_hits + two_misses)


def _adjust(p: Floats, tested: npt.NDArray[np.bool_]) -> Floats:
    """Correct the p-values of rules that cover rows; the others take no part."""
    adjusted = np.ones(len(p))
    adjusted[tested] = holm(p[tested])
    return adjusted
