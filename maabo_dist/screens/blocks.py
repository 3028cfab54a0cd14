"""Divide the pairs of a table into blocks, and estimate how long they take. No kernel is loaded for it."""

from collections.abc import Sequence

import numpy as np

# Rows in a word of bits.
WORD = 64
# The cost of a pair on one core: for itself, for each class, and for each word of rows.
SECONDS_PER_PAIR, SECONDS_PER_CLASS, SECONDS_PER_WORD = 40e-9, 25e-9, 2.2e-9


def pair_blocks(features: int, pieces: int) -> list[tuple[int, int]]:
    """Return ranges of the pairs' first features, with about equally many pairs each."""
    return divide_pairs(features, [1.0] * pieces)


def divide_pairs(features: int, shares: Sequence[float]) -> list[tuple[int, int]]:
    """Return ranges of the pairs' first features, whose numbers of pairs are about in the ratio of these shares."""
    if not features:
        return []
    pairs = np.cumsum(np.arange(features - 1, -1, -1, dtype=np.int64))
    until = np.cumsum(shares)
    targets = np.round(pairs[-1] * (until / until[-1])).astype(np.int64)
    stops = np.unique(np.searchsorted(pairs, targets) + 1)
    return [(int(start), int(stop)) for start, stop in zip([0, *stops[:-1]], stops, strict=True)]


def count_pairs(start: int, stop: int, features: int) -> int:
    """Return the number of pairs with one of start … stop − 1 as their first feature."""
    return (stop - start) * (2 * features - start - stop - 1) // 2


def pair_seconds(rows: int, classes: int) -> float:
    """Estimate how long a pair takes, for this many training rows."""
    return SECONDS_PER_PAIR + SECONDS_PER_CLASS * classes + SECONDS_PER_WORD * (rows / WORD + classes / 2)
