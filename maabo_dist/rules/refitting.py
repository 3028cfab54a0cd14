"""Refitting of thresholds: once conditions were dropped, or where a tree split too early, the others are not optimal.

A tree chooses a threshold before it knows the conditions that follow, and of leaves that differ in thresholds alone
GS-MRM prefers the purest, which is the narrowest. Here each condition of a rule gets the threshold that a tree would
choose if it knew all the others: the cut of greatest purity, by weighted Gini, among the training rows that satisfy
them. One condition after another is fitted, until no threshold moves. A rule that would lose its size, purity or class
stays as it was.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from maabo_dist._util.jit import kernel
from maabo_dist.data.weights import UNIT, to_rows
from maabo_dist.rules.leaves import LeafFilter, Leaves, heaviest_classes, leaf_gini
from maabo_dist.rules.rule import NO_LITERAL
from maabo_dist.study import Study

MAX_ROUNDS = 8
NO_CUT = -1.0


def refit(leaves: Leaves, study: Study) -> Leaves:
    """The same rules with fitted thresholds, and counts and impurity to match."""
    # Once conditions were dropped, many leaves are equal: each is fitted once.
    rules = np.concatenate([leaves.logic.astype(np.float64), leaves.bounds], axis=1)
    _, first, inverse = np.unique(rules, axis=0, return_index=True, return_inverse=True)
    fitted = _refit_distinct(leaves.take(first), study).take(inverse.ravel())
    return replace(leaves, bounds=fitted.bounds, counts=fitted.counts, gini=fitted.gini)


def _refit_distinct(leaves: Leaves, study: Study) -> Leaves:
    table, limits = study.table, LeafFilter.of(study)
    labels = study.columns.labels[study.tree_split.train].astype(np.int64)
    rows = _Rows(table.train_codes, labels, table.values, table.offsets, table.weights, table.units)
    bounds, units = leaves.bounds.copy(), np.zeros(leaves.counts.shape, np.int64)
    heaviest = heaviest_classes(leaves.counts, table.shares)
    unit = 1 if study.columns.weights is None else UNIT
    _refit(rows, leaves.logic, heaviest, limits.min_samples * unit, bounds, units)
    counts = to_rows(units, study.columns.weights).astype(np.int32)
    gini = leaf_gini(counts, limits.weights)
    worse = ~limits.accepts(counts, gini) | (heaviest_classes(counts, table.shares) != heaviest)
    bounds[worse], counts[worse], gini[worse] = leaves.bounds[worse], leaves.counts[worse], leaves.gini[worse]
    return replace(leaves, bounds=bounds, counts=counts, gini=gini)


class _Rows(NamedTuple):
    """Training rows; a named tuple is what a kernel takes whole."""

    # (D, rows).
    codes: Any
    labels: Any
    values: Any
    offsets: Any
    # (C): of one row of each class.
    weights: Any
    # (rows): of each row, in units; empty if each counts as one. Counts are then sums of units.
    units: Any


@kernel
def _refit(table: Any, logic: Any, labels: Any, min_samples: int, bounds: Any, counts: Any) -> None:
    """Move the bounds of each rule, and count its rows."""
    masks = np.zeros(len(table.labels), np.int64)
    largest = 0
    for feature in range(len(table.offsets) - 1):
        largest = max(largest, table.offsets[feature + 1] - table.offsets[feature])
    bins = np.zeros((largest, counts.shape[1]), np.int64)
    for leaf in range(len(logic)):
        conditions = 0
        while conditions < logic.shape[1] and logic[leaf, conditions] != NO_LITERAL:
            _mark(table, logic[leaf, conditions], bounds[leaf, conditions], conditions, masks)
            conditions += 1
        everything = (np.int64(1) << conditions) - 1
        for _ in range(MAX_ROUNDS):
            moved = False
            for j in range(conditions):
                literal, bound = logic[leaf, j], bounds[leaf, j]
                inside = _count(table, literal >> 1, masks, everything & ~(np.int64(1) << j), bins)
                fitted = _best_bound(table, literal, bound, inside, bins, (labels[leaf], min_samples))
                if fitted != bound:
                    bounds[leaf, j] = fitted
                    _mark(table, literal, fitted, j, masks)
                    moved = True
            if not moved:
                break
        for row in range(len(masks)):
            if masks[row] & everything == everything:
                counts[leaf, table.labels[row]] += table.units[row] if len(table.units) > 0 else 1


@kernel
def _mark(table: Any, literal: int, bound: float, j: int, masks: Any) -> None:
    """Set bit j of the rows in which the condition holds, and clear it in the others."""
    feature, large, bit = literal >> 1, literal & 1, np.int64(1) << j
    values = table.values[table.offsets[feature] : table.offsets[feature + 1]]
    cut = np.searchsorted(values, bound, side="right")
    codes = table.codes[feature]
    for row in range(len(masks)):
        holds = (codes[row] >= cut) == large
        masks[row] = masks[row] | bit if holds else masks[row] & ~bit


@kernel
def _count(table: Any, feature: int, masks: Any, others: Any, bins: Any) -> Any:
    """Fill `bins` with the rows of each value and class in which the `others` hold, and return those of each class."""
    bins[: table.offsets[feature + 1] - table.offsets[feature]] = 0
    totals, codes = np.zeros(bins.shape[1], np.int64), table.codes[feature]
    for row in range(len(masks)):
        if masks[row] & others == others:
            weight = table.units[row] if len(table.units) > 0 else 1
            bins[codes[row], table.labels[row]] += weight
            totals[table.labels[row]] += weight
    return totals


@kernel
def _best_bound(table: Any, literal: int, bound: float, totals: Any, bins: Any, limits: Any) -> float:
    """The bound of greatest purity, the first among ties; the current one unless another is strictly better."""
    start = table.offsets[literal >> 1]
    values = table.values[start : table.offsets[(literal >> 1) + 1]]
    below = np.zeros(len(totals), np.int64)
    best, best_bound, previous = NO_CUT, bound, -1
    for code in range(len(values)):
        if not bins[code].any():
            continue
        if previous >= 0 and values[previous] <= bound < values[code]:
            now = _purity(table.weights, below, totals, literal & 1, limits)
            if now >= best:
                best, best_bound = now, bound
        elif previous >= 0:
            purity = _purity(table.weights, below, totals, literal & 1, limits)
            if purity > best:
                best, best_bound = purity, between(values[previous], values[code])
        for c in range(len(below)):
            below[c] += bins[code, c]
        previous = code
    return best_bound


@kernel
def _purity(weights: Any, below: Any, totals: Any, large: int, limits: Any) -> float:
    """Σ weight of a class² ÷ weight of all, on either side of the cut: the greater, the purer.

    NO_CUT where the rule would keep too few rows, or would be on the side with less of its class.
    """
    label, min_samples = limits
    rows, inside, outside, squares_in, squares_out = 0, 0.0, 0.0, 0.0, 0.0
    for c in range(len(totals)):
        count = totals[c] - below[c] if large else below[c]
        covered, left = weights[c] * count, weights[c] * (totals[c] - count)
        rows += count
        inside += covered
        outside += left
        squares_in += covered * covered
        squares_out += left * left
    count = totals[label] - below[label] if large else below[label]
    if rows < min_samples or count * outside <= (totals[label] - count) * inside:
        return NO_CUT
    return squares_in / inside + squares_out / outside


@kernel
def between(low: float, high: float) -> float:
    """The midpoint, as trees have it; `low` where there is no number between."""
    middle = low / 2 + high / 2
    return middle if low <= middle < high else low
