"""`MixedHints`: hints for subsets of several sizes, from a `HintedSampler` for each.

Seeds and completions come size by size in turn. A neighbour of a high-scoring subset keeps its size in half of the
draws, and has one feature more or less in the others.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from maabo_dist._util import draws
from maabo_dist._util.subset_rows import sizes_of, widened
from maabo_dist.screens.pairs import Screen
from maabo_dist.search.hints import HintedSampler
from maabo_dist.search.mixed import MixedSpace
from maabo_dist.search.space import Subsets, SubsetSpace

SAME, MORE, LESS = range(3)
"""What a stream of neighbours is for."""


class MixedHints:
    """Draws rows of the largest size; a subset may be repeated."""

    def __init__(self, space: MixedSpace, screen: Screen) -> None:
        self._width = space.size
        no_pairs = Screen(screen.features, screen.pairs[:0])
        self._single = HintedSampler(SubsetSpace(space.features, 1), no_pairs)
        self._samplers = {part.size: HintedSampler(part, screen if part.size > 1 else no_pairs) for part in space.parts}

    def seeds(self, count: int, first: int, stream: int) -> Subsets:
        """To begin with: promising features together, completed pairs, draws by place; `first` seeds went before."""
        each, before = -(-count // len(self._samplers)), first // len(self._samplers)
        return self._in_turn(
            [sampler.seeds(each, before, draws.stream(stream, size, 0)) for size, sampler in self._samplers.items()]
        )[:count]

    def completions(self, count: int, stream: int) -> Subsets:
        """Promising pairs, alone or with further features."""
        samplers = {size: sampler for size, sampler in self._samplers.items() if size > 1}
        each = -(-count // len(samplers))
        return self._in_turn(
            [sampler.completions(each, draws.stream(stream, size, 0)) for size, sampler in samplers.items()]
        )[:count]

    def neighbours(self, high: Subsets, count: int, stream: int) -> Subsets:
        """High-scoring subsets with one feature changed, added or left out; each as likely as any other."""
        sizes = sizes_of(high)
        found: list[Subsets] = []
        for size in self._samplers:
            own = np.ascontiguousarray(high[sizes == size, :size])
            if len(own):
                found += self._near(own, round(count * len(own) / len(high)), draws.stream(stream, size, 0))
        return self._in_turn(found)

    def _near(self, own: Subsets, count: int, stream: int) -> Iterator[Subsets]:
        """The neighbours of subsets of one size: half of them of that size, the others of those beside it."""
        size = own.shape[1]
        beside = [way for way, other in ((MORE, size + 1), (LESS, size - 1)) if other in self._samplers]
        other = count // 2 // len(beside)
        yield self._samplers[size].neighbours(own, count - other * len(beside), draws.stream(stream, SAME, 0))
        for way in beside:
            draw = self._with_one_more if way == MORE else _with_one_less
            yield draw(own, other, draws.stream(stream, way, 0))

    def _with_one_more(self, own: Subsets, count: int, stream: int) -> Subsets:
        further = self._single.scattered(count, draws.mix(stream))
        subsets = np.concatenate([own[_picks(stream, len(further), len(own))], further], axis=1)
        subsets = np.sort(subsets.astype(np.int32), axis=1)
        return subsets[(np.diff(subsets, axis=1) > 0).all(axis=1)]

    def _in_turn(self, parts: Sequence[Subsets]) -> Subsets:
        """The first of each part, then the second of each, and so on."""
        rows = [np.empty((0, self._width), np.int32), *(widened(part, self._width) for part in parts)]
        places = np.concatenate([np.arange(len(part)) for part in rows])
        return np.concatenate(rows)[np.argsort(places, kind="stable")]


def _with_one_less(own: Subsets, count: int, stream: int) -> Subsets:
    subsets = own[_picks(stream, count, len(own))]
    kept = np.arange(own.shape[1]) != _picks(draws.mix(stream), count, own.shape[1])[:, None]
    return np.ascontiguousarray(subsets[kept].reshape(count, own.shape[1] - 1))


def _picks(stream: int, count: int, among: int) -> npt.NDArray[np.int64]:
    """`count` draws of a place among so many."""
    return (draws.keys(stream, count) % np.uint64(among)).astype(np.int64)
