"""Intervals and tests compared with the literature and with SciPy, the reference for Fisher's test."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, false_discovery_control, fisher_exact, hypergeom

from maabo_dist.rules.statistics import (
    benjamini_hochberg,
    combine_p_values,
    fisher_test,
    largest_significant_product,
    portable_log,
    wilson,
)
from tests.reference import pruning as slow


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [
        # Newcombe (1998), Statistics in Medicine 17, table I, method 3: the score interval.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_that_of_the_literature(hits, n, low, high):
    assert wilson(hits, n) == pytest.approx((low, high), abs=5e-5)


def test_the_interval_is_that_of_scipy():
    for n in (1, 2, 7, 50, 1000):
        for hits in {0, 1, n // 3, n // 2, n - 1, n}:
            expected = binomtest(hits, n).proportion_ci(method="wilson")

            assert wilson(hits, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_an_interval_stays_within_zero_and_one_and_holds_the_share():
    for n in range(1, 60):
        for hits in range(n + 1):
            low, high = wilson(hits, n)

            assert 0 <= low <= hits / n + 1e-15
            assert hits / n - 1e-15 <= high <= 1


def test_the_interval_of_rows_that_are_all_alike_ends_at_their_share():
    for n in range(1, 400):
        assert wilson(n, n)[1] == 1.0
        assert wilson(0, n)[0] == 0.0
        assert wilson(n, n, 1.7)[1] == 1.0


def test_no_rows_have_no_interval():
    assert wilson(0, 0) == (None, None)


def test_p_is_that_of_scipy_for_every_small_table():
    for rows in range(1, 16):
        for others in range(1, 16):
            hits, other_hits = np.meshgrid(np.arange(rows + 1), np.arange(others + 1), indexing="ij")

            p_value = fisher_test(hits, rows, other_hits, others)

            expected = hypergeom.sf(hits - 1, rows + others, hits + other_hits, rows)
            assert p_value == pytest.approx(np.minimum(1.0, expected), rel=1e-12)


@settings(max_examples=300)
@given(st.integers(1, 3000), st.integers(1, 3000), st.data())
def test_p_is_that_of_scipy_for_tables_of_any_size(rows, others, data):
    hits, other_hits = data.draw(st.integers(0, rows)), data.draw(st.integers(0, others))

    expected = min(1.0, hypergeom.sf(hits - 1, rows + others, hits + other_hits, rows))

    assert float(fisher_test(hits, rows, other_hits, others)) == pytest.approx(expected, rel=1e-9, abs=1e-290)


def test_p_is_that_of_the_one_sided_fisher_test_of_scipy():
    rng = np.random.default_rng(0)
    for _ in range(200):
        rows, others = rng.integers(0, 40, 2).tolist()
        hits, other_hits = int(rng.integers(0, rows + 1)), int(rng.integers(0, others + 1))
        table = [[hits, rows - hits], [other_hits, others - other_hits]]

        p = float(fisher_test(hits, rows, other_hits, others))

        assert p == pytest.approx(fisher_exact(table, alternative="greater").pvalue, rel=1e-9)


def test_a_test_on_many_rows_neither_overflows_nor_underflows_too_early():
    assert fisher_test(60_000, 100_000, 40_000, 100_000) == 0.0
    assert float(fisher_test(50_100, 100_000, 49_900, 100_000)) == pytest.approx(
        hypergeom.sf(50_099, 200_000, 100_000, 100_000), rel=1e-6
    )


def test_the_lady_tasting_tea():
    assert fisher_test([4, 3], 4, [0, 1], 4).tolist() == pytest.approx([1 / 70, 17 / 70])


def test_an_empty_group_proves_nothing():
    assert fisher_test([0, 7, 0], [0, 20, 0], [7, 0, 0], [20, 0, 0]).tolist() == [1, 1, 1]


def test_q_is_that_of_scipy():
    rng = np.random.default_rng(1)
    for count in (1, 2, 5, 40):
        for _ in range(20):
            p_values = (rng.random(count) ** 3).round(int(rng.integers(1, 6)))  # with ties, zeros and ones

            assert benjamini_hochberg(p_values).tolist() == pytest.approx(
                false_discovery_control(p_values).tolist(), abs=1e-15
            )


def test_q_of_the_example_of_benjamini_and_hochberg():
    # Their 15 p-values; at q ≤ 0.05 exactly the first four are called.
    p_values = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
                0.7590, 1.0]  # fmt: skip

    q_values = benjamini_hochberg(p_values)

    assert [q <= 0.05 for q in q_values] == [True] * 4 + [False] * 11


def test_no_p_values_have_no_q_values():
    assert benjamini_hochberg([]).tolist() == []


@given(st.floats(5e-324, 1.7e308))
def test_the_logarithm_is_that_of_the_library(value):
    assert portable_log(np.array([value]))[0] == pytest.approx(math.log(value), rel=1e-15, abs=0)


def test_the_logarithm_loses_nothing_near_one_nor_near_zero():
    values = [
        *(1 - np.arange(1, 40) * 2.0**-53),
        *(1 + np.arange(40) * 2.0**-52),
        *(np.arange(1, 40) * 5e-324),
        *(2.0 ** np.arange(-1074, 1024)),
        *np.linspace(0.4, 2.1, 2000),
    ]

    assert portable_log(np.array(values)).tolist() == pytest.approx(
        [math.log(value) for value in values], rel=1e-15, abs=0
    )


@given(st.floats(1e-300, 1))
def test_two_p_values_are_combined_by_fishers_method(product):
    assert combine_p_values(np.array([product]))[0] == pytest.approx(slow.combined(product, 1.0), rel=1e-9)


def test_nothing_is_less_likely_than_impossible():
    assert combine_p_values(np.array([0.0, 5e-324, 1.0])).tolist() == [0.0, pytest.approx(3.68e-321, rel=0.01), 1.0]


@settings(max_examples=25)
@given(st.floats(1e-100, 1))
def test_the_largest_significant_product_is_that_of_fishers_method(level):
    bar = largest_significant_product(level)

    assert combine_p_values(np.array([bar]))[0] == pytest.approx(level, rel=1e-12)
    assert combine_p_values(np.array([bar]))[0] <= level
