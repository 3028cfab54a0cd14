"""Intervals and tests for counts of rows: Wilson, Fisher's exact test, Fisher's combination, Benjamini–Hochberg, Holm.

The numbers that decide which conditions stay and the numbers that reports show come from the same functions. Decisions
must be the same on every machine: what they need is computed with +, −, ×, ÷ of doubles in a fixed order.
"""

from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel

Z_95 = 1.959963984540054
LN_2 = 0.6931471805599453
LN_TERMS = 14

Floats = npt.NDArray[np.float64]


def wilson(hits: int, n: float, effect: float = 1.0) -> tuple[float, float] | tuple[None, None]:
    """The 95 % Wilson interval of a share, `effect` of the rows being worth one; (None, None) if `n` is 0."""
    if n == 0:
        return None, None
    share, z2 = hits / n, Z_95 * Z_95
    all_hits, n = hits == n, n / effect
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z_95 / (1 + z2 / n) * sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    # Rounding must not exclude a share of 0 or 1 that all rows have.
    return 0.0 if hits == 0 else max(0.0, centre - half), 1.0 if all_hits else min(1.0, centre + half)


def fisher_test(
    hits: npt.ArrayLike, rows: npt.ArrayLike, other_hits: npt.ArrayLike, other_rows: npt.ArrayLike
) -> Floats:
    """One-sided p-values of Fisher's exact test, element by element; the arguments are broadcast.

    The probability of at least `hits` hits among `rows`, given the hits in both groups together, if membership of a
    group and being a hit were independent.
    """
    counts = np.broadcast_arrays(hits, rows, other_hits, other_rows)
    flat = tuple(np.array(each, np.int64, order="C").ravel() for each in counts)
    p_values = np.empty(counts[0].size)
    _fisher_tails(flat, p_values)
    return p_values.reshape(counts[0].shape)


def combine_p_values(products: Floats) -> Floats:
    """Fisher's method for two independent p-values: q (1 − ln q) of their product q."""
    positive = products > 0
    p_values: Floats = np.where(positive, products * (1 - portable_log(np.where(positive, products, 1.0))), 0.0)
    return p_values


def largest_significant_product(level: float) -> float:
    """The greatest product of two independent p-values that Fisher's method calls significant."""
    low, high = 0.0, level
    for _ in range(200):
        middle = (low + high) / 2
        if combine_p_values(np.array([middle]))[0] > level:
            high = middle
        else:
            low = middle
    return low


def benjamini_hochberg(p_values: npt.ArrayLike) -> Floats:
    """Adjusted p-values: the false discovery rate at which each test would be called significant."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")[::-1]
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum.accumulate(p[order] * len(p) / np.arange(len(p), 0, -1))
    return np.minimum(adjusted, 1.0)


def holm(p_values: npt.ArrayLike) -> Floats:
    """Adjusted p-values: the chance of any false positive at which each test would be called significant."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty(len(p))
    adjusted[order] = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return np.minimum(adjusted, 1.0)


def portable_log(values: Floats) -> Floats:
    """The natural logarithm by a series: that of a library may differ between machines in its last bit."""
    mantissa, exponent = np.frexp(values)  # 0.5 ≤ mantissa < 1
    small = mantissa < 0.75  # brought near 1, where the series is all there is: nothing cancels
    mantissa, exponent = np.where(small, 2 * mantissa, mantissa), exponent - small
    ratio = (mantissa - 1) / (mantissa + 1)
    square, series = ratio * ratio, np.zeros_like(ratio)
    for term in range(LN_TERMS, -1, -1):
        series = series * square + 1.0 / (2 * term + 1)
    logarithm: Floats = exponent * LN_2 + 2 * ratio * series
    return logarithm


@kernel
def _fisher_tails(counts: Any, p_values: Any) -> None:
    hits, rows, other_hits, other_rows = counts
    for i in range(len(p_values)):
        p_values[i] = _fisher_tail(hits[i], rows[i], hits[i] + other_hits[i], other_rows[i])


@kernel
def _fisher_tail(hits: int, rows: int, total: int, others: int) -> float:
    """P(at least `hits` of the `total` hits are among `rows`, and not among the `others`).

    The terms of the hypergeometric distribution are summed relative to the greatest one, by their ratios.
    """
    low, high = max(0, total - others), min(total, rows)
    if hits <= low:
        return 1.0
    mode = min(max((rows + 1) * (total + 1) // (rows + others + 2), low), high)
    everything, tail, term = 1.0, 1.0 if mode >= hits else 0.0, 1.0
    for x in range(mode + 1, high + 1):
        term *= (total - x + 1) * (rows - x + 1) / (x * (others - total + x))
        everything += term
        if x >= hits:
            tail += term
    term = 1.0
    for x in range(mode - 1, low - 1, -1):
        term *= (x + 1) * (others - total + x + 1) / ((total - x) * (rows - x))
        everything += term
        if x >= hits:
            tail += term
    return tail / everything
