"""The pairwise screen, slow and simple: rows into bins, bins into a table, χ² by its definition."""

import numpy as np


def bins(codes):
    """Return 0 below both cuts, 1 between them, 2 above; the cuts are the closest to thirds of the rows."""
    rows, levels = len(codes), sorted(set(codes.tolist()))
    cuts = []
    for part in (1, 2):
        below = {level: int((codes <= level).sum()) for level in levels[:-1]}
        cuts.append(min(below, key=lambda level: (abs(3 * below[level] - part * rows), level), default=-1))
    return (codes > cuts[0]).astype(int) + (codes > cuts[1])


def chi_squared(cells, labels, classes):
    """Return χ² of cell numbers and classes."""
    value, rows = 0.0, len(labels)
    for cell in set(cells.tolist()):
        for label in range(classes):
            expected = (cells == cell).sum() * (labels == label).sum() / rows
            observed = ((cells == cell) & (labels == label)).sum()
            value += (observed - expected) ** 2 / expected if expected else 0.0
    return value


def strengths(columns, rows):
    """Return a (D, D) array of the information in a pair beyond its features; only f < g is filled."""
    labels, classes = columns.labels[rows], len(columns.classes)
    binned = [bins(columns.codes[f][rows].astype(int)) for f in range(columns.count)]
    single = [chi_squared(cells, labels, classes) for cells in binned]
    out = np.full((columns.count, columns.count), -np.inf)
    for f in range(columns.count):
        for g in range(f + 1, columns.count):
            out[f, g] = chi_squared(3 * binned[f] + binned[g], labels, classes) - single[f] - single[g]
    return out
