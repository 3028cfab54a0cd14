"""The modified Aitchison–Aitken function: a probability over subsets that falls with the number of mismatches.

It computes densities from overlap counts: the number of observed subsets that share 0, 1, … D′ features with a
candidate. The counts are integers, so that two candidates with the same overlaps get the same density to the last bit,
and ties are exact.
"""

from math import comb

import numpy as np
import numpy.typing as npt

# (candidates, D′ + 1): the number of observed subsets that share 0 … D′ features with each candidate.
Overlaps = npt.NDArray[np.int64]


def mismatch_counts(features: int, size: int) -> list[int]:
    """a_m for m = 0 … D′: the number of subsets that mismatch a given one in m features."""
    return [comb(size, size - m) * comb(features - size, m) for m in range(size + 1)]


def mismatch_values(features: int, size: int, h: float, b: float) -> npt.NDArray[np.float64]:
    """k_m for m = 0 … D′: the function's value at m mismatches. Over the whole space it sums to 1."""
    damping = [b ** (m - 1) for m in range(1, size + 1)]
    norm = sum(a * d for a, d in zip(mismatch_counts(features, size)[1:], damping, strict=True))
    # A subset of all features has none that mismatch it.
    return np.array([1 - h, *(h * d / (norm or 1) for d in damping)])


def density(overlaps: Overlaps, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """K(f, U): the mean of k(f, u) over the observed subsets u, for each candidate f."""
    total = np.zeros(len(overlaps))
    for mismatches, value in enumerate(values):  # a fixed order of summation, the same bits everywhere
        total += value * overlaps[:, len(values) - 1 - mismatches]
    observed = overlaps.sum(axis=1)
    np.divide(total, observed, out=total, where=observed > 0)
    return total


def acquisition(high: Overlaps, low: Overlaps, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """K(f, U⁺) / K(f, U⁻); an empty U⁻ counts as a constant."""
    below = density(low, values)
    return density(high, values) / np.where(low.sum(axis=1) > 0, below, 1.0)
