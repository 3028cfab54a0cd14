"""Literals that earn their place: a condition stays in a rule only if the rows say that the rule is worse without it.

For a rule and one of its conditions, two groups of rows are compared: those that satisfy all conditions, and those that
satisfy all but this one. The evidence that the rule's class is more frequent in the first group is twofold. Validation
rows did not choose the condition, so their one-sided Fisher test is taken as it is. Training rows chose its threshold
as the best of many: their p-value is multiplied by the number of cuts that the feature has. Both are valid and
independent, and are combined by Fisher's method.

Many conditions of many leaves are tested, in two steps:

    features     A feature matters if its conditions, over all leaves, are supported: their p-values by the method of
                 Simes, and over all features of the table by that of Benjamini and Hochberg. Conditions on features
                 that do not matter go at once. In a wide table this is where chance is met.
    conditions   On features that matter, the least supported condition of a rule goes first, until each one left is
                 supported so well that in all leaves together less than one would be by chance.

All arithmetic is +, −, ×, ÷ of doubles in a fixed order, so that a condition that stays here stays everywhere.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel
from maabo_dist.data.columns import Columns
from maabo_dist.rules.leaves import NO_LITERAL, LeafFilter, Leaves, weighted_gini
from maabo_dist.study import Study

LN_2 = 0.6931471805599453
LN_TERMS = 14


@dataclass(frozen=True, slots=True)
class Multiplicity:
    """How much evidence the number of tests demands."""

    feature_q: npt.NDArray[np.float64]
    """(D): the false discovery rate at which each feature begins to matter."""
    factor: float
    """By which the p-value of a condition is multiplied before it is compared with the level of significance."""

    def adjusted(self, feature: int, p: float) -> float:
        """The p-value of a condition on a feature, made comparable with the level."""
        return max(float(self.feature_q[feature]), min(1.0, self.factor * p))


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
    multiplicity: Multiplicity


def prune(leaves: Leaves, study: Study) -> Pruned:
    """Drop the conditions that the rows do not support at the settings' level of significance."""
    columns, split, wanted = study.columns, study.split, LeafFilter.of(study)
    shares, level = study.table.shares, study.settings.significance
    kept = np.zeros(len(leaves), np.int64)
    counts = np.zeros_like(leaves.counts)
    used = used_features(leaves)
    train, check = _rows(columns, split.train, used), _rows(columns, split.validation, used)
    rules = (leaves.logic, _cuts(columns, leaves), cut_counts(columns))
    products = np.ones(leaves.logic.shape)
    _support(rules, train, check, shares, products)
    demand = Multiplicity(_feature_q(leaves.logic, combined(products), columns.count), max(1.0, level * len(leaves)))
    matters = demand.feature_q <= level
    _prune(rules, train, check, shares, (product_bar(level / demand.factor), matters), kept, counts)
    gini = np.array([weighted_gini(row, wanted.weights) if row.any() else 1.0 for row in counts])
    reliable = np.flatnonzero((kept > 0) & (counts.sum(axis=1) >= wanted.min_samples) & (gini < wanted.max_gini))
    logic, bounds = _without(leaves, kept)
    pruned = Leaves(logic, bounds, counts, gini, leaves.tree, leaves.score, leaves.seen, leaves.large).take(reliable)
    before, after = leaves.logic[reliable] != NO_LITERAL, pruned.logic != NO_LITERAL
    return Pruned(pruned, reliable, int(before.sum() - after.sum()), len(leaves) - len(reliable), demand)


def used_features(leaves: Leaves) -> npt.NDArray[np.int64]:
    """The features that conditions are on, ascending."""
    return np.unique(leaves.logic[leaves.logic != NO_LITERAL] >> 1).astype(np.int64)


def cut_counts(columns: Columns) -> npt.NDArray[np.float64]:
    """(D): how many thresholds a condition on each feature could have had."""
    counts: npt.NDArray[np.float64] = np.maximum(1, np.diff(columns.offsets) - 1).astype(np.float64)
    return counts


