"""The paper's H: uniform over the restricted space, without replacement, by drawing and by enumeration."""

from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from maabo_dist._util import draws
from maabo_dist.search import candidates
from maabo_dist.search.candidates import CandidateSampler
from maabo_dist.search.space import ProposedSubsets, SizeSpace, SubsetIndex, SubsetSpace
from tests.reference import maabo

IMPLAUSIBLE = 1e-4
"""p below which a sampler is not taken for uniform. The seeds are fixed: a test that passes once passes always."""


def proposed(subsets, size):
    index = ProposedSubsets((size,))
    index.add(np.array(subsets, np.int32).reshape(-1, size))
    return index


def sampled(space, top, count, order=None, taken=(), stream=0):
    order = np.arange(space.features) if order is None else order
    blocks = CandidateSampler(space, top).blocks(
        count, np.array(order, np.int32), proposed(taken, space.width), draws.stream(stream, 0, 0)
    )
    return [tuple(row) for block in blocks for row in block.tolist()]


def free_subsets(space, top, order, taken=()):
    top_features = {*order[:top]}
    omega = combinations(range(space.features), space.width)
    return [subset for subset in omega if top_features & {*subset} and subset not in taken]


def assert_uniform(outcomes, cells, repeats):
    counts = Counter(outcomes)

    assert set(counts) <= set(cells)
    assert sum(counts.values()) == repeats
    assert chisquare([counts[cell] for cell in cells]).pvalue > IMPLAUSIBLE


CASES = [
    # features, size, top, order, taken
    (6, 3, 6, (0, 1, 2, 3, 4, 5), ()),
    (6, 3, 2, (4, 1, 0, 5, 2, 3), ()),
    (6, 3, 2, (4, 1, 0, 5, 2, 3), ((0, 1, 4), (1, 2, 3), (0, 2, 3))),
    (9, 2, 1, (8, 0, 1, 2, 3, 4, 5, 6, 7), ()),
    (7, 4, 3, (6, 5, 4, 3, 2, 1, 0), ((3, 4, 5, 6),)),
    (9, 1, 8, (2, 0, 1, 8, 4, 5, 6, 7, 3), ((4,),)),
]


@pytest.mark.parametrize(("features", "size", "top", "order", "taken"), CASES)
def test_one_drawn_subset_is_uniform_over_the_free_restricted_space(features, size, top, order, taken, monkeypatch):
    space = SubsetSpace(features, (size,))
    monkeypatch.setattr(SizeSpace, "block", None)  # enumeration would fail

    outcomes = [one for seed in range(6000) for one in sampled(space, top, 1, order, taken, seed)]

    assert_uniform(outcomes, free_subsets(space, top, order, taken), 6000)


@pytest.mark.parametrize(("features", "size", "top", "order", "taken"), CASES[:5])
def test_two_drawn_subsets_are_uniform_over_ordered_pairs(features, size, top, order, taken):
    space = SubsetSpace(features, (size,))
    pairs = list(permutations(free_subsets(space, top, order, taken), 2))

    outcomes = [tuple(sampled(space, top, 2, order, taken, seed)) for seed in range(10 * len(pairs))]

    assert_uniform(outcomes, pairs, 10 * len(pairs))


@pytest.mark.parametrize(("features", "size", "top", "order", "taken"), CASES)
def test_some_enumerated_subsets_are_uniform_over_the_free_restricted_space(
    features, size, top, order, taken, monkeypatch
):
    space = SubsetSpace(features, (size,))
    free = free_subsets(space, top, order, taken)
    requested = len(free) - 2
    monkeypatch.setattr(candidates, "distinct", None)  # drawing would fail

    left_out = [tuple(sorted({*free} - {*sampled(space, top, requested, order, taken, seed)})) for seed in range(4000)]

    assert_uniform(left_out, list(combinations(free, 2)), 4000)


