"""Pairs and screens as bytes: they round-trip, and invalid bytes are rejected."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.data.split import split_rows
from maabo_dist.errors import FormatError
from maabo_dist.screens.blocks import count_pairs, pair_blocks
from maabo_dist.screens.pairs import BitTable, Pairs, screen_block
from maabo_dist.screens.screen import Screen
from maabo_dist.screens.wire import pack_pairs, pack_screen, unpack_pairs, unpack_screen
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
    pairs = screen_block(a_table(), start, stop, limit)

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
