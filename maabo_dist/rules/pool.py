"""`TreePool`: collects from the trees of a search, as they arrive, what GS-MRM needs of them."""

import numpy as np
import numpy.typing as npt

from maabo_dist.rules.leaves import LeafFilter, Leaves, literal_width, reliable_leaves
from maabo_dist.rules.publishing import TreeRecords
from maabo_dist.rules.selection import distinct_leaves
from maabo_dist.search.space import SubsetIndex
from maabo_dist.study import Study
from maabo_dist.trees.forest import Forest

# Leaves that may be added before those that can no longer be selected are removed.
SLACK = 100_000


class TreePool:
    """The reliable leaves of all trees, and a record of each tree. Trees are added in the order of the search."""

    def __init__(self, study: Study) -> None:
        settings, subset_size = study.settings, study.plan.subset_size
        self._filter = LeafFilter.of(study)
        width = literal_width(subset_size, settings.max_depth)
        self.leaves = LeafPool(width, len(study.columns.classes), by_bounds=settings.similarity_by == "rows")
        self._subsets = [np.empty((0, subset_size), np.int32)]
        self._depths = [np.empty(0, np.int32)]
        self._scores = [np.empty(0)]
        # Trees so far.
        self.count = 0
        self.best_score: float | None = None

    @property
    def records(self) -> TreeRecords:
        """Subset, depth and score of every tree."""
        subsets, depths = np.concatenate(self._subsets), np.concatenate(self._depths)
        return TreeRecords(subsets, depths, np.concatenate(self._scores))

    def add(self, forest: Forest) -> int:
        """Add trees; returns the number of their reliable leaves."""
        leaves = reliable_leaves(forest, self._filter, first_tree=self.count)
        # In this order: an interrupt in between never leaves a leaf whose tree is unknown.
        self._subsets.append(forest.subsets)
        self._depths.append(forest.depths)
        self._scores.append(forest.best_scores)
        self.leaves.add(leaves)
        self.count += len(forest)
        self.best_score = max_score(self.best_score, forest.best_scores)
        return len(leaves)


def max_score(best: float | None, scores: npt.NDArray[np.float64]) -> float | None:
    """The greatest of the best score so far and of further scores; those of failed trees (NaN) do not count."""
    finite = scores[~np.isnan(scores)]
    return max([*([] if best is None else [best]), *([float(finite.max())] if len(finite) else [])], default=None)


class LeafPool:
    """Collects leaves, and removes those that can no longer be selected."""

    def __init__(self, width: int, classes: int, *, by_bounds: bool) -> None:
        self._by_bounds = by_bounds
        self._parts = [_no_leaves(width, classes)]
        self._compact_size = 0
        self._logics = SubsetIndex(width)
        # Leaves of all trees so far; of these large enough; of these pure enough. Repetitions count.
        self.seen = self.large = self.pure = 0

    @property
    def logic_sets(self) -> int:
        """Distinct logic sets so far."""
        return len(self._logics)

    def add(self, leaves: Leaves) -> int:
        """Add the leaves of more trees; returns the number of new logic sets."""
        self._parts.append(leaves)
        self.seen, self.large, self.pure = self.seen + leaves.seen, self.large + leaves.large, self.pure + len(leaves)
        if sum(map(len, self._parts)) > 2 * self._compact_size + SLACK:
            self.distinct()
        return len(self._logics.add_new(leaves.logic))

    def distinct(self) -> Leaves:
        """The best leaf of each logic set (with its thresholds, if `by_bounds`), in canonical order."""
        compact = distinct_leaves(Leaves.concatenate(self._parts), by_bounds=self._by_bounds)
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
