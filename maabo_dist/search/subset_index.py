"""`SubsetIndex`: a list of distinct subsets with exact membership, for any D and D′.

An open-addressing table holds row numbers; a look-up compares the rows themselves.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel
from maabo_dist._util.subset_rows import rows_by_size, widen
from maabo_dist.search.space import Subsets

EMPTY = -1


class SubsetIndex:
    """A growing list of distinct subsets."""

    def __init__(self, size: int, room: int = 1024) -> None:
        self._rows = np.empty((room, size), np.int32)
        self._table = np.full(1 << (4 * room - 1).bit_length(), EMPTY, np.int32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> Subsets:
        """All subsets in the order they were added; a view."""
        return self._rows[: self._count]

    def add(self, subsets: Subsets) -> None:
        """Append subsets that are not in the list; this is not checked."""
        self._reserve(self._count + len(subsets))
        self._rows[self._count : self._count + len(subsets)] = subsets
        _insert(self._table, self._rows, self._count, self._count + len(subsets))
        self._count += len(subsets)

    def add_new(self, subsets: Subsets) -> npt.NDArray[np.int64]:
        """Append those that are not in the list yet; return their indices in `subsets`."""
        self._reserve(self._count + len(subsets))
        added = np.empty(len(subsets), np.int64)
        count = _insert_new(self._table, self._rows, self._count, subsets, added)
        self._count += count
        return added[:count]

    def contains(self, subsets: Subsets) -> npt.NDArray[np.bool_]:
        """Return for each subset whether it is in the list."""
        out = np.empty(len(subsets), np.bool_)
        _contains(self._table, self._rows, subsets, out)
        return out

    def positions(self, subsets: Subsets) -> npt.NDArray[np.int64]:
        """Return the position of each subset in the list; -1 where it is not in it."""
        out = np.empty(len(subsets), np.int64)
        _positions(self._table, self._rows, subsets, out)
        return out

    def _reserve(self, count: int) -> None:
        if count <= len(self._rows):
            return
        room = max(count, 2 * len(self._rows))
        rows = np.empty((room, self._rows.shape[1]), np.int32)
        rows[: self._count] = self.rows
        self._rows, self._table = rows, np.full(1 << (4 * room - 1).bit_length(), EMPTY, np.int32)
        _insert(self._table, rows, 0, self._count)


class ProposedSubsets(SubsetIndex):
    """A growing list of distinct subsets of several sizes, which are also counted by size.

    `pending` has the positions of the subsets without a score, `counts` the number of subsets of each size.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__(sizes[-1])
        self._sizes = sizes
        self.counts = dict.fromkeys(sizes, 0)
        self.pending: set[int] = set()

    def add(self, subsets: Subsets) -> None:
        """Append subsets that are not in the list, as pending; this is not checked."""
        self.pending.update(range(len(self), len(self) + len(subsets)))
        super().add(subsets)
        for size, _, rows in rows_by_size(subsets, self._sizes):
            self.counts[size] += len(rows)

    def contains(self, subsets: Subsets) -> npt.NDArray[np.bool_]:
        """Return for each subset whether it was proposed; rows may be as wide as their own size."""
        return super().contains(widen(subsets, self._sizes[-1]))


def distinct(subsets: Subsets) -> Subsets:
    """Return the subsets without repetitions, in order of first occurrence."""
    index = SubsetIndex(subsets.shape[1], room=1 << max(4, len(subsets).bit_length()))
    return subsets[index.add_new(subsets)]


@kernel
def _hash(subset: Any) -> Any:
    value = np.uint64(0x9E3779B97F4A7C15)
    for feature in subset:
        value = (value ^ np.uint64(feature)) * np.uint64(0xBF58476D1CE4E5B9)
        value ^= value >> np.uint64(32)
    return value


@kernel
def _slot(table: Any, rows: Any, subset: Any) -> Any:
    """The slot that holds `subset`, or the free one where it belongs. The table's length is a power of two."""
    mask = np.uint64(len(table) - 1)
    slot = _hash(subset) & mask
    while table[slot] != EMPTY:
        same = True
        for i in range(len(subset)):
            if rows[table[slot], i] != subset[i]:
                same = False
                break
        if same:
            return slot
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel
def _insert(table: Any, rows: Any, start: int, stop: int) -> None:
    for row in range(start, stop):
        table[_slot(table, rows, rows[row])] = row


@kernel
def _insert_new(table: Any, rows: Any, start: int, subsets: Any, added: Any) -> int:
    count = 0
    for i in range(len(subsets)):
        slot = _slot(table, rows, subsets[i])
        if table[slot] == EMPTY:
            for k in range(subsets.shape[1]):
                rows[start + count, k] = subsets[i, k]
            table[slot] = start + count
            added[count] = i
            count += 1
    return count


@kernel
def _contains(table: Any, rows: Any, subsets: Any, out: Any) -> None:
    for i in range(len(subsets)):
        out[i] = table[_slot(table, rows, subsets[i])] != EMPTY


@kernel
def _positions(table: Any, rows: Any, subsets: Any, out: Any) -> None:
    for i in range(len(subsets)):
        out[i] = table[_slot(table, rows, subsets[i])]
