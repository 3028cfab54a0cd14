"""The same forest however the work is divided, and subsets that are refused."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.errors import SearchError
from maabo_dist.trees.forest import Forest
from maabo_dist.trees.training import depth_search
from tests import factories
from tests.trees.forests import assert_same_forest, preorder

ROOT = Path(__file__).parents[2]


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
