"""The modified Aitchison–Aitken function: Appendix 2 of the paper, and its three constraints."""

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest

from maabo_dist.search import maa
from tests.reference import maabo

SHAPES = [
    (7, 4, 0.5, 0.5),
    (8, 3, 0.3, 0.1),
    (9, 1, 0.5, 0.9),
    (6, 5, 1.0, 0.25),
    (10, 2, 0.9, 0.01),
    (11, 6, 0.05, 0.99),
]


def test_the_figures_of_appendix_2_are_reproduced_exactly():
    counts, values = maa.mismatch_counts(7, 4), maa.mismatch_values(7, 4, 0.5, 0.5)

    assert counts == [1, 12, 18, 4, 0]
    assert values.tolist() == [1 / 2, 1 / 44, 1 / 88, 1 / 176, 1 / 352]


def test_the_reference_gives_the_figures_of_appendix_2():
    u = (0, 1, 2, 3)
    others = [(0, 1, 2, 3), (0, 1, 2, 4), (0, 1, 4, 5), (0, 4, 5, 6)]

    assert [maabo.k(f, u, 7, 0.5, 0.5) for f in others] == [Fraction(1, n) for n in (2, 44, 88, 176)]


@pytest.mark.parametrize(("features", "size", "h", "b"), SHAPES)
def test_the_function_sums_to_one_over_the_whole_space(features, size, h, b):
    values = maa.mismatch_values(features, size, h, b)
    omega = list(combinations(range(features), size))
    for u in (omega[0], omega[len(omega) // 2], omega[-1]):
        total = sum(values[size - len({*f} & {*u})] for f in omega)

        assert total == pytest.approx(1, rel=1e-12)
        assert sum(maabo.k(f, u, features, h, b) for f in omega) == 1


@pytest.mark.parametrize(("features", "size", "h", "b"), SHAPES)
def test_each_value_is_that_of_the_equation(features, size, h, b):
    values = maa.mismatch_values(features, size, h, b)
    u = tuple(range(size))

    for m in range(min(size, features - size) + 1):
        f = tuple(range(m, size)) + tuple(range(size, size + m))
        assert values[m] == pytest.approx(float(maabo.k(f, u, features, h, b)), rel=1e-13)


@pytest.mark.parametrize(("features", "size", "h", "b"), SHAPES)
def test_values_are_probabilities_that_fall_with_every_mismatch(features, size, h, b):
    values = maa.mismatch_values(features, size, h, b).tolist()

    assert all(0 <= value <= 1 for value in values)
    assert all(a > b for a, b in pairwise(values[1:]))


@pytest.mark.parametrize(("features", "size", "h", "b"), SHAPES)
def test_each_mismatch_count_is_that_of_the_enumeration(features, size, h, b):
    u = set(range(size))

    mismatches = [size - len(u & {*f}) for f in combinations(range(features), size)]

    assert maa.mismatch_counts(features, size) == [mismatches.count(m) for m in range(size + 1)]


def test_a_density_is_the_mean_over_the_observed():
    values = np.array([0.5, 0.25, 0.125])

    density = maa.density(np.array([[4, 0, 0], [1, 2, 1], [0, 0, 0]]), values)

    assert density.tolist() == [0.125, (0.125 + 2 * 0.25 + 0.5) / 4, 0]


def test_without_low_subsets_the_acquisition_is_the_density_of_the_high_ones():
    values = maa.mismatch_values(7, 3, 0.5, 0.5)
    high = np.array([[1, 2, 0, 0], [0, 0, 3, 0]])

    acquisition = maa.acquisition(high, np.zeros_like(high), values)

    assert acquisition.tolist() == maa.density(high, values).tolist()


def test_equal_overlaps_have_equal_acquisition_to_the_last_bit():
    rng = np.random.default_rng(1)
    values = maa.mismatch_values(13, 4, 0.37, 0.61)
    high, low = rng.integers(0, 4, (2, 400, 5))
    low[:, 0] += 1
    high[:, 0] += 1

    acquisition = maa.acquisition(high, low, values)

    alone = [maa.acquisition(high[[row]], low[[row]], values)[0] for row in range(400)]
    assert acquisition.tolist() == alone
