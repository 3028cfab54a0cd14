"""`SubsetSpace`: all subsets of D′ out of D features (the paper's Ω), counted, enumerated in blocks, never built.

D′ may be several sizes; a single size is a space of one part. Rows are as wide as the largest size (see `subset_rows`).
"""

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel
from maabo_dist._util.subset_rows import widen
from maabo_dist.errors import SearchError

# Rows of ascending feature indices; those of smaller subsets are filled up as described in `subset_rows`.
Subsets = npt.NDArray[np.int32]


@dataclass(frozen=True)
class SubsetSpace:
    """The subsets of one or several sizes out of `features` features: size by size, the smallest first."""

    features: int
    # Ascending.
    sizes: tuple[int, ...]

    @property
    def width(self) -> int:
        """The largest size, and so the width of rows."""
        return self.sizes[-1]

    @cached_property
    def parts(self) -> "tuple[SizeSpace, ...]":
        """The space of each size."""
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
