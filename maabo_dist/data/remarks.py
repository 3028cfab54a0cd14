"""Remarks on a prepared table: columns that nearly repeat the target, and columns whose values group rows."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

from maabo_dist._util.scratch import each_block
from maabo_dist._util.text import format_names
from maabo_dist.data.columns import Columns, FeatureKind
from maabo_dist.data.encoder import ColumnReading

# A column that predicts the class with this share, of the rows it predicts and of the rows of each class, is likely a
# leak, if there are so many rows, and so many of each class.
LEAK_SHARE, LEAK_ROWS, LEAK_CLASS_ROWS = 0.99, 100, 10
# Columns of more values are judged by one threshold.
MAX_LEAK_LEVELS = 50

Counts = npt.NDArray[np.int64]


def find_leaks(columns: Columns) -> list[str]:
    """Return the columns that nearly repeat the target."""
    totals = np.bincount(columns.labels, minlength=len(columns.classes))
    if columns.rows < LEAK_ROWS or totals[totals > 0].min() < LEAK_CLASS_ROWS:
        return []
    return list(_leaks(columns, totals))


def leak_notes(leaks: Sequence[str]) -> list[str]:
    """Name the columns that nearly repeat the target, with the remedy."""
    if not leaks:
        return []
    if len(leaks) == 1:
        repeated, remedy = "nearly repeats the target. If it is", f"--exclude {leaks[0]!r}"
    else:
        repeated, remedy = "each nearly repeat the target. If they are", "--exclude"
    return [f"Likely a leak: {format_names(leaks)} {repeated} not known before the target is, use {remedy}."]


def _leaks(columns: Columns, totals: Counts) -> Iterator[str]:
    by_column = groupby(range(columns.count), key=lambda index: columns.features[index].column)
    groups = [list(indices) for _, indices in by_column]
    starts = [group[0] for group in groups]
    for block in each_block(columns.codes):
        for group in groups[bisect_left(starts, block.start) : bisect_left(starts, block.stop)]:
            if _group_repeats(columns, group, totals):
                yield columns.features[group[0]].column


def _group_repeats(columns: Columns, group: list[int], totals: Counts) -> bool:
    """True if the features of one column nearly repeat the target."""
    kinds = [columns.features[index].kind for index in group]
    if FeatureKind.LEVEL not in kinds:
        return any(_repeats(_counts(columns, index), totals) for index in group)
    levels = [_counts(columns, index)[-1] for index, kind in zip(group, kinds, strict=True) if kind in _ONE_LEVEL]
    # The rows without any of these levels are one more.
    rest = totals - np.sum(levels, axis=0)
    return _levels_repeat(np.array([*levels, rest]), totals)


_ONE_LEVEL = frozenset({FeatureKind.LEVEL, FeatureKind.OTHER})


def _counts(columns: Columns, index: int) -> Counts:
    """(values, classes): the rows of each value and class."""
    values, classes = int(columns.offsets[index + 1] - columns.offsets[index]), len(columns.classes)
    cells = columns.codes[index].astype(np.int64) * classes + columns.labels
    return np.bincount(cells, minlength=values * classes).reshape(values, classes)


def _repeats(counts: Counts, totals: Counts) -> bool:
    if len(counts) <= MAX_LEAK_LEVELS and _levels_repeat(counts, totals):
        return True
    if np.count_nonzero(totals) != 2:
        return False
    below = np.cumsum(counts[:, totals > 0], axis=0)[:-1]
    sides = np.stack([below, totals[totals > 0] - below])  # side of the threshold, threshold, class
    share = np.minimum(sides / sides.sum(axis=2, keepdims=True), sides / totals[totals > 0])
    # One class on each side of the threshold.
    straight = np.minimum(share[0, :, 0], share[1, :, 1])
    crossed = np.minimum(share[0, :, 1], share[1, :, 0])
    return bool(max(straight.max(initial=0), crossed.max(initial=0)) >= LEAK_SHARE)


def _levels_repeat(counts: Counts, totals: Counts) -> bool:
    """True if the most frequent class of each level is the class of nearly all rows, and of nearly each class."""
    counts = counts[counts.sum(axis=1) > 0]
    # Levels of few rows would repeat any target.
    if len(counts) < 2 or len(counts) * LEAK_CLASS_ROWS > totals.sum():
        return False
    predicted = np.zeros_like(totals)
    claimed = np.zeros_like(totals)
    for level in counts:
        best = int(level.argmax())
        predicted[best] += level[best]
        claimed[best] += level.sum()
    present = totals > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(claimed > 0, predicted / claimed, 0)[present]
    return bool(min((predicted[present] / totals[present]).min(), precision.min()) >= LEAK_SHARE)


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
