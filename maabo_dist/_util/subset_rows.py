"""Subsets of several sizes in one array: rows as wide as the largest; smaller subsets repeat their last feature.

    {2, 7, 9}  in rows of four   (2, 7, 9, 9)
    {5}                          (5, 5, 5, 5)

Each subset has one such row, so that equal rows are equal subsets. Messages, the ledger and forests need not treat
them differently; a tree on a repeated feature is the tree on the feature once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

# (subsets, width): feature indices that ascend, the last one repeated to the end of the row.
Rows = npt.NDArray[np.int32]
# Indices of rows, or all of them.
Selection = npt.NDArray[np.int64] | slice


def widen(subsets: Rows, width: int) -> Rows:
    """Fill rows of one size up to `width`."""
    size = subsets.shape[1]
    if size == width:
        return subsets
    return np.concatenate([subsets, np.repeat(subsets[:, -1:], width - size, axis=1)], axis=1)


def sizes_of(rows: Rows) -> npt.NDArray[np.int64]:
    """(subsets): the number of features of each."""
    sizes: npt.NDArray[np.int64] = 1 + (np.diff(rows, axis=1) > 0).sum(axis=1)
    return sizes


@dataclass(frozen=True, slots=True)
class SelectedRows:
    """Some rows of an array that are copied only where they are asked for."""

    rows: Rows
    positions: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, picks: Selection) -> Rows:
        return self.rows[self.positions[picks]]


def rows_by_size(rows: Rows, sizes: Sequence[int]) -> Iterator[tuple[int, Selection, Rows]]:
    """Yield each of the sizes that occurs, which rows have it, and these rows without their repeated features."""
    if len(sizes) == 1:
        yield sizes[0], slice(None), rows
        return
    row_sizes = sizes_of(rows)
    for size in np.unique(row_sizes).tolist():
        selection = np.flatnonzero(row_sizes == size)
        yield size, selection, np.ascontiguousarray(rows[selection, :size])


def members(row: Any) -> tuple[int, ...]:
    """Return the features of one row, each once."""
    return tuple(dict.fromkeys(int(feature) for feature in row))


def is_well_formed(rows: npt.NDArray[Any]) -> bool:
    """True if all rows ascend and none repeats a feature before its last one."""
    steps = np.diff(rows, axis=1)
    repeats = steps == 0
    return not ((steps < 0).any() or (repeats[:, :-1] & ~repeats[:, 1:]).any())
