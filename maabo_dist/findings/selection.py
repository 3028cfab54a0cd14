"""Which certified rules to publish: a greedy cover of each class, one head for every group of rules on similar rows.

A rule gains what it adds: √n · (low − base) · fullᵃ · 0.7ᵏ. Here n is the number of its rows that no earlier finding of
the class covers, `low` the lower 95 % Wilson limit of its precision there, `base` the share of the class among all
rows, `full` that limit on all its rows, and k the number of its conditions: each has to add more than chance might. The
power a is 3 in tables of up to 3,000 rows, and 6 more with ten times as many: in a large table, rules that cover a
small share of the rows have enough evidence, too, and the more precise ones are preferred. Of rules that gain about as
much on nearly the same rows, the simplest is chosen.
The first finding of a class sets the standard for the others: they are at least half as far above the base rate.
Further findings of a class that most rows belong to also add at least half as much as the first: they say less.

Rules of a class that may share half of their rows with a finding are that finding in other words: none of them becomes
a finding of its own, and the best are listed as its alternatives. Nor do rules that contain a finding or lie within it:
they would repeat it, more loosely or more narrowly.

Findings of a class are chosen among the rules that other rows are likely to confirm. A class that has none gets one
finding: the rule with the most evidence, whatever its precision. Findings that are not strong are tentative, and last.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist.findings import evidence
from maabo_dist.findings.candidates import CandidateRules
from maabo_dist.findings.conditions import ConditionTable
from maabo_dist.findings.confirmation import FEWER_ROWS, Strength, Strengths
from maabo_dist.findings.evidence import Floats
from maabo_dist.findings.rowbits import Bits, Ints
from maabo_dist.rules.statistics import Z_95

# Two findings of a class differ if their row Jaccard coefficient is so many standard errors below this value, and would
# thus be smaller on other rows, a third as many. Alternatives of a finding are within fewer standard errors of it.
SAME_ROWS, DIFFERENT_Z, ALTERNATIVE_Z = 0.5, 2.5, 2.0
# What each condition leaves of a rule's gain.
CONDITION_DISCOUNT = 0.7
# A rule contains another if it covers this share of the other's rows.
CONTAINED = 0.9
# A rule this similar to the best one, which gains this much of what it gains, is chosen instead if it is simpler.
NEARLY_SAME_ROWS, NEARLY_SAME_GAIN = 0.7, 0.95
# A further finding of a class has at least this share of the √n · (low − base) of the first, …
MIN_EXCESS = 0.2
# … or this one if more than half of all rows are of the class, …
MIN_EXCESS_OF_MAJORITY: dict["Preference", float] = {"balanced": 0.5, "precision": 0.5, "coverage": MIN_EXCESS}
# … at least this share of its full − base, …
MIN_PRECISION: dict["Preference", float] = {"balanced": 0.5, "precision": 0.5, "coverage": 0.0}
# … and at most this ln p on the rows that it adds.
MAX_LOG_P_ADDED = -8.0

Preference = Literal["balanced", "precision", "coverage"]
# The power of a rule's precision in its gain: up to this number of rows, and what each order of magnitude adds.
_FEW_ROWS = 3000
_PRECISION_POWERS: dict[Preference, float] = {"balanced": 3.0, "precision": 8.0, "coverage": 0.0}
_POWERS_PER_MAGNITUDE: dict[Preference, float] = {"balanced": 6.0, "precision": 6.0, "coverage": 0.0}


@dataclass(frozen=True, slots=True)
class Group:
    """A finding: indices of its head, and of the other rules on nearly the same rows, most similar first."""

    head: int
    others: tuple[int, ...]


def choose_findings(
    rules: CandidateRules,
    strengths: Strengths,
    table: ConditionTable,
    prefer: Preference = "balanced",
    max_rules: int | None = None,
) -> list[Group]:
    """Choose findings of every class, tentative ones last, in order of their gain; at least one of each class."""
    covered = evidence.cover(table.bits, table.mined, rules.conditions)
    heads: list[_Head] = []
    for label in np.unique(rules.labels).tolist():
        own = np.flatnonzero(rules.labels == label)
        likely = own[strengths[own] >= Strength.LIKELY]
        if len(likely):
            chosen = _choose_of_class(rules.take(likely), covered[likely], likely, table, label, prefer)
        else:
            chosen = _choose_of_class(rules.take(own), covered[own], own, table, label, "coverage")[:1]
        heads += [_Head(bool(strengths[rule] < Strength.STRONG), gain, rule) for gain, rule in chosen]
    return _group([head.rule for head in _limit(heads, rules.labels, max_rules)], rules, covered)


def jaccard(bits: Bits, others: Bits) -> Floats:
    """(others): the rows that both cover over the rows that either covers."""
    shared, either = evidence.count_shared(bits, others)
    similarity: Floats = shared / np.maximum(either, 1)
    return similarity


def have_same_rows(bits: Bits, others: Bits) -> npt.NDArray[np.bool_]:
    """(others): True if both may cover the same rows, by half or more, in a table with fewer rows of the same kind."""
    return _may_share_half(*evidence.count_shared(bits, others), ALTERNATIVE_Z)


def _may_share_half(shared: Ints, either: Ints, z: float) -> npt.NDArray[np.bool_]:
    similarity = shared / np.maximum(either, 1)
    error = np.sqrt(similarity * (1 - similarity) * FEWER_ROWS / np.maximum(either, 1))
    same: npt.NDArray[np.bool_] = similarity + z * error >= SAME_ROWS
    return same


def contain_each_other(bits: Bits, others: Bits) -> npt.NDArray[np.bool_]:
    """(others): True if one of both covers nearly all rows of the other."""
    return _contained(bits, *evidence.count_shared(bits, others))


def _contained(bits: Bits, shared: Ints, either: Ints) -> npt.NDArray[np.bool_]:
    rows = int(np.bitwise_count(bits).sum())
    contained: npt.NDArray[np.bool_] = shared >= CONTAINED * np.minimum(rows, either + shared - rows)
    return contained


def _choose_of_class(
    rules: CandidateRules, covered: Bits, indices: Ints, table: ConditionTable, label: int, prefer: Preference
) -> list[tuple[float, int]]:
    """Return the gain and the index of each chosen rule of one class."""
    mined = table.mined
    base = mined.totals[label] / mined.totals.sum()
    full = wilson_low(rules.hits, rules.rows, table.effect)
    worth = _worth(full, mined.totals.sum() / table.effect, prefer) * CONDITION_DISCOUNT**rules.lengths
    free = mined.everything
    open_rules = np.arange(len(rules))
    chosen: list[tuple[float, int]] = []
    least_excess = least_full = 0.0
    while len(open_rules):
        rows, hits = evidence.count_added(mined, covered, open_rules, free, label)
        low = wilson_low(hits, rows, table.effect)
        excess = np.where(low > base, np.sqrt(rows) * (low - base), 0.0)
        gains = excess * worth[open_rules]
        if chosen:
            too_little = (excess < least_excess) | (full[open_rules] < least_full)
            gains[too_little | (_log_p(hits, rows, label, table) > MAX_LOG_P_ADDED)] = 0.0
        best = _simplest_of_best(gains, covered[open_rules], rules.lengths[open_rules])
        if gains[best] <= 0:
            break
        head = open_rules[best]
        if not chosen:
            least_excess = (MIN_EXCESS_OF_MAJORITY[prefer] if base > 0.5 else MIN_EXCESS) * excess[best]
            least_full = base + MIN_PRECISION[prefer] * (full[head] - base)
        chosen.append((float(gains[best]), int(indices[head])))
        free = free & ~covered[head]
        counts = evidence.count_shared(covered[head], covered[open_rules])
        open_rules = open_rules[~(_may_share_half(*counts, DIFFERENT_Z) | _contained(covered[head], *counts))]
    return chosen


def _worth(full: Floats, rows: float, prefer: Preference) -> Floats:
    """(rules): what the precision of each contributes to its gain.

    What a large table adds to the power is relative to the most precise rule of the class. Otherwise findings of
    frequent classes, whose precision is high anyway, would come before all others.
    """
    magnitudes = max(0.0, math.log10(rows / _FEW_ROWS))
    added = _POWERS_PER_MAGNITUDE[prefer] * magnitudes
    worth: Floats = full ** _PRECISION_POWERS[prefer] * (full / full.max()) ** added
    return worth


def _simplest_of_best(gains: Floats, covered: Bits, lengths: Ints) -> int:
    best = int(np.argmax(gains))
    near = np.flatnonzero(gains >= NEARLY_SAME_GAIN * gains[best])
    near = near[(jaccard(covered[best], covered[near]) >= NEARLY_SAME_ROWS) | (near == best)]
    return int(near[np.lexsort([near, -gains[near], lengths[near]])[0]])


def _log_p(hits: Ints, rows: Ints, label: int, table: ConditionTable) -> Floats:
    totals = table.mined.totals
    all_hits, all_rows = np.full(len(hits), totals[label]), np.full(len(hits), totals.sum())
    return evidence.log_p_values(hits, rows, all_hits, all_rows, table.factorials, table.effect)


class _Head(NamedTuple):
    tentative: bool
    gain: float
    rule: int

    @property
    def order(self) -> tuple[bool, float, int]:
        return self.tentative, -self.gain, self.rule


def _limit(heads: list[_Head], labels: Ints, max_rules: int | None) -> list[_Head]:
    """Put heads in order; if there are too many, keep the best of each class before the second of any."""
    seen: set[int] = set()
    first: list[_Head] = []
    further: list[_Head] = []
    for head in sorted(heads, key=lambda head: head.order):
        label = int(labels[head.rule])
        (further if label in seen else first).append(head)
        seen.add(label)
    return sorted([*first, *further][:max_rules], key=lambda head: head.order)


def _group(heads: list[int], rules: CandidateRules, covered: Bits) -> list[Group]:
    """Give each rule that is no head to the finding of its class whose rows are most similar."""
    if not heads:
        return []
    similar = np.stack([jaccard(covered[head], covered) for head in heads])
    similar[rules.labels[heads][:, None] != rules.labels[None, :]] = -1.0
    nearest, strength = similar.argmax(axis=0), similar.max(axis=0)
    groups = []
    for number, head in enumerate(heads):
        others = np.flatnonzero((nearest == number) & (strength >= 0))
        others = others[(others != head) & have_same_rows(covered[head], covered[others])]
        order = np.lexsort([others, rules.lengths[others], -strength[others]])
        groups.append(Group(head, tuple(others[order].tolist())))
    return groups


def wilson_low(hits: Ints, rows: Ints, effect: float = 1.0) -> Floats:
    """(rules): the lower 95 % Wilson limit of a share, `effect` rows being worth one; 0 where there are no rows."""
    n = np.maximum(rows, 1).astype(np.float64)
    share, z2 = hits / n, Z_95 * Z_95
    n /= effect
    centre = share + z2 / (2 * n)
    half = Z_95 * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return np.where(rows > 0, np.maximum(0.0, (centre - half) / (1 + z2 / n)), 0.0)
