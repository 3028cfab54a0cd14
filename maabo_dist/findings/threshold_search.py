"""Better thresholds for supported rules.

A tree cuts a column where its two sides together are purest, but a rule is about one side. Further out it may be more
precise on fewer rows, or cover more rows at little cost. So each threshold of a rule is moved to every cut of its
column's grid (`grid`), and the best of these rules is added if it gains clearly more than the rule itself and all its
conditions are still supported. Searches on shuffled labels do the same, so the certificate accounts for it.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist._util.scratch import each_of
from maabo_dist.data.columns import Columns
from maabo_dist.findings.candidates import MAX_BITS, CandidateRules, join_rules, measure, support
from maabo_dist.findings.conditions import ConditionTable
from maabo_dist.findings.evidence import NO_CONDITION, Floats
from maabo_dist.findings.grid import feature_cuts, find_thresholds
from maabo_dist.findings.rowbits import WORD, Ints, condition_bits
from maabo_dist.findings.selection import wilson_low
from maabo_dist.study import Study

# Each round moves one threshold of a rule.
ROUNDS = 2
# How many times as much a rule with another threshold gains, at least: small gains are chance.
LEAST_GAIN = 1.05
# The rules whose thresholds are moved, at most: those that gain most. Fewer in tables with very many rows.
MAX_RULES = 2000
MAX_WORDS = 1 << 21


class _Moves(NamedTuple):
    """For each condition of a table the range of conditions that differ from it in the threshold alone."""

    # (conditions): the first of them, and their number.
    starts: Ints
    sizes: Ints


def add_better_thresholds(
    rules: CandidateRules, table: ConditionTable, study: Study
) -> tuple[CandidateRules, ConditionTable]:
    """Add rules with better thresholds, and their conditions."""
    most = min(MAX_RULES, MAX_WORDS // table.mined.words)
    chosen = rules.take(np.argsort(-_gains(rules, table), kind="stable")[:most])
    table, moves = _add_thresholds(table, study.columns, np.unique(chosen.conditions[chosen.conditions >= 0]))
    for _ in range(ROUNDS):
        moved = _move_best(chosen, table, moves)
        if not len(moved):
            break
        chosen = support(moved, table, study.settings.significance)
        rules = join_rules([rules, chosen], table)
    return rules, table


def _add_thresholds(table: ConditionTable, columns: Columns, used: Ints) -> tuple[ConditionTable, _Moves]:
    """Add conditions with the thresholds of the grid for the used ones; as many as there is memory for."""
    thresholds = find_thresholds(table, columns, used)
    keys, representative, kind = np.unique(
        np.stack([thresholds.literals, thresholds.strict]), axis=1, return_index=True, return_inverse=True
    )
    first, count = (np.zeros(len(table.literals), np.int64) for _ in range(2))
    sources: list[Ints] = []
    bounds: list[Floats] = []
    starts, sizes = (np.zeros(len(representative), np.int64) for _ in range(2))
    total, most = 0, MAX_BITS // (table.mined.words * WORD)
    order = np.argsort(keys[0], kind="stable").tolist()
    features = [int(keys[0, key] >> 1) for key in order]
    for key, feature in zip(order, each_of(features, columns.codes, columns.values), strict=True):
        cuts = feature_cuts(table, columns, feature)
        if total + len(cuts) > most:
            break
        starts[key], sizes[key] = len(table.literals) + total, len(cuts)
        sources.append(np.full(len(cuts), representative[key]))
        bounds.append(columns.distinct_values(feature)[cuts - 1])
        total += len(cuts)
    first[thresholds.conditions], count[thresholds.conditions] = starts[kind.ravel()], sizes[kind.ravel()]
    if not total:
        return table, _Moves(first, count)
    source = np.concatenate(sources)
    bits = condition_bits(columns, table.mined, thresholds.literals[source], np.concatenate(bounds))
    strict, origin = thresholds.strict[source], thresholds.conditions[source]
    bits[strict] &= table.bits[table.is_present[origin[strict]]]
    new_bounds = table.bounds[origin]
    new_bounds[np.arange(total), thresholds.places[source]] = np.concatenate(bounds)
    moves = _Moves(np.concatenate([first, first[origin]]), np.concatenate([count, count[origin]]))
    return table.with_moved(origin, new_bounds, bits), moves


def _move_best(rules: CandidateRules, table: ConditionTable, moves: _Moves) -> CandidateRules:
    """For each threshold of each rule, return the best rule that differs in it, if it gains clearly more."""
    present = rules.conditions != NO_CONDITION
    counts = np.where(present, moves.sizes[rules.conditions], 0)
    rule, place = np.nonzero(counts)
    sizes = counts[rule, place]
    if not len(sizes):
        return rules.take(np.zeros(0, np.int64))
    ends = np.cumsum(sizes)
    threshold = np.repeat(np.arange(len(sizes)), sizes)
    condition = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
    condition += moves.starts[rules.conditions[rule, place]][threshold]
    conditions = rules.conditions[rule[threshold]]
    conditions[np.arange(len(conditions)), place[threshold]] = condition
    moved = measure(conditions, rules.labels[rule[threshold]], rules.trees[rule[threshold]], table)
    gains = _gains(moved, table)
    order = np.lexsort([-gains, threshold])
    best = order[np.flatnonzero(np.diff(threshold[order], prepend=-1))]
    better: npt.NDArray[np.int64] = best[gains[best] > LEAST_GAIN * _gains(rules, table)[rule]]
    return moved.take(better)


def _gains(rules: CandidateRules, table: ConditionTable) -> Floats:
    """(rules): what each would gain as the first finding of its class in a small table; see `selection`."""
    totals = table.mined.totals
    low, base = wilson_low(rules.hits, rules.rows, table.effect), totals[rules.labels] / totals.sum()
    gains: Floats = np.where(low > base, np.sqrt(rules.rows) * (low - base), 0.0) * low * low * low
    return gains
