"""Overlap counts from containment counts, compared with comparing every pair."""

import numpy as np
import pytest

from maabo_dist.search import maa
from maabo_dist.search.tally import (
    ENTERS_HIGH,
    ENTERS_LOW,
    LEAVES_HIGH,
    LEAVES_LOW,
    MAX_COUNTED_SIZE,
    ContainmentTally,
    direct_overlaps,
)
from tests.reference import maabo


def distinct_subsets(rng, features, size, count):
    """Return up to `count` different subsets."""
    subsets = {tuple(sorted(rng.choice(features, size, replace=False).tolist())) for _ in range(count)}
    return np.array(sorted(subsets), np.int32)[rng.permutation(len(subsets))]


def reference_overlaps(candidates, observed):
    counts = np.zeros((len(candidates), candidates.shape[1] + 1), np.int64)
    for row, candidate in enumerate(candidates.tolist()):
        for other in observed.tolist():
            counts[row, len({*candidate} & {*other})] += 1
    return counts


def moved_at_random(rng, tally, subsets, rounds=4):
    """Let subsets enter, cross and leave; return the indices of those that end up high and low."""
    side = np.zeros(len(subsets), int)  # 0 out, 1 high, 2 low
    for _ in range(rounds):
        indices = rng.permutation(len(subsets))[: len(subsets) * 2 // 3]
        target = rng.integers(0, 3, len(indices))
        moves, moved = [], []
        for index, to in zip(indices, target, strict=True):
            if side[index] != to:
                steps = [-side[index]] * bool(side[index]) + [to] * bool(to)
                moves += steps
                moved += [index] * len(steps)
                side[index] = to
        tally.update(subsets[moved], np.array(moves, np.int8))
    return np.flatnonzero(side == 1), np.flatnonzero(side == 2)


def test_moves_are_coded_as_the_tests_here_write_them():
    assert (ENTERS_HIGH, LEAVES_HIGH, ENTERS_LOW, LEAVES_LOW) == (1, -1, 2, -2)


@pytest.mark.parametrize("size", range(1, 9))
@pytest.mark.parametrize("features", [10, 200])
def test_overlaps_equal_the_direct_count_after_moves_in_and_out(size, features):
    rng = np.random.default_rng(100 * size + features)
    subsets = distinct_subsets(rng, features, size, 120)
    observed, candidates = subsets[: len(subsets) * 2 // 3], subsets[len(subsets) * 2 // 3 :]
    tally = ContainmentTally(features, (size,), room=16)  # so that it has to grow

    high, low = moved_at_random(rng, tally, observed)

    for counted, indices in zip(tally.overlaps(candidates), (high, low), strict=True):
        expected = reference_overlaps(candidates, observed[indices])
        np.testing.assert_array_equal(counted, expected)
        np.testing.assert_array_equal(direct_overlaps(candidates, observed[indices], features, (size,)), expected)


@pytest.mark.parametrize("size", range(1, 9))
@pytest.mark.parametrize(("h", "b"), [(0.5, 0.5), (0.9, 0.05), (0.1, 0.95)])
def test_acquisition_equals_the_direct_sum_of_the_equation(size, h, b):
    rng = np.random.default_rng(size)
    subsets = distinct_subsets(rng, 12, size, 60)
    observed, candidates = subsets[: len(subsets) * 2 // 3], subsets[len(subsets) * 2 // 3 :][:12]
    tally = ContainmentTally(12, (size,))

    high, low = moved_at_random(rng, tally, observed)
    acquisition = maa.acquisition(*tally.overlaps(candidates), maa.mismatch_values(12, size, h, b))

    for candidate, value in zip(candidates.tolist(), acquisition.tolist(), strict=True):
        exact = maabo.exact_acquisition(candidate, observed[high].tolist(), observed[low].tolist(), 12, h, b)
        assert value == pytest.approx(float(exact), rel=1e-9)


def test_high_frequencies_count_each_feature_of_the_high_subsets():
    tally = ContainmentTally(5, (2,))

    tally.update(np.array([[0, 1], [1, 2], [1, 4], [3, 4]], np.int32), np.array([1, 1, 2, 2], np.int8))
    tally.update(np.array([[1, 2], [3, 4], [3, 4]], np.int32), np.array([-1, -2, 1], np.int8))

    assert tally.high_frequencies.tolist() == [1, 1, 0, 1, 1]


def test_nothing_observed_means_no_overlaps():
    high, low = ContainmentTally(6, (3,)).overlaps(np.array([[0, 1, 2]], np.int32))

    assert high.tolist() == low.tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("features", "size", "fits"),
    [
        (20_000, 3, True),
        (2**16 - 1, 5, True),  # 16 bits · 4
        (2**16, 5, False),  # 17 bits · 4
        (2**31, 3, True),  # 32 bits · 2
        (2**32, 3, False),
        (100, MAX_COUNTED_SIZE, True),  # 7 bits · 9
        (200, MAX_COUNTED_SIZE, False),  # 8 bits · 9
        (11, MAX_COUNTED_SIZE + 1, False),
    ],
)
def test_a_tally_fits_where_every_proper_part_packs_into_one_key(features, size, fits):
    assert ContainmentTally.fits(features, size) is fits


def test_the_largest_features_of_the_widest_keys_do_not_collide():
    features, size = 2**16 - 1, 5
    rng = np.random.default_rng(3)
    subsets = np.sort(features - 1 - distinct_subsets(rng, 9, size, 100), axis=1).astype(np.int32)
    observed, candidates = subsets[:60], subsets[60:]
    tally = ContainmentTally(features, (size,))

    tally.update(observed, np.ones(len(observed), np.int8))

    np.testing.assert_array_equal(tally.overlaps(candidates)[0], reference_overlaps(candidates, observed))
