"""`Forest`: many small trees as flat arrays, in memory or in a file, and one at a time as `CompactTree`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt

from maabo_dist._util import arrayfile
from maabo_dist.errors import FormatError
from maabo_dist.trees.growth import LEAF

KIND = "forest/1"


@dataclass(frozen=True, slots=True)
class CompactTree:
    """One tree, cut at its best depth. Nodes are in order of their level; node 0 is the root."""

    subset: npt.NDArray[np.int32]
    depth: int
    score: float
    # Feature index of each node's split; -1 at a leaf.
    feature: npt.NDArray[np.int32]
    # Rows with at most this value go left.
    threshold: npt.NDArray[np.float64]
    # The left child; the right one follows it.
    left: npt.NDArray[np.int32]
    # (nodes, C): training rows of each class.
    counts: npt.NDArray[np.int32]

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        return int((self.feature == LEAF).sum())


TREE_ARRAYS, NODE_ARRAYS = ("subsets", "scores", "depths"), ("feature", "threshold", "left", "counts")


@dataclass(frozen=True, slots=True)
class Forest:
    """The trees of a list of subsets, in the order of that list."""

    # (trees, D′): ascending feature indices, as described in `subset_rows`.
    subsets: npt.NDArray[np.int32]
    # (trees, p_max): macro F1 on the validation rows at each depth.
    scores: npt.NDArray[np.float64]
    # (trees): the best depth, the smallest among ties.
    depths: npt.NDArray[np.int32]
    # (trees + 1): tree t's nodes are offsets[t]:offsets[t + 1] of the arrays below.
    offsets: npt.NDArray[np.int64]
    feature: npt.NDArray[np.int32]
    threshold: npt.NDArray[np.float64]
    left: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.subsets)

    def __iter__(self) -> Iterator[CompactTree]:
        return (self.tree(index) for index in range(len(self)))

    @property
    def best_scores(self) -> npt.NDArray[np.float64]:
        """(trees): the score at the best depth."""
        best: npt.NDArray[np.float64] = self.scores[np.arange(len(self)), self.depths - 1]
        return best

    def first(self, count: int) -> "Forest":
        """Return the first `count` trees, as views."""
        return self._between(0, count)

    def divide(self, sizes: Sequence[int]) -> list["Forest"]:
        """Return forests of these sizes, one after the other, as views: the inverse of `concatenate`."""
        if len(sizes) == 1:
            return [self]
        ends = [*accumulate(sizes)]
        return [self._between(end - size, end) for size, end in zip(sizes, ends, strict=True)]

    def _between(self, start: int, stop: int) -> "Forest":
        nodes = slice(self.offsets[start], self.offsets[stop])
        return Forest(
            offsets=self.offsets[start : stop + 1] - self.offsets[start],
            **{name: getattr(self, name)[start:stop] for name in TREE_ARRAYS},
            **{name: getattr(self, name)[nodes] for name in NODE_ARRAYS},
        )

    def tree(self, index: int) -> CompactTree:
        """Return tree `index`, as views."""
        nodes = slice(self.offsets[index], self.offsets[index + 1])
        depth = int(self.depths[index])
        return CompactTree(
            subset=self.subsets[index],
            depth=depth,
            score=float(self.scores[index, depth - 1]),
            **{name: getattr(self, name)[nodes] for name in NODE_ARRAYS},
        )

    @classmethod
    def concatenate(cls, parts: Sequence["Forest"]) -> "Forest":
        """Return one forest of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        starts = np.cumsum([0, *(part.offsets[-1] for part in parts[:-1])])
        shifted = [part.offsets[1:] + start for part, start in zip(parts, starts, strict=True)]
        return cls(
            offsets=np.concatenate([np.zeros(1, np.int64), *shifted]),
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in TREE_ARRAYS + NODE_ARRAYS},
        )

    def save(self, path: Path) -> None:
        """Write one file, atomically."""
        arrayfile.write(path, KIND, {field.name: getattr(self, field.name) for field in fields(self)}, {})

    @classmethod
    def load(cls, path: Path) -> "Forest":
        """Map a saved file."""
        arrays, _ = arrayfile.read(path, KIND, [field.name for field in fields(cls)])
        forest = cls(**arrays)
        if not (_lengths_match(forest) and _indices_fit(forest)):
            raise FormatError(f"{path} is damaged: its trees and nodes do not match. Recreate the file.")
        return forest


def _lengths_match(forest: Forest) -> bool:
    lengths = {"offsets": len(forest.subsets) + 1}
    lengths |= dict.fromkeys(TREE_ARRAYS, len(forest.subsets)) | dict.fromkeys(NODE_ARRAYS, len(forest.feature))
    arrays = {name: getattr(forest, name) for name in lengths}
    return all(
        len(array) == lengths[name] and array.ndim == (2 if name in {"subsets", "scores", "counts"} else 1)
        for name, array in arrays.items()
    )


def _indices_fit(forest: Forest) -> bool:
    """True if every index is valid: kernels do not check them."""
    sizes = np.diff(forest.offsets)
    if forest.offsets[0] != 0 or forest.offsets[-1] != len(forest.feature) or (sizes < 1).any():
        return False
    node = np.arange(len(forest.feature)) - np.repeat(forest.offsets[:-1], sizes)
    is_split = forest.feature != LEAF
    children_follow = (forest.left > node) & (forest.left + 1 < np.repeat(sizes, sizes))
    return bool(
        ((forest.depths >= 1) & (forest.depths <= forest.scores.shape[1])).all()
        and (forest.feature >= LEAF).all()
        and np.where(is_split, children_follow, forest.left == LEAF).all()
    )


def failed_forest(subsets: npt.NDArray[np.int32], max_depth: int, classes: int) -> Forest:
    """Return placeholders for trees that could not be grown: a leaf without rows each, and no score."""
    count = len(subsets)
    return Forest(
        subsets=subsets,
        scores=np.full((count, max_depth), np.nan),
        depths=np.ones(count, np.int32),
        offsets=np.arange(count + 1, dtype=np.int64),
        feature=np.full(count, LEAF, np.int32),
        threshold=np.zeros(count),
        left=np.full(count, LEAF, np.int32),
        counts=np.zeros((count, classes), np.int32),
    )


def empty_forest(subset_size: int, max_depth: int, classes: int) -> Forest:
    """Return a forest of no trees."""
    return failed_forest(np.empty((0, subset_size), np.int32), max_depth, classes)
