"""`HintedSampler`: subsets that the screens suggest, and neighbours of subsets that did well.

A feature or a pair is drawn by its place in the screen, the first ones most often and the last ones still sometimes: a
feature at place D · u⁴ for a uniform u, so that the first hundredth of them gets a third of the draws; a pair by u².
"""

from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util import draws
from maabo_dist.screens.pairs import Screen
from maabo_dist.search.space import Subsets, SubsetSpace


class HintedSampler:
    """Draws subsets; what comes out is sorted and without repeated features, but may repeat a subset."""

    def __init__(self, space: SubsetSpace, screen: Screen) -> None:
        self._space, self._screen = space, screen

    def seeds(self, count: int, first: int, stream: int) -> Subsets:
        """To begin with, in turn: the most promising features together, completed pairs, and draws by place.

        Of the first kind there is a fixed order; `first` is how many seeds went before.
        """
        kinds = [
            self._core(first // 3, count),
            self.completions(count, draws.mix(stream)),
            self.scattered(count, draws.mix(stream ^ 1)),
        ]
        turns = np.concatenate([np.arange(len(kind)) for kind in kinds])
        return np.concatenate(kinds)[np.argsort(turns, kind="stable")]

    def scattered(self, count: int, stream: int) -> Subsets:
        """Promising features, each drawn by its place in the screen."""
        places = _places(_early(_uniform(stream, count, self._space.size)), self._space.features)
        return _proper(self._screen.features[places])

    def _core(self, start: int, count: int) -> Subsets:
        """Subsets of the most promising features, those that reach least far down the screen first."""
        size, stop = self._space.size, min(start + count, self._space.count)
        subsets = np.array([_colex(rank, size) for rank in range(start, stop)], np.int64).reshape(-1, size)
        return _proper(self._screen.features[subsets])

    def completions(self, count: int, stream: int) -> Subsets:
        """Promising pairs, with features that are promising or drawn from all."""
        if not len(self._screen.pairs):
            return self._nothing
        uniform = _uniform(stream, count, self._space.size)
        pairs = self._screen.pairs[_places(uniform[:, 0] * uniform[:, 0], len(self._screen.pairs))]
        return _proper(np.concatenate([pairs, self._any(uniform[:, 2:], draws.mix(stream))], axis=1))

    def neighbours(self, high: Subsets, count: int, stream: int) -> Subsets:
        """High-scoring subsets with one feature changed, for one that is promising or drawn from all."""
        if not len(high):
            return self._nothing
        uniform = _uniform(stream, count, 3)
        subsets = high[_places(uniform[:, 0], len(high))].copy()
        places = _places(uniform[:, 1], self._space.size)
        subsets[np.arange(count), places] = self._any(uniform[:, 2:], draws.mix(stream))[:, 0]
        return _proper(subsets)

    def _any(self, uniform: npt.NDArray[np.float64], stream: int) -> npt.NDArray[np.int32]:
        """Features by their place in the screen, or each as likely as any other, half and half."""
        by_place = _uniform(stream, len(uniform), uniform.shape[1]) < 0.5
        return self._screen.features[_places(np.where(by_place, _early(uniform), uniform), self._space.features)]

    @property
    def _nothing(self) -> Subsets:
        return np.empty((0, self._space.size), np.int32)


def _colex(rank: int, size: int) -> list[int]:
    """The subset of places at `rank` of the order by the last place, then the last but one, and so on."""
    places = []
    for left in range(size, 0, -1):
        place = left - 1
        while comb(place + 1, left) <= rank:
            place += 1
        rank -= comb(place, left)
        places.append(place)
    return places[::-1]


def _uniform(stream: int, rows: int, columns: int) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1), multiples of 2⁻⁵³."""
    keys: Any = draws.keys(stream, rows * columns) >> np.uint64(11)
    uniform: npt.NDArray[np.float64] = (keys * 2.0**-53).reshape(rows, columns)
    return uniform


def _early(uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """u⁴, by multiplication: a power function may differ between machines in its last bit."""
    square = uniform * uniform
    return square * square


def _places(share: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.int64]:
    return np.minimum((share * count).astype(np.int64), count - 1)


def _proper(subsets: npt.NDArray[np.int32]) -> Subsets:
    """Sorted, without those that hold a feature twice."""
    subsets = np.sort(subsets.astype(np.int32), axis=1)
    return subsets[(np.diff(subsets, axis=1) > 0).all(axis=1)]
