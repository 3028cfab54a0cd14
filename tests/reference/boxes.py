"""The boxes of a subset, slow and simple: every combination of sides, rows in boolean masks."""

from itertools import product

import numpy as np

from tests.reference.screens import bins
from tests.reference.triples import excess_strength


def strongest(codes, labels, classes, cuts):
    """Return {directions: strength of the strongest box}: True for above a cut, False for at most it, None for any.

    `codes` has an array for each feature. Boxes have two conditions or more.
    """
    sides = []
    for each in codes:
        level = bins(each.astype(int), cuts)
        steps = range(1, len(cuts) + 1)
        sides.append([(False, level < step) for step in steps] + [(True, level >= step) for step in steps])
        sides[-1].append((None, None))
    best = {}
    for combination in product(*sides):
        directions = tuple(direction for direction, _ in combination)
        conditions = [holds for direction, holds in combination if direction is not None]
        for label in range(classes) if len(conditions) > 1 else ():
            strength = box_strength(conditions, labels == label)
            if strength > 0:
                best[directions] = max(best.get(directions, 0.0), strength)
    return best


def box_strength(conditions, own):
    """Compare the rows of a box with all rows, and with those of all but one condition."""
    everything = np.ones(len(own), bool)
    box = np.logical_and.reduce(conditions)
    borne = [
        excess_strength(box, np.logical_and.reduce([*conditions[:k], *conditions[k + 1 :], everything]), own)
        for k in range(len(conditions))
    ]
    return min(excess_strength(box, everything, own), len(conditions) * min(borne))
