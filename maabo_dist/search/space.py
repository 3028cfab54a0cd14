"""`SubsetSpace`: all subsets of D′ out of D features (the paper's Ω), counted, enumerated in blocks, never built.

D′ may be several sizes; a single size is a space of one part. Rows are as wide as the largest size (see `subset_rows`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel
from maabo_dist._util.subset_rows import rows_by_size, widen
from maabo_dist.errors import SearchError
from maabo_dist.search.limited import LimitedSpace
from maabo_dist.search.limits import NO_LIMITS, SubsetLimits

# Rows of ascending feature indices; those of smaller subsets are filled up as described in `subset_rows`.
Subsets = npt.NDArray[np.int32]


@dataclass(frozen=True)
class SubsetSpace:
    """The subsets of one or several sizes out of `features` features: size by size, the smallest first.

    With limits, only the subsets that meet them.
    """

    features: int
    # Ascending.
    sizes: tuple[int, ...]
    limits: SubsetLimits = NO_LIMITS

    @property
    def width(self) -> int:
        """The largest size, and so the width of rows."""
        return self.sizes[-1]

    @cached_property
    def parts(self) -> "tuple[SizeSpace, ...] | tuple[LimitedSpace, ...]":
        """The space of each size."""
        if self.limits:
            return tuple(LimitedSpace(self.features, size, self.limits) for size in self.sizes)
        return tuple(SizeSpace(self.features, size) for size in self.sizes)

    @property
    def count(self) -> int:
        """|Ω|, exact at any size."""
        return sum(part.count for part in self.parts)

    def block(self, start: int, length: int) -> Subsets:
        """Return the subsets at ranks start … start + length − 1, fewer at the end of the space."""
        blocks = [np.empty((0, self.width), np.int32)]
        for part in self.parts:
            if length > 0 and start < part.count:
                blocks.append(widen(part.block(start, length), self.width))
                length -= len(blocks[-1])
            start = max(0, start - part.count)
        return np.concatenate(blocks)


@dataclass(frozen=True, slots=True)
class SizeSpace:
    """The subsets of `size` out of `features` features, in lexicographic order."""

    features: int
    size: int

    @property
    def count(self) -> int:
        """The number of subsets, exact at any size."""
        return comb(self.features, self.size)

    def holding(self, top: int) -> int:
        """N_R: the number of subsets that hold one of the first `top` features, the first ones in this order."""
        return self.count - comb(self.features - top, self.size)

    def unrank(self, rank: int) -> tuple[int, ...]:
        """Return the subset at `rank` of the lexicographic order."""
        if not 0 <= rank < self.count:
            raise SearchError(f"Rank {rank} is outside of the space of {self.count} subsets.")
        subset, feature = [], 0
        for left in range(self.size, 0, -1):
            while rank >= (following := comb(self.features - feature - 1, left - 1)):
                rank -= following
                feature += 1
            subset.append(feature)
            feature += 1
        return tuple(subset)

    def block(self, start: int, length: int) -> Subsets:
        """Return the subsets at ranks start … start + length − 1, fewer at the end of the space."""
        rows = max(0, min(length, self.count - start))
        out = np.empty((rows, self.size), np.int32)
        if rows:
            _enumerate(np.array(self.unrank(start), np.int32), self.features, out)
        return out


@kernel
def _enumerate(subset: Any, features: int, out: Any) -> None:
    """Write `subset` and its successors: the last index that can still grow grows, those after it follow closely."""
    size = len(subset)
    for row in range(len(out)):
        for i in range(size):
            out[row, i] = subset[i]
        i = size - 1
        while i >= 0 and subset[i] == features - size + i:
            i -= 1
        if i < 0:
            return
        subset[i] += 1
        for j in range(i + 1, size):
            subset[j] = subset[j - 1] + 1


EMPTY = -1


class SubsetIndex:
    """A growing list of distinct subsets with exact membership, for any D and D′.

    An open-addressing table holds row numbers; a look-up compares the rows themselves.
    """

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
