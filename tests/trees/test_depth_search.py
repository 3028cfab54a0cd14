"""One tree for all depths, compared with textbook CART and with scikit-learn."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist._util.subset_rows import widen
from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.trees import growth
from maabo_dist.trees.training import TrainingTable, depth_search
from maabo_dist.trees.wire import pack_forest, unpack_forest
from tests import factories
from tests.trees.forests import assert_equals_reference, assert_same_forest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", range(40))
def test_scores_best_depth_and_tree_equal_the_reference_on_small_tables(seed):
    rng = np.random.default_rng(seed)
    for _ in range(8):
        features, classes = int(rng.integers(1, 6)), int(rng.integers(2, 6))
        columns = factories.make_columns(rng, int(rng.integers(8, 36)), features, classes)
        subsets = factories.every_subset(features, int(rng.integers(1, features + 1)))
        assert_equals_reference(
            columns,
            factories.make_split(rng, columns.rows, holdout=rng.choice([0.0, 0.1])),
            subsets[rng.permutation(len(subsets))[:2]],
            int(rng.integers(1, 13)),
            class_weight=str(rng.choice(["balanced", "none"])),
            min_samples_leaf=int(rng.integers(1, 6)),
        )


@pytest.mark.parametrize("seed", range(12))
def test_a_repeated_last_feature_changes_nothing_in_a_tree(seed):
    """Subsets of several sizes share one array in this way, next to wider ones that use the same first levels."""
    rng = np.random.default_rng(1000 + seed)
    columns = factories.make_columns(rng, int(rng.integers(20, 200)), 6, int(rng.integers(2, 4)))
    split = factories.make_split(rng, columns.rows)
    table = TrainingTable.build(columns, split, min_samples_leaf=int(rng.integers(1, 4)))
    depth = int(rng.integers(1, 7))
    parts = [factories.every_subset(6, size) for size in (1, 2, 3, 4)]
    rows = np.concatenate([widen(part, 4) for part in parts])
    order = rng.permutation(len(rows))

    together = depth_search(table, rows[order], depth)

    apart = [tree for part in parts for tree in zip_scores(depth_search(table, part, depth))]
    for index, (tree, scores) in zip(order, zip_scores(together), strict=True):
        expected, expected_scores = apart[index]
        assert scores.tolist() == expected_scores.tolist()
        assert (tree.depth, tree.score) == (expected.depth, expected.score)
        for part in ("feature", "threshold", "left", "counts"):
            np.testing.assert_array_equal(getattr(tree, part), getattr(expected, part), strict=True)
    assert_same_forest(unpack_forest(pack_forest(together), rows[order]), together)


def zip_scores(forest):
    return zip(forest, forest.scores, strict=True)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_columns_of_few_values_equal_the_reference(seed, classes):
    rng = np.random.default_rng(1000 + seed)
    columns = factories.make_columns(rng, 260, 4, classes, kinds=("few", "zeros", "constant", "neighbouring"))

    assert_equals_reference(
        columns,
        factories.make_split(rng, columns.rows),
        factories.every_subset(4, 3),
        5,
        class_weight=str(rng.choice(["balanced", "none"])),
        min_samples_leaf=int(rng.integers(1, 20)),
    )


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 2, 3, 4]), st.booleans())
def test_trees_on_cells_and_on_orders_of_one_block_equal_the_reference(seed, size, gaps):
    """Subsets of columns of few values are grown on cells, others of the same block and root on orders."""
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(40, 400))
    few = np.array([rng.integers(0, values, rows) for values in rng.integers(2, 6, 4)], float)
    if gaps:  # values between others that no training row of a node has, or no row at all
        few = few**3 - 2.5
    many = np.round(rng.normal(size=(1, rows)), 2)
    signal = few[0] + few[1] > np.median(few[0] + few[1])
    columns = factories.columns_of(np.concatenate([few, many]), signal ^ (rng.random(rows) < 0.3))

    assert_equals_reference(
        columns,
        factories.make_split(rng, rows),
        factories.every_subset(5, size),
        int(rng.integers(1, 7)),
        class_weight=str(rng.choice(["balanced", "none"])),
        min_samples_leaf=int(rng.choice([1, 2, 15])),
    )


@pytest.mark.parametrize("cells", [4, 5])
def test_trees_are_grown_on_cells_up_to_their_number(cells):
    """Rows for four cells: one more needs orders, and the trees are those of the reference in both cases."""
    rng = np.random.default_rng(cells)
    rows = 4 * growth.CELL_ROWS + 3
    columns = factories.columns_of(rng.permutation(np.arange(rows) % cells)[None].astype(float), rng.random(rows) < 0.5)
    split = Split(np.arange(rows - 2), np.arange(rows - 2, rows), np.empty(0, np.int64))

    table = assert_equals_reference(columns, split, np.array([[0]], np.int32), 4)

    assert growth.has_few_cells(table, np.array([0], np.int32)) == (cells == 4)


@pytest.mark.parametrize("seed", range(6))
def test_long_runs_of_one_class_equal_the_reference(seed):
    """Cuts inside a run of one class are skipped where they cannot win; a strong signal makes the runs long."""
    rng = np.random.default_rng(2000 + seed)
    matrix = rng.normal(size=(3, 150)).round(int(rng.integers(1, 4)))
    labels = (matrix[0] + matrix[1] > rng.normal(scale=0.2, size=150)) ^ (rng.random(150) < 0.03)
    columns = factories.columns_of(matrix, labels)

    assert_equals_reference(
        columns,
        factories.make_split(rng, 150),
        factories.every_subset(3, 2),
        4,
        class_weight=str(rng.choice(["balanced", "none"])),
        min_samples_leaf=int(rng.choice([1, 1, 2, 5])),
    )


@pytest.mark.parametrize(
    ("values", "dtype", "classes"),
    [
        # Each is a separate kernel, whose compilation takes half a minute.
        pytest.param(1 << 20, np.uint32, 2, marks=pytest.mark.slow),
        pytest.param(1 << 20, np.uint32, 4, marks=pytest.mark.soak),
        pytest.param(1 << 22, np.int64, 2, marks=pytest.mark.soak),
        pytest.param(1 << 22, np.int64, 4, marks=pytest.mark.soak),
    ],
)
def test_entries_that_need_more_than_32_bits_equal_the_reference(values, dtype, classes):
    rng = np.random.default_rng(values + classes)
    small = factories.make_columns(rng, 300, 2, classes)
    columns = Columns(
        codes=rng.integers(0, values, (2, 300)).astype(np.uint32),
        values=np.tile(np.arange(float(values)), 2),
        offsets=np.arange(3) * values,
        labels=small.labels,
        features=small.features,
        classes=small.classes,
        target="y",
    )
    split = factories.make_split(rng, 300, validation=0.45)

    table = assert_equals_reference(columns, split, factories.every_subset(2, 2), 3)

    assert table.entries.dtype == dtype


def the_one_class_split():
    """Return a split with training rows of classes 0 and 1 only, and validation rows of class 2 only."""
    matrix = np.array([[0.0, 1, 2, 3, 4, 5, 6, 7], [1.0, 0, 1, 0, 1, 1, 0, 0]])
    columns = factories.columns_of(matrix, [0, 0, 1, 1, 0, 1, 2, 2], classes=3)
    return columns, Split(np.arange(6), np.array([6, 7]), np.empty(0, np.int64))


@pytest.mark.parametrize("class_weight", ["balanced", "none"])
def test_validation_rows_of_a_class_without_training_rows_count_as_missed(class_weight):
    columns, split = the_one_class_split()

    assert_equals_reference(columns, split, factories.every_subset(2, 1), 4, class_weight=class_weight)

    forest = depth_search(TrainingTable.build(columns, split), factories.every_subset(2, 1), 4)
    assert (forest.scores == 0).all()
    assert (forest.depths == 1).all()


def test_validation_rows_may_lack_a_class():
    matrix = np.array([[0.0, 1, 2, 3, 4, 5, 0.5, 1.5], [1.0, 0, 1, 0, 1, 1, 0, 0]])
    columns = factories.columns_of(matrix, [0, 0, 1, 1, 2, 2, 0, 0], classes=3)
    split = Split(np.arange(6), np.array([6, 7]), np.empty(0, np.int64))

    assert_equals_reference(columns, split, factories.every_subset(2, 2), 4)

    forest = depth_search(TrainingTable.build(columns, split), factories.every_subset(2, 2), 2)
    assert forest.scores[0].tolist() == [1.0, 1.0]  # classes that occur neither here nor in a prediction do not count


def test_training_rows_of_one_class_give_a_tree_of_one_leaf():
    columns = factories.columns_of([[0.0, 1, 2, 3, 4]], [1, 1, 1, 0, 1])
    split = Split(np.arange(3), np.array([3, 4]), np.empty(0, np.int64))

    (tree,) = depth_search(TrainingTable.build(columns, split), np.array([[0]]), 5)

    assert tree.feature.tolist() == [-1]
    assert tree.counts.tolist() == [[0, 3]]
    assert tree.score == pytest.approx(2 / 3 / 2)


def test_a_subset_of_constant_columns_gives_a_tree_of_one_leaf():
    columns = factories.columns_of([[7.0] * 6, [-0.0, 0.0] * 3, [0.0, 0, 0, 1, 1, 1]], [0, 0, 1, 1, 1, 0])
    split = Split(np.arange(4), np.array([4, 5]), np.empty(0, np.int64))

    forest = depth_search(TrainingTable.build(columns, split), np.array([[0, 1], [0, 2]]), 3)

    assert forest.tree(0).feature.tolist() == [-1]
    assert (forest.tree(0).depth, forest.tree(0).left.tolist()) == (1, [-1])
    assert forest.tree(1).feature[0] == 2


def test_a_pure_node_is_never_split():
    rng = np.random.default_rng(5)
    for _ in range(30):
        classes = int(rng.integers(2, 5))
        *_, forest = factories.make_forest(rng, rows=50, classes=classes, max_depth=8)
        is_split = forest.feature >= 0

        assert ((forest.counts[is_split] > 0).sum(axis=1) > 1).all()


def test_every_leaf_keeps_its_smallest_number_of_rows():
    rng = np.random.default_rng(6)
    for smallest in (1, 2, 5, 9):
        *_, forest = factories.make_forest(rng, rows=70, max_depth=8, min_samples_leaf=smallest)

        assert forest.counts.sum(axis=1).min() >= smallest


def test_a_tie_between_features_goes_to_the_first_of_the_subset():
    columns = factories.columns_of([[0.0, 1, 2, 3]] * 3, [0, 0, 1, 1])
    table = TrainingTable.build(columns, Split(np.arange(4), np.array([0]), np.empty(0, np.int64)))

    forest = depth_search(table, np.array([[0, 1], [1, 2]]), 1)

    assert [tree.feature[0] for tree in forest] == [0, 1]


@pytest.mark.parametrize("classes", [2, 3])
def test_a_tie_goes_to_the_lower_threshold(classes):
    columns = factories.columns_of([[0.0, 1, 2, 3, 4, 5]], [0, 1, 1, 1, 1, 0], classes)
    table = TrainingTable.build(columns, Split(np.arange(6), np.array([0]), np.empty(0, np.int64)))

    (tree,) = depth_search(table, np.array([[0]]), 1)

    assert tree.threshold[0] == 0.5


def test_a_tied_majority_goes_to_the_first_class():
    columns = factories.columns_of([[0.0, 0, 0, 0]], [1, 0, 0, 1])
    table = TrainingTable.build(columns, Split(np.arange(2), np.array([2]), np.empty(0, np.int64)))

    (tree,) = depth_search(table, np.array([[0]]), 1)

    assert tree.score == 1.0


def test_a_majority_is_decided_by_exact_weights():
    """1 of 3 rows against 2 of 6 is a tie of balanced weights, which rounded weights would decide."""
    matrix = [[0.0] * 3 + [1.0] * 6 + [0.0]]
    columns = factories.columns_of(matrix, [0, 1, 1] + [0] * 2 + [1] * 4 + [0])
    table = TrainingTable.build(columns, Split(np.arange(9), np.array([9]), np.empty(0, np.int64)))

    (tree,) = depth_search(table, np.array([[0]]), 1)

    assert tree.counts[1].tolist() == [1, 2]
    assert tree.score == 1.0


def test_equal_scores_keep_the_smallest_depth():
    rng = np.random.default_rng(7)
    for _ in range(20):
        *_, forest = factories.make_forest(rng, max_depth=8)

        assert (forest.depths == 1 + forest.scores.argmax(axis=1)).all()


# Against scikit-learn. It casts to float32 and takes values closer than 1e-7 for equal: a coarse grid suits both.


# How the work is cut.
