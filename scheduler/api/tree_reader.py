"""The trees of a job, wherever they are: of a job that goes on in the ledger, of one that has ended in the store."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from itertools import accumulate, pairwise

import numpy as np

from maabo_dist._util.subset_rows import members
from maabo_dist.data.columns import Columns
from maabo_dist.search.plan import SearchPlan
from maabo_dist.trees.forest import Forest, failed_forest
from maabo_dist.trees.wire import read_frames, unpack_forest
from scheduler.ledger.jobs import JobRow
from scheduler.ledger.search import ResultRow
from scheduler.resources import Resources

BATCHES = 16
"""Read at a time from the ledger."""
STRETCHES = 40
"""Places in the search at which those of its trees are looked up that stand for all."""
Grown = Iterator[tuple[int, Forest]]
"""Some trees, and the number of the first of them in the order of the search."""
Wanted = Callable[[range], bool]
"""Whether trees with these numbers are to be read."""


@dataclass(frozen=True, slots=True)
class GrownTree:
    """What is told of a tree; without depth and score, its subset could not be had."""

    number: int
    features: list[str]
    depth: int | None
    score: float | None
    leaves: int


class TreeReader:
    """Reads as many as are asked for, and has a few thousand of them in memory at a time."""

    def __init__(self, resources: Resources, row: JobRow) -> None:
        self._resources, self._row = resources, row
        settings = row.spec.settings
        self._columns = resources.cache.columns(row.spec.dataset.fingerprint)
        self._names = _names(self._columns, settings.probes)
        self._size = SearchPlan.settle(settings, len(self._names)).subset_size

    def in_order(self, first: int, most: int) -> list[GrownTree]:
        """From tree `first` on, in the order of the search; up to the first one that has not come yet."""
        found: list[GrownTree] = []
        for number, forest in self._trees(lambda numbers: numbers.stop > first):
            wanted = range(max(0, first - number), len(forest))[: most - len(found)]
            found += [self._told(number, forest, index) for index in wanted]
            if len(found) >= most:
                break
        return found

    def spread(self, most: int) -> list[GrownTree]:
        """All, or as many from all over the search, in its order: stretches of neighbours, evenly spaced."""
        grown = self._row.trees
        if grown <= most:
            return self.in_order(0, most)
        stretches = min(STRETCHES, most)
        starts, long = [grown * place // stretches for place in range(stretches)], most // stretches
        return [
            self._told(number, forest, tree - number)
            for number, forest in self._trees(lambda numbers: _meet(numbers, starts, long))
            for start in starts
            for tree in range(max(start, number), min(start + long, number + len(forest), grown))
        ]

    def best(self, after: tuple[float, int] | None, most: int) -> list[GrownTree]:
        """By score, and of equals the earlier first; those behind the place (score, number). Goes through all trees."""
        best, least = (-np.inf, -1) if after is None else (-after[0], after[1])
        found: list[tuple[float, int, GrownTree]] = []
        for number, forest in self._trees(lambda _numbers: True):
            keys, numbers = -forest.best_scores, number + np.arange(len(forest))  # NaN, of failed ones, is never above
            behind = np.flatnonzero((keys > best) | ((keys == best) & (numbers > least)))
            first = behind[np.lexsort((numbers[behind], keys[behind]))][:most].tolist()
            told = [(float(keys[index]), number + index, self._told(number, forest, index)) for index in first]
            found = nsmallest(most, found + told, key=lambda each: each[:2])
        return [tree for *_, tree in found]

    def _told(self, number: int, forest: Forest, index: int) -> GrownTree:
        tree = forest.tree(index)
        failed = np.isnan(tree.score)
        features = [self._names[feature] for feature in members(tree.subset)]
        grown = (None, None, 0) if failed else (tree.depth, tree.score, tree.leaves)
        return GrownTree(number + index, features, *grown)

    def _trees(self, wanted: Wanted) -> Grown:
        """Whole forests, with trees beside those that are wanted."""
        return self._stored(wanted) if self._row.state.ended else self._gathered(wanted)

    def _stored(self, wanted: Wanted) -> Grown:
        number, depth, classes = 0, self._row.spec.settings.max_depth, len(self._columns.classes)
        for segment in self._row.segments:
            path = self._resources.cache.segment_file(segment.digest)
            number = yield from read_frames(path, number, wanted, depth, classes)

    def _gathered(self, wanted: Wanted) -> Grown:
        ledger, number, start = self._resources.ledger, 0, 0
        while subsets := [
            self._unpacked(row.subsets) for row in ledger.search.batches(self._row.id, start, start + BATCHES)
        ]:
            firsts = list(accumulate(map(len, subsets), initial=number))
            asked = [start + place for place, ends in enumerate(pairwise(firsts)) if wanted(range(*ends))]
            place = (asked[0], 0) if asked else (start, 0)
            for row in ledger.search.results(self._row.id, asked[0], asked[-1] + 1) if asked else ():
                if (row.batch, row.start) != place:
                    return  # the next one has not come yet
                batch = subsets[row.batch - start]
                yield firsts[row.batch - start] + row.start, self._forest(row, batch[row.start : row.stop])
                place = (row.batch, row.stop) if row.stop < len(batch) else (row.batch + 1, 0)
            if asked and place != (asked[-1] + 1, 0):
                return
            number, start = firsts[-1], start + BATCHES

    def _unpacked(self, subsets: bytes) -> "np.ndarray[tuple[int, int], np.dtype[np.int32]]":
        return np.frombuffer(subsets, "<i4").reshape(-1, self._size).astype(np.int32)

    def _forest(self, row: ResultRow, subsets: "np.ndarray[tuple[int, int], np.dtype[np.int32]]") -> Forest:
        if row.reason is None:
            return unpack_forest(row.trees, subsets)
        return failed_forest(subsets, self._row.spec.settings.max_depth, len(self._columns.classes))


def _meet(numbers: range, starts: list[int], long: int) -> bool:
    return any(start < numbers.stop and start + long > numbers.start for start in starts)


def _names(columns: Columns, probes: int) -> list[str]:
    """Of the features of the table, and of the probes behind them, whose own names nobody should read."""
    return [*(feature.name for feature in columns.features), *(f"(probe {number + 1})" for number in range(probes))]
