"""Thresholds that people read: the shortest decimal that separates the same rows of the table."""

from fractions import Fraction
from math import ceil, floor, log10

import numpy as np
import numpy.typing as npt

from maabo_dist.data.columns import Columns, FeatureKind
from maabo_dist.data.recoding import MISSING_VALUE
from maabo_dist.findings.evidence import Floats
from maabo_dist.rules.rule import NO_LITERAL


def readable_bounds(logic: npt.NDArray[np.int32], bounds: Floats, columns: Columns) -> Floats:
    """Return bounds on numbers that separate the same rows of the table, in as few digits as possible.

    In columns of whole numbers, `x > bound` reads `x ≥ bound + 1`, and that number is the short one.
    """
    readable = bounds.copy()
    for index in zip(*np.nonzero(logic != NO_LITERAL), strict=True):
        feature, large, bound = int(logic[index] >> 1), bool(logic[index] & 1), float(bounds[index])
        entry = columns.features[feature]
        if entry.kind is not FeatureKind.NUMBER or bound == MISSING_VALUE:
            continue
        values = columns.distinct_values(feature)
        cut = int(np.searchsorted(values, bound, side="right"))
        low, high = float(values[cut - 1]), float(values[cut])
        if entry.whole:
            shift = 1 if large else 0
            readable[index] = shortest_number(low + shift, high + shift, whole=True) - shift
        else:
            readable[index] = shortest_number(low, high)
    return readable


def shortest_number(low: float, high: float, *, whole: bool = False) -> float:
    """Return the number from `low` on and below `high` with the fewest decimals, or the most zeros at its end.

    Of several, the one nearest to the middle is returned, or the lower of two.
    """
    if low <= 0 < high:
        return 0.0
    first, last = Fraction(low), Fraction(high)
    exponent = floor(log10(max(abs(low), abs(high)))) + 1
    while exponent > (-1 if whole else -330):
        unit = Fraction(10) ** exponent
        least, most = ceil(first / unit), ceil(last / unit) - 1
        if least <= most:
            middle = (first + last) / (2 * unit)
            nearest = min(max(least, ceil(middle - Fraction(1, 2))), most)
            number = float(nearest * unit)
            if low <= number < high:
                return number
        exponent -= 1
    return low
