"""Candidate rules: the leaves of all trees, each about one class against the rest, with supported conditions alone."""

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from maabo_dist.findings import evidence
from maabo_dist.findings.evidence import NO_CONDITION, ConditionIndices, Floats
from maabo_dist.findings.rowbits import Bits, Ints, MinedRows, condition_bits
from maabo_dist.rules.leaves import Leaves, heaviest_classes
from maabo_dist.rules.rule import NO_LITERAL
from maabo_dist.rules.statistics import portable_log
from maabo_dist.study import Study

# Bits of rows that candidates may take together: 256 MB.
MAX_BITS = 1 << 31


@dataclass(frozen=True)
class ConditionTable:
    """The distinct conditions of all candidates, and the rows in which each holds."""

    # (conditions): 2 · feature, plus 1 if the value is above the bound.
    literals: npt.NDArray[np.int32]
    bounds: Floats
    bits: Bits
    mined: MinedRows
    # (D): the number of cuts between distinct values of each feature among the mined rows.
    cuts: Ints
    # The number of rows that are worth one independent row.
    effect: float = 1.0

    @cached_property
    def factorials(self) -> Floats:
        """Ln k! for every number of rows."""
        return evidence.log_factorials(len(self.mined.rows))

    @property
    def log_choices(self) -> float:
        """Ln of the number of conditions that a rule could have had in the place of one of its own."""
        return float(portable_log(np.array([2.0 * self.cuts.sum()]))[0])


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
    mined = MinedRows.build(study.columns.labels, study.mined_rows, len(study.columns.classes))
    labels = heaviest_classes(leaves.counts, study.table.shares)
    chosen = _choose_promising(leaves, labels, study, max_rules=MAX_BITS // len(mined.rows))
    leaves, labels = leaves.take(chosen), labels[chosen]
    table, conditions = _index_conditions(leaves, study, mined)
    return _measure(conditions, labels, leaves.tree, table), table


def support(candidates: CandidateRules, table: ConditionTable, significance: float) -> CandidateRules:
    """Return the candidates without their unsupported conditions; of those that cover the same rows, the shortest."""
    limit = float(portable_log(np.array([significance]))[0]) - table.log_choices
    kept = evidence.drop_unsupported(
        table.bits, table.mined, candidates.conditions, candidates.labels, limit, table.factorials, table.effect
    )
    rules = replace(candidates, conditions=-np.sort(-kept, axis=1))  # dropped ones last
    rules = rules.take(np.flatnonzero(rules.lengths > 0))
    keys = np.column_stack([rules.labels, rules.conditions])
    _, first = np.unique(keys, axis=0, return_index=True)
    rules = rules.take(np.sort(first))
    rules = _measure(rules.conditions, rules.labels, rules.trees, table)
    return _shortest_of_equal_rows(rules, table)


def _choose_promising(leaves: Leaves, labels: Ints, study: Study, max_rules: int) -> Ints:
    """Return the indices of promising leaves; if there are too many, the best of each logic set first."""
    totals, rows = study.table.totals, leaves.sizes
    hits = leaves.counts[np.arange(len(leaves)), labels].astype(np.int64)
    everything = np.full(len(leaves), totals.sum())
    factorials = evidence.log_factorials(int(totals.sum()))
    log_p = evidence.log_p_values(hits, rows, totals[labels], everything, factorials, study.design_effect)
    limit = -float(portable_log(np.array([float(study.columns.count)]))[0])
    promising = np.flatnonzero((log_p < 0) & (log_p <= limit))
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


def _index_conditions(leaves: Leaves, study: Study, mined: MinedRows) -> tuple[ConditionTable, ConditionIndices]:
    """Return the distinct conditions of the leaves, and for each leaf the indices of its own."""
    present = leaves.logic != NO_LITERAL
    distinct, indices = np.unique(
        np.column_stack([leaves.logic[present].astype(np.float64), leaves.bounds[present]]), axis=0, return_inverse=True
    )
    literals, bounds = distinct[:, 0].astype(np.int32), distinct[:, 1]
    conditions = np.full(leaves.logic.shape, NO_CONDITION, np.int32)
    conditions[present] = indices.ravel()
    bits = condition_bits(study.columns, mined, literals, bounds)
    return ConditionTable(literals, bounds, bits, mined, _count_cuts(study, mined), study.design_effect), conditions


def _count_cuts(study: Study, mined: MinedRows) -> Ints:
    cuts = [len(np.unique(codes[mined.rows])) - 1 for codes in study.columns.codes]
    return np.maximum(1, np.array(cuts, np.int64))


def _measure(conditions: ConditionIndices, labels: Ints, trees: Ints, table: ConditionTable) -> CandidateRules:
    """Count the rows of rules and test each on all mined rows."""
    counts = evidence.count_rows(table.bits, table.mined, conditions)
    hits, totals = counts[np.arange(len(labels)), labels], table.mined.totals
    everything = np.full(len(labels), totals.sum())
    log_p = evidence.log_p_values(hits, counts.sum(axis=1), totals[labels], everything, table.factorials, table.effect)
    return CandidateRules(conditions, labels, trees, counts, log_p)


def _shortest_of_equal_rows(rules: CandidateRules, table: ConditionTable) -> CandidateRules:
    """Of rules of one class that cover the same rows keep the one with the fewest conditions, the first of equals."""
    covered = evidence.cover(table.bits, table.mined, rules.conditions)
    best: dict[tuple[int, bytes], int] = {}
    for rule in np.argsort(rules.lengths, kind="stable").tolist():
        best.setdefault((int(rules.labels[rule]), covered[rule].tobytes()), rule)
    return rules.take(np.array(sorted(best.values()), np.int64))
