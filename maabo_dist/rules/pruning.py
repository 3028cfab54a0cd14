"""Literals that earn their place: a condition stays in a rule only if the rows say that the rule is worse without it.

For a rule and one of its conditions, two groups of rows are compared: those that satisfy all conditions, and those that
satisfy all but this one. If the rule's class is not clearly more frequent in the first group, the condition goes: the
least supported first, until every one that is left is supported. What remains is measured anew on the training rows.

The evidence is twofold. Validation rows did not choose the condition, so their one-sided Fisher test is taken as it is.
Training rows chose it as the best of many: their p-value is multiplied by the number of conditions that could have been
chosen, every cut of every feature of the table. Both are valid and independent, and are combined by Fisher's method.
All arithmetic is +, −, ×, ÷ of doubles in a fixed order, so that a condition that stays here stays everywhere.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.kernels import kernel
from maabo_dist.rules.conditions import conditions_of
from maabo_dist.rules.leaves import NO_LITERAL, LeafFilter, Leaves, weighted_gini
from maabo_dist.rules.rule import Condition


@dataclass(frozen=True, slots=True)
class Pruned:
    """Leaves without the conditions that nothing supports."""

    leaves: Leaves
    """Those that are still large and pure."""
    source: npt.NDArray[np.int64]
    """(leaves): the place of each among the leaves that went in."""
    dropped: int
    """Conditions dropped from these."""
    lost: int
    """Leaves that are no longer reliable."""


def prune(
    leaves: Leaves,
    columns: Columns,
    split: Split,
    wanted: LeafFilter,
    shares: npt.NDArray[np.int64],
    level: float,
) -> Pruned:
    """Drop what the rows do not support at this level of significance. `shares` are the training table's."""
    kept = np.zeros(len(leaves), np.int64)
    counts = np.zeros_like(leaves.counts)
    train, check = _rows(columns, split.train), _rows(columns, split.validation)
    # Every cut of every feature could have been chosen in a condition's place.
    chances = columns.count * np.maximum(1, np.diff(columns.offsets) - 1).astype(np.float64)
    rules = (leaves.logic, _cuts(columns, leaves), chances)
    _prune(rules, train, check, shares, product_bar(level), kept, counts)
    gini = np.array([weighted_gini(row, wanted.weights) if row.any() else 1.0 for row in counts])
    reliable = np.flatnonzero((kept > 0) & (counts.sum(axis=1) >= wanted.min_samples) & (gini < wanted.max_gini))
    logic, bounds = _without(leaves, kept)
    pruned = Leaves(logic, bounds, counts, gini, leaves.tree, leaves.score, leaves.seen, leaves.large).take(reliable)
    before, after = leaves.logic[reliable] != NO_LITERAL, pruned.logic != NO_LITERAL
    return Pruned(pruned, reliable, int(before.sum() - after.sum()), len(leaves) - len(reliable))


def dropped_conditions(pruned: Pruned, before: Leaves, kept: Leaves, columns: Columns) -> list[tuple[Condition, ...]]:
    """For leaves chosen from the pruned ones: the conditions that each had `before` and lost."""
    return [_dropped(pruned, before, kept, number, columns) for number in range(len(kept))]


def _dropped(pruned: Pruned, before: Leaves, kept: Leaves, number: int, columns: Columns) -> tuple[Condition, ...]:
    same = pruned.leaves.tree == kept.tree[number]
    same &= (pruned.leaves.logic == kept.logic[number]).all(axis=1)
    same &= (pruned.leaves.bounds == kept.bounds[number]).all(axis=1)
    place = int(pruned.source[np.flatnonzero(same)[0]])
    stayed = set(kept.logic[number].tolist())
    gone = [k for k, literal in enumerate(before.logic[place].tolist()) if literal not in stayed]
    literals, bounds = before.logic[place, gone].tolist(), before.bounds[place, gone].tolist()
    return conditions_of(columns.features, literals, bounds)


def _rows(columns: Columns, rows: npt.NDArray[np.int64]) -> "_Rows":
    codes, labels = np.ascontiguousarray(columns.codes[:, rows]), columns.labels[rows].astype(np.int64)
    return _Rows(codes, labels, np.zeros(len(rows), np.int64))


def product_bar(level: float) -> float:
    """The greatest product of two independent p-values that Fisher's method calls significant: q (1 − ln q) = level."""
    low, high = 0.0, level
    for _ in range(200):
        middle = (low + high) / 2
        if middle * (1 - np.log(middle)) > level:
            high = middle
        else:
            low = middle
    return low


def _cuts(columns: Columns, leaves: Leaves) -> npt.NDArray[np.int64]:
    """(leaves, K): the rank from which on a value is above the literal's threshold."""
    cuts = np.zeros(leaves.logic.shape, np.int64)
    for literal in np.unique(leaves.logic):
        if literal != NO_LITERAL:
            feature, places = literal >> 1, leaves.logic == literal
            values = columns.values[columns.offsets[feature] : columns.offsets[feature + 1]]
            cuts[places] = np.searchsorted(values, leaves.bounds[places], side="right")
    return cuts


