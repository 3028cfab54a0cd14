"""The certificate: p-values that are adjusted for everything that a search did.

A search compares so many rules that the best of them looks significant even if nothing is. Two adjustments hold
whatever the search did:

    bound      The number of rules that the table allows is finite. The p-value of a rule, times the number of possible
               rules with as many conditions, times the numbers of lengths and classes, is a bound (a layered Bonferroni
               correction): free, and enough for most rules that are worth publishing.
    shuffles   The whole search is run again on shuffled labels. Under the null hypothesis labels are exchangeable, so
               the best rule of the table itself is as likely as not to be beaten by the best rule of a shuffled one
               (Westfall and Young). Step-down: once a rule is certified, its own conditions no longer count against
               the others.

Both compare the same statistic: ln p of the rule plus ln of the number of possible rules with as many conditions. Rules
with sets of levels are counted by themselves, by the columns and sizes of their sets: 4,094 sets can be made of twelve
levels, and the labels choose among all of them, even if a search tries few.

The error rate of 5 % is divided: rules pass by the bound at 1 %, or by shuffles at 4 %. An adjusted p-value is thus
five times that of the bound, or 1.25 times that of the shuffles, whichever is smaller. Where no shuffles are planned,
because they would take too long, the bound has the whole 5 %.

The bound assumes independent rows that count alike. Where they come in groups or have sampling weights, rules pass by
shuffles alone, at 5 %; the labels of whole groups are exchanged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from maabo_dist.findings.candidates import CandidateRules
from maabo_dist.findings.conditions import ConditionTable
from maabo_dist.findings.evidence import NO_CONDITION, Floats
from maabo_dist.findings.rowbits import Ints
from maabo_dist.rules.statistics import portable_log

LEVEL = 0.05
# The share of the level that the bound has; shuffles have the rest.
BOUND_SHARE = 0.2
# A finding needs this much more evidence, in ln p, than certification alone: shuffles are few, and the strongest rule
# of a few searches is a rough measure of what chance can do.
MARGIN = 1.0
# Rules that a search on shuffled labels reports, at most.
MAX_REPORTED = 100


@dataclass(frozen=True, slots=True)
class ShuffledSearch:
    """The best rules of a search on shuffled labels, one for each set of features and directions."""

    # Ascending: the smaller, the stronger the rule.
    statistics: tuple[float, ...]
    logic: tuple[tuple[int, ...], ...]

    @property
    def strongest(self) -> float:
        """The strongest statistic; infinite if there is no rule."""
        return self.statistics[0] if self.statistics else inf


def statistics(rules: CandidateRules, table: ConditionTable) -> Floats:
    """(rules): ln p plus ln of the number of possible rules of the same kind; the smaller, the stronger.

    Rules are of the same kind if they have as many conditions, and as many of them are sets of several levels. Sets are
    also distinguished by their column and size.
    """
    present = rules.conditions != NO_CONDITION
    log_sets = np.where(present, table.log_sets[rules.conditions], 0.0)
    sets, widths = (log_sets > 0).sum(axis=1), rules.conditions.shape[1]
    kinds = table.choices.log_families + np.where(sets > 0, _log(float(widths)), 0.0)
    counts = log_rule_counts(table.choices.singles, table.choices.intervals, widths)
    values: Floats = rules.log_p + counts[rules.lengths - sets] + log_sets.sum(axis=1) + kinds
    return values


def log_rule_counts(singles: Ints, intervals: Ints, max_length: int) -> Floats:
    """(max_length + 1): ln of the number of possible rules with so many conditions, sets of several levels aside.

    Each feature, or text column, allows this many conditions, and this many intervals of two.
    """
    counts = np.zeros(max_length + 1)
    counts[0] = 1.0
    for single, two in zip(singles.tolist(), intervals.tolist(), strict=True):
        more = counts.copy()
        more[1:] += single * counts[:-1]
        more[2:] += two * counts[:-2]
        counts = more
    return portable_log(np.maximum(counts, 1.0))


def log_bounds(values: Floats, lengths: int, classes: int) -> Floats:
    """(rules): ln of the bound on the p-value, from the statistics.

    `classes` is the number of classes, times that of bounds of which the smallest is taken.
    """
    bounds: Floats = np.minimum(0.0, values + portable_log(np.array([float(lengths * classes)]))[0])
    return bounds


def needed_statistic(choices: int) -> float:
    """The statistic at which the bound certifies a rule, given the product of the numbers of lengths and classes."""
    return _log(LEVEL * BOUND_SHARE / choices)


@dataclass(frozen=True, slots=True)
class Certification:
    """The adjusted p-value of each rule, and how far it is from the limit."""

    # (rules): ln of the adjusted p-value.
    log_p: Floats
    # (rules): True if the bound gives it, False if shuffles do.
    by_bound: npt.NDArray[np.bool_]
    # (rules): evidence beyond what certification needs, in ln p; negative if there is too little.
    margins: Floats

    @property
    def certified(self) -> npt.NDArray[np.bool_]:
        """(rules): True if the adjusted p-value is at most the level."""
        return self.at_most(LEVEL)

    def at_most(self, p: float) -> npt.NDArray[np.bool_]:
        """(rules): True if the adjusted p-value is at most `p`."""
        return self.log_p <= _log(p)


def certify(
    values: Floats,
    log_bound: Floats,
    logic: Sequence[tuple[int, ...]],
    searches: Sequence[ShuffledSearch],
    *,
    bound_holds: bool = True,
    bound_share: float = BOUND_SHARE,
) -> Certification:
    """Adjust the p-values of rules with these statistics and bounds.

    Without searches the bound is all there is, also where it does not hold exactly. It may have the whole level if none
    were planned, whatever the labels.
    """
    bound: Floats = np.minimum(0.0, log_bound - _log(bound_share))
    margins = _log(LEVEL * bound_share) - log_bound
    if not searches:
        return Certification(bound, np.ones(len(values), np.bool_), margins)
    share = 1 - BOUND_SHARE if bound_holds else 1.0
    p_values = np.minimum(1.0, _step_down(values, logic, searches) / share)
    shuffled = portable_log(p_values)
    critical = sorted(search.strongest for search in searches)[max(0, count_tolerated(len(searches)))]
    # Where too few shuffled searches support a rule at all, every rule that is supported is beyond them.
    beyond = critical - values if critical < inf else np.maximum(margins, MARGIN)
    if not bound_holds:
        return Certification(shuffled, np.zeros(len(values), np.bool_), beyond)
    margins = np.where(p_values <= LEVEL, np.maximum(margins, beyond), margins)
    return Certification(np.minimum(bound, shuffled), bound <= shuffled, margins)


def count_tolerated(searches: int) -> int:
    """Return how many of so many searches may have a rule as strong as a certified one: 0 of 24; −1 if too few."""
    percent = round(100 * LEVEL * (1 - BOUND_SHARE))
    return percent * (1 + searches) // 100 - 1


def count_needed(strongest: Mapping[int, float], undecided: float | None, planned: int) -> int:
    """Return how many of the planned searches, from the first on, decide what shuffles can certify.

    `strongest` has the strongest statistic of each search that is known, by its number, and `undecided` that of the
    rules that the bound leaves undecided: once more searches than tolerated come within the margin of it, no rule can
    become a finding any more. None asks for all searches. The number depends on the searches alone, not on the order in
    which they become known; it never grows while more of them do.
    """
    if undecided is None:
        return planned
    tolerated = count_tolerated(planned)
    for number in sorted(strongest):
        if strongest[number] - undecided < MARGIN:
            tolerated -= 1
            if tolerated < 0:
                return number + 1
    return planned


def _step_down(values: Floats, logic: Sequence[tuple[int, ...]], searches: Sequence[ShuffledSearch]) -> Floats:
    """(rules): the share of searches, the table's own among them, with a rule at least as strong."""
    p_values = np.empty(len(values))
    smallest = np.array([search.strongest for search in searches])
    # Searches by the logic of their strongest rule that is not excluded, each with the number of that rule.
    heads: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for number, search in enumerate(searches):
        if search.logic:
            heads.setdefault(search.logic[0], []).append((number, 0))
    excluded: set[tuple[int, ...]] = set()
    previous = 0.0
    for rule in np.argsort(values, kind="stable").tolist():
        beaten = int(np.count_nonzero(smallest <= values[rule]))
        previous = max(previous, (1 + beaten) / (1 + len(searches)))
        p_values[rule] = previous
        excluded.add(logic[rule])
        for number, place in heads.pop(logic[rule], ()):
            search = searches[number]
            rest = range(place + 1, len(search.logic))
            head = next((index for index in rest if search.logic[index] not in excluded), None)
            if head is not None:
                smallest[number] = search.statistics[head]
                heads.setdefault(search.logic[head], []).append((number, head))
            elif len(search.logic) < MAX_REPORTED:
                smallest[number] = inf
            else:  # weaker rules were not reported; the last one stands for them
                smallest[number] = search.statistics[-1]
    return p_values


def _log(value: float) -> float:
    return float(portable_log(np.array([value]))[0])
