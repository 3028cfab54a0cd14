"""Trees compared with those of scikit-learn."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.metrics import f1_score
from sklearn.tree import DecisionTreeClassifier

from maabo_dist.trees.training import TrainingTable, depth_search
from tests import factories
from tests.reference import cart


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
@pytest.mark.parametrize("classes", [2, 3, pytest.param(5, marks=pytest.mark.slow)])
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