def combined(products: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Fisher's method for two independent p-values: q (1 − ln q) of their product q."""
    positive = products > 0
    p_values: npt.NDArray[np.float64] = np.where(positive, products * (1 - _ln(np.where(positive, products, 1.0))), 0.0)
    return p_values


def product_bar(level: float) -> float:
    """The greatest product of two independent p-values that Fisher's method calls significant."""
    low, high = 0.0, level
    for _ in range(200):
        middle = (low + high) / 2
        if combined(np.array([middle]))[0] > level:
            high = middle
        else:
            low = middle
    return low


def _ln(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The natural logarithm by a series: that of a library may differ between machines in its last bit."""
    mantissa, exponent = np.frexp(values)  # mantissa from 0.5 on, below 1
    small = mantissa < 0.75  # brought near 1, where the series is all there is: nothing cancels
    mantissa, exponent = np.where(small, 2 * mantissa, mantissa), exponent - small
    ratio = (mantissa - 1) / (mantissa + 1)
    square, series = ratio * ratio, np.zeros_like(ratio)
    for term in range(LN_TERMS, -1, -1):
        series = series * square + 1.0 / (2 * term + 1)
    logarithm: npt.NDArray[np.float64] = exponent * LN_2 + 2 * ratio * series
    return logarithm


def _feature_q(
    logic: npt.NDArray[np.int32], p_values: npt.NDArray[np.float64], features: int
) -> npt.NDArray[np.float64]:
    """(D): Simes over the conditions on each feature, then Benjamini–Hochberg over the features; 1 where none is."""
    there = logic != NO_LITERAL
    feature, p = logic[there] >> 1, p_values[there]
    order = np.lexsort([p, feature])
    feature, p = feature[order], p[order]
    starts = np.flatnonzero(np.diff(feature, prepend=-1))
    counts = np.diff(np.append(starts, len(feature)))
    places = np.arange(len(feature)) - np.repeat(starts, counts) + 1
    by_feature = np.ones(features)
    if len(starts):
        simes = np.minimum.reduceat(p * np.repeat(counts, counts) / places, starts)
        by_feature[feature[starts]] = np.minimum(1.0, simes)
    rank = np.argsort(by_feature, kind="stable")
    stepped = np.minimum.accumulate((by_feature[rank] * features / np.arange(1, features + 1))[::-1])[::-1]
    q_values = np.empty(features)
    q_values[rank] = np.minimum(1.0, stepped)
    return q_values


def _rows(columns: Columns, rows: npt.NDArray[np.int64], used: npt.NDArray[np.int64]) -> "_Rows":
    places = np.zeros(columns.count, np.int64)
    places[used] = np.arange(len(used))
    labels = columns.labels[rows].astype(np.int64)
    return _Rows(columns.codes[np.ix_(used, rows)], places, labels, np.zeros(len(rows), np.int64))


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
    """(features used, rows)."""
    places: Any
    """(D): where the codes of a feature are."""
    labels: Any
    masks: Any
    """(rows): bit j is set where the rule's condition j holds; filled anew for each rule."""


class _Tally(NamedTuple):
    """For a rule's class: hits and rows where all conditions hold, and where all but one do."""

    hits: Any
    """(K + 1): where all but condition j hold; at K, where all do."""
    rows: Any


@kernel
def _support(rules: Any, train: Any, check: Any, shares: Any, products: Any) -> None:
    """Fill `products` with the p-values of each leaf's conditions, training times validation."""
    logic, cuts, cut_counts = rules
    width = logic.shape[1]
    seen = _Tally(np.zeros(width + 1, np.int64), np.zeros(width + 1, np.int64))
    fresh = _Tally(np.zeros(width + 1, np.int64), np.zeros(width + 1, np.int64))
    counts = np.zeros(len(shares), np.int64)
    for leaf in range(len(logic)):
        conditions = _conditions(logic[leaf])
        _look(train, logic[leaf], cuts[leaf], conditions)
        _look(check, logic[leaf], cuts[leaf], conditions)
        mask = (np.int64(1) << conditions) - 1
        label = _heaviest(train, mask, shares, counts)
        _compare(train, mask, label, seen)
        _compare(check, mask, label, fresh)
        for j in range(conditions):
            products[leaf, j] = _product(seen, fresh, j, cut_counts[logic[leaf, j] >> 1])


@kernel
def _prune(rules: Any, train: Any, check: Any, shares: Any, demand: Any, kept: Any, counts: Any) -> None:
    """Fill `kept` with the bits of the conditions that stay, 0 where nothing does, and `counts` with training rows."""
    logic, cuts, cut_counts = rules
    bar, matters = demand
    width = logic.shape[1]
    seen = _Tally(np.zeros(width + 1, np.int64), np.zeros(width + 1, np.int64))
    fresh = _Tally(np.zeros(width + 1, np.int64), np.zeros(width + 1, np.int64))
    for leaf in range(len(logic)):
        conditions = _conditions(logic[leaf])
        _look(train, logic[leaf], cuts[leaf], conditions)
        _look(check, logic[leaf], cuts[leaf], conditions)
        mask = (np.int64(1) << conditions) - 1
        label = _heaviest(train, mask, shares, counts[leaf])
        for j in range(conditions):
            if not matters[logic[leaf, j] >> 1]:
                mask &= ~(np.int64(1) << j)
        while mask != 0:
            _compare(train, mask, label, seen)
            _compare(check, mask, label, fresh)
            worst, least = -1, bar
            for j in range(conditions):
                if mask >> j & 1:
                    product = _product(seen, fresh, j, cut_counts[logic[leaf, j] >> 1])
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
def _conditions(literals: Any) -> int:
    count = 0
    while count < len(literals) and literals[count] != NO_LITERAL:
        count += 1
    return count


@kernel
def _product(seen: Any, fresh: Any, j: int, cuts: float) -> float:
    return min(1.0, cuts * _fisher(seen, j)) * _fisher(fresh, j)


@kernel
def _look(rows: Any, literals: Any, cuts: Any, conditions: int) -> None:
    """Which conditions hold in each row."""
    rows.masks[:] = 0
    for j in range(conditions):
        codes, large, cut = rows.codes[rows.places[literals[j] >> 1]], literals[j] & 1, cuts[j]
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