def _without(leaves: Leaves, kept: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Logic and bounds of the literals whose bits are set in `kept`, moved up to close the gaps."""
    stays = (kept[:, None] >> np.arange(leaves.logic.shape[1])) & 1 == 1
    order = np.argsort(~stays, axis=1, kind="stable")
    logic = np.take_along_axis(np.where(stays, leaves.logic, NO_LITERAL), order, axis=1).astype(np.int32)
    bounds = np.take_along_axis(np.where(stays, leaves.bounds, 0.0), order, axis=1)
    return logic, bounds


class _Rows(NamedTuple):
    """Rows that speak for or against conditions."""

    codes: Any
    """(D, rows)."""
    labels: Any
    masks: Any
    """(rows): bit j is set where the rule's condition j holds; filled anew for each rule."""


class _Tally(NamedTuple):
    """For a rule's class: hits and rows where all conditions hold, and where all but one do."""

    hits: Any
    """(K + 1): where all but condition j hold; at K, where all do."""
    rows: Any


@kernel
def _prune(rules: Any, train: Any, check: Any, shares: Any, bar: float, kept: Any, counts: Any) -> None:
    """Fill `kept` with the bits of the conditions that stay, 0 where nothing does, and `counts` with training rows."""
    logic, cuts, chances = rules
    width = logic.shape[1]
    seen = _Tally(np.zeros(width + 1, np.int64), np.zeros(width + 1, np.int64))
    fresh = _Tally(np.zeros(width + 1, np.int64), np.zeros(width + 1, np.int64))
    for leaf in range(len(logic)):
        conditions = 0
        while conditions < width and logic[leaf, conditions] != NO_LITERAL:
            conditions += 1
        _look(train, logic[leaf], cuts[leaf], conditions)
        _look(check, logic[leaf], cuts[leaf], conditions)
        mask = (np.int64(1) << conditions) - 1
        label = _heaviest(train, mask, shares, counts[leaf])
        while mask != 0:
            _compare(train, mask, label, seen)
            _compare(check, mask, label, fresh)
            worst, least = -1, bar
            for j in range(conditions):
                if mask >> j & 1:
                    by_training = min(1.0, chances[logic[leaf, j] >> 1] * _fisher(seen, j))
                    product = by_training * _fisher(fresh, j)
                    if product > least:
                        worst, least = j, product
            if worst < 0:
                break
            mask &= ~(np.int64(1) << worst)
        if mask != 0 and _heaviest(train, mask, shares, counts[leaf]) == label:
            kept[leaf] = mask
        else:
            counts[leaf, :] = 0


@kernel
def _look(rows: Any, literals: Any, cuts: Any, conditions: int) -> None:
    """Which conditions hold in each row."""
    rows.masks[:] = 0
    for j in range(conditions):
        codes, large, cut = rows.codes[literals[j] >> 1], literals[j] & 1, cuts[j]
        for row in range(len(rows.masks)):
            rows.masks[row] |= np.int64((codes[row] >= cut) == large) << j


@kernel
def _heaviest(rows: Any, mask: Any, shares: Any, counts: Any) -> int:
    """Count the rows of each class where all of `mask` hold; returns the heaviest class, the first of equals."""
    counts[:] = 0
    for row in range(len(rows.masks)):
        if rows.masks[row] & mask == mask:
            counts[rows.labels[row]] += 1
    best = 0
    for c in range(1, len(counts)):
        if np.int64(counts[c]) * shares[best] > np.int64(counts[best]) * shares[c]:
            best = c
    return best


@kernel
def _compare(rows: Any, mask: Any, label: int, tally: Any) -> None:
    tally.hits[:] = 0
    tally.rows[:] = 0
    last = len(tally.rows) - 1
    for row in range(len(rows.masks)):
        missing = mask & ~rows.masks[row]
        if missing & (missing - 1) == 0:  # none, or one
            place = last
            if missing != 0:
                place = 0
                while missing >> place != 1:
                    place += 1
            tally.rows[place] += 1
            tally.hits[place] += rows.labels[row] == label


@kernel
def _fisher(tally: Any, without: int) -> float:
    """One-sided Fisher test: how likely so many hits where all hold, if condition `without` did not matter.

    The terms of the hypergeometric distribution are summed relative to the greatest one, by their ratios.
    """
    last = len(tally.rows) - 1
    hits, rows, others = tally.hits[last], tally.rows[last], tally.rows[without]
    total = hits + tally.hits[without]
    low, high = max(0, total - others), min(total, rows)
    if hits <= low:
        return 1.0
    mode = min(max((rows + 1) * (total + 1) // (rows + others + 2), low), high)
    everything, tail, term = 1.0, 1.0 if mode >= hits else 0.0, 1.0
    for x in range(mode + 1, high + 1):
        term *= (total - x + 1) * (rows - x + 1) / (x * (others - total + x))
        everything += term
        if x >= hits:
            tail += term
    term = 1.0
    for x in range(mode - 1, low - 1, -1):
        term *= (x + 1) * (others - total + x + 1) / ((total - x) * (rows - x))
        everything += term
        if x >= hits:
            tail += term
    return tail / everything
