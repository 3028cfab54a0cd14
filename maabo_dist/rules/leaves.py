"""Leaves as arrays: forests in, the reliable leaves and the number of the others out.

A leaf's logic set is kept as ascending codes, 2 · feature + (1 if the value is large), with a threshold for each. The
same logic twice on a path is one logic with the tighter threshold; the same feature both large and small is an
interval, and both logics count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel
from maabo_dist.rules.rule import NO_LITERAL
from maabo_dist.settings import PAPER_LIMITS
from maabo_dist.study import Study
from maabo_dist.trees.forest import Forest
from maabo_dist.trees.growth import LEAF


@dataclass(frozen=True, slots=True)
class LeafFilter:
    """The limits for reliable leaves."""

    min_samples: int
    # A leaf's Gini index must be below this: γ · (1 − 1/C).
    max_gini: float
    # (C): the weight of one row of each class.
    weights: npt.NDArray[np.float64]
    # True if the inner nodes of a tree count too: each is a leaf of the tree cut at its depth.
    every_depth: bool = False

    @classmethod
    def of(cls, study: Study) -> "LeafFilter":
        """The filter that the settings of a study ask for."""
        settings, weights = study.settings, study.table.weights
        greatest = 1 - 1 / len(weights)
        if settings.publishes_findings:  # limits apply to certified rules
            return cls(study.min_leaf_rows, greatest, weights, every_depth=True)
        min_samples, gini = settings.min_samples or PAPER_LIMITS["min_samples"], settings.gini or PAPER_LIMITS["gini"]
        return cls(int(min_samples), gini * greatest, weights, settings.whole_trees)

    def accepts(self, counts: npt.NDArray[np.int32], gini: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
        """(leaves): True for leaves with these counts of each class and this Gini index that are reliable."""
        accepted: npt.NDArray[np.bool_] = (counts.sum(axis=1) >= self.min_samples) & (gini < self.max_gini)
        return accepted


@dataclass(frozen=True, slots=True)
class Leaves:
    """Reliable leaves, one row each."""

    # (leaves, K): ascending literal codes, then NO_LITERAL.
    logic: npt.NDArray[np.int32]
    # (leaves, K): the threshold of each literal; 0 where there is none.
    bounds: npt.NDArray[np.float64]
    # (leaves, C): training rows of each class.
    counts: npt.NDArray[np.int32]
    gini: npt.NDArray[np.float64]
    # The number of the tree, in the order of proposal.
    tree: npt.NDArray[np.int64]
    # The tree's macro F1.
    score: npt.NDArray[np.float64]
    # All leaves examined, reliable or not.
    seen: int
    # Of these, leaves with enough rows.
    large: int

    def __len__(self) -> int:
        return len(self.gini)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """(leaves): training rows."""
        rows: npt.NDArray[np.int64] = self.counts.sum(axis=1, dtype=np.int64)
        return rows

    def conditions(self, index: int) -> tuple[list[int], list[float]]:
        """The literals of one leaf and their thresholds."""
        count = int((self.logic[index] != NO_LITERAL).sum())
        return self.logic[index, :count].tolist(), self.bounds[index, :count].tolist()

    def take(self, indices: npt.NDArray[np.int64]) -> "Leaves":
        """Return these leaves, in this order; `seen` and `large` stay as they are."""
        arrays = {name: getattr(self, name)[indices] for name in _ARRAYS}
        return Leaves(**arrays, seen=self.seen, large=self.large)

    @classmethod
    def concatenate(cls, parts: Sequence["Leaves"]) -> "Leaves":
        """Put all parts together, in order."""
        arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS}
        return cls(**arrays, seen=sum(part.seen for part in parts), large=sum(part.large for part in parts))


def no_leaves(width: int, classes: int) -> Leaves:
    """Return no leaves, of up to `width` literals."""
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


_ARRAYS = ("logic", "bounds", "counts", "gini", "tree", "score")


def reliable_leaves(forest: Forest, leaf_filter: LeafFilter, first_tree: int = 0) -> Leaves:
    """Return the leaves of a forest that are large and pure. Tree t of the forest gets the number first_tree + t."""
    width = literal_width(forest.subsets.shape[1], forest.scores.shape[1])
    examined = (forest.feature == LEAF) & forest.counts.any(axis=1)
    if leaf_filter.every_depth:
        inner = forest.feature != LEAF
        inner[forest.offsets[:-1]] = False
        examined |= inner
    count = int(examined.sum())
    logic = np.full((count, width), NO_LITERAL, np.int32)
    bounds = np.zeros((count, width))
    counts = np.empty((count, forest.counts.shape[1]), np.int32)
    gini, tree = np.empty(count), np.empty(count, np.int64)
    reliable, large = _extract(
        (forest.offsets, forest.feature, forest.threshold, forest.left, forest.counts),
        (leaf_filter.min_samples, leaf_filter.max_gini, leaf_filter.weights, leaf_filter.every_depth),
        (logic, bounds, counts, gini, tree),
    )
    return Leaves(
        logic=logic[:reliable].copy(),
        bounds=bounds[:reliable].copy(),
        counts=counts[:reliable].copy(),
        gini=gini[:reliable].copy(),
        tree=tree[:reliable] + first_tree,
        score=forest.best_scores[tree[:reliable]],
        seen=count,
        large=large,
    )


def literal_width(subset_size: int, max_depth: int) -> int:
    """K: a leaf has at most one literal per level, and two per feature."""
    return min(2 * subset_size, max_depth)


def heaviest_classes(counts: npt.NDArray[np.int32], shares: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """(leaves): the class of greatest weighted count, exactly; ties go to the first. `shares` are the table's."""
    rows, every = counts.astype(np.int64), np.arange(len(counts))
    best = np.zeros(len(counts), np.int64)
    for c in range(1, counts.shape[1]):
        best = np.where(rows[:, c] * shares[best] > rows[every, best] * shares[c], c, best)
    return best


