"""`CandidateSampler`: the paper's H. Which unverified subsets the acquisition compares at a step.

The space is restricted to the subsets that hold at least one of the N_U most used features, and N_E of them are drawn
uniformly without replacement. With the features renumbered so that the top ones come first, the restricted subsets are
exactly the first N_R in lexicographic order, which serves both ways of getting them:

- by *drawing*: the smallest new number is drawn with its exact probability, the others uniformly above it; subsets
  already proposed, or drawn twice, are thrown away;
- by *enumeration*, where the space is small or nearly used up, or all of it is wanted.
"""

from collections.abc import Iterator
from math import comb
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from maabo_dist._util import draws
from maabo_dist._util.jit import kernel
from maabo_dist.search.space import Subsets, SubsetSpace
from maabo_dist.search.subset_index import SubsetIndex

BLOCK = 1 << 16


class Taken(Protocol):
    """Subsets that are candidates no more, such as a `SubsetIndex`."""

    def __len__(self) -> int: ...

    def contains(self, subsets: Subsets) -> npt.NDArray[np.bool_]:
        """Whether each subset is one of them."""
        ...


class CandidateSampler:
    """Draws from the part of the space that holds one of the first `top` features of a given order."""

    def __init__(self, space: SubsetSpace, top: int) -> None:
        self._space = space
        self._restricted = space.holding(top)
        self._ladder = _ladder(space, top)

    def blocks(self, count: int | None, order: npt.NDArray[np.int32], taken: Taken, stream: int) -> Iterator[Subsets]:
        """Up to `count` subsets not in `taken`, or all (None), in blocks; `order` has the features, top ones first."""
        if count is None:
            yield from self._free(order, taken)
        elif self._restricted > 3 * count + len(taken):  # then drawing is cheaper than listing all of them
            yield self._drawn(count, order, taken, stream)
        else:
            free = np.concatenate([*self._free(order, taken), np.empty((0, self._space.size), np.int32)])
            yield free if len(free) <= count else free[np.argsort(draws.keys(stream, len(free)), kind="stable")[:count]]

    def _free(self, order: npt.NDArray[np.int32], taken: Taken) -> Iterator[Subsets]:
        for start in range(0, self._restricted, BLOCK):
            block = self._space.block(start, min(BLOCK, self._restricted - start))
            block = np.sort(order[block], axis=1)
            yield block[~taken.contains(block)]

    def _drawn(self, count: int, order: npt.NDArray[np.int32], taken: Taken, stream: int) -> Subsets:
        drawn = np.empty((0, self._space.size), np.int32)
        free = self._restricted - len(taken)
        while len(drawn) < count:
            likely = (count - len(drawn)) * self._restricted // free
            fresh = np.empty((min(likely + likely // 4 + 8, BLOCK), self._space.size), np.int32)
            stream = int(_draw(np.uint64(stream), self._ladder, order, fresh))
            drawn = distinct(np.concatenate([drawn, fresh[~taken.contains(fresh)]]))
        return drawn[:count]


def _ladder(space: SubsetSpace, top: int) -> npt.NDArray[np.uint64]:
    """P(smallest number ≤ m), in units of 2⁻⁶⁴, for each m that a restricted subset can start with."""
    restricted, total = space.holding(top), 0
    steps = []
    for first in range(min(top, space.features - space.size + 1)):
        total += comb(space.features - 1 - first, space.size - 1)
        steps.append(min((total << 64) // restricted, draws.MASK))
    return np.array(steps, np.uint64)


def distinct(subsets: Subsets) -> Subsets:
    """Without repetitions, in order of first occurrence."""
    index = SubsetIndex(subsets.shape[1], room=1 << max(4, len(subsets).bit_length()))
    return subsets[index.add_new(subsets)]


@kernel
def _next(state: Any) -> Any:
    """SplitMix64, as in `draws.keys`: a kernel calls only kernels of its own module."""
    value = state
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@kernel
def _draw(state: Any, ladder: Any, order: Any, out: Any) -> Any:
    """Fill `out` with subsets, each uniform over the restricted space; returns where the stream stands."""
    step = np.uint64(0x9E3779B97F4A7C15)
    features, size = len(order), out.shape[1]
    for row in range(len(out)):
        state += step
        first = np.searchsorted(ladder, _next(state), side="right")
        first = min(first, len(ladder) - 1)
        out[row, 0] = first
        # Floyd: size − 1 distinct ones of the numbers above `first`, each combination equally likely.
        above = features - 1 - first
        for k in range(1, size):
            last = above - (size - 1) + (k - 1)
            state += step
            pick = first + 1 + np.int64(_next(state) % np.uint64(last + 1))
            for j in range(1, k):
                if out[row, j] == pick:
                    pick = first + 1 + last
                    break
            out[row, k] = pick
        for k in range(size):
            out[row, k] = order[out[row, k]]
        for k in range(1, size):  # insertion sort
            value, j = out[row, k], k
            while j > 0 and out[row, j - 1] > value:
                out[row, j] = out[row, j - 1]
                j -= 1
            out[row, j] = value
    return state
