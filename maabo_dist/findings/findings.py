"""Findings: what a search found, certified against everything it did, and the short list of it that is published."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Part
from maabo_dist.data.weights import round_units
from maabo_dist.findings import certificate
from maabo_dist.findings.candidates import CandidateRules, find_candidates, support
from maabo_dist.findings.certificate import BOUND_SHARE, MARGIN, MAX_REPORTED, Certification, ShuffledSearch
from maabo_dist.findings.conditions import ConditionTable
from maabo_dist.findings.confirmation import Strength, Strengths, confirmation_scores, strengths_of
from maabo_dist.findings.evidence import NO_CONDITION, ConditionIndices, Floats, cover
from maabo_dist.findings.grid import grid_choices, log_p_on_grid
from maabo_dist.findings.rowbits import Ints
from maabo_dist.findings.selection import Group, choose_findings, jaccard
from maabo_dist.findings.threshold_search import add_better_thresholds
from maabo_dist.findings.thresholds import readable_bounds
from maabo_dist.rules.counting import RowCounter
from maabo_dist.rules.leaves import Leaves, leaf_gini
from maabo_dist.rules.rule import NO_LITERAL
from maabo_dist.rules.selection import Selection
from maabo_dist.study import Study

MAX_FINDINGS = 15
# A bound, in ln p, that leaves no doubt.
STRONG_BOUND = -10.0


@dataclass(frozen=True, slots=True)
class CountedRows:
    """The rows of a dataset that rules are counted on."""

    # (C): training and validation rows.
    totals: Ints
    # The conditions in the sample, whose rows have weights if classes were not sampled alike: for the rows that rules
    # share, of which there are estimates only.
    weighted_table: ConditionTable


@dataclass(frozen=True)
class Evidence:
    """The supported rules of a search, and how strong each is."""

    rules: CandidateRules
    table: ConditionTable
    columns: Columns
    # (rules): see `certificate`; the smaller, the stronger.
    statistics: Floats
    # The rules with all their conditions, supported or not.
    candidates: CandidateRules
    # False if rows come in groups or have weights: then the bound does not hold, and shuffles alone certify rules.
    bound_holds: bool = True
    # The share of the level that the bound has: all of it if no shuffles are planned.
    bound_share: float = BOUND_SHARE
    # Set if `rules` are counted on all rows of a dataset, and `table` has a sample of them.
    counted: "CountedRows | None" = None

    @classmethod
    def collect(cls, leaves: Leaves, study: Study) -> "Evidence":
        """Turn the leaves of a search into supported rules."""
        return cls.of_candidates(*find_candidates(leaves, study), study)

    @classmethod
    def of_candidates(cls, candidates: CandidateRules, table: ConditionTable, study: Study) -> "Evidence":
        """Leave out what the rows do not support of candidates, and add rules with better thresholds."""
        rules = support(candidates, table, study.settings.significance)
        evidence = cls.of_rules(*add_better_thresholds(rules, table, study), study)
        return replace(evidence, candidates=candidates)

    @classmethod
    def of_rules(cls, rules: CandidateRules, table: ConditionTable, study: Study) -> "Evidence":
        """Take rules as they are."""
        statistics = certificate.statistics(rules, table)
        share = BOUND_SHARE if study.planned_shuffles else 1.0
        return cls(rules, table, study.columns, statistics, rules, study.columns.independent_rows, share)

    @cached_property
    def log_bounds(self) -> Floats:
        """(rules): ln of the bound on the p-value, by all possible thresholds or by those on a grid."""
        lengths, bounds = self.rules.conditions.shape[1], 2 * len(self.columns.classes)
        exact = certificate.log_bounds(self.statistics, lengths, bounds)
        if self.counted is not None:  # thresholds on the grid are not counted on all rows
            return exact
        # The grid matters where the bound is too large, though not by more than a grid can improve it.
        rules = np.flatnonzero((exact > STRONG_BOUND) & (self.rules.log_p <= STRONG_BOUND))
        if not len(rules):
            return exact
        chosen, choices = self.rules.take(rules), grid_choices(self.table, self.columns)
        moved = replace(chosen, log_p=log_p_on_grid(chosen, self.table, self.columns))
        values = certificate.statistics(moved, replace(self.table, choices=choices))
        exact[rules] = np.minimum(exact[rules], certificate.log_bounds(values, lengths, bounds))
        return exact

    @property
    def totals(self) -> Ints:
        """(C): the rows that `rules` are counted on."""
        return self.table.mined.totals if self.counted is None else self.counted.totals

    @cached_property
    def logic(self) -> list[tuple[int, ...]]:
        """The literals of each rule, ascending, without thresholds."""
        logic, _ = literals_of(self.rules.conditions, self.table)
        return [tuple(row[row != NO_LITERAL].tolist()) for row in logic]

    def strongest(self) -> ShuffledSearch:
        """Return the strongest rule of each logic set, for a comparison with another search."""
        logic, order = self.logic, np.argsort(self.statistics, kind="stable").tolist()
        best: dict[tuple[int, ...], float] = {}
        for rule in order:
            best.setdefault(logic[rule], float(self.statistics[rule]))
        reported = list(best.items())[:MAX_REPORTED]
        return ShuffledSearch(tuple(value for _, value in reported), tuple(literals for literals, _ in reported))

    def certify(self, searches: Sequence[ShuffledSearch]) -> Certification:
        """Adjust the p-values of the rules for the whole search."""
        return certificate.certify(
            self.statistics,
            self.log_bounds,
            self.logic,
            searches,
            bound_holds=self.bound_holds,
            bound_share=self.bound_share,
        )

    def undecided(self) -> float | None:
        """The strongest statistic of the rules that the bound leaves undecided.

        All are if the bound does not hold. None if every class with supported rules has a finding by the bound alone:
        shuffles would find no other.
        """
        if not self.bound_holds:
            return float(self.statistics.min())
        labels, strong = self.rules.labels, is_certified(self.certify([]))
        if set(labels.tolist()) == set(labels[strong].tolist()):
            return None
        return float(self.statistics[~strong].min())


@dataclass(frozen=True, slots=True)
class Findings:
    """The published findings, best first, and the certificate of every supported rule."""

    evidence: Evidence
    certification: Certification
    # The number of certified rules, whatever the limits of the settings.
    certified: int
    groups: tuple[Group, ...]

    # The evidence beyond certification that a finding needs, in ln p.
    margin: float = MARGIN

    def reordered(self, order: Ints) -> "Findings":
        """Return the findings in another order."""
        return replace(self, groups=tuple(self.groups[index] for index in order.tolist()))


def choose(evidence: Evidence, searches: Sequence[ShuffledSearch], study: Study, *, probes: bool = False) -> Findings:
    """Certify the rules, and choose among those that meet the limits of the settings; rules with probes if asked to."""
    return choose_certified(evidence, evidence.certify(searches), study, probes=probes)


def choose_certified(evidence: Evidence, certification: Certification, study: Study, *, probes: bool) -> Findings:
    """Choose among certified rules that meet the limits of the settings."""
    settings, rules = study.settings, evidence.rules
    certified = is_certified(certification, settings.max_p)
    if not probes:
        certified &= ~uses_probes(evidence, study)
    eligible = np.flatnonzero(certified & meets_limits(evidence, study))
    limit = None if settings.all else settings.max_rules or MAX_FINDINGS
    if settings.all:
        groups = [Group(index, ()) for index in np.lexsort([eligible, evidence.statistics[eligible]]).tolist()]
        groups = groups[: settings.max_rules]
    else:
        strengths = rule_strengths(evidence, certification)[eligible]
        table = evidence.table if evidence.counted is None else evidence.counted.weighted_table
        groups = choose_findings(rules.take(eligible), strengths, table, settings.prefer, limit)
    return Findings(
        evidence,
        certification,
        int(certified.sum()),
        tuple(Group(int(eligible[group.head]), tuple(eligible[list(group.others)].tolist())) for group in groups),
    )


def to_leaves(findings: Findings, study: Study, scores: Floats, counter: RowCounter) -> tuple[Leaves, Selection, Ints]:
    """Return the rules of all groups as leaves, which of them are heads, and the classes they predict.

    `scores` are those of all trees.
    """
    evidence = findings.evidence
    groups = [(group.head, *_wordings(group, evidence.logic)) for group in findings.groups]
    members = [index for group in groups for index in group]
    rules = evidence.rules.take(np.array(members, np.int64))
    logic, bounds = literals_of(rules.conditions, evidence.table)
    bounds = readable_bounds(logic, bounds, study.columns)
    counts = round_units(counter.count(logic, bounds)[:, Part.TRAIN], counter.unit).astype(np.int32)
    leaves = Leaves(
        logic=logic,
        bounds=bounds,
        counts=counts,
        gini=leaf_gini(counts, study.table.weights),
        tree=rules.trees,
        score=scores[rules.trees],
        seen=0,
        large=0,
    )
    return leaves, _selection(groups, evidence), rules.labels


def _wordings(group: Group, logic: list[tuple[int, ...]]) -> list[int]:
    """Return the most similar other rule of each logic set but the head's."""
    first: dict[tuple[int, ...], int] = {}
    for index in group.others:
        first.setdefault(logic[index], index)
    first.pop(logic[group.head], None)
    return list(first.values())


