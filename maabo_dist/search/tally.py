"""Overlap counts between candidates and the observed subsets, at a cost that does not grow with the history.

For a candidate f, let O_j be the number of observed subsets that share exactly j features with it. Directly, that takes
a pass over the history. But the number of observed subsets that *contain* S, summed over the S ⊆ f of one size i, is

    T_i = Σ_{S ⊆ f, |S| = i} N(S) = Σ_j C(j, i) · O_j

so that 2^D′ look-ups of containment counts N(S) give all T_i, and O follows by inverting the binomials. All of it is in
integers: both ways give the same O, and the choice between them affects nothing but the time.

A candidate is never itself observed, so S = f is not stored: its count would always be 0.

Two subsets of D′ features mismatch in D′ minus the features they share. With several sizes, the larger of the two takes
the role of D′:

    m(f, u) = max(|f|, |u|) − |f ∩ u|

so that a subset and the one with a feature more, less or changed mismatch in one. The MAA function then gives b^(m − 1)
times a constant, which cancels out of the acquisition. There, a candidate may contain an observed subset as a whole, or
be part of one; then that S is counted like any other.

Counts are returned as `maa` expects them, with the largest size W for D′: column W − m has the number of observed
subsets that mismatch a candidate in m features.
"""

from collections.abc import Sequence
from functools import cache
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel
from maabo_dist._util.subset_rows import Selection, rows_by_size
from maabo_dist.search.maa import Overlaps
from maabo_dist.search.space import Subsets

# Up to this subset size counting is the cheaper way for histories that matter: measured, updates included, it breaks
# even with a pass over the history at 120 subsets for D′ = 4, 1,600 for 8, 4,700 for 10 and 11,000 for 11.
MAX_COUNTED_SIZE = 10
# Codes of a subset's moves.
ENTERS_HIGH, LEAVES_HIGH, ENTERS_LOW, LEAVES_LOW = 1, -1, 2, -2


class ContainmentTally:
    """N(S) for the high and the low subsets, for every S that occurs in one; a table for each size of subsets."""

    def __init__(self, features: int, sizes: Sequence[int], room: int = 4096) -> None:
        self._features, self._sizes = features, sizes
        # Any subset but those of the largest size may be part of a candidate as a whole.
        self._tallies = {size: _SizeTally(features, size, room, whole=size < sizes[-1]) for size in sizes}

    @staticmethod
    def fits(features: int, size: int) -> bool:
        """True if every proper part of a subset packs into one 64-bit key, and there are not too many of them."""
        return size <= MAX_COUNTED_SIZE and features.bit_length() * (size - 1) <= 64

    @property
    def nbytes(self) -> int:
        """The memory that the tables take."""
        return sum(tally.table.nbytes + tally.singles.nbytes for tally in self._tallies.values())

    @property
    def high_frequencies(self) -> npt.NDArray[np.int64]:
        """(D): the number of high subsets in which each feature occurs."""
        frequencies = np.zeros(self._features, np.int64)
        for tally in self._tallies.values():
            frequencies += tally.singles[:, 0]
        return frequencies

    def update(self, subsets: Subsets, moves: npt.NDArray[np.int8]) -> None:
        """Count subsets in and out, by the codes above."""
        for size, selection, rows in rows_by_size(subsets, self._sizes):
            self._tallies[size].update(rows, moves[selection])

    def overlaps(self, candidates: Subsets) -> tuple[Overlaps, Overlaps]:
        """Return O for the high and the low subsets. No candidate may be an observed subset."""
        if len(self._sizes) == 1:
            return self._tallies[self._sizes[0]].overlaps(candidates)
        high, low = (np.zeros((len(candidates), candidates.shape[1] + 1), np.int64) for _ in range(2))
        for size, selection, rows in rows_by_size(candidates, self._sizes):
            for other, tally in self._tallies.items():
                for total, counts in zip((high, low), tally.overlaps(rows), strict=True):
                    _add(total, selection, counts, size, other)
        return high, low


def direct_overlaps(candidates: Subsets, observed: Subsets, features: int, sizes: Sequence[int]) -> Overlaps:
    """Return O for one list of observed subsets, by comparing every candidate with every one of them."""
    total = np.zeros((len(candidates), candidates.shape[1] + 1), np.int64)
    observed_by_size = [(other, rows) for other, _, rows in rows_by_size(observed, sizes)]
    member = np.zeros(features, np.bool_)
    for size, selection, rows in rows_by_size(candidates, sizes):
        for other, observed_rows in observed_by_size:
            counts = np.zeros((len(rows), size + 1), np.int64)
            _compare(rows, observed_rows, member, counts)
            _add(total, selection, counts, size, other)
    return total


def _add(total: Overlaps, selection: Selection, counts: Overlaps, size: int, other: int) -> None:
    """Add counts by shared features to the total, which has the mismatches from its right end."""
    first, most = total.shape[1] - 1 - max(size, other), min(size, other)
    total[selection, first : first + most + 1] += counts[:, : most + 1]


