"""Rows that count more or less than one: sampling weights, and counts of weighted rows.

A sampling weight says how many cases a row stands for. Weights are scaled to a mean of 1 and kept in whole units of
1/65,536, so that sums are the same in any order and on every machine. A count of weighted rows is such a sum, rounded
to whole rows.
"""

from math import fsum

import numpy as np
import numpy.typing as npt

UNIT = 1 << 16

Ints = npt.NDArray[np.int64]


def weight_units(weights: npt.NDArray[np.float64]) -> Ints:
    """Return positive weights in units, scaled to a mean of 1; each at least one unit."""
    # The largest is 1 first, so that no sum is infinite.
    relative = weights / weights.max()
    mean = fsum(relative.tolist()) / len(relative)  # exact, and so the same on every machine
    units: Ints = np.maximum(1, np.floor(relative * (UNIT / mean) + 0.5)).astype(np.int64)
    return units


def count_units(labels: npt.NDArray[np.integer], units: Ints | None, classes: int) -> Ints:
    """(classes): the units of the rows of each class; rows if there are no weights."""
    if units is None:
        return np.bincount(labels, minlength=classes).astype(np.int64)
    counts = np.zeros(classes, np.int64)
    np.add.at(counts, labels, units)
    return counts


def count_classes(labels: npt.NDArray[np.integer], units: Ints | None, classes: int) -> Ints:
    """(classes): the rows of each class, weighted if there are weights."""
    return to_rows(count_units(labels, units, classes), units)


def to_rows(counts: Ints, units: Ints | None) -> Ints:
    """Return counts of units as counts of rows, rounded; without weights they are rows already."""
    return round_units(counts, 1 if units is None else UNIT)


def round_units(counts: Ints, unit: int) -> Ints:
    """Return counts in units, so many of which are a row, as counts of rows."""
    return (counts + unit // 2) // unit


def kish_effect(units: Ints) -> float:
    """Return the number of weighted rows that are worth one row of an unweighted table (Kish): n Σw² / (Σw)²."""
    # Whole numbers of any size, so that the result is exact.
    values, counts = np.unique(units, return_counts=True)
    squares = sum(count * unit * unit for unit, count in zip(values.tolist(), counts.tolist(), strict=True))
    return float(len(units) * squares / int(units.sum()) ** 2)


def class_decides(labels: npt.NDArray[np.integer], units: Ints) -> bool:
    """True if rows of one class have one weight, as where a rare class was sampled more often."""
    return all(len(np.unique(units[labels == label])) == 1 for label in np.unique(labels))
