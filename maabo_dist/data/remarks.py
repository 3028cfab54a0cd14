"""Remarks on a prepared table: columns that nearly repeat the target, and columns whose values group rows."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util.scratch import each_block
from maabo_dist._util.text import format_names
from maabo_dist.data.columns import Columns, FeatureKind
from maabo_dist.data.encoder import ColumnReading

# A column that predicts the class with this share, of the rows it predicts and of the rows of each class, is likely a
# leak, if so many rows have a value, and so many of each class.
LEAK_SHARE, LEAK_ROWS, LEAK_CLASS_ROWS = 0.95, 100, 10
# Columns of more values are judged by one threshold.
MAX_LEAK_LEVELS = 50

Counts = npt.NDArray[np.int64]
Codes = npt.NDArray[np.unsignedinteger[Any]]
# A selection of rows: a mask, or all.
Rows = npt.NDArray[np.bool_] | EllipsisType

_LEVELS = frozenset({FeatureKind.LEVEL, FeatureKind.OTHER})


def find_leaks(columns: Columns) -> list[str]:
    """Return the columns that nearly repeat the target."""
    return list(_leaks(columns)) if _is_enough(_class_rows(columns)) else []


def leak_notes(leaks: Sequence[str]) -> list[str]:
    """Name the columns that nearly repeat the target, with the remedy."""
    if not leaks:
        return []
    if len(leaks) == 1:
        repeated, remedy = "nearly repeats the target. If it is", f"--exclude {leaks[0]!r}"
    else:
        repeated, remedy = "each nearly repeat the target. If they are", "--exclude"
    return [f"Likely a leak: {format_names(leaks)} {repeated} not known before the target is, use {remedy}."]


def _leaks(columns: Columns) -> Iterator[str]:
    by_column = groupby(range(columns.count), key=lambda index: columns.features[index].column)
    groups = [list(indices) for _, indices in by_column]
    starts = [group[0] for group in groups]
    raw = {each.column: number for number, each in enumerate(columns.raw)}
    for block in each_block(columns.codes):
        for group in groups[bisect_left(starts, block.start) : bisect_left(starts, block.stop)]:
            column = columns.features[group[0]].column
            if column not in raw:
                repeats = any(_repeats(_counts(columns, columns.codes[index])) for index in group)
            else:
                repeats = _raw_column_repeats(columns, group, columns.raw_codes[raw[column]])
            if repeats:
                yield column


def _raw_column_repeats(columns: Columns, group: list[int], raw_codes: Codes) -> bool:
    """True if a column with text or missing cells repeats the target, in all rows or in those that have a value.

    A date that only some rows have may repeat it by being there.
    """
    if _levels_repeat(_counts(columns, raw_codes)):
        return True
    known = raw_codes != 0
    if known.all() or not _is_enough(_class_rows(columns, known)):
        return False
    if columns.features[group[0]].kind in _LEVELS:
        return _levels_repeat(_counts(columns, raw_codes, known))
    return any(_repeats(_counts(columns, columns.codes[index], known)) for index in group)


def _counts(columns: Columns, codes: Codes, rows: Rows = ...) -> Counts:
    """(codes, classes): the rows of each code and class."""
    classes = len(columns.classes)
    cells = codes[rows].astype(np.int64) * classes + columns.labels[rows]
    return np.bincount(cells, minlength=(int(codes.max()) + 1) * classes).reshape(-1, classes)


def _class_rows(columns: Columns, rows: Rows = ...) -> Counts:
    """(classes): the rows of each class."""
    return np.bincount(columns.labels[rows], minlength=len(columns.classes))


def _is_enough(totals: Counts) -> bool:
    """True if these rows of each class are enough to judge by."""
    return bool(totals.sum() >= LEAK_ROWS and totals.min() >= LEAK_CLASS_ROWS)


def _repeats(counts: Counts) -> bool:
    """True if a threshold, or the values themselves if they are few, repeat the target."""
    if len(counts) <= MAX_LEAK_LEVELS and _levels_repeat(counts):
        return True
    totals = counts.sum(axis=0)
    if len(totals) != 2:
        return False
    below = np.cumsum(counts[counts.any(axis=1)], axis=0)[:-1]
    sides = np.stack([below, totals - below])  # side of the threshold, threshold, class
    share = np.minimum(sides / sides.sum(axis=2, keepdims=True), sides / totals)
    # One class on each side of the threshold.
    straight = np.minimum(share[0, :, 0], share[1, :, 1])
    crossed = np.minimum(share[0, :, 1], share[1, :, 0])
    return bool(max(straight.max(initial=0), crossed.max(initial=0)) >= LEAK_SHARE)


def _levels_repeat(counts: Counts) -> bool:
    """True if the most frequent class of each level is the class of nearly all rows, and of nearly each class."""
    counts, totals = counts[counts.any(axis=1)], counts.sum(axis=0)
    # Levels of few rows would repeat any target.
    if len(counts) < 2 or len(counts) * LEAK_CLASS_ROWS > totals.sum():
        return False
    predicted = np.zeros_like(totals)
    claimed = np.zeros_like(totals)
    for level in counts:
        best = int(level.argmax())
        predicted[best] += level[best]
        claimed[best] += level.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(claimed > 0, predicted / claimed, 0)
    return bool(min((predicted / totals).min(), precision.min()) >= LEAK_SHARE)


def group_notes(readings: Iterable[ColumnReading], rows: int) -> list[str]:
    """Point out columns whose values are shared by a few rows each."""
    grouping = [reading for reading in readings if reading.identity is not None and reading.identity.groups]
    return [
        f"Rows seem to belong together by {reading.name!r}: {reading.identity.distinct:,} values on {rows:,} rows. If "
        f"they do, rows of the same {reading.name!r} make rules look better than they are; "
        f"use --group {reading.name!r}."
        for reading in grouping
        if reading.identity is not None
    ]
