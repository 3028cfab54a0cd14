"""Candidate rules: the leaves of all trees, each about one class against the rest, with supported conditions alone."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from maabo_dist.data.weights import to_rows
from maabo_dist.findings import evidence
from maabo_dist.findings.conditions import ConditionTable, index_conditions
from maabo_dist.findings.evidence import NO_CONDITION, ConditionIndices, Floats
from maabo_dist.findings.rowbits import Ints, MinedRows
from maabo_dist.rules.leaves import Leaves, heaviest_classes
from maabo_dist.rules.statistics import portable_log
from maabo_dist.study import Study

# Bits of rows that candidates may take together: 128 MB.
MAX_BITS = 1 << 30
# The greatest p-value at which missing cells, or the others, support a condition.
MISSING_SUPPORT = 0.05
# The search also chooses the bounds of a rule's other conditions, so useless conditions pass the test more often in
# longer rules. By this much the limits of ln p are lower in a rule with two conditions, and for each one beyond: ln 5
# and ln 100. The only condition of a rule needs no more evidence than the rule itself.
SECOND_CONDITION, FURTHER_CONDITION = 1.6, 4.6


@dataclass(frozen=True)
class CandidateRules:
    """Rules as indices of conditions, one row each."""

    conditions: ConditionIndices
    # (rules): the class that the rule is about.
    labels: Ints
    # (rules): the tree that it was read from.
    trees: Ints
    # (rules, C): mined rows of each class that the rule covers.
    counts: Ints
    # (rules): ln p of the rule's class being no more frequent among its rows than among all.
    log_p: Floats

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def lengths(self) -> Ints:
        """(rules): the number of conditions."""
        lengths: Ints = (self.conditions != NO_CONDITION).sum(axis=1)
        return lengths

    @property
    def rows(self) -> Ints:
        """(rules): mined rows that the rule covers."""
        rows: Ints = self.counts.sum(axis=1)
        return rows

    @property
    def hits(self) -> Ints:
        """(rules): of these, the rows of the rule's class."""
        hits: Ints = self.counts[np.arange(len(self)), self.labels]
        return hits

    def take(self, indices: npt.NDArray[np.int64]) -> "CandidateRules":
        """Return these rules, in this order."""
        return CandidateRules(**{field.name: getattr(self, field.name)[indices] for field in fields(self)})


