"""One tree for all depths, compared with textbook CART and with scikit-learn."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score
from sklearn.tree import DecisionTreeClassifier

from maabo_dist._util.subset_rows import widen
from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.errors import SearchError
from maabo_dist.trees.forest import Forest
from maabo_dist.trees.training import TrainingTable, depth_search
from maabo_dist.trees.wire import pack_forest, unpack_forest
from tests import factories
from tests.reference import cart

ROOT = Path(__file__).parents[2]
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
        (1 << 20, np.uint32, 2),
        # Each is a separate kernel, whose compilation takes half a minute.
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


def coarse(rng, features, rows, steps):
    return rng.integers(-steps, steps, (features, rows)) / 64.0


def exact_scores(values, labels, weights, smallest):
    """Return {threshold: Σ left² / W_left + Σ right² / W_right} of every split of one feature, exactly."""
    order = np.argsort(values, kind="stable")
    values, is_class = values[order], labels[order][:, None] == np.arange(len(weights))
    on_the_left = is_class.cumsum(axis=0)
    result = {}
    for cut in range(smallest, len(values) - smallest + 1):
        if values[cut - 1] < values[cut]:
            left = on_the_left[cut - 1]
            sides = [
                [w * int(n) for w, n in zip(weights, side, strict=True)] for side in (left, on_the_left[-1] - left)
            ]
            result[(values[cut - 1] + values[cut]) / 2] = sum(sum(x * x for x in side) / sum(side) for side in sides)
    return result


def exact_weights(labels, classes, class_weight):
    totals = np.bincount(labels, minlength=classes)
    if class_weight is None:
        return [Fraction(1)] * classes
    return [Fraction(1, int(total)) if total else Fraction(0) for total in totals]


def assert_follows(tree, peer, X, y, subset, weights, smallest):
    """Walk both trees; return True if they are identical because no split and no majority was tied."""

    def walk(node, other, rows):
        counts = np.bincount(y[rows], minlength=len(weights))
        assert tree.counts[node].tolist() == counts.tolist()
        if (counts > 0).sum() == 1:
            assert tree.feature[node] == -1  # scikit-learn may split a pure node
            return peer.children_left[other] == -1
        scores = {
            (feature, threshold): score
            for feature in subset
            for threshold, score in exact_scores(X[rows, feature], y[rows], weights, smallest).items()
        }
        if not scores or peer.children_left[other] == -1:
            assert tree.feature[node] == -1  # no split, or the depth is reached
            weighted = [weight * int(count) for weight, count in zip(weights, counts, strict=True)]
            return weighted.count(max(weighted)) == 1
        best = max(scores.values())
        taken = (int(tree.feature[node]), float(tree.threshold[node]))
        their = (int(subset[peer.feature[other]]), float(peer.threshold[other]))
        assert scores[taken] == best
        assert float(scores[their]) == pytest.approx(float(best), rel=1e-12)
        if list(scores.values()).count(best) > 1:
            return False
        assert taken == their
        left = X[rows, taken[0]] <= taken[1]
        sides = (peer.children_left[other], rows[left]), (peer.children_right[other], rows[~left])
        same = [walk(tree.left[node] + side, *sides[side]) for side in (0, 1)]
        return all(same)

    return walk(0, 0, np.arange(len(X)))


def check_against_sklearn(rng, *, rows, steps, classes, class_weight, smallest, max_depth=4):
    """Return the number of trees identical to scikit-learn's; check that all are at least as good at every split."""
    X = coarse(rng, 4, rows, steps).T
    score = X[:, 0] + np.abs(X[:, 1]) + rng.normal(scale=X.std() / 2, size=rows)
    y = np.searchsorted(np.quantile(score, np.arange(1, classes) / classes), score)
    split = factories.make_split(rng, rows)
    table = TrainingTable.build(
        factories.columns_of(X.T, y, classes),
        split,
        class_weight="balanced" if class_weight else "none",
        min_samples_leaf=smallest,
    )
    X_train, y_train = X[split.train], y[split.train]
    weights = exact_weights(y_train, classes, class_weight)
    equal = 0
    for subset in factories.every_subset(4, 3)[:2]:
        (tree,) = depth_search(table, subset[None], max_depth)
        model = DecisionTreeClassifier(
            max_depth=tree.depth, class_weight=class_weight, min_samples_leaf=smallest, random_state=rows
        ).fit(X_train[:, subset], y_train)
        if assert_follows(tree, model.tree_, X_train, y_train, subset.tolist(), weights, smallest):
            predicted = model.predict(X[split.validation][:, subset])
            expected = f1_score(y[split.validation], predicted, average="macro", zero_division=0)
            assert tree.score == pytest.approx(expected, rel=1e-12)
            equal += 1
    return equal


@pytest.mark.parametrize("class_weight", ["balanced", None])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_trees_equal_those_of_sklearn_where_no_splits_tie(classes, class_weight):
    rng = np.random.default_rng(31 * classes + (class_weight is None))

    equal = sum(
        check_against_sklearn(
            rng, rows=300, steps=1 << 20, classes=classes, class_weight=class_weight, smallest=smallest
        )
        for smallest in (1, 2, 9, 9, 20, 20)
    )

    assert equal >= 3  # of 12: the comparison is not an empty one