def leaf_gini(counts: npt.NDArray[np.int32], weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(leaves): the weighted Gini index of each; 1 for a leaf without rows."""
    return np.array([weighted_gini(row, weights) if row.any() else 1.0 for row in counts])


@kernel
def weighted_gini(counts: Any, weights: Any) -> float:
    """1 − Σ (share of each class)², with classes weighted. Exactly 0 for a pure leaf."""
    total = 0.0
    for c in range(len(counts)):
        total += weights[c] * counts[c]
    squares = 0.0
    for c in range(len(counts)):
        share = weights[c] * counts[c] / total
        squares += share * share
    return 1.0 - squares


@kernel
def _extract(forest: Any, limits: Any, out: Any) -> tuple[int, int]:
    """Write the reliable leaves, and return their number and the number of leaves that are large enough."""
    offsets, feature, threshold, left, node_counts = forest
    min_samples, max_gini, weights, every_depth = limits
    logic, bounds, counts, gini, tree = out
    largest = 0
    for t in range(len(offsets) - 1):
        largest = max(largest, offsets[t + 1] - offsets[t])
    parent = np.empty(largest, np.int64)
    reliable, large = 0, 0
    for t in range(len(offsets) - 1):
        base = offsets[t]
        for node in range(offsets[t + 1] - base):
            if feature[base + node] != LEAF:
                parent[left[base + node]] = node
                parent[left[base + node] + 1] = node
                if not every_depth or node == 0:
                    continue
            rows = 0
            for c in range(node_counts.shape[1]):
                rows += node_counts[base + node, c]
            if rows < min_samples:
                continue
            large += 1
            impurity = weighted_gini(node_counts[base + node], weights)
            if not impurity < max_gini:
                continue
            _climb(node, base, parent, feature, threshold, left, logic[reliable], bounds[reliable])
            for c in range(node_counts.shape[1]):
                counts[reliable, c] = node_counts[base + node, c]
            gini[reliable], tree[reliable] = impurity, t
            reliable += 1
    return reliable, large


@kernel
def _climb(node: int, base: int, parent: Any, feature: Any, threshold: Any, left: Any, logic: Any, bounds: Any) -> None:
    """Collect the literals from a leaf to the root: the first threshold of a literal is its tightest."""
    count = 0
    while node > 0:
        above = parent[node]
        literal = 2 * feature[base + above] + (node != left[base + above])
        at = 0
        while at < count and logic[at] < literal:
            at += 1
        if at == count or logic[at] != literal:
            for i in range(count, at, -1):
                logic[i], bounds[i] = logic[i - 1], bounds[i - 1]
            logic[at], bounds[at] = literal, threshold[base + above]
            count += 1
        node = above
