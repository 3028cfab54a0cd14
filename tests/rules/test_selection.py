"""GS-MRM, compared with Algorithm 2 line by line."""

import numpy as np
import pytest

from maabo_dist.rules.leaves import LeafFilter, reliable_leaves
from maabo_dist.rules.rule import NO_LITERAL
from maabo_dist.rules.selection import by_logic, by_rows, distinct_leaves, select_by_logic, select_rules
from tests import factories
from tests.reference import gs_mrm


def selected(leaves, limit):
    """Return the leaves that the library selects, in order, by passes and by lists with a heap, which must agree."""
    distinct = distinct_leaves(leaves)
    selection = select_rules(distinct.gini, by_logic(distinct.logic), limit)
    quick = select_by_logic(distinct.gini, distinct.logic, limit)
    assert np.array_equal(quick.chosen, selection.chosen)
    assert np.array_equal(quick.displaced_by, selection.displaced_by)
    assert np.array_equal(quick.similarity, selection.similarity)
    return factories.reference_leaves(distinct.take(selection.chosen))


def identity(leaves):
    """Return the fields that identify a rule: leaves equal in these fields are interchangeable."""
    return [(leaf.logic, leaf.counts, leaf.gini, leaf.bounds, leaf.score, leaf.tree) for leaf in leaves]


def assert_equals_algorithm_2(leaves, limit):
    expected = gs_mrm.select(factories.reference_leaves(leaves), 0, np.inf, limit, 2)

    assert identity(selected(leaves, limit)) == identity(expected)


LIMITS = (0.2, 0.34, 0.5, 0.7, 1.0)


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("ginis", [None, (0.1,), (0.0, 0.1, 0.2, 0.3), (0.0, 0.25, 0.5, 0.75)])
def test_the_selection_is_that_of_algorithm_2_on_random_pools(limit, ginis):
    rng = np.random.default_rng([int(100 * limit), len(ginis or ())])
    for _ in range(15):
        leaves = factories.make_leaves(
            rng,
            int(rng.integers(1, 70)),
            features=int(rng.integers(2, 6)),
            width=int(rng.integers(1, 5)),
            ginis=ginis,
            most_rows=int(rng.choice([2, 4, 30])),
        )

        assert_equals_algorithm_2(leaves, limit)


@pytest.mark.parametrize("seed", range(10))
def test_the_selection_is_that_of_algorithm_2_on_the_leaves_of_trees(seed):
    rng = np.random.default_rng(seed)
    *_, table, forest = factories.make_forest(rng, rows=90, features=5, classes=int(rng.integers(2, 4)), size=3)
    classes = len(table.totals)
    every = [leaf for t, tree in enumerate(forest) for leaf in gs_mrm.leaves_of(tree, table.weights.tolist(), t)]

    leaves = reliable_leaves(forest, LeafFilter(5, 0.6 * (1 - 1 / classes), table.weights))

    assert identity(selected(leaves, 0.7)) == identity(gs_mrm.select(every, 5, 0.6, 0.7, classes))


@pytest.mark.parametrize("limit", LIMITS)
def test_the_outcome_does_not_depend_on_the_order_of_the_leaves(limit):
    rng = np.random.default_rng(int(100 * limit))
    for _ in range(20):
        leaves = factories.make_leaves(rng, 50, features=3, ginis=(0.0, 0.1, 0.2), most_rows=3)
        expected = selected(leaves, limit)

        for _ in range(3):
            assert identity(selected(leaves.take(rng.permutation(50)), limit)) == identity(expected)


def leaves_of(*rows):
    """Return leaves from (literals, counts, gini)."""
    base = factories.make_leaves(np.random.default_rng(0), len(rows))
    for row, (literals, counts, gini) in enumerate(rows):
        base.logic[row] = [*literals, *[NO_LITERAL] * (4 - len(literals))]
        base.bounds[row] = 0
        base.counts[row], base.gini[row] = counts, gini
    base.score[:], base.tree[:] = 0.5, np.arange(len(rows))
    return base


def logics(leaves, limit):
    return [sorted(2 * feature + large for feature, large in leaf.logic) for leaf in selected(leaves, limit)]


def test_the_purest_leaf_is_first_and_then_the_least_similar():
    leaves = leaves_of(([0, 2], [9, 0], 0.1), ([0, 4], [9, 0], 0.11), ([6, 8], [9, 0], 0.3), ([1], [1, 0], 0.2))

    assert logics(leaves, 0.7) == [[0, 2], [1], [6, 8], [0, 4]]


def test_a_tie_goes_to_the_larger_leaf():
    leaves = leaves_of(([0], [8, 0], 0.1), ([2], [9, 0], 0.1), ([4], [5, 3], 0.1))

    assert logics(leaves, 0.7) == [[2], [0], [4]]


def test_a_tie_of_size_goes_by_the_order_of_the_logic_set():
    leaves = leaves_of(([4], [8, 0], 0.1), ([2, 6], [8, 0], 0.1), ([0, 7], [8, 0], 0.1))

    assert logics(leaves, 0.7) == [[0, 7], [2, 6], [4]]


