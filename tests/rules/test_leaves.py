"""Reliable leaves, compared with reading every path of every tree."""

import numpy as np
import pytest

from maabo_dist.rules.leaves import LeafFilter, Leaves, literal_width, reliable_leaves, weighted_gini
from maabo_dist.rules.publishing import LeafPool
from maabo_dist.rules.rule import NO_LITERAL
from maabo_dist.rules.selection import distinct_leaves
from maabo_dist.trees.forest import Forest
from tests import factories
from tests.reference import gs_mrm


def in_order(leaves):
    return sorted(leaves, key=lambda leaf: (leaf.tree, leaf.rank))


@pytest.mark.parametrize("seed", range(30))
def test_leaves_are_those_of_every_path(seed):
    rng = np.random.default_rng(seed)
    classes, max_depth, size = int(rng.integers(2, 5)), int(rng.integers(1, 9)), int(rng.integers(1, 4))
    weighting = str(rng.choice(["balanced", "none"]))
    *_, table, forest = factories.make_forest(
        rng, rows=60, classes=classes, size=size, max_depth=max_depth, class_weight=weighting
    )
    limits = LeafFilter(int(rng.integers(1, 12)), float(rng.choice([0.1, 0.3, 2.0])), table.weights)
    every = [leaf for t, tree in enumerate(forest) for leaf in gs_mrm.leaves_of(tree, table.weights.tolist(), 7 + t)]

    leaves = reliable_leaves(forest, limits, first_tree=7)

    large = [leaf for leaf in every if leaf.n >= limits.min_samples]
    kept = [leaf for leaf in large if leaf.gini < limits.max_gini]
    assert in_order(factories.reference_leaves(leaves)) == in_order(kept)
    assert (leaves.seen, leaves.large, len(leaves)) == (len(every), len(large), len(kept))
    assert leaves.sizes.tolist() == leaves.counts.sum(axis=1).tolist()
    assert leaves.logic.shape[1] == literal_width(size, max_depth)


def test_literals_ascend_and_nothing_follows_them():
    *_, table, forest = factories.make_forest(np.random.default_rng(0), rows=80, size=3, max_depth=7)

    leaves = reliable_leaves(forest, LeafFilter(1, 2.0, table.weights))

    for logic, bounds in zip(leaves.logic, leaves.bounds, strict=True):
        literals = int((logic != NO_LITERAL).sum())
        assert (np.diff(logic[:literals]) > 0).all()
        assert (logic[literals:] == NO_LITERAL).all()
        assert (bounds[literals:] == 0).all()


def a_chain():
    """Return the tree x ≤ 8, then x ≤ 4, then x > 2, then y > 1, which tests the same feature repeatedly."""
    return Forest(
        subsets=np.array([[0, 1]], np.int32),
        scores=np.array([[0.1, 0.2, 0.3, 0.4]]),
        depths=np.array([4], np.int32),
        offsets=np.array([0, 9]),
        feature=np.array([0, 0, -1, 0, -1, -1, 1, -1, -1], np.int32),
        threshold=np.array([8.0, 4, 0, 2, 0, 0, 1, 0, 0]),
        left=np.array([1, 3, -1, 5, -1, -1, 7, -1, -1], np.int32),
        counts=np.array([[6, 4], [5, 4], [1, 0], [4, 4], [1, 0], [0, 4], [4, 0], [3, 0], [1, 0]], np.int32),
    )


def test_the_same_logic_twice_is_one_with_the_tighter_threshold_and_an_interval_is_two():
    leaves = reliable_leaves(a_chain(), LeafFilter(3, 0.5, np.ones(2)))

    assert leaves.logic.tolist() == [[0, NO_LITERAL, NO_LITERAL, NO_LITERAL], [0, 1, 2, NO_LITERAL]]
    assert leaves.bounds.tolist() == [[2, 0, 0, 0], [4, 2, 1, 0]]
    assert leaves.counts.tolist() == [[0, 4], [3, 0]]
    assert leaves.score.tolist() == [0.4, 0.4]
    assert (leaves.seen, leaves.large) == (5, 2)


