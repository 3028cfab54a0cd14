"""Pruning, slow and obvious: sets of rows, Fisher's exact test by scipy, one condition at a time."""

import numpy as np
from scipy.stats import chi2, hypergeom

from maabo_dist.rules.leaves import NO_LITERAL


def holds(columns, rows, literal, bound):
    feature, large = divmod(int(literal), 2)
    values = columns.values[columns.offsets[feature] : columns.offsets[feature + 1]][columns.codes[feature][rows]]
    return values > bound if large else values <= bound


def fisher(hits, rows, other_hits, other_rows):
    """P(at least so many hits among `rows`), given the hits in both groups together."""
    return hypergeom.sf(hits - 1, rows + other_rows, hits + other_hits, rows)


def combined(first, second):
    """Fisher's method for two p-values."""
    return chi2.sf(-2 * (np.log(first) + np.log(second)), 4)


def p_of(columns, split, conditions, index, label):
    found = []
    for rows in (split.train, split.validation):
        others = np.ones(len(rows), bool)
        for place, (literal, bound) in enumerate(conditions):
            if place != index:
                others &= holds(columns, rows, literal, bound)
        this = holds(columns, rows, *conditions[index])
        right = columns.labels[rows] == label
        inside, outside = others & this, others & ~this
        found.append(fisher((inside & right).sum(), inside.sum(), (outside & right).sum(), outside.sum()))
    feature = int(conditions[index][0]) // 2
    cuts = columns.offsets[feature + 1] - columns.offsets[feature] - 1
    return combined(min(1.0, found[0] * columns.count * max(1, cuts)), found[1])


def pruned(columns, split, logic, bounds, label, level):
    """The conditions that stay, and the p-value closest to the level on the way, relative to it."""
    conditions = [(literal, bound) for literal, bound in zip(logic, bounds, strict=True) if literal != NO_LITERAL]
    closest = np.inf
    while conditions:
        p_values = [p_of(columns, split, conditions, index, label) for index in range(len(conditions))]
        worst = int(np.argmax(p_values))
        closest = min(closest, abs(np.log(p_values[worst] / level)))
        if p_values[worst] <= level:
            break
        ranked = sorted(p_values, reverse=True)
        if len(ranked) > 1:
            closest = min(closest, abs(np.log(ranked[0] / ranked[1])) or 0.0)
        del conditions[worst]
    return conditions, closest
