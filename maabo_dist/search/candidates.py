"""`CandidateSampler`: the paper's H, the unverified subsets that the acquisition compares at a step.

The space is restricted to the subsets that hold at least one of the N_U most used features, and N_E of them are drawn
uniformly without replacement. With the features renumbered so that the top ones come first, the restricted subsets of
one size are exactly the first N_R in lexicographic order, which serves both ways of getting them:

- by *drawing*: the smallest new number is drawn with its exact probability, the others uniformly above it; subsets
  already proposed, or drawn twice, are discarded;
- by *enumeration*, where the space is small or nearly used up, or all of it is requested.

Uniform draws from subsets of several sizes would hardly ever give a small one, since the large ones outnumber them by
far. Each size therefore gets an equal share of the draws; a size that has too few left gives the rest of its share to
the others, and what cannot be divided goes to the sizes that were proposed least often.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util import draws
from maabo_dist._util.jit import kernel
from maabo_dist._util.subset_rows import widen
from maabo_dist.search.limited import Completions, LimitedSpace, draw_subsets
from maabo_dist.search.space import ProposedSubsets, SizeSpace, Subsets, SubsetSpace, distinct

BLOCK = 1 << 16

# All features, the top ones first.
FeatureOrder = npt.NDArray[np.int32]
# Draws this many subsets of one size, or all (None).
_DrawSize = Callable[[int, int | None], Iterator[Subsets]]


class CandidateSampler:
    """Draws from the part of the space that holds one of the first `top` features of a given order."""

    def __init__(self, space: SubsetSpace, top: int) -> None:
        self._space = space
        self._samplers = {
            part.size: LimitedSampler(part, top) if isinstance(part, LimitedSpace) else _SizeSampler(part, top)
            for part in space.parts
        }

    def blocks(
        self, count: int | None, order: FeatureOrder, proposed: ProposedSubsets, stream: int
    ) -> Iterator[Subsets]:
        """Yield up to `count` subsets that were not proposed, or all (None), in blocks of one size each."""

        def draw_size(size: int, share: int | None) -> Iterator[Subsets]:
            own_stream = draws.substream(stream, size, parts=len(self._samplers))
            return self._samplers[size].blocks(share, order, proposed, own_stream)

        if count is None or len(self._samplers) == 1:
            blocks = [draw_size(size, count) for size in self._samplers]
        else:
            blocks = [iter(self._shared(count, proposed, draw_size))]
        for block in chain.from_iterable(blocks):
            yield widen(block, self._space.width)

    def _shared(self, count: int, proposed: ProposedSubsets, draw_size: _DrawSize) -> list[Subsets]:
        """Draw even shares of each size. That a size has fewer than its share turns out when it is drawn."""
        left = {part.size: min(count, part.count - proposed.counts[part.size]) for part in self._space.parts}
        order = sorted(left, key=lambda size: (proposed.counts[size], size))
        shares: dict[int, int] = {}
        blocks = {size: np.empty((0, size), np.int32) for size in left}
        while (next_shares := even_shares(count, left, order)) != shares:
            shares = next_shares
            for size, share in shares.items():
                if share != len(blocks[size]):
                    (blocks[size],) = draw_size(size, share)
                    left[size] = len(blocks[size]) if len(blocks[size]) < share else left[size]
        return list(blocks.values())


def even_shares(count: int, left: Mapping[int, int], order: Sequence[int]) -> dict[int, int]:
    """Divide `count` as evenly as what is left of each size allows; the first in `order` may get one more."""
    shares = dict.fromkeys(left, 0)
    others = sorted(left, key=lambda size: left[size])
    while others and left[others[0]] <= count // len(others):  # it gives all that it has
        smallest = others.pop(0)
        shares[smallest] = left[smallest]
        count -= left[smallest]
    for index, size in enumerate(size for size in order if size in others):
        shares[size] = count // len(others) + (index < count % len(others))
    return shares


class _SizeSampler:
    """Draws subsets of one size."""

    def __init__(self, space: SizeSpace, top: int) -> None:
        self._space = space
        self._restricted = space.holding(top)
        self._cumulative = _cumulative_probabilities(space, top)

    def blocks(
        self, count: int | None, order: FeatureOrder, proposed: ProposedSubsets, stream: int
    ) -> Iterator[Subsets]:
        taken = proposed.counts[self._space.size]
        if count is None:
            yield from self._enumerate(order, proposed)
        elif self._restricted > 3 * count + taken:  # then drawing is cheaper than listing all of them
            yield self._draw(count, order, proposed, stream)
        else:
            free = np.concatenate([*self._enumerate(order, proposed), np.empty((0, self._space.size), np.int32)])
            yield free if len(free) <= count else free[np.argsort(draws.keys(stream, len(free)), kind="stable")[:count]]

    def _enumerate(self, order: FeatureOrder, proposed: ProposedSubsets) -> Iterator[Subsets]:
        for start in range(0, self._restricted, BLOCK):
            block = self._space.block(start, min(BLOCK, self._restricted - start))
            block = np.sort(order[block], axis=1)
            yield block[~proposed.contains(block)]

    def _draw(self, count: int, order: FeatureOrder, proposed: ProposedSubsets, stream: int) -> Subsets:
        subsets = np.empty((0, self._space.size), np.int32)
        free = self._restricted - proposed.counts[self._space.size]
        while len(subsets) < count:
            likely = (count - len(subsets)) * self._restricted // free
            fresh = np.empty((min(likely + likely // 4 + 8, BLOCK), self._space.size), np.int32)
            stream = int(_draw(np.uint64(stream), self._cumulative, order, fresh))
            subsets = distinct(np.concatenate([subsets, fresh[~proposed.contains(fresh)]]))
        return subsets[:count]


def _cumulative_probabilities(space: SizeSpace, top: int) -> npt.NDArray[np.uint64]:
    """P(smallest number ≤ m), in units of 2⁻⁶⁴, for each m that a restricted subset can start with."""
    restricted, total = space.holding(top), 0
    steps = []
    for first in range(min(top, space.features - space.size + 1)):
        total += comb(space.features - 1 - first, space.size - 1)
        steps.append(min((total << 64) // restricted, draws.MASK))
    return np.array(steps, np.uint64)


class LimitedSampler:
    """Draws from the part of a limited space that holds one of the first `top` features of a given order."""

    def __init__(self, space: LimitedSpace, top: int) -> None:
        self._space, self._top = space, top

    def blocks(
        self, count: int | None, order: FeatureOrder, proposed: ProposedSubsets, stream: int
    ) -> Iterator[Subsets]:
        """Yield up to `count` subsets that were not proposed in one block, or all (None)."""
        completions = self._space.completions
        if self._top < self._space.features:
            completions = Completions.count_all(self._space, order[: self._top])
        taken = proposed.counts[self._space.size]
        if count is None:
            yield from self._enumerate(completions, proposed)
        elif completions.count > 3 * count + taken:  # then drawing is cheaper than listing all of them
            yield self._draw_new(completions, count, proposed, stream)
        else:
            free = np.concatenate([*self._enumerate(completions, proposed), np.empty((0, self._space.size), np.int32)])
            yield free if len(free) <= count else free[np.argsort(draws.keys(stream, len(free)), kind="stable")[:count]]

    def _enumerate(self, completions: Completions, proposed: ProposedSubsets) -> Iterator[Subsets]:
        for start in range(0, completions.count, BLOCK):
            block = completions.block(start, BLOCK)
            yield block[~proposed.contains(block)]

    def _draw_new(self, completions: Completions, count: int, proposed: ProposedSubsets, stream: int) -> Subsets:
        subsets = np.empty((0, self._space.size), np.int32)
        free = completions.count - proposed.counts[self._space.size]
        while len(subsets) < count:
            likely = (count - len(subsets)) * completions.count // free
            fresh = draw_subsets(completions, stream, min(likely + likely // 4 + 8, BLOCK))
            subsets = distinct(np.concatenate([subsets, fresh[~proposed.contains(fresh)]]))
            stream = draws.mix(stream)
        return subsets[:count]


@kernel
def _next(state: Any) -> Any:
    """SplitMix64, as in `draws.keys`: a kernel calls only kernels of its own module."""
    value = state
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@kernel
def _draw(state: Any, cumulative: Any, order: Any, out: Any) -> Any:
    """Fill `out` with subsets, each uniform over the restricted space; return the state of the stream."""
    step = np.uint64(0x9E3779B97F4A7C15)
    features, size = len(order), out.shape[1]
    for row in range(len(out)):
        state += step
        first = np.searchsorted(cumulative, _next(state), side="right")
        first = min(first, len(cumulative) - 1)
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
