"""Forests as bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.errors import FormatError
from maabo_dist.trees import wire
from maabo_dist.trees.growth import LEAF
from tests import factories

ARRAYS = ("subsets", "scores", "depths", "offsets", "feature", "threshold", "left", "counts")


def a_forest(seed=0, **options):
    return factories.make_forest(np.random.default_rng(seed), **options)[-1]


def same(a, b):
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in ARRAYS)


@pytest.mark.parametrize("seed", range(20))
def test_a_forest_survives_a_round_trip(seed):
    forest = a_forest(seed)

    again = wire.unpack_forest(wire.pack_forest(forest), forest.subsets)

    assert same(again, forest)


def test_rounded_counts_survive_a_round_trip():
    forest = a_forest(3)
    inner = np.flatnonzero(forest.feature != LEAF)
    forest.counts[inner[::2]] += 1

    unpacked = wire.unpack_forest(wire.pack_forest(forest), forest.subsets)

    assert len(inner) > 5
    assert np.array_equal(unpacked.counts, forest.counts)


def test_a_tree_takes_few_hundred_bytes():
    forest = a_forest(3)

    assert len(wire.pack_forest(forest)) < 400 * len(forest)


def test_every_truncation_is_refused():
    forest = a_forest()
    data = wire.pack_forest(forest)

    for length in range(len(data)):
        with pytest.raises(FormatError):
            wire.unpack_forest(data[:length], forest.subsets)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_is_refused(index, change):
    forest = a_forest()
    data = bytearray(wire.pack_forest(forest))
    data[index % len(data)] ^= change

    with pytest.raises(FormatError):
        wire.unpack_forest(bytes(data), forest.subsets)


def test_another_version_is_refused_by_its_number():
    forest = a_forest()
    data = bytearray(wire.pack_forest(forest))
    data[4] = 9

    with pytest.raises(FormatError, match="format version 9; this program reads version 1"):
        wire.unpack_forest(bytes(data), forest.subsets)


def test_trees_of_unrequested_subsets_are_refused():
    forest = a_forest()

    with pytest.raises(FormatError, match="Expected trees for subsets"):
        wire.unpack_forest(wire.pack_forest(forest), forest.subsets[:-1])


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data):
    with pytest.raises(FormatError):
        wire.unpack_forest(data, a_forest().subsets)
