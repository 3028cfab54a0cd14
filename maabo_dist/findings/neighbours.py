"""Better thresholds for findings of a sample: neighbouring ones, counted on all rows.

The trees of a sample know thresholds only as well as its rows tell. Of a rule that is about to be published, each
threshold on a number is therefore moved, in turn, to other values of the sample near it. All these rules are counted on
all training and validation rows in one pass, and the one with the smallest p-value takes the place of the rule. The
bound of the certificate counts all thresholds of the sample, so that it holds for these as well.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from maabo_dist.data.columns import FeatureKind
from maabo_dist.data.recoding import MISSING_VALUE
from maabo_dist.data.split import Part
from maabo_dist.findings import certificate
from maabo_dist.findings.candidates import CandidateRules
from maabo_dist.findings.conditions import ConditionTable
from maabo_dist.findings.evidence import NO_CONDITION, ConditionIndices, log_p_values
from maabo_dist.findings.findings import Evidence, choose_certified, literals_of
from maabo_dist.findings.rowbits import condition_bits
from maabo_dist.findings.thresholds import readable_bounds
from maabo_dist.rules.counting import RowCounter
from maabo_dist.rules.rule import NO_LITERAL
from maabo_dist.study import Study

# How many values of the sample a threshold is moved by, down and up.
STEPS = (1, 4, 16, 64)
# Each round moves one threshold of a rule, and is a pass over the columns of the rules.
ROUNDS = 2
# Rules whose thresholds are moved, at most; with --all there may be thousands.
MAX_RULES = 50


class _Move(NamedTuple):
    """One threshold of a rule, moved."""

    rule: int
    # The position of the condition in its rule, and of the literal in the condition.
    place: int
    literal: int
    bound: float


def move_thresholds(evidence: Evidence, study: Study, counter: RowCounter) -> Evidence:
    """Return the evidence with better thresholds in the rules that would be published."""
    for _ in range(ROUNDS):
        groups = choose_certified(evidence, evidence.certify([]), study, probes=False).groups
        moves = [move for group in groups[:MAX_RULES] for move in _find_moves(group.head, evidence, study)]
        moved = _move_best(evidence, study, counter, moves) if moves else None
        if moved is None:
            break
        evidence = moved
    return evidence


def _find_moves(rule: int, evidence: Evidence, study: Study) -> list[_Move]:
    table, columns = evidence.table, study.columns
    moves = []
    for place, condition in enumerate(evidence.rules.conditions[rule].tolist()):
        literals = table.literals[condition].tolist() if condition != NO_CONDITION else []
        for position, literal in enumerate(literals):
            bound = float(table.bounds[condition, position])
            if literal == NO_LITERAL or bound == MISSING_VALUE:
                continue
            feature = literal >> 1
            if columns.features[feature].kind is not FeatureKind.NUMBER:
                continue
            values = columns.distinct_values(feature)
            # A threshold has values below it, missing cells aside, and above it.
            first = 2 if values[0] == MISSING_VALUE else 1
            cut = int(np.searchsorted(values, bound, side="right"))
            cuts = {cut + sign * step for step in STEPS for sign in (-1, 1)}
            near = sorted(each for each in cuts if first <= each < len(values))
            moves += [_Move(rule, place, position, float(values[each - 1])) for each in near]
    return moves


def _move_best(evidence: Evidence, study: Study, counter: RowCounter, moves: list[_Move]) -> Evidence | None:
    """Take the best move of each rule that improves it; None if there is no such rule."""
    table = _add_conditions(evidence.table, study, evidence.rules.conditions, moves)
    conditions = evidence.rules.conditions[[move.rule for move in moves]].copy()
    conditions[np.arange(len(moves)), [move.place for move in moves]] = np.arange(len(moves)) + len(evidence.table.bits)
    logic, bounds = literals_of(conditions, table)
    counts = counter.count(logic, readable_bounds(logic, bounds, study.columns))[:, [Part.TRAIN, Part.VALIDATION]]
    labels = evidence.rules.labels[[move.rule for move in moves]]
    tried = _test(CandidateRules(conditions, labels, labels, counts.sum(axis=1), np.zeros(len(moves))), evidence)
    best: dict[int, int] = {}
    for index in np.argsort(tried.log_p, kind="stable").tolist():
        best.setdefault(moves[index].rule, index)
    better = {rule: index for rule, index in best.items() if tried.log_p[index] < evidence.rules.log_p[rule]}
    if not better:
        return None
    arrays = {name: getattr(evidence.rules, name).copy() for name in ("conditions", "counts", "log_p")}
    for name, array in arrays.items():
        array[list(better)] = getattr(tried, name)[list(better.values())]
    rules = replace(evidence.rules, **arrays)
    return _with_table(replace(evidence, rules=rules, statistics=certificate.statistics(rules, table)), table)


def _test(rules: CandidateRules, evidence: Evidence) -> CandidateRules:
    totals = evidence.totals
    everything = np.full(len(rules), totals.sum())
    log_p = log_p_values(rules.hits, rules.rows, totals[rules.labels], everything, evidence.table.factorials)
    return replace(rules, log_p=log_p)


def _add_conditions(table: ConditionTable, study: Study, rules: ConditionIndices, moves: list[_Move]) -> ConditionTable:
    """Add a condition for each move, in their order."""
    old = np.array([rules[move.rule, move.place] for move in moves], np.int64)
    literals, bounds = table.literals[old], table.bounds[old].copy()
    positions, every = np.array([move.literal for move in moves]), np.arange(len(moves))
    bounds[every, positions] = [move.bound for move in moves]
    bits = condition_bits(study.columns, table.mined, literals[every, positions], bounds[every, positions])
    # Other literals of a condition exclude missing cells.
    strict = (literals != NO_LITERAL).sum(axis=1) > 1
    bits[strict] &= table.bits[table.is_present[old[strict]]]
    return table.with_moved(old, bounds, bits)


def _with_table(evidence: Evidence, table: ConditionTable) -> Evidence:
    counted = evidence.counted
    if counted is not None:
        weighted = replace(table, mined=counted.weighted_table.mined)
        counted = replace(counted, weighted_table=weighted)
    return replace(evidence, table=table, counted=counted)