@pytest.mark.parametrize("class_weight", ["balanced", None])
@pytest.mark.parametrize("classes", [2, 3])
def test_where_splits_tie_the_decrease_of_impurity_is_that_of_sklearn(classes, class_weight):
    rng = np.random.default_rng(77 * classes + (class_weight is None))
    for _ in range(12):
        rows, steps = int(rng.integers(30, 120)), int(rng.integers(1, 4))

        check_against_sklearn(rng, rows=rows, steps=steps, classes=classes, class_weight=class_weight, smallest=1)


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_the_score_of_every_depth_is_the_macro_f1_of_sklearn(classes):
    rng = np.random.default_rng(classes)
    for _ in range(10):
        columns = factories.make_columns(rng, 40, 3, classes)
        split = factories.make_split(rng, 40)
        matrix, labels = factories.matrix_of(columns), columns.labels.tolist()
        weights, exact = cart.class_weights([labels[row] for row in split.train], classes, "balanced")
        scores = depth_search(TrainingTable.build(columns, split), np.array([[0, 1, 2]]), 5).scores[0]

        for depth, score in enumerate(scores.tolist(), start=1):
            tree = cart.grow(matrix, labels, split.train.tolist(), [0, 1, 2], depth, classes, weights)
            predicted = [cart.predict(tree, matrix[row], exact) for row in split.validation]
            actual = columns.labels[split.validation]
            expected = f1_score(actual, predicted, average="macro", zero_division=0)
            assert score == pytest.approx(expected, rel=1e-12)


# How the work is cut.


@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.booleans())
@settings(max_examples=30)
def test_any_cut_into_pieces_gives_the_same_forest(seed, pieces, pooled):
    rng = np.random.default_rng(seed)
    _, _, table, whole = factories.make_forest(rng, features=5, classes=int(rng.integers(2, 4)), size=2)

    with ThreadPoolExecutor(3) as pool:
        cut = depth_search(table, factories.every_subset(5, 2), 4, pool=pool if pooled else None, pieces=pieces)

    assert_same_forest(cut, whole)


@pytest.mark.parametrize("limit", ["PIECE_NODES", "PIECE_CELLS"])
def test_blocks_that_are_too_large_for_one_piece_give_the_same_forest(monkeypatch, limit):
    _, _, table, whole = factories.make_forest(np.random.default_rng(3), features=5)

    monkeypatch.setattr(sys.modules["maabo_dist.trees.training"], limit, 100)
    cut = depth_search(table, factories.every_subset(5, 2), 4)

    assert_same_forest(cut, whole)


def test_a_subset_gives_the_same_tree_in_any_company():
    rng = np.random.default_rng(4)
    _, _, table, whole = factories.make_forest(rng, features=6, size=3)
    subsets = factories.every_subset(6, 3)
    order = rng.permutation(len(subsets))

    mixed = Forest.concatenate([depth_search(table, part, 4) for part in np.array_split(subsets[order], 5)])

    for index, original in enumerate(order):
        assert mixed.scores[index].tolist() == whole.scores[original].tolist()
        assert list(preorder(mixed.tree(index))) == list(preorder(whole.tree(original)))


def test_no_subsets_give_a_forest_of_no_trees():
    _, _, table, _ = factories.make_forest(np.random.default_rng(8))

    forest = depth_search(table, np.empty((0, 2), np.int32), 4)

    assert (len(forest), list(forest), forest.offsets.tolist()) == (0, [], [0])


@pytest.mark.parametrize(
    ("subsets", "message"),
    [
        ([[0, 4]], "names feature 4"),
        ([[-1, 2]], "or -1"),
        ([[0, 1], [2, 1]], "must ascend"),
        ([[1, 1, 2]], "must ascend"),
        ([0, 1], "shape"),
        (np.empty((3, 0)), "shape"),
    ],
)
def test_subsets_that_are_out_of_range_or_unsorted_are_refused(subsets, message):
    _, _, table, _ = factories.make_forest(np.random.default_rng(9), features=4)

    with pytest.raises(SearchError, match=message):
        depth_search(table, np.array(subsets), 3)


def test_an_index_beyond_32_bits_is_refused():
    _, _, table, _ = factories.make_forest(np.random.default_rng(9), features=4)

    with pytest.raises(SearchError):
        depth_search(table, np.array([[0, 2**32 + 1]]), 3)


def test_leaves_larger_than_the_table_leave_the_root_alone():
    _, _, _, forest = factories.make_forest(np.random.default_rng(10), rows=40, min_samples_leaf=15)

    assert forest.feature.tolist() == [-1] * len(forest)


def test_leaves_far_larger_than_the_table_do_not_crash():
    """Runs in a separate process, because a fault would end the process."""
    script = (
        "import numpy as np; from tests import factories\n"
        "_, _, _, forest = factories.make_forest(np.random.default_rng(10), min_samples_leaf=10**9)\n"
        "assert forest.feature.tolist() == [-1] * len(forest)"
    )

    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=False)

    assert done.returncode == 0
