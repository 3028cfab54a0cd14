"""Refitting, slow and simple: every midpoint is tried, and every row is examined for each.

It shares with the kernel only what the method fixes: a cut's purity as an expression of the weighted class counts, its
ties, and the number of rounds.
"""

from itertools import pairwise

import numpy as np

from maabo_dist.rules.leaves import LeafFilter
from maabo_dist.rules.refitting import MAX_ROUNDS
from tests.reference.pruning import all_hold, class_counts, gini, heaviest


def refitted(rule, study):
    """Return the refitted rule (the old one if size, purity or class would be lost) and whether it converged."""
    columns, split, limits, shares = study.columns, study.split, LeafFilter.of(study), study.table.shares
    label = heaviest(class_counts(columns, split.train, rule), shares)
    fitted, converged = list(rule), False
    for _ in range(MAX_ROUNDS):
        before = list(fitted)
        for j, (literal, _) in enumerate(rule):
            fitted[j] = (literal, best_bound(columns, split.train, fitted, j, label, limits))
        converged = fitted == before
        if converged:
            break
    counts = class_counts(columns, split.train, fitted)
    good = sum(counts) >= limits.min_samples and gini(counts, limits.weights) < limits.max_gini
    return (fitted if good and heaviest(counts, shares) == label else rule), converged


def best_bound(columns, rows, rule, j, label, limits):
    """Return the purest cut of the rows that satisfy the other conditions; ties go to the current bound, then the
    lowest.
    """
    literal, bound = rule[j]
    rows = rows[all_hold(columns, rows, rule[:j] + rule[j + 1 :])]
    cuts = []
    for low, high in pairwise(np.unique(columns.column(literal // 2)[rows]).tolist()):
        is_current = low <= bound < high
        cut = bound if is_current else midpoint(low, high)
        purity = purity_of(columns, rows, (literal, cut), label, limits)
        if purity is not None:
            cuts.append((purity, is_current, -cut, cut))
    return max(cuts)[-1] if cuts else bound


def midpoint(low, high):
    middle = low / 2 + high / 2
    return middle if low <= middle < high else low


def purity_of(columns, rows, condition, label, limits):
    """Return None if too few rows are left, or if the class is not more frequent than among the other rows."""
    inside = class_counts(columns, rows, [condition])
    outside = (np.bincount(columns.labels[rows], minlength=len(inside)) - inside).tolist()
    (weight_in, squares_in), (weight_out, squares_out) = (_sums(side, limits.weights) for side in (inside, outside))
    if sum(inside) < limits.min_samples or inside[label] * weight_out <= outside[label] * weight_in:
        return None
    return squares_in / weight_in + squares_out / weight_out


def _sums(counts, weights):
    """Return the sums of weights and of their squares, added class by class: `sum` may round differently."""
    total, squares = 0.0, 0.0
    for count, weight in zip(counts, weights.tolist(), strict=True):
        total += weight * count
        squares += (weight * count) * (weight * count)
    return total, squares
