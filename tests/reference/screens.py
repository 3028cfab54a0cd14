"""The pairwise screen, slow and simple: rows into bins, bins into a table, χ² by its definition."""

import numpy as np

THIRDS = ((1, 3), (2, 3))


def bins(codes, cuts=THIRDS):
    """Return how many cuts each value is above: 0 to 2 for thirds. A cut is the closest to its part of the rows."""
    rows, levels = len(codes), sorted(set(codes.tolist()))
    below = {level: int((codes <= level).sum()) for level in levels[:-1]}
    ranks = [
        min(below, key=lambda level: (abs(parts * below[level] - part * rows), level), default=-1)
        for part, parts in cuts
    ]
    return sum((codes > rank).astype(int) for rank in ranks)


def chi_squared(cells, labels, classes):
    """Return χ² of cell numbers and classes."""
    value, rows = 0.0, len(labels)
    for cell in set(cells.tolist()):
        for label in range(classes):
            expected = (cells == cell).sum() * (labels == label).sum() / rows
            observed = ((cells == cell) & (labels == label)).sum()
            value += (observed - expected) ** 2 / expected if expected else 0.0
    return value


def strengths(columns, rows, cuts=THIRDS):
    """Return a (D, D) array of the information in a pair beyond its features; only f < g is filled."""
    labels, classes = columns.labels[rows], len(columns.classes)
    binned = [bins(columns.codes[f][rows].astype(int), cuts) for f in range(columns.count)]
    single = [chi_squared(cells, labels, classes) for cells in binned]
    out = np.full((columns.count, columns.count), -np.inf)
    for f in range(columns.count):
        for g in range(f + 1, columns.count):
            out[f, g] = chi_squared(3 * binned[f] + binned[g], labels, classes) - single[f] - single[g]
    return out
