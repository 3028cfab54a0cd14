"""The pairwise screen equals its reference for any division of the work."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.data.columns import Columns, Feature, FeatureKind
from maabo_dist.data.split import split_rows
from maabo_dist.screens.blocks import pair_blocks
from maabo_dist.screens.pairs import BitTable, Pairs, screen_block, screen_pairs, single_strengths
from tests import factories
from tests.reference import screens as slow


def a_table(seed, rows=90, features=8, classes=2):
    columns = factories.make_columns(np.random.default_rng(seed), rows, features, classes)
    split = split_rows(columns.labels, test_size=0.3, seed=seed)
    return columns, split, BitTable.build(columns, split)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(20, 200))
def test_strengths_equal_the_reference(seed, classes, rows):
    columns, split, table = a_table(seed, rows, 6, classes)
    expected = slow.strengths(columns, split.train)

    pairs = screen_pairs(table, 15)

    strengths = np.full_like(expected, -np.inf)
    strengths[pairs.features[:, 0], pairs.features[:, 1]] = pairs.strengths
    assert np.allclose(strengths, expected, rtol=1e-9, atol=1e-9)


def test_single_strengths_equal_the_reference():
    columns, split, table = a_table(3, classes=3)
    labels = columns.labels[split.train]
    binned = [slow.bins(columns.codes[f][split.train].astype(int)) for f in range(columns.count)]

    assert np.allclose(single_strengths(table), [slow.chi_squared(cells, labels, 3) for cells in binned])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 40))
def test_any_cut_of_the_work_gives_the_same_pairs(seed, pieces, limit):
    _, _, table = a_table(seed, features=9)
    whole = screen_pairs(table, limit)

    with ThreadPoolExecutor(2) as pool:
        cut = screen_pairs(table, limit, pool=pool, pieces=pieces)

    assert np.array_equal(cut.features, whole.features)
    assert np.array_equal(cut.strengths, whole.strengths)


@pytest.mark.parametrize(("features", "pieces"), [(2, 1), (2, 9), (7, 3), (100, 16), (1, 4)])
def test_blocks_cover_every_pair_once(features, pieces):
    blocks = pair_blocks(features, pieces)

    assert [first for start, stop in blocks for first in range(start, stop)][: features - 1] == list(
        range(features - 1)
    )


def test_tied_pairs_are_ordered_by_their_features():
    parts = [
        Pairs(np.array([[2, 3], [0, 9]], np.int32), np.array([1.0, 5.0])),
        Pairs(np.array([[0, 4]], np.int32), np.array([1.0])),
    ]

    merged = Pairs.strongest(parts, 3)

    assert merged.features.tolist() == [[0, 9], [0, 4], [2, 3]]


def test_two_features_that_matter_only_together_come_first():
    random = np.random.default_rng(1)
    matrix = random.normal(size=(60, 600))
    labels = ((matrix[17] > 0) ^ (matrix[42] > 0)).astype(np.int32)
    labels = np.where(random.random(600) < 0.2, 1 - labels, labels).astype(np.int32)
    features = tuple(Feature(f"x{k}", f"x{k}", FeatureKind.NUMBER) for k in range(60))
    columns = Columns.from_matrix(matrix, labels, features, ("no", "yes"), "y")

    table = BitTable.build(columns, split_rows(labels, test_size=0.3, seed=0))

    pairs = screen_pairs(table, 2)
    assert pairs.features[0].tolist() == [17, 42]
    assert pairs.strengths[0] > 3 * pairs.strengths[1]


def test_a_block_uses_only_its_own_first_features():
    _, _, table = a_table(5)

    pairs = screen_block(table, 2, 4, 100)

    assert set(pairs.features[:, 0].tolist()) == {2, 3}
    assert len(pairs) == 5 + 4
