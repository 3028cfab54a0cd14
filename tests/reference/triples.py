"""The screen of triples, slow and simple: rows into boxes, and each strength by its definition."""

from itertools import combinations, product

import numpy as np

from tests.reference.screens import bins


def strengths(columns, rows):
    """Return {(kind, features): strength} of all triples; the kind after the last class is the interaction."""
    labels, classes = columns.labels[rows], len(columns.classes)
    binned = [bins(columns.codes[f][rows].astype(int)) for f in range(columns.count)]
    out = {}
    for triple in combinations(range(columns.count), 3):
        levels = [binned[f] for f in triple]
        for label in range(classes):
            out[label, triple] = conjunction(levels, labels == label)
        out[classes, triple] = max(interaction(levels, labels == label) for label in range(classes))
    return out


def conjunction(levels, own):
    """Return the strength of the best box."""
    sides = [[level >= 1, level >= 2, level < 1, level < 2] for level in levels]
    return max(box_strength(conditions, own) for conditions in product(*sides))


def box_strength(conditions, own):
    """Compare the rows of a box with all rows, and with those of each two conditions; each bears a third."""
    one, two, three = conditions
    box = one & two & three
    among_all = excess_strength(box, np.ones(len(own), bool), own)
    return min(among_all, *(3 * excess_strength(box, pair, own) for pair in (one & two, one & three, two & three)))


def excess_strength(part, whole, own):
    """Return Bernstein's bound of −ln P(at least so many rows of the class)."""
    rows = np.count_nonzero(part)
    if not rows:
        return 0.0
    share = np.count_nonzero(whole & own) / np.count_nonzero(whole)
    expected = share * rows
    excess = np.count_nonzero(part & own) - expected
    return excess**2 / (2 * (1 - share) * (expected + excess / 3)) if excess > 1e-9 else 0.0


def interaction(levels, own):
    """Return Bernstein's bound for the sum of products in the class, beyond its share."""
    products = np.ones(len(own))
    for level in levels:
        centred = level - level.mean()
        products *= centred / max(level.mean(), 2 - level.mean())
    share = own.mean()
    beyond = abs((products * (own - share)).sum())
    variance = share * (1 - share) * (products**2).sum() + beyond / 3
    return beyond**2 / (2 * variance) if variance > 1e-12 else 0.0
