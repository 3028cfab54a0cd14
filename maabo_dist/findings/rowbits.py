"""Mined rows as bits: the rows that a search saw, and the conditions that hold in them, 64 rows a word.

Rows are in order of their class, and each class begins with a new word:

    | class 0: 64 rows | 64 rows, the rest 0 | class 1: 64 rows | …

so that the rows of one class that satisfy several conditions are a count of the bits that their words share.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist._util.scratch import each_of
from maabo_dist.data.columns import Columns
from maabo_dist.data.weights import UNIT, count_classes

WORD = 64
# Bits that are made at a time: 4 MB of truth values.
CHUNK_BITS = 1 << 22

Bits = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]


class MinedRows(NamedTuple):
    """The layout of the rows. A named tuple, which a kernel accepts as one argument."""

    # (N): indices into the table, in order of their class.
    rows: Ints
    # (N): the bit of each row.
    positions: Ints
    # (C + 1): class c has the words starts[c]:starts[c + 1].
    starts: Ints
    # (C): rows of each class, weighted if they have weights.
    totals: Ints
    # (bits): the weight of each bit's row, in units; None if each row counts as one.
    units: Ints | None = None

    @classmethod
    def build(cls, labels: npt.NDArray[np.int32], rows: Ints, classes: int, weights: Ints | None = None) -> "MinedRows":
        """Lay out these rows of a table with these labels and weights."""
        order = np.argsort(labels[rows], kind="stable")
        counts = np.bincount(labels[rows], minlength=classes).astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(-(-counts // WORD))]).astype(np.int64)
        positions = np.concatenate([starts[c] * WORD + np.arange(count) for c, count in enumerate(counts)])
        positions = positions.astype(np.int64)
        if weights is None:
            return cls(rows[order], positions, starts, counts)
        units = np.zeros(int(starts[-1]) * WORD, np.int64)
        units[positions] = weights[rows[order]]
        return cls(rows[order], positions, starts, count_classes(labels[rows], weights[rows], classes), units)

    @property
    def words(self) -> int:
        """The number of words that all rows take."""
        return int(self.starts[-1])

    @property
    def everything(self) -> Bits:
        """(words): the bits of all rows."""
        return self.pack(np.ones(len(self.rows), np.bool_))

    @property
    def unit(self) -> int:
        """The units of one row: 1 without weights."""
        return 1 if self.units is None else UNIT

    def pack(self, mask: npt.NDArray[np.bool_]) -> Bits:
        """(words): the bits of the rows, in this layout's order, for which the mask is True."""
        spread = np.zeros(self.words * WORD, np.uint8)
        spread[self.positions] = mask
        packed: Bits = np.packbits(spread, bitorder="little").view(np.uint64)
        return packed

    def unpack(self, bits: Bits) -> npt.NDArray[np.bool_]:
        """(…, N): the inverse of `pack`."""
        spread = np.unpackbits(np.ascontiguousarray(bits).view(np.uint8), axis=-1, bitorder="little")
        mask: npt.NDArray[np.bool_] = spread[..., self.positions].astype(np.bool_)
        return mask


def condition_bits(columns: Columns, mined: MinedRows, literals: npt.NDArray[np.int32], bounds: Any) -> Bits:
    """(conditions, words): the rows in which each condition holds; see `Leaves.logic` for the literals."""
    bits = np.empty((len(literals), mined.words), np.uint64)
    features, everything = literals >> 1, mined.everything
    row_of_bit = np.zeros(mined.words * WORD, np.int64)
    row_of_bit[mined.positions] = mined.rows
    step = max(1, CHUNK_BITS // max(1, len(row_of_bit)))
    for feature in each_of(np.unique(features).tolist(), columns.codes, columns.values):
        values = columns.distinct_values(feature)
        codes = columns.codes[feature][row_of_bit]
        own = np.flatnonzero(features == feature)
        cuts = np.searchsorted(values, bounds[own], side="right")
        # No code is at least the number of values, which their type may not have.
        reachable = np.minimum(cuts, len(values) - 1).astype(codes.dtype)
        for start in range(0, len(own), step):
            part = slice(start, start + step)
            above = np.packbits(codes >= reachable[part, None], axis=1, bitorder="little").view(np.uint64)
            above[cuts[part] == len(values)] = 0
            is_above = literals[own[part], None] & 1 == 1
            bits[own[part]] = np.where(is_above, above, ~above) & everything
    return bits
