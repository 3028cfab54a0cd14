"""Forests compared with each other and with the reference."""

import numpy as np

from maabo_dist.trees.training import TrainingTable, depth_search
from tests import factories
from tests.reference import cart

PARTS = ("subsets", "scores", "depths", "offsets", "feature", "threshold", "left", "counts")


def preorder(tree, node=0):
    yield (int(tree.feature[node]), float(tree.threshold[node]), tuple(tree.counts[node].tolist()))
    if tree.feature[node] >= 0:
        yield from preorder(tree, tree.left[node])
        yield from preorder(tree, tree.left[node] + 1)


def reference_of(columns, split, subset, max_depth, class_weight="balanced", min_samples_leaf=1):
    return cart.depth_search(
        factories.matrix_of(columns),
        columns.labels.tolist(),
        split.train.tolist(),
        split.validation.tolist(),
        subset.tolist(),
        max_depth,
        len(columns.classes),
        class_weight,
        min_samples_leaf,
    )


def assert_equals_reference(columns, split, subsets, max_depth, **options):
    table = TrainingTable.build(columns, split, **options)
    forest = depth_search(table, subsets, max_depth)
    for tree, scores, subset in zip(forest, forest.scores, subsets, strict=True):
        expected_scores, depth, root = reference_of(columns, split, subset, max_depth, **options)
        assert scores.tolist() == expected_scores
        assert (tree.depth, tree.score) == (depth, max(expected_scores))
        assert list(preorder(tree)) == list(cart.preorder(root))
    return table


def assert_same_forest(one, other):
    for part in PARTS:
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part), strict=True)
