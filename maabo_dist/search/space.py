"""`SubsetSpace`: all subsets of D′ out of D features (the paper's Ω), counted, enumerated in blocks, never built."""

from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel
from maabo_dist.errors import SearchError

Subsets = npt.NDArray[np.int32]
"""Rows of ascending feature indices; where sizes are mixed, as `subset_rows` has them."""


@dataclass(frozen=True, slots=True)
class SubsetSpace:
    """The subsets of `size` out of `features` features, in lexicographic order."""

    features: int
    size: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """All sizes of subsets: one. A `MixedSpace` has several."""
        return (self.size,)

    @property
    def count(self) -> int:
        """|Ω|, exact at any size."""
        return comb(self.features, self.size)

    def holding(self, top: int) -> int:
        """N_R: how many subsets hold one of the first `top` features. In lexicographic order they come first."""
        return self.count - comb(self.features - top, self.size)

    def unrank(self, rank: int) -> tuple[int, ...]:
        """The subset at place `rank` of the lexicographic order."""
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
        """The subsets at places start … start + length − 1, fewer at the end of the space."""
        rows = max(0, min(length, self.count - start))
        out = np.empty((rows, self.size), np.int32)
        if rows:
            _enumerate(np.array(self.unrank(start), np.int32), self.features, out)
        return out


@kernel
def _enumerate(subset: Any, features: int, out: Any) -> None:
    """Write `subset` and its successors: the last index that can still grow grows, those behind it follow closely."""
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