def _selection(groups: Sequence[tuple[int, ...]], evidence: Evidence) -> Selection:
    covered = cover(evidence.table.bits, evidence.table.mined, evidence.rules.conditions)
    chosen: list[int] = []
    displaced_by: list[int] = []
    similarity: list[float] = []
    for number, (head, *others) in enumerate(groups):
        chosen.append(len(displaced_by))
        displaced_by += [-1, *[number] * len(others)]
        similarity += [0.0, *jaccard(covered[head], covered[others]).tolist()]
    return Selection(np.array(chosen, np.int64), np.array(displaced_by, np.int64), np.array(similarity))


def literals_of(rules: ConditionIndices, table: ConditionTable) -> tuple[npt.NDArray[np.int32], Floats]:
    """Logic and bounds of rules as leaves have them: literals ascend."""
    present, width = (rules != NO_CONDITION)[..., None], rules.shape[1] * table.literals.shape[1]
    logic = np.where(present, table.literals[rules], NO_LITERAL).reshape(len(rules), width)
    bounds = np.where(present, table.bounds[rules], 0.0).reshape(len(rules), width)
    order = np.argsort(logic, axis=1, kind="stable")[:, : max(1, int((logic != NO_LITERAL).sum(axis=1).max(initial=1)))]
    return np.take_along_axis(logic, order, axis=1), np.take_along_axis(bounds, order, axis=1)