def find_candidates(leaves: Leaves, study: Study) -> tuple[CandidateRules, ConditionTable]:
    """Return the leaves whose class is markedly more frequent than usual, as rules with all their conditions.

    A leaf is left out if its training p-value, times the number of features, is above 1: the best of as many useless
    features would do as well.
    """
    columns = study.columns
    mined = MinedRows.build(columns.labels, study.mined_rows, len(columns.classes), columns.weights)
    labels = heaviest_classes(leaves.counts, study.table.shares)
    chosen = _choose_promising(leaves, labels, study, max_rules=MAX_BITS // len(mined.rows))
    leaves, labels = leaves.take(chosen), labels[chosen]
    table, conditions = index_conditions(leaves, study.columns, mined)
    table = replace(table, effect=study.design_effect)
    return measure(*_with_variants(conditions, labels, leaves.tree, table), table), table


def support(candidates: CandidateRules, table: ConditionTable, significance: float) -> CandidateRules:
    """Return the candidates without their unsupported conditions; of those that cover the same rows, the shortest."""
    limits = float(portable_log(np.array([significance]))[0]) - table.log_choices
    kept = evidence.drop_unsupported(
        table.bits,
        table.mined,
        candidates.conditions,
        candidates.labels,
        limits,
        table.factorials,
        table.effect,
        _allowances(candidates.conditions.shape[1]),
    )
    rules = replace(candidates, conditions=-np.sort(-kept, axis=1))  # dropped ones last
    rules = rules.take(np.flatnonzero(rules.lengths > 0))
    keys = np.column_stack([rules.labels, rules.conditions])
    _, first = np.unique(keys, axis=0, return_index=True)
    rules = rules.take(np.sort(first))
    rules = measure(rules.conditions, rules.labels, rules.trees, table)
    return _shortest_of_equal_rows(rules, table)


def _allowances(width: int) -> Floats:
    """(width + 1): by how much the limits of ln p are lower in a rule with so many conditions."""
    beyond = np.arange(width + 1) - 2
    return np.where(beyond < 0, 0.0, SECOND_CONDITION + FURTHER_CONDITION * beyond)


class LeafTest:
    """Tests leaves on the training rows."""

    def __init__(self, study: Study) -> None:
        self._totals, self._shares, self._effect = study.table.row_totals, study.table.shares, study.design_effect
        self._factorials = evidence.log_factorials(int(self._totals.sum()) + len(self._totals) + 1)
        self._limit = -float(portable_log(np.array([float(study.columns.count)]))[0])

    def log_p(self, leaves: Leaves, labels: Ints) -> Floats:
        """(leaves): ln p of these classes being no more frequent than among all training rows."""
        hits = leaves.counts[np.arange(len(leaves)), labels].astype(np.int64)
        everything = np.full(len(leaves), self._totals.sum())
        return evidence.log_p_values(
            hits, leaves.sizes, self._totals[labels], everything, self._factorials, self._effect
        )

    def is_promising(self, log_p: Floats) -> npt.NDArray[np.bool_]:
        """(leaves): True for leaves that may become candidates."""
        promising: npt.NDArray[np.bool_] = (log_p < 0) & (log_p <= self._limit)
        return promising

    def take_promising(self, leaves: Leaves) -> Leaves:
        """Return the leaves that may become candidates; a search may forget the others."""
        log_p = self.log_p(leaves, heaviest_classes(leaves.counts, self._shares))
        return leaves.take(np.flatnonzero(self.is_promising(log_p)))


def _choose_promising(leaves: Leaves, labels: Ints, study: Study, max_rules: int) -> Ints:
    """Return the indices of promising leaves; if there are too many, the best of each logic set first."""
    test = LeafTest(study)
    log_p = test.log_p(leaves, labels)
    promising = np.flatnonzero(test.is_promising(log_p))
    if len(promising) <= max_rules:
        return promising
    _, logic = np.unique(leaves.logic[promising], axis=0, return_inverse=True)
    logic = logic.ravel()
    order = np.lexsort([log_p[promising], logic])
    starts = np.flatnonzero(np.diff(logic[order], prepend=-1))
    rank = np.empty(len(promising), np.int64)
    rank[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    best = np.lexsort([log_p[promising], rank])[:max_rules]
    return promising[np.sort(best)]


def _with_variants(
    conditions: ConditionIndices, labels: Ints, trees: Ints, table: ConditionTable
) -> tuple[ConditionIndices, Ints, Ints]:
    """Add rules that treat missing cells otherwise in one condition, where these cells support it.

    `x ≤ 3` may become `x ≤ 3 or missing`, if both parts support it, `x is missing`, or `x is not missing`. A part
    supports a condition if the rule's class is more frequent in it than among all rows that satisfy the others. The
    bound was chosen among many, and its part must be that much more certain.
    """
    rules, places = np.nonzero(np.where(conditions >= 0, table.is_present[conditions], NO_CONDITION) >= 0)
    chosen = conditions[rules, places]
    variants = np.stack([table.or_missing[chosen], table.is_missing[chosen], table.is_present[chosen]])
    itself, missing, present = (
        _log_p_of_part(conditions[rules], places, each, labels[rules], table) for each in (chosen, *variants[1:])
    )
    level = float(portable_log(np.array([MISSING_SUPPORT]))[0])
    supports = [(itself <= level - table.log_choices[chosen]) & (missing <= level), missing <= level, present <= level]
    rows, parts = [conditions], [np.arange(len(conditions))]
    for variant, supported in zip(variants, supports, strict=True):
        kept = np.flatnonzero(supported & (variant != NO_CONDITION))
        changed = conditions[rules[kept]]
        changed[np.arange(len(kept)), places[kept]] = variant[kept]
        rows.append(changed)
        parts.append(rules[kept])
    sources = np.concatenate(parts)
    return np.concatenate(rows), labels[sources], trees[sources]


def _log_p_of_part(
    conditions: ConditionIndices, places: Ints, condition: Ints, labels: Ints, table: ConditionTable
) -> Floats:
    """(rules): ln p of the class being no more frequent in rows with `condition` at the place than in all."""
    every, wider, narrow = np.arange(len(places)), conditions.copy(), conditions.copy()
    wider[every, places], narrow[every, places] = NO_CONDITION, condition
    all_rows, rows = (evidence.count_rows(table.bits, table.mined, each) for each in (wider, narrow))
    return evidence.log_p_values(
        rows[every, labels],
        rows.sum(axis=1),
        all_rows[every, labels],
        all_rows.sum(axis=1),
        table.factorials,
        table.effect * table.mined.unit,
    )


def measure(conditions: ConditionIndices, labels: Ints, trees: Ints, table: ConditionTable) -> CandidateRules:
    """Count the rows of rules and test each on all mined rows."""
    counts = evidence.count_rows(table.bits, table.mined, conditions)
    counts = to_rows(counts, table.mined.units)
    hits, totals = counts[np.arange(len(labels)), labels], table.mined.totals
    everything = np.full(len(labels), totals.sum())
    log_p = evidence.log_p_values(hits, counts.sum(axis=1), totals[labels], everything, table.factorials, table.effect)
    return CandidateRules(conditions, labels, trees, counts, log_p)


def join_rules(parts: Sequence[CandidateRules], table: ConditionTable) -> CandidateRules:
    """Return the rules of all parts; of those that cover the same rows, the shortest."""
    arrays = (np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(CandidateRules))
    return _shortest_of_equal_rows(CandidateRules(*arrays), table)


def _shortest_of_equal_rows(rules: CandidateRules, table: ConditionTable) -> CandidateRules:
    """Of rules of one class that cover the same rows keep the one with the fewest conditions, the first of equals."""
    covered = evidence.cover(table.bits, table.mined, rules.conditions)
    best: dict[tuple[int, bytes], int] = {}
    for rule in np.argsort(rules.lengths, kind="stable").tolist():
        best.setdefault((int(rules.labels[rule]), covered[rule].tobytes()), rule)
    return rules.take(np.array(sorted(best.values()), np.int64))
