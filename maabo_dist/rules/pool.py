"""`LeafPool`: the reliable leaves of a search as it goes, kept small."""

import numpy as np

from maabo_dist.rules.leaves import Leaves
from maabo_dist.rules.selection import best_of_each
from maabo_dist.search.subset_index import SubsetIndex

SLACK = 100_000


class LeafPool:
    """Collects leaves; only those that can still be chosen need to stay."""

    def __init__(self, width: int, classes: int, *, by_bounds: bool) -> None:
        self._by_bounds = by_bounds
        self._parts = [_no_leaves(width, classes)]
        self._compact_size = 0
        self._logics = SubsetIndex(width)
        self.seen = self.large = self.pure = 0
        """Leaves of all trees so far; of these large enough; of these pure enough. Repetitions count."""

    @property
    def logic_sets(self) -> int:
        """Distinct logic sets so far."""
        return len(self._logics)

    def add(self, leaves: Leaves) -> int:
        """Take in the leaves of more trees; returns how many of their logic sets are new."""
        self._parts.append(leaves)
        self.seen, self.large, self.pure = self.seen + leaves.seen, self.large + leaves.large, self.pure + len(leaves)
        if sum(map(len, self._parts)) > 2 * self._compact_size + SLACK:
            self.distinct()
        return len(self._logics.add_new(leaves.logic))

    def distinct(self) -> Leaves:
        """The best leaf of each logic set (or of each rule to the letter), in canonical order."""
        compact = best_of_each(Leaves.joined(self._parts), by_bounds=self._by_bounds)
        self._parts, self._compact_size = [compact], len(compact)
        return compact


def _no_leaves(width: int, classes: int) -> Leaves:
    return Leaves(
        logic=np.empty((0, width), np.int32),
        bounds=np.empty((0, width)),
        counts=np.empty((0, classes), np.int32),
        gini=np.empty(0),
        tree=np.empty(0, np.int64),
        score=np.empty(0),
        seen=0,
        large=0,
    )