@given(st.integers(0, 2**32), st.data())
def test_samples_are_new_distinct_and_contain_a_top_feature(seed, data):
    features = data.draw(st.integers(2, 9))
    space = SubsetSpace(features, (data.draw(st.integers(1, min(4, features - 1))),))
    order = data.draw(st.permutations(range(features)))
    top = data.draw(st.integers(1, features))
    omega = list(combinations(range(features), space.width))
    taken = data.draw(st.lists(st.sampled_from(omega), unique=True))
    count = data.draw(st.none() | st.integers(1, 40))

    subsets = sampled(space, top, count, order, taken, seed)

    free = free_subsets(space, top, order, taken)
    assert len(subsets) == len({*subsets}) == (len(free) if count is None else min(count, len(free)))
    assert {*subsets} <= {*free}


@given(st.integers(0, 2**32), st.data())
def test_samples_are_those_of_the_reference_in_the_same_order(seed, data):
    features = data.draw(st.integers(2, 9))
    space = SubsetSpace(features, (data.draw(st.integers(1, min(4, features - 1))),))
    order = data.draw(st.permutations(range(features)))
    top = data.draw(st.integers(1, features))
    omega = list(combinations(range(features), space.width))
    taken = data.draw(st.lists(st.sampled_from(omega), unique=True, max_size=10))
    count = data.draw(st.none() | st.integers(1, 30))
    stream = maabo.stream_of(seed, 0, 0)

    subsets = sampled(space, top, count, order, taken, seed)

    assert subsets == maabo.draw_subsets(count, order, top, {*omega} - {*taken}, space.width, len(taken), stream)


def test_the_whole_space_is_returned_in_blocks(monkeypatch):
    monkeypatch.setattr(candidates, "BLOCK", 7)
    space, order, taken = SubsetSpace(8, (3,)), (3, 1, 0, 2, 7, 6, 5, 4), ((0, 1, 2), (1, 2, 3))

    subsets = sampled(space, 2, None, order, taken)

    assert sorted(subsets) == free_subsets(space, 2, order, taken)


def test_a_space_that_could_never_be_listed_is_drawn_from():
    space = SubsetSpace(20_000, (64,))

    subsets = sampled(space, 1, 300, order=np.roll(np.arange(20_000), 5))

    assert len({*subsets}) == 300
    assert all(19_995 in subset and list(subset) == sorted({*subset}) for subset in subsets)


def test_the_features_beside_the_smallest_one_are_spread_over_the_whole_range():
    space = SubsetSpace(1000, (3,))

    counts = np.bincount(np.array(sampled(space, 1000, 8000)).ravel() // 100, minlength=10)

    assert chisquare(counts).pvalue > IMPLAUSIBLE


def test_a_space_used_up_gives_nothing():
    space = SubsetSpace(5, (2,))
    everything = list(combinations(range(5), 2))

    assert sampled(space, 5, None, taken=everything) == sampled(space, 5, 3, taken=everything) == []


def test_an_index_knows_every_subset_and_its_place_as_it_grows():
    rng = np.random.default_rng(0)
    omega = rng.permutation(np.array(list(combinations(range(12), 3)), np.int32))
    index = SubsetIndex(3, room=2)

    for number, part in enumerate(np.array_split(omega, 20)):
        if number % 2:
            index.add(part)
        else:
            twice = np.concatenate([part, index.rows[:5], part[::-1]])
            assert index.add_new(twice).tolist() == list(range(len(part)))
        count_before = len(index)
        assert index.positions(omega).tolist() == [*range(count_before), *[-1] * (220 - count_before)]
        assert index.contains(omega).tolist() == [True] * count_before + [False] * (220 - count_before)
        assert index.rows.tolist() == omega[:count_before].tolist()


def test_streams_are_those_of_splitmix64():
    # The first outputs of Vigna's splitmix64.c for the state 1234567.
    assert draws.keys(1234567, 3).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_streams_of_other_seeds_steps_and_purposes_differ():
    streams = {draws.stream(seed, step, purpose) for seed in range(20) for step in range(20) for purpose in range(4)}

    assert len(streams) == 1600
