"""The pairwise screen equals its reference for any division of the work."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.data.columns import Columns, Feature, FeatureKind
from maabo_dist.data.split import Split, split_rows
from maabo_dist.screens.blocks import TENTHS, THIRDS, pair_blocks
from maabo_dist.screens.pairs import BitTable, Pairs, PairTable, screen_block, screen_pairs, single_strengths
from tests import factories
from tests.reference import scalar_pairs
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


@st.composite
def skewed_tables(draw):
    """Tables with rare classes, strong features, features of two values, ties, and copies of other columns."""
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    rows, features, classes = draw(st.integers(20, 3000)), draw(st.integers(2, 60)), draw(st.integers(2, 6))
    shares = random.dirichlet(np.full(classes, draw(st.sampled_from([0.1, 1.0, 10.0]))))
    labels = random.choice(classes, rows, p=shares).astype(np.int32)
    labels[:classes] = np.arange(classes)
    matrix = random.normal(size=(features, rows)).round(draw(st.sampled_from([0, 1, 6])))
    strong = random.random(features) < draw(st.sampled_from([0.0, 0.1, 0.9]))
    matrix[strong] += 3 * labels
    matrix[random.random(features) < 0.2] = matrix[0]
    matrix[random.random(features) < 0.2] *= -1
    names = tuple(Feature(f"x{k}", f"x{k}", FeatureKind.NUMBER) for k in range(features))
    columns = Columns.from_matrix(matrix, labels, names, tuple(map(str, range(classes))), "y")
    train = np.sort(random.permutation(rows)[: max(10, rows // 2)])  # it may lack a class
    return BitTable.build(columns, Split(train, np.arange(0), np.arange(0)))


@settings(max_examples=75, deadline=None)
@given(skewed_tables(), st.sampled_from([1, 7, 200]))
def test_pairs_and_strengths_equal_those_of_rating_every_pair(table, most):
    expected = scalar_pairs.screen_pairs(table, most)

    pairs = screen_pairs(table, most)

    assert pairs.features.tolist() == expected.features.tolist()
    assert pairs.strengths.tobytes() == expected.strengths.tobytes()


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

    pairs = screen_block(PairTable.build(table), 2, 4, 100)

    assert set(pairs.features[:, 0].tolist()) == {2, 3}
    assert len(pairs) == 5 + 4


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 60))
def test_pairs_at_two_kinds_of_cuts_are_the_strongest_at_either(seed, most):
    columns = factories.make_columns(np.random.default_rng(seed), 300, 12, 2)
    split = split_rows(columns.labels, test_size=0.3, seed=seed)
    tables = [BitTable.build(columns, split, cuts) for cuts in (THIRDS, TENTHS)]

    merged = Pairs.strongest([screen_pairs(table, most) for table in tables], most)

    either = np.fmax(*(slow.strengths(columns, split.train, cuts) for cuts in (THIRDS, TENTHS)))
    expected = sorted((-either[f, g], f, g) for f in range(12) for g in range(f + 1, 12))[:most]
    assert merged.strengths == pytest.approx([-strength for strength, _, _ in expected], rel=1e-9, abs=1e-7)
    assert len(np.unique(merged.features, axis=0)) == len(merged)


def test_a_rule_in_the_tails_of_two_features_shows_at_tenths():
    random = np.random.default_rng(2)
    matrix = random.random((40, 6000))
    inside = (matrix[3] > 0.92) & (matrix[9] < 0.08)
    labels = np.where(random.random(6000) < np.where(inside, 0.9, 0.3), 1, 0)
    features = tuple(Feature(f"x{k}", f"x{k}", FeatureKind.NUMBER) for k in range(40))
    columns = Columns.from_matrix(matrix, labels.astype(np.int32), features, ("no", "yes"), "y")
    split = split_rows(columns.labels, test_size=0.3, seed=0)

    thirds, tenths = (screen_pairs(BitTable.build(columns, split, cuts), 780) for cuts in (THIRDS, TENTHS))

    assert tenths.features[0].tolist() == [3, 9]
    assert thirds.features.tolist().index([3, 9]) > 20
