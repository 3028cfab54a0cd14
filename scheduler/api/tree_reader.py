"""`TreeReader`: the trees of a job, from the ledger while it runs and from the store after it has ended."""

from collections.abc import Callable, Iterator
from heapq import nsmallest
from itertools import accumulate, pairwise

import numpy as np

from maabo_dist._util.subset_rows import members
from maabo_dist.contract.api import Tree
from maabo_dist.search.plan import SearchPlan
from maabo_dist.trees.forest import Forest, failed_forest
from maabo_dist.trees.wire import read_frames, unpack_forest
from scheduler.ledger.jobs import JobRow
from scheduler.resources import Resources

LEDGER_BATCHES = 16  # batches read from the ledger at a time
SAMPLE_RUNS = 40  # positions in the search at which a sample takes consecutive trees
# Forests, each with the index of its first tree in the order of the search.
Forests = Iterator[tuple[int, Forest]]
Filter = Callable[[range], bool]  # True if any tree with these indexes is needed


class TreeReader:
    """Reads only what is needed, a few thousand trees at a time."""

    def __init__(self, resources: Resources, row: JobRow) -> None:
        self._resources, self._row = resources, row
        settings = row.spec.settings
        columns = resources.cache.columns(row.spec.dataset.fingerprint)
        features = [feature.name for feature in columns.features]
        self._names = [*features, *(f"(probe {number + 1})" for number in range(settings.probes))]
        self._shape = settings.max_depth, len(columns.classes)
        self._size = SearchPlan.settle(settings, len(self._names), columns.column_names).subset_size

    def in_order(self, first: int, count: int) -> list[Tree]:
        """Return up to `count` trees from index `first`, in the order of the search, up to the first unfinished one."""
        trees: list[Tree] = []
        for number, forest in self._forests(lambda numbers: numbers.stop > first):
            indexes = range(max(0, first - number), len(forest))[: count - len(trees)]
            trees += [self._tree(number, forest, index) for index in indexes]
            if len(trees) >= count:
                break
        return trees

    def sample(self, count: int) -> list[Tree]:
        """Return all trees or, if there are more than `count`, evenly spaced runs of consecutive ones.

        Trees that the ledger has received since the row was read are left out.
        """
        total = self._row.trees
        if total <= count:
            return self.in_order(0, total)
        runs = min(SAMPLE_RUNS, count)
        starts, length = [total * run // runs for run in range(runs)], count // runs

        def is_sampled(numbers: range) -> bool:
            return any(start < numbers.stop and start + length > numbers.start for start in starts)

        return [
            self._tree(number, forest, tree - number)
            for number, forest in self._forests(is_sampled)
            for start in starts
            for tree in range(max(start, number), min(start + length, number + len(forest), total))
        ]

    def best(self, after: tuple[float, int] | None, count: int) -> list[Tree]:
        """Return trees by decreasing score and increasing index, after the position (score, index). Reads all trees."""
        last_key, last_number = (-np.inf, -1) if after is None else (-after[0], after[1])
        best: list[tuple[float, int, Tree]] = []
        for number, forest in self._forests(lambda _numbers: True):
            # The scores of failed trees are NaN, and no comparison with NaN is true.
            keys, numbers = -forest.best_scores, number + np.arange(len(forest))
            later = np.flatnonzero((keys > last_key) | ((keys == last_key) & (numbers > last_number)))
            first = later[np.lexsort((numbers[later], keys[later]))][:count].tolist()
            trees = [(float(keys[index]), number + index, self._tree(number, forest, index)) for index in first]
            best = nsmallest(count, best + trees, key=lambda each: each[:2])
        return [tree for *_, tree in best]

    def _tree(self, number: int, forest: Forest, index: int) -> Tree:
        tree = forest.tree(index)
        failed = np.isnan(tree.score)
        return Tree(
            number=number + index,
            features=tuple(self._names[feature] for feature in members(tree.subset)),
            depth=None if failed else int(tree.depth),
            score=None if failed else float(tree.score),
            leaves=0 if failed else int(tree.leaves),
        )

    def _forests(self, needed: Filter) -> Forests:
        """Yield whole forests, which may contain trees that are not needed."""
        if not self._row.state.ended:
            yield from self._from_ledger(needed)
            return
        number = 0
        for segment in self._row.segments:
            path = self._resources.cache.segment_file(segment.digest)
            number = yield from read_frames(path, number, needed, *self._shape)

    def _from_ledger(self, needed: Filter) -> Forests:
        ledger, job, number, start = self._resources.ledger, self._row.id, 0, 0
        while rows := list(ledger.search.batches(job, start, start + LEDGER_BATCHES)):
            batches = [np.frombuffer(row.subsets, "<i4").reshape(-1, self._size).astype(np.int32) for row in rows]
            firsts = list(accumulate(map(len, batches), initial=number))
            numbers = [start + index for index, ends in enumerate(pairwise(firsts)) if needed(range(*ends))]
            expected = (numbers[0], 0) if numbers else (start, 0)
            for row in ledger.search.results(job, numbers[0], numbers[-1] + 1) if numbers else ():
                if (row.batch, row.start) != expected:
                    return  # the next result has not arrived yet
                batch = batches[row.batch - start]
                subsets = batch[row.start : row.stop]
                failed = row.reason is not None
                forest = failed_forest(subsets, *self._shape) if failed else unpack_forest(row.trees, subsets)
                yield firsts[row.batch - start] + row.start, forest
                expected = (row.batch, row.stop) if row.stop < len(batch) else (row.batch + 1, 0)
            if numbers and expected != (numbers[-1] + 1, 0):
                return
            number, start = firsts[-1], start + LEDGER_BATCHES
