"""Columns that identify rows, such as numbers and names of customers, and columns whose values group rows.

A rule on such a column is a memory of the rows it was made from. What a column of whole numbers stands for is not
always visible in its values, so that its name counts too: `customer_id`, `PassengerId`.
"""

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

# Fewer cells tell nothing about a column.
MIN_CELLS = 10
# The share of distinct values from which on texts, and numbers with a telling name, identify rows.
NEARLY_ALL = 0.9
# Whole numbers in the order of the rows are an identifier from so many rows on.
MIN_ORDERED = 30
# Values that are shared by a few rows each are groups: from so many values on, and on average so many rows each.
MIN_GROUPS, MIN_GROUP_ROWS, MAX_GROUP_ROWS = 20, 2, 50

_ID_NAME = re.compile(r"(?:^|[\W_])(?:id|ids|uuid|guid)$|[a-z](?:Id|ID)$", re.ASCII)
_NUMBER_NAME = re.compile(r"(?:^|[\W_])(?:key|no|nr|num|number|row|rownum|index)$", re.ASCII | re.IGNORECASE)

Codes = npt.NDArray[np.intp]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Identity:
    """What the values of a column say about its rows."""

    distinct: int
    # The values tell rows, or groups of rows, apart; they measure nothing.
    identifies: bool
    # Each value is shared by several rows.
    groups: bool


def is_id_name(name: str) -> bool:
    """True for `id`, `customer_id`, `PassengerId`."""
    return _ID_NAME.search(name) is not None or name.lower() in {"id", "uuid", "guid"}


def identity_of_levels(name: str, codes: Codes, distinct: int) -> Identity:
    """Judge a column of texts by the codes of its levels, −1 where a cell is missing."""
    present = codes[codes >= 0]
    if len(present) < MIN_CELLS:
        return Identity(distinct, identifies=False, groups=False)
    if distinct >= NEARLY_ALL * len(present):
        return Identity(distinct, identifies=True, groups=False)
    grouped = _are_groups(distinct, len(present))
    adjacent = _runs(present) <= 1.1 * distinct
    return Identity(
        distinct, identifies=grouped and is_id_name(name), groups=grouped and (adjacent or is_id_name(name))
    )


def identity_of_numbers(name: str, values: Numbers, ordered: Numbers) -> Identity | None:
    """Judge a column of numbers, NaN where one is missing, `ordered` without these; None if it measures something."""
    # The first comparisons decide nearly every column.
    if len(ordered) < MIN_CELLS or ordered[0] % 1 or ordered[-1] % 1 or (ordered % 1).any():
        return None
    present = values if len(ordered) == len(values) else values[~np.isnan(values)]
    distinct = 1 + int(np.count_nonzero(np.diff(ordered)))
    steps = np.diff(present)
    if distinct == len(ordered):
        contiguous = ordered[-1] - ordered[0] < 1.1 * len(ordered)
        sorted_rows = len(ordered) >= MIN_ORDERED and bool((steps > 0).all() or (steps < 0).all())
        if contiguous or sorted_rows:
            return Identity(distinct, identifies=True, groups=False)
    if distinct >= NEARLY_ALL * len(ordered):
        named = is_id_name(name) or _NUMBER_NAME.search(name) is not None
        return Identity(distinct, identifies=True, groups=False) if named else None
    if not _are_groups(distinct, len(ordered)):
        return None
    counting = ordered[0] in {0.0, 1.0} and bool(((steps == 0) | (steps == 1)).all()) and distinct * 20 >= len(ordered)
    if counting or is_id_name(name):
        return Identity(distinct, identifies=True, groups=True)
    # A panel with equally many rows each, or a design: its values may measure something.
    return Identity(distinct, identifies=False, groups=True) if _are_equal_blocks(present, distinct) else None


def _are_groups(distinct: int, rows: int) -> bool:
    return distinct >= MIN_GROUPS and MIN_GROUP_ROWS * distinct <= rows <= MAX_GROUP_ROWS * distinct


def _are_equal_blocks(values: Numbers, distinct: int) -> bool:
    """True if equal values are next to each other, and each is as frequent as the others."""
    starts = np.flatnonzero(np.diff(values, prepend=np.nan))
    return (
        len(starts) == distinct
        and len(values) % distinct == 0
        and bool((np.diff(starts, append=len(values)) == len(values) // distinct).all())
    )


def _runs(codes: Codes) -> int:
    """Return the number of blocks of equal values."""
    return 1 + int(np.count_nonzero(np.diff(codes)))
