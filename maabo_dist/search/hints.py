"""`HintSampler`: subsets that the screens suggest, and neighbours of high-scoring subsets.

A feature or a pair is drawn by its rank in the screen, the first ones most often and the last ones still sometimes: a
feature at rank D · u⁴ for a uniform u, so that the first hundredth of them gets a third of the draws; a pair by u².

With several sizes of subsets, seeds and completions take turns between the sizes. A neighbour of a high-scoring subset
keeps its size in half of the draws, and has one feature more or less in the others.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util import draws
from maabo_dist._util.subset_rows import SelectedRows, rows_by_size, widen
from maabo_dist.screens.screen import Screen
from maabo_dist.search.limited_hints import LimitTable
from maabo_dist.search.space import Subsets, SubsetSpace

# The parts of a stream of neighbours.
SAME, MORE, LESS = range(3)
TRIPLE = 3


class HintSampler:
    """Draws rows of the largest size; a subset may be repeated."""

    def __init__(self, space: SubsetSpace, screen: Screen) -> None:
        self._width = space.width
        self._rules = HintRules(space, screen)
        self._samplers = {size: SizeHints(size, self._rules) for size in space.sizes}

    def seeds(self, count: int, start: int, stream: int) -> Subsets:
        """Return initial subsets: triples, promising features together, completed pairs, and draws by rank.

        `start` is the number of seeds that came before. A single size may give more than `count`.
        """
        sizes = len(self._samplers)
        each, each_start = -(-count // sizes), start // sizes
        seeds = self._take_turns(
            [sampler.seeds(each, each_start, self._substream(stream, size)) for size, sampler in self._samplers.items()]
        )
        return seeds if sizes == 1 else seeds[:count]

    def completions(self, count: int, stream: int) -> Subsets:
        """Return promising pairs, alone or with further features."""
        samplers = {size: sampler for size, sampler in self._samplers.items() if size > 1}
        each = -(-count // len(samplers))
        return self._take_turns(
            [sampler.completions(each, self._substream(stream, size)) for size, sampler in samplers.items()]
        )[:count]

    def neighbours(self, high: Subsets | SelectedRows, count: int, stream: int) -> Subsets:
        """Return high-scoring subsets with one feature changed, added or left out; each equally likely."""
        if not len(high):
            return np.empty((0, self._width), np.int32)
        neighbours: list[Subsets] = []
        for size, own in self._by_size(high):
            neighbours += self._near(size, own, round(count * len(own) / len(high)), self._substream(stream, size))
        return self._take_turns(neighbours)

    def _by_size(self, high: Subsets | SelectedRows) -> Iterator[tuple[int, Subsets | SelectedRows]]:
        """Yield each size that occurs, and the subsets of this size. A single size needs no copy."""
        if len(self._samplers) == 1:
            yield next(iter(self._samplers)), high
            return
        for size, _, own in rows_by_size(high[:], tuple(self._samplers)):
            yield size, own

    def _near(self, size: int, own: Subsets | SelectedRows, count: int, stream: int) -> Iterator[Subsets]:
        """The neighbours of subsets of one size: half of them of that size, the others of the sizes next to it."""
        more, less = size + 1 in self._samplers, size - 1 in self._samplers
        each = count // 2 // max(1, more + less)
        yield self._samplers[size].neighbours(own, count - each * (more + less), self._substream(stream, SAME))
        if more:
            part = self._substream(stream, MORE)
            further = self._rules.promising(each, 1, draws.mix(part))
            yield self._rules.fit(np.concatenate([own[_picks(part, each, len(own))], further], axis=1), size + 1, part)
        if less:
            part = self._substream(stream, LESS)
            remaining = np.arange(size) != _picks(draws.mix(part), each, size)[:, None]
            fewer = own[_picks(part, each, len(own))][remaining].reshape(each, size - 1)
            yield self._rules.fit(fewer, size - 1, part)

    def _substream(self, stream: int, part: int) -> int:
        return draws.substream(stream, part, parts=len(self._samplers))

    def _take_turns(self, parts: Sequence[Subsets]) -> Subsets:
        """The first of each part, then the second of each, and so on."""
        return _interleave([widen(part, self._width) for part in parts])


class HintRules:
    """The features and pairs to draw from, and the form of a subset."""

    def __init__(self, space: SubsetSpace, screen: Screen) -> None:
        self._limits = LimitTable.of(space.limits, space.features, screen) if space.limits else None
        self.screen = screen if self._limits is None else self._limits.screen
        # Columns that every subset has; the other features are drawn.
        self.required = len(space.limits.required)

    def promising(self, count: int, size: int, stream: int) -> npt.NDArray[np.int32]:
        """(count, size): features, each drawn by its rank in the screen."""
        features = self.screen.features
        return features[_ranks(_early(_uniform(stream, count, size)), len(features))]

    def fit(self, features: npt.NDArray[np.int32], size: int, stream: int) -> Subsets:
        """Return subsets of `size`, sorted, of rows that can be made one.

        Where there are limits, a row lists features in order of preference, and may have too many. A column that it
        lacks is added.
        """
        return _valid(features) if self._limits is None else self._limits.fit(features, size, stream)


class SizeHints:
    """Draws subsets of one size; they are sorted and have no repeated features, but a subset may be repeated."""

    def __init__(self, size: int, rules: HintRules) -> None:
        self._size, self._rules = size, rules
        self._features, self._pairs = rules.screen.features, rules.screen.pairs[: None if size > 1 else 0]
        self._drawn = size - rules.required

    def seeds(self, count: int, start: int, stream: int) -> Subsets:
        """Return the sets of the screen, which come first however often they are asked for, and then others in turn.

        These are the most promising features together, in a fixed order; completed pairs; draws by rank.
        """
        combinations = self._combinations(start // 3, count)
        completions = _interleave([self._ordered(start // 6, count), self.completions(count, draws.mix(stream))])
        others = _interleave([combinations, completions, self.scattered(count, draws.mix(stream ^ 1))])
        return np.concatenate([self.sets(draws.mix(stream ^ 2)), others])

    def sets(self, stream: int) -> Subsets:
        """The triples and conjunctions of the screen; for larger subsets, unions of triples, and each with others."""
        screen = self._rules.screen
        parts = [screen.conjunctions[self._size]] if self._size in screen.conjunctions else []
        if self._size == TRIPLE:
            parts.append(screen.triples)
        elif self._size > TRIPLE and len(screen.triples):
            uniform = _uniform(stream, len(screen.triples), self._size - TRIPLE)
            further = self._draw_features(uniform, draws.mix(stream))
            parts += [self._unions, np.concatenate([screen.triples, further], axis=1)]
        if not parts:
            return np.empty((0, self._size), np.int32)
        return self._fit(_interleave(parts), stream)

    def _ordered(self, start: int, count: int) -> Subsets:
        """The pairs from this one on, the strongest first, each with further features."""
        pairs = self._pairs[start : start + count]
        if not len(pairs):
            return np.empty((0, self._size), np.int32)
        uniform = _uniform(draws.mix(start), len(pairs), max(0, self._size - 2))
        return self._fit(np.concatenate([pairs, self._draw_features(uniform, start)], axis=1), start)

    @cached_property
    def _unions(self) -> Subsets:
        return _unions(self._rules.screen.triples, self._size)

    def scattered(self, count: int, stream: int) -> Subsets:
        """Promising features, each drawn by its rank in the screen."""
        return self._fit(self._rules.promising(count, self._drawn, stream), stream)

    def _combinations(self, start: int, count: int) -> Subsets:
        """Subsets of the most promising features, those that reach least far down the screen first."""
        stop = min(start + count, comb(len(self._features), self._drawn))
        numbers = range(start, stop)
        subsets = np.array([_colex(number, self._drawn) for number in numbers], np.int64)
        subsets = subsets.reshape(len(numbers), self._drawn)
        return self._fit(self._features[subsets], start)

    def completions(self, count: int, stream: int) -> Subsets:
        """Promising pairs, with features that are promising or drawn from all."""
        if not len(self._pairs):
            return np.empty((0, self._size), np.int32)
        uniform = _uniform(stream, count, self._size)
        pairs = self._pairs[_ranks(uniform[:, 0] * uniform[:, 0], len(self._pairs))]
        further = self._draw_features(uniform[:, 2:], draws.mix(stream))
        return self._fit(np.concatenate([pairs, further], axis=1), stream)

    def neighbours(self, high: Subsets | SelectedRows, count: int, stream: int) -> Subsets:
        """High-scoring subsets with one feature changed, for one that is promising or drawn from all."""
        uniform = _uniform(stream, count, 3)
        subsets = high[_ranks(uniform[:, 0], len(high))]
        changed = _ranks(uniform[:, 1], self._size)
        others = subsets[np.arange(self._size) != changed[:, None]].reshape(count, self._size - 1)
        return self._fit(
            np.concatenate([self._draw_features(uniform[:, 2:], draws.mix(stream)), others], axis=1), stream
        )

    def _draw_features(self, uniform: npt.NDArray[np.float64], stream: int) -> npt.NDArray[np.int32]:
        """Features by their rank in the screen, or each equally likely, half and half."""
        by_rank = _uniform(stream, len(uniform), uniform.shape[1]) < 0.5
        return self._features[_ranks(np.where(by_rank, _early(uniform), uniform), len(self._features))]

    def _fit(self, features: npt.NDArray[np.int32], stream: int) -> Subsets:
        return self._rules.fit(features, self._size, stream)


def _unions(triples: npt.NDArray[np.int32], size: int) -> Subsets:
    """Unions of two triples with so many features: those that most pairs of triples have first, then the first found.

    A conjunction of four conditions makes four triples strong, and is the union of any two of them.
    """
    sets = [frozenset(triple.tolist()) for triple in triples]
    counts = Counter(union for first, second in combinations(sets, 2) if len(union := first | second) == size)
    unions = [sorted(union) for union, _ in counts.most_common(len(triples))]
    return np.array(unions, np.int32).reshape(len(unions), size)


def _interleave(parts: Sequence[Subsets]) -> Subsets:
    if len(parts) == 1:
        return parts[0]
    turns = np.concatenate([np.arange(len(part)) for part in parts])
    return np.concatenate(parts)[np.argsort(turns, kind="stable")]


def _colex(number: int, size: int) -> list[int]:
    """The combination of ranks with this number in the order by the last rank, then the last but one, and so on."""
    ranks = []
    for left in range(size, 0, -1):
        rank = left - 1
        while comb(rank + 1, left) <= number:
            rank += 1
        number -= comb(rank, left)
        ranks.append(rank)
    return ranks[::-1]


def _uniform(stream: int, rows: int, columns: int) -> npt.NDArray[np.float64]:
    """Numbers in [0, 1), multiples of 2⁻⁵³."""
    keys: Any = draws.keys(stream, rows * columns) >> np.uint64(11)
    uniform: npt.NDArray[np.float64] = (keys * 2.0**-53).reshape(rows, columns)
    return uniform


def _early(uniform: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """u⁴, by multiplication: a power function may differ between machines in its last bit."""
    square = uniform * uniform
    return square * square


def _ranks(share: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.int64]:
    return np.minimum((share * count).astype(np.int64), count - 1)


def _picks(stream: int, count: int, among: int) -> npt.NDArray[np.int64]:
    """`count` draws of an index below `among`."""
    return (draws.keys(stream, count) % np.uint64(among)).astype(np.int64)


def _valid(subsets: npt.NDArray[np.int32]) -> Subsets:
    """Sorted, without those that hold a feature twice."""
    subsets = np.sort(subsets.astype(np.int32), axis=1)
    return subsets[(np.diff(subsets, axis=1) > 0).all(axis=1)]
