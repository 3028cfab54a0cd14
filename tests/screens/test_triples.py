"""The screen of triples equals its reference for any division of the work, and finds what pairs do not show."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.data.columns import Columns, Feature, FeatureKind
from maabo_dist.data.split import Split, split_rows
from maabo_dist.screens.blocks import count_triples, triple_blocks
from maabo_dist.screens.pairs import BitTable
from maabo_dist.screens.triples import Triples, least_strength, screen_triples
from tests import factories
from tests.reference import triples as slow


def a_table(seed, rows=90, features=8, classes=2):
    columns = factories.make_columns(np.random.default_rng(seed), rows, features, classes)
    split = split_rows(columns.labels, test_size=0.3, seed=seed)
    return columns, split, BitTable.build(columns, split)


def a_table_of(matrix, labels):
    features = tuple(Feature(f"x{k}", f"x{k}", FeatureKind.NUMBER) for k in range(len(matrix)))
    columns = Columns.from_matrix(matrix, labels.astype(np.int32), features, ("no", "yes"), "y")
    return BitTable.build(columns, split_rows(columns.labels, test_size=0.3, seed=0))


def as_dict(triples):
    names = zip(triples.kinds.tolist(), map(tuple, triples.features.tolist()), strict=True)
    return dict(zip(names, triples.strengths.tolist(), strict=True))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(20, 300), st.integers(3, 9))
def test_strengths_equal_the_reference(seed, classes, rows, features):
    columns, split, table = a_table(seed, rows, features, classes)

    strengths = as_dict(screen_triples(table, 10_000, floor=1e-6))

    expected = {name: value for name, value in slow.strengths(columns, split.train).items() if value > 1e-6}
    assert strengths == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 40), st.floats(0, 3))
def test_the_strongest_are_kept_whatever_the_bounds_skip(seed, classes, most, floor):
    _, _, table = a_table(seed, 200, 20, classes)
    everything = screen_triples(table, 10_000, floor=0.0)

    strongest = screen_triples(table, most, floor=floor)

    kept = everything.strengths > floor
    expected = Triples(everything.kinds[kept], everything.features[kept], everything.strengths[kept])
    assert as_dict(strongest) == as_dict(Triples.strongest([expected], most))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(2, 3),
    st.sampled_from([1, 63, 64, 300, 2100, 8191, 32767, 32768]),
    st.floats(0.002, 0.998),
    st.floats(0.0, 1.0),
)
def test_the_bound_of_boxes_skips_no_strong_triple(seed, classes, rows, share, effect):
    """With any share of the classes and any values, from rows that counts are scaled for to more than that."""
    table = a_table_with_boxes(np.random.default_rng(seed), classes, rows, share, effect)
    everything = screen_triples(table, 10_000, floor=0.0)

    for most, quantile in ((1, 0.0), (5, 0.0), (10_000, 0.9), (10_000, 0.5)):
        floor = float(np.quantile(everything.strengths, quantile)) if quantile and len(everything) else 0.0
        kept = everything.strengths > floor
        expected = Triples(everything.kinds[kept], everything.features[kept], everything.strengths[kept])
        assert as_dict(screen_triples(table, most, floor=floor)) == as_dict(Triples.strongest([expected], most))


def a_table_with_boxes(random, classes, rows, share, effect):
    """Few or many values in each feature; a box of three of them has its own share of the first class."""
    matrix = np.floor(
        random.random((19, rows)) ** random.choice([0.5, 1, 3], (19, 1)) * random.choice([2, 3, 50], (19, 1))
    )
    above = matrix > np.median(matrix, axis=1, keepdims=True)
    box = above[3] & above[8] & ~above[17]
    first = random.random(rows) < np.where(box, share + effect * (1 - 2 * share), share)
    labels = np.where(first, 0, random.integers(1, classes, rows)).astype(np.int32)
    features = tuple(Feature(f"x{k}", f"x{k}", FeatureKind.NUMBER) for k in range(len(matrix)))
    columns = Columns.from_matrix(matrix, labels, features, tuple(map(str, range(classes))), "y")
    return BitTable.build(columns, Split(np.arange(rows), np.arange(0), np.arange(0)))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 40), st.integers(1, 40))
def test_any_cut_of_the_work_gives_the_same_triples(seed, pieces, most):
    _, _, table = a_table(seed, features=40)
    whole = screen_triples(table, most, floor=0.0)

    with ThreadPoolExecutor(2) as pool:
        cut = screen_triples(table, most, floor=0.0, pool=pool, pieces=pieces)

    assert np.array_equal(cut.kinds, whole.kinds)
    assert np.array_equal(cut.features, whole.features)
    assert np.array_equal(cut.strengths, whole.strengths)


@pytest.mark.parametrize(("features", "pieces"), [(0, 1), (2, 3), (3, 1), (3, 9), (7, 3), (100, 16)])
def test_blocks_cover_every_triple_once(features, pieces):
    blocks = triple_blocks(features, pieces)

    seconds = [second for start, stop in blocks for second in range(start, stop)]
    assert len(seconds) == len(set(seconds))
    assert (
        sum(count_triples(start, stop, features) for start, stop in blocks)
        == features * (features - 1) * (features - 2) // 6
    )


def test_a_parity_of_three_features_is_the_strongest_interaction():
    random = np.random.default_rng(1)
    matrix = random.normal(size=(40, 900))
    parity = (matrix[[5, 17, 31]] > 0).sum(axis=0) % 2
    table = a_table_of(matrix, np.where(random.random(900) < 0.1, 1 - parity, parity))

    triples = screen_triples(table, 10)

    of_interaction = triples.strengths[triples.kinds == 2]
    assert triples.features[triples.kinds == 2][0].tolist() == [5, 17, 31]
    assert of_interaction[0] > 3 * of_interaction[1]


def test_a_conjunction_of_three_features_is_the_strongest_of_its_class():
    random = np.random.default_rng(2)
    matrix = random.normal(size=(40, 1500))
    box = (matrix[4] > 0.3) & (matrix[20] <= -0.2) & (matrix[33] > 0)
    table = a_table_of(matrix, random.random(1500) < np.where(box, 0.95, 0.3))

    triples = screen_triples(table, 10)

    assert triples.features[triples.kinds == 1][0].tolist() == [4, 20, 33]


def test_a_feature_that_says_everything_makes_no_triple_strong():
    random = np.random.default_rng(3)
    matrix = random.normal(size=(20, 1000))
    table = a_table_of(matrix, matrix[7] > 0.1)

    assert screen_triples(table, 10).strengths.max(initial=0.0) < 2 * least_strength(20)