def test_a_similarity_at_the_limit_excludes():
    leaves = leaves_of(([0, 2], [9, 0], 0.1), ([0, 4], [9, 0], 0.2))

    assert logics(leaves, 0.5) == [[0, 2]]
    assert logics(leaves, np.nextafter(0.5, 1)) == [[0, 2], [0, 4]]


def test_at_a_limit_of_one_only_contained_logic_sets_exclude_each_other():
    leaves = leaves_of(([0, 2, 4], [9, 0], 0.1), ([0, 2], [9, 0], 0.2), ([0, 2, 6], [9, 0], 0.2))

    assert logics(leaves, 1.0) == [[0, 2, 4], [0, 2, 6]]


def test_the_empty_logic_set_excludes_all_others_if_it_is_the_purest_and_is_excluded_if_not():
    purest = leaves_of(([], [9, 0], 0.0), ([0], [9, 0], 0.1), ([2], [9, 0], 0.1))
    not_purest = leaves_of(([], [9, 0], 0.05), ([0], [9, 0], 0.0), ([2], [9, 0], 0.1))

    assert logics(purest, 1.0) == [[]]
    assert logics(not_purest, 1.0) == [[0], [2]]


def test_small_and_large_of_the_same_feature_are_not_similar():
    leaves = leaves_of(([0, 2], [9, 0], 0.1), ([1, 3], [9, 0], 0.1))

    assert logics(leaves, 0.01) == [[0, 2], [1, 3]]


@pytest.mark.parametrize("limit", LIMITS)
def test_every_leaf_not_chosen_was_displaced_by_the_first_rule_similar_enough(limit):
    rng = np.random.default_rng(int(10 * limit))
    for _ in range(20):
        leaves = distinct_leaves(factories.make_leaves(rng, 60, ginis=(0.0, 0.1, 0.2)))
        references = factories.reference_leaves(leaves)

        selection = select_rules(leaves.gini, by_logic(leaves.logic), limit)

        for index, by in enumerate(selection.displaced_by.tolist()):
            values = [gs_mrm.by_logic(references[index], references[rule]) for rule in selection.chosen.tolist()]
            if index in selection.chosen:
                assert by == -1
            else:
                assert by == next(number for number, value in enumerate(values) if value >= limit)
                assert selection.similarity[index] == values[by]


def test_no_leaves_give_no_rules():
    leaves = distinct_leaves(factories.make_leaves(np.random.default_rng(0), 0))

    selection = select_rules(leaves.gini, by_logic(leaves.logic), 0.7)

    assert (len(leaves), len(selection.chosen), len(selection.displaced_by)) == (0, 0, 0)


def reference_best(leaves, key):
    groups = {}
    for leaf in leaves:
        groups.setdefault(key(leaf), []).append(leaf)
    best = [min(group, key=lambda leaf: (leaf.gini, *leaf.rank)) for group in groups.values()]
    return sorted(best, key=lambda leaf: leaf.rank[:3])


@pytest.mark.parametrize("by_bounds", [False, True])
def test_the_distinct_leaves_are_those_of_sorting_each_group(by_bounds):
    rng = np.random.default_rng(by_bounds)
    for _ in range(40):
        leaves = factories.make_leaves(rng, 80, features=2, width=3, ginis=(0.0, 0.1), most_rows=3)

        best = factories.reference_leaves(distinct_leaves(leaves, by_bounds=by_bounds))

        expected = reference_best(
            factories.reference_leaves(leaves), lambda leaf: (leaf.logic, leaf.bounds if by_bounds else None)
        )
        assert identity(best) == identity(expected)


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 64, 77])
def test_similarity_by_rows_is_simpson_on_sets_of_rows(rows):
    rng = np.random.default_rng(rows)
    covered = rng.random((30, rows)) < rng.random((30, 1))
    covered[0], covered[1] = False, True
    sets = [set(np.flatnonzero(mask).tolist()) for mask in covered]
    similarity = by_rows(covered)

    for index in range(30):
        others = rng.permutation(30)[:20]
        assert similarity(index, others).tolist() == [gs_mrm.simpson(sets[index], sets[other]) for other in others]


def test_selection_by_rows_is_algorithm_2_with_that_similarity():
    rng = np.random.default_rng(3)
    for _ in range(20):
        leaves = distinct_leaves(factories.make_leaves(rng, 40, ginis=(0.0, 0.1, 0.2)), by_bounds=True)
        covered = rng.random((len(leaves), 50)) < 0.4
        references = factories.reference_leaves(leaves)
        rows = {leaf: set(np.flatnonzero(mask).tolist()) for leaf, mask in zip(references, covered, strict=True)}

        selection = select_rules(leaves.gini, by_rows(covered), 0.6)

        expected = gs_mrm.select(
            references, 0, np.inf, 0.6, 2, lambda a, b, rows=rows: gs_mrm.simpson(rows[a], rows[b])
        )
        assert [references[index] for index in selection.chosen] == expected