def uses_probes(evidence: Evidence, study: Study) -> npt.NDArray[np.bool_]:
    """(rules): True if one of the conditions is about a probe."""
    conditions, probes = evidence.rules.conditions, study.probe_mask
    uses_probe = probes[evidence.table.literals[:, 0] >> 1]
    used: npt.NDArray[np.bool_] = (uses_probe[conditions] & (conditions != NO_CONDITION)).any(axis=1)
    return used


def meets_limits(evidence: Evidence, study: Study) -> npt.NDArray[np.bool_]:
    """True for the rules that meet the limits that the user set; none of them affects certification."""
    rules, settings, columns, totals = evidence.rules, study.settings, study.columns, evidence.totals
    precision = rules.hits / np.maximum(rules.rows, 1)
    base = totals[rules.labels] / totals.sum()
    met: npt.NDArray[np.bool_] = (precision >= settings.min_precision) & (precision >= settings.min_lift * base)
    if settings.for_class:
        met &= np.isin(rules.labels, [columns.classes.index(name) for name in settings.for_class])
    if settings.min_samples is not None:
        met &= rules.rows * (1 - settings.test_size) >= settings.min_samples
    if settings.gini is not None:
        weights = study.table.weights
        met &= leaf_gini(rules.counts.astype(np.int32), weights) < settings.gini * (1 - 1 / len(weights))
    return met


def rule_strengths(evidence: Evidence, certification: Certification) -> Strengths:
    """(rules): whether a sample a third as large is likely to confirm each rule; one that is not certified is weak."""
    rules, totals = evidence.rules, evidence.totals
    scores = confirmation_scores(
        rules.hits, rules.rows, totals[rules.labels], float(totals.sum()), evidence.table.effect
    )
    return np.where(is_certified(certification), strengths_of(scores), np.int8(Strength.WEAK))


def is_certified(certification: Certification, max_p: float | None = None) -> npt.NDArray[np.bool_]:
    """(rules): True if the adjusted p-value is at most `max_p`; by default certified with the margin of findings."""
    if max_p is not None:
        return certification.at_most(max_p)
    certified: npt.NDArray[np.bool_] = certification.certified & (certification.margins >= MARGIN)
    return certified
