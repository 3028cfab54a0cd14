"""Subsets of several sizes in one search: their space, the list of proposals, and the candidates among them.

Rows are as wide as the largest size (see `subset_rows`). Uniform draws from the union would nearly never give a small
subset, since the large ones outnumber them by far. Each size therefore gets an equal share of what is drawn; a size
that has too few left gives the rest of its share to the others, and what cannot be divided goes to the sizes that were
proposed least often.

With one size, all of this is `SubsetSpace`, `SubsetIndex` and `CandidateSampler` as they are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
import numpy.typing as npt

from maabo_dist._util import draws
from maabo_dist._util.subset_rows import sizes_of, widened
from maabo_dist.search.candidates import CandidateSampler
from maabo_dist.search.space import Subsets, SubsetSpace
from maabo_dist.search.subset_index import SubsetIndex

_OfSize = Callable[[int, int | None], Iterator[Subsets]]
"""Draws so many subsets of one size, or all."""


@dataclass(frozen=True, slots=True)
class MixedSpace:
    """The subsets of several sizes out of `features` features: size by size, the smallest first."""

    features: int
    sizes: tuple[int, ...]
    """Ascending."""

    @property
    def size(self) -> int:
        """The largest size: how wide rows are."""
        return self.sizes[-1]

    @property
    def parts(self) -> tuple[SubsetSpace, ...]:
        """The space of each size."""
        return tuple(SubsetSpace(self.features, size) for size in self.sizes)

    @property
    def count(self) -> int:
        """|Ω|, exact at any size."""
        return sum(comb(self.features, size) for size in self.sizes)

    def block(self, start: int, length: int) -> Subsets:
        """The subsets at places start … start + length − 1, fewer at the end of the space."""
        blocks = [np.empty((0, self.size), np.int32)]
        for part in self.parts:
            if length > 0 and start < part.count:
                blocks.append(widened(part.block(start, length), self.size))
                length -= len(blocks[-1])
            start = max(0, start - part.count)
        return np.concatenate(blocks)


class ProposedSubsets(SubsetIndex):
    """A growing list of distinct subsets; those of one size can be asked for alone."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__(sizes[-1])
        self._is_mixed = len(sizes) > 1
        self._by_size = np.zeros(sizes[-1] + 1, np.int64)

    def add(self, subsets: Subsets) -> None:
        """Append; a subset that is there already is the caller's mistake and is not looked for."""
        super().add(subsets)
        if self._is_mixed:
            self._by_size += np.bincount(sizes_of(subsets), minlength=len(self._by_size))

    def count_of(self, size: int) -> int:
        """How many subsets of this size are in a list of several sizes."""
        return int(self._by_size[size])


@dataclass(frozen=True, slots=True)
class ProposedOfSize:
    """The proposed subsets of one size, looked up in rows of that size."""

    proposed: ProposedSubsets
    size: int

    def __len__(self) -> int:
        return self.proposed.count_of(self.size)

    def contains(self, subsets: Subsets) -> npt.NDArray[np.bool_]:
        """Whether each subset was proposed."""
        return self.proposed.contains(widened(subsets, self.proposed.rows.shape[1]))


class MixedSampler:
    """A `CandidateSampler` for each size; what comes out is in rows of the largest size, one size to a block."""

    def __init__(self, space: MixedSpace, top: int) -> None:
        self._width = space.size
        self._spaces = {part.size: part for part in space.parts}
        self._samplers = {part.size: CandidateSampler(part, top) for part in space.parts}

    def blocks(
        self, count: int | None, order: npt.NDArray[np.int32], taken: ProposedSubsets, stream: int
    ) -> Iterator[Subsets]:
        """Up to `count` subsets not in `taken`, or all (None); `order` has the features, top ones first."""
        if len(self._samplers) == 1:
            yield from self._samplers[self._width].blocks(count, order, taken, stream)
            return

        def of_size(size: int, share: int | None) -> Iterator[Subsets]:
            own = draws.stream(stream, size, 0)
            return self._samplers[size].blocks(share, order, ProposedOfSize(taken, size), own)

        if count is not None:
            yield from (widened(block, self._width) for block in self._shared(count, taken, of_size))
            return
        for size in self._samplers:
            yield from (widened(block, self._width) for block in of_size(size, None))

    def _shared(self, count: int, taken: ProposedSubsets, of_size: _OfSize) -> list[Subsets]:
        """Even shares of each size. Which of them has fewer than its share shows when it is drawn."""
        left = {size: min(count, space.count - taken.count_of(size)) for size, space in self._spaces.items()}
        order = sorted(left, key=lambda size: (taken.count_of(size), size))
        shares: dict[int, int] = {}
        found = {size: np.empty((0, size), np.int32) for size in left}
        while shares != (wanted := even_shares(count, left, order)):
            for size in (size for size, share in wanted.items() if share not in {0, shares.get(size)}):
                (found[size],) = of_size(size, wanted[size])
                left[size] = len(found[size]) if len(found[size]) < wanted[size] else left[size]
            shares = wanted
        return list(found.values())


def even_shares(count: int, left: Mapping[int, int], order: Sequence[int]) -> dict[int, int]:
    """`count` divided as evenly as what is left of each size allows; the first in `order` may get one more."""
    shares = dict.fromkeys(left, 0)
    others = sorted(left, key=lambda size: left[size])
    while others and left[others[0]] <= count // len(others):  # it gives all that it has
        fewest = others.pop(0)
        shares[fewest] = left[fewest]
        count -= left[fewest]
    for place, size in enumerate(size for size in order if size in others):
        shares[size] = count // len(others) + (place < count % len(others))
    return shares
