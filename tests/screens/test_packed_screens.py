"""Pairs and screens as bytes: they round-trip, and invalid bytes are rejected."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.data.split import split_rows
from maabo_dist.errors import FormatError
from maabo_dist.screens.blocks import count_pairs, pair_blocks
from maabo_dist.screens.pairs import BitTable, Pairs, PairTable, screen_block
from maabo_dist.screens.screen import Screen
from maabo_dist.screens.triples import Triples, screen_triples
from maabo_dist.screens.wire import (
    pack_pairs,
    pack_screen,
    pack_triples,
    unpack_pairs,
    unpack_screen,
    unpack_triples,
)
from tests import factories

FEATURES = 9


def a_table():
    columns = factories.make_columns(np.random.default_rng(4), 60, FEATURES, 2)
    return BitTable.build(columns, split_rows(columns.labels, test_size=0.3, seed=1))


def some_pairs(*features, strengths=(3.0, 2.0, 1.0)):
    return Pairs(np.array(features, np.int32), np.array(strengths[: len(features)]))


@pytest.mark.parametrize("limit", [1, 5, 100])
@pytest.mark.parametrize(("start", "stop"), pair_blocks(FEATURES, 3))
def test_pairs_survive_a_round_trip(start, stop, limit):
    pairs = screen_block(PairTable.build(a_table()), start, stop, limit)

    unpacked = unpack_pairs(pack_pairs(pairs), start, stop, FEATURES, limit)

    assert np.array_equal(unpacked.features, pairs.features)
    assert np.array_equal(unpacked.strengths, pairs.strengths)


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        (some_pairs([1, 2], [2, 5]), "expected 3 pairs"),
        (some_pairs([1, 2], [2, 5], [0, 4]), "outside the block of features 1 to 2"),
        (some_pairs([1, 2], [2, 5], [3, 4]), "outside the block"),
        (some_pairs([1, 2], [2, 5], [2, 9]), "outside the block"),
        (some_pairs([1, 2], [2, 5], [2, 2]), "outside the block"),
        (some_pairs([1, 2], [2, 5], [2, 1]), "outside the block"),
        (some_pairs([1, 2], [2, 5], [1, 3], strengths=(3.0, np.nan, 1.0)), "not finite"),
        (some_pairs([1, 2], [2, 5], [1, 3], strengths=(np.inf, 2.0, 1.0)), "not finite"),
        (some_pairs([1, 2], [2, 5], [1, 3], strengths=(3.0, 1.0, 2.0)), "not in order"),
        (some_pairs([1, 2], [2, 5], [1, 3], strengths=(3.0, 1.0, 1.0)), "not in order"),
        (some_pairs([1, 2], [1, 2], [1, 3], strengths=(3.0, 3.0, 1.0)), "not in order"),
    ],
)
def test_pairs_that_are_not_those_of_a_block_are_refused(pairs, reason):
    with pytest.raises(FormatError, match=reason):
        unpack_pairs(pack_pairs(pairs), 1, 3, FEATURES, 3)


@given(st.binary(max_size=200))
def test_bytes_that_are_not_pairs_are_refused(data):
    with pytest.raises(FormatError):
        unpack_pairs(data, 1, 3, FEATURES, 3)


def test_a_screen_survives_a_round_trip():
    screen = Screen(np.array([2, 0, 1, 3], np.int32), np.array([[0, 3], [1, 2]], np.int32))

    unpacked = unpack_screen(pack_screen(screen), 4)

    assert unpacked.features.tolist() == [2, 0, 1, 3]
    assert unpacked.pairs.tolist() == [[0, 3], [1, 2]]


@pytest.mark.parametrize(
    ("order", "pairs", "features"),
    [([0, 1, 2], [[0, 1]], 4), ([0, 1, 1], [[0, 1]], 3), ([0, 1, 2], [[0, 3]], 3), ([0, 1, 2], [[1, 0]], 3)],
)
def test_a_screen_of_another_table_is_refused(order, pairs, features):
    packed = pack_screen(Screen(np.array(order, np.int32), np.array(pairs, np.int32)))

    with pytest.raises(FormatError):
        unpack_screen(packed, features)


@given(st.binary(max_size=60))
def test_bytes_that_are_not_a_screen_are_refused(data):
    with pytest.raises(FormatError):
        unpack_screen(data, 5)


@pytest.mark.parametrize(("features", "pieces"), [(2, 1), (7, 3), (100, 16)])
def test_blocks_are_counted_without_looking_at_them(features, pieces):
    blocks = pair_blocks(features, pieces)

    assert sum(count_pairs(start, stop, features) for start, stop in blocks) == features * (features - 1) // 2
    assert all(count_pairs(start, stop, features) > 0 for start, stop in blocks)


def test_a_table_of_bits_is_loaded_from_its_file(tmp_path):
    table = a_table()
    table.save(tmp_path / "bits")

    unpacked = BitTable.load(tmp_path / "bits")

    assert all(np.array_equal(*pair) for pair in zip(unpacked, table, strict=True))


def some_triples(*triples, strengths=(3.0, 2.0, 1.0)):
    rows = np.array(triples, np.int32)
    return Triples(rows[:, 0], rows[:, 1:], np.array(strengths[: len(rows)]))


@pytest.mark.parametrize("most", [1, 5, 100])
def test_triples_survive_a_round_trip(most):
    triples = screen_triples(a_table(), most, floor=0.0)

    unpacked = unpack_triples(pack_triples(triples), 0, FEATURES, FEATURES, 3, most)

    assert len(triples) >= 3 * min(most, 5)
    assert np.array_equal(unpacked.kinds, triples.kinds)
    assert np.array_equal(unpacked.features, triples.features)
    assert np.array_equal(unpacked.strengths, triples.strengths)


@pytest.mark.parametrize(
    ("triples", "reason"),
    [
        (some_triples([0, 1, 2, 3], [0, 1, 2, 4], [0, 1, 2, 5]), "not in order"),  # more than two of a kind
        (some_triples([0, 0, 1, 3]), "outside the block of second features 2 to 4"),
        (some_triples([0, 1, 5, 6]), "outside the block"),
        (some_triples([0, 2, 2, 6]), "outside the block"),
        (some_triples([0, -1, 2, 6]), "outside the block"),
        (some_triples([0, 1, 2, 2]), "name a feature or a class"),
        (some_triples([0, 1, 2, 9]), "name a feature or a class"),
        (some_triples([3, 1, 2, 8]), "name a feature or a class"),
        (some_triples([-1, 1, 2, 8]), "name a feature or a class"),
        (some_triples([0, 1, 2, 8], strengths=(np.nan,)), "not finite"),
        (some_triples([0, 1, 2, 8], [0, 1, 3, 8], strengths=(1.0, 2.0)), "not in order"),
        (some_triples([1, 1, 2, 8], [0, 1, 3, 8]), "not in order"),
        (some_triples([0, 1, 2, 8], [0, 1, 2, 8], strengths=(1.0, 1.0)), "twice"),
    ],
)
def test_triples_that_cannot_be_are_rejected(triples, reason):
    with pytest.raises(FormatError, match=reason):
        unpack_triples(pack_triples(triples), 2, 5, FEATURES, 3, 2)


def test_a_list_of_triples_of_another_length_is_rejected():
    data = pack_triples(some_triples([0, 1, 2, 3], [0, 1, 3, 4]))

    with pytest.raises(FormatError, match="47 bytes long; expected at most 6 triples"):
        unpack_triples(data[:-1], 2, 5, FEATURES, 3, 2)


def test_a_screen_with_triples_survives_a_round_trip():
    triples = np.array([[0, 2, 4], [1, 2, 8]], np.int32)
    screen = Screen(np.arange(FEATURES, dtype=np.int32), np.array([[0, 3]], np.int32), triples)

    unpacked = unpack_screen(pack_screen(screen), FEATURES)

    assert np.array_equal(unpacked.pairs, screen.pairs)
    assert np.array_equal(unpacked.triples, triples)
    with pytest.raises(FormatError, match="one of them twice"):
        unpack_screen(pack_screen(Screen(screen.features, screen.pairs, triples[:, ::-1])), FEATURES)