class _SizeTally:
    """The counts of observed subsets of one size."""

    def __init__(self, features: int, size: int, room: int, *, whole: bool) -> None:
        """With `whole`, candidates may be larger than the observed subsets."""
        self._size = size
        self._parts = (1 << size) - (not whole)  # the whole subset is the last of its parts
        self._bits = features.bit_length()
        self.singles = np.zeros((features, 2), np.int32)
        self.table = np.zeros((room, 2), np.uint64)  # key (0: free) and counts, side by side: one cache line
        self._used = np.zeros(1, np.int64)
        self._observed = np.zeros(2, np.int64)

    def update(self, subsets: Subsets, moves: npt.NDArray[np.int8]) -> None:
        while 2 * (self._used[0] + (len(subsets) << self._size)) > len(self.table):
            old, self.table = self.table, np.zeros((2 * len(self.table), 2), np.uint64)
            _rehash(old, self.table)
        _update(self.table, self._used, self.singles, subsets, moves, self._bits, self._parts)
        for side in (0, 1):
            self._observed[side] += int((moves == 1 + side).sum()) - int((moves == -1 - side).sum())

    def overlaps(self, candidates: Subsets) -> tuple[Overlaps, Overlaps]:
        size = candidates.shape[1]
        parts = (1 << size) - (size == self._size)
        most = self._size if size > self._size else None
        totals = np.zeros((2, len(candidates), size + 1), np.int64)
        _containing(self.table, self.singles, candidates, self._bits, parts, most, self._observed, totals)
        high, low = totals @ _binomial_inverse(size)
        return high, low


@cache
def _binomial_inverse(size: int) -> npt.NDArray[np.int64]:
    """The matrix that turns rows of T into rows of O: O_j = Σ_i (−1)^(i−j) · C(i, j) · T_i."""
    inverse = np.zeros((size + 1, size + 1), np.int64)
    for i in range(size + 1):
        for j in range(i + 1):
            inverse[i, j] = (-1) ** (i - j) * comb(i, j)
    return inverse


@kernel
def _slot(table: Any, key: Any) -> Any:
    mask = np.uint64(len(table) - 1)
    mixed = (key ^ (key >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    slot = (mixed ^ (mixed >> np.uint64(32))) & mask
    while table[slot, 0] != 0 and table[slot, 0] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@kernel
def _pack_parts(subset: Any, bits: int, keys: Any, sizes: Any) -> None:
    """The key of every part of `subset`: part p holds the features whose bit is set in p, one after another."""
    keys[0], sizes[0] = 0, 0
    for i in range(len(subset)):
        for rest in range(1 << i):
            part = rest | (1 << i)
            keys[part] = keys[rest] | (np.uint64(subset[i] + 1) << np.uint64(bits * sizes[rest]))
            sizes[part] = sizes[rest] + 1


@kernel
def _update(table: Any, used: Any, singles: Any, subsets: Any, moves: Any, bits: int, stop: int) -> None:
    """Count all parts before number `stop`."""
    size = subsets.shape[1]
    parts, sizes = np.empty(1 << size, np.uint64), np.empty(1 << size, np.int64)
    for row in range(len(subsets)):
        side, change = abs(moves[row]) - 1, np.sign(moves[row])
        for feature in subsets[row]:
            singles[feature, side] += change
        _pack_parts(subsets[row], bits, parts, sizes)
        for part in range(stop):
            if sizes[part] >= 2:
                slot = _slot(table, parts[part])
                if table[slot, 0] == 0:
                    table[slot, 0] = parts[part]
                    used[0] += 1
                # High in the lower half, low in the upper one. A count is never taken below 0, so no half borrows.
                table[slot, 1] += np.uint64(change) << np.uint64(32 * side)


@kernel
def _containing(
    table: Any, singles: Any, candidates: Any, bits: int, stop: int, most: Any, observed: Any, totals: Any
) -> None:
    """T_i from all parts before number `stop`, and of at most `most` features."""
    size = candidates.shape[1]
    parts, sizes = np.empty(1 << size, np.uint64), np.empty(1 << size, np.int64)
    for row in range(len(candidates)):
        _pack_parts(candidates[row], bits, parts, sizes)
        for side in range(2):
            totals[side, row, 0] = observed[side]
        for feature in candidates[row]:
            totals[0, row, 1] += singles[feature, 0]
            totals[1, row, 1] += singles[feature, 1]
        for part in range(stop):
            if most is not None:  # noqa: SIM102 - alone, so that numba leaves it out where it is None
                if sizes[part] > most:
                    continue
            if sizes[part] >= 2:
                counts = table[_slot(table, parts[part]), 1]
                totals[0, row, sizes[part]] += np.int64(counts & np.uint64(0xFFFFFFFF))
                totals[1, row, sizes[part]] += np.int64(counts >> np.uint64(32))


@kernel
def _rehash(old: Any, table: Any) -> None:
    for row in range(len(old)):
        if old[row, 0] != 0:
            slot = _slot(table, old[row, 0])
            table[slot, 0], table[slot, 1] = old[row, 0], old[row, 1]


@kernel
def _compare(candidates: Any, observed: Any, member: Any, out: Any) -> None:
    for row in range(len(candidates)):
        for feature in candidates[row]:
            member[feature] = True
        for other in range(len(observed)):
            shared = 0
            for feature in observed[other]:
                shared += member[feature]
            out[row, shared] += 1
        for feature in candidates[row]:
            member[feature] = False