def test_the_same_logic_twice_on_the_large_side_keeps_the_greater_threshold():
    forest = Forest(
        subsets=np.array([[0]], np.int32),
        scores=np.array([[0.1, 0.2]]),
        depths=np.array([2], np.int32),
        offsets=np.array([0, 5]),
        feature=np.array([0, -1, 0, -1, -1], np.int32),
        threshold=np.array([1.0, 0, 3, 0, 0]),
        left=np.array([1, -1, 3, -1, -1], np.int32),
        counts=np.array([[5, 5], [5, 0], [0, 5], [0, 1], [0, 4]], np.int32),
    )

    leaves = reliable_leaves(forest, LeafFilter(4, 0.5, np.ones(2)))

    assert leaves.logic[1].tolist() == [1, NO_LITERAL]
    assert leaves.bounds[1].tolist() == [3, 0]


def test_a_gini_index_at_the_limit_is_not_pure_enough():
    forest = a_chain()
    gini = weighted_gini(np.array([6, 4]), np.ones(2))
    root = Forest(
        forest.subsets, forest.scores[:, :1], np.array([1], np.int32), np.array([0, 1]), np.array([-1], np.int32),
        np.zeros(1), np.array([-1], np.int32), forest.counts[:1],
    )  # fmt: skip

    at_the_limit = reliable_leaves(root, LeafFilter(10, gini, np.ones(2)))
    below = reliable_leaves(root, LeafFilter(10, np.nextafter(gini, 1), np.ones(2)))

    assert (len(at_the_limit), len(below)) == (0, 1)
    assert below.logic.tolist() == [[NO_LITERAL]]


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_the_weighted_gini_index_is_the_exact_one(classes):
    rng = np.random.default_rng(classes)
    for _ in range(100):
        counts, weights = rng.integers(0, 50, classes), rng.uniform(0.01, 9, classes)
        counts[0] += 1

        gini = weighted_gini(counts, weights)

        assert gini == gs_mrm.float_gini(counts.tolist(), weights.tolist())
        assert gini == pytest.approx(float(gs_mrm.exact_gini(counts.tolist(), weights.tolist())), abs=1e-14)


def test_a_pure_leaf_has_a_gini_index_of_exactly_zero():
    for count in range(1, 200):
        assert weighted_gini(np.array([0, count, 0]), np.array([0.3, 1 / 3, 7.1])) == 0


def test_a_pool_filled_in_pieces_contains_the_best_of_each_logic_set(monkeypatch):
    monkeypatch.setattr("maabo_dist.rules.publishing.SLACK", 5)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        for by_bounds in (False, True):
            leaves = factories.make_leaves(rng, 60, ginis=(0.0, 0.1, 0.2))
            pool, seen_sets = LeafPool(4, 2, by_bounds=by_bounds), set()
            for indices in np.array_split(np.arange(60), 7):
                sets = {row.tobytes() for row in leaves.logic[indices]}
                assert pool.add(leaves.take(indices)) == len(sets - seen_sets)
                seen_sets |= sets

            distinct, expected = pool.distinct(), distinct_leaves(leaves, by_bounds=by_bounds)
            assert factories.reference_leaves(distinct) == factories.reference_leaves(expected)
            assert (pool.logic_sets, pool.pure) == (len(seen_sets), 60)


def test_leaves_are_taken_and_joined_in_order():
    leaves = factories.make_leaves(np.random.default_rng(1), 10)

    parts = [leaves.take(np.array([3, 1])), leaves.take(np.array([9]))]
    joined = Leaves.concatenate(parts)

    assert factories.reference_leaves(joined) == [factories.reference_leaves(leaves)[index] for index in (3, 1, 9)]
    assert (joined.seen, joined.large) == (20, 20)
