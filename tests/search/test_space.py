"""The space of subsets, compared with itertools."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.errors import SearchError
from maabo_dist.search.space import SizeSpace

small_spaces = st.integers(1, 10).flatmap(lambda features: st.tuples(st.just(features), st.integers(1, features)))


@given(small_spaces)
def test_enumeration_in_one_block_is_all_combinations_in_lexicographic_order(shape):
    space = SizeSpace(*shape)

    block = space.block(0, space.count)

    assert [tuple(row) for row in block.tolist()] == list(combinations(range(shape[0]), shape[1]))
    assert block.dtype == np.int32


@given(small_spaces, st.integers(1, 40))
def test_blocks_of_any_length_enumerate_every_subset_once(shape, length):
    space = SizeSpace(*shape)

    blocks = [space.block(start, length) for start in range(0, space.count, length)]

    assert np.concatenate(blocks).tolist() == space.block(0, space.count).tolist()
    assert all(len(block) == length for block in blocks[:-1])


@given(small_spaces)
def test_unrank_gives_the_subset_at_its_place(shape):
    space = SizeSpace(*shape)

    assert [space.unrank(rank) for rank in range(space.count)] == list(combinations(range(shape[0]), shape[1]))


@given(small_spaces, st.data())
def test_the_subsets_that_hold_a_top_feature_come_first_and_are_counted(shape, data):
    space = SizeSpace(*shape)
    top = data.draw(st.integers(0, shape[0]))
    holds = [min(subset) < top for subset in combinations(range(shape[0]), shape[1])]

    assert space.holding(top) == sum(holds)
    assert holds == sorted(holds, reverse=True)


@pytest.mark.parametrize(("features", "size"), [(100, 5), (10_000, 5), (20_000, 64), (50_000, 40)])
def test_the_size_is_exact_at_any_scale_and_its_ends_can_be_read(features, size):
    space = SizeSpace(features, size)

    assert space.count == comb(features, size)
    assert space.block(0, 1).tolist() == [list(range(size))]
    assert space.block(space.count - 1, 5).tolist() == [list(range(features - size, features))]


def test_a_block_beyond_the_end_is_empty():
    space = SizeSpace(5, 2)

    assert space.block(10, 3).shape == space.block(99, 3).shape == (0, 2)
    assert len(space.block(8, 3)) == 2


@pytest.mark.parametrize("rank", [-1, 10])
def test_a_rank_outside_of_the_space_is_refused(rank):
    with pytest.raises(SearchError, match=f"Rank {rank} is outside of the space of 10 subsets"):
        SizeSpace(5, 2).unrank(rank)
