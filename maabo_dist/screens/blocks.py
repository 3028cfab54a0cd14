"""What screens count: cuts, blocks of pairs and triples, and how long they take. No kernel is loaded for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np

# The two cuts of a feature, each near a part of its training rows. All screens use thirds. Pairs are screened at tenths
# too, and triples at sixths, where the rarest class has so many training rows that a corner of such cuts should have
# two of them by chance.
Cuts = tuple[tuple[int, int], tuple[int, int]]
THIRDS: Cuts = ((1, 3), (2, 3))
TENTHS: Cuts = ((1, 10), (9, 10))
SIXTHS: Cuts = ((1, 6), (5, 6))
MIN_ROWS_FOR_TENTHS, MIN_ROWS_FOR_SIXTHS = 2 * 10**2, 2 * 6**3
# Rows in a word of bits.
WORD = 64
# The cost of a pair on one core: for itself, for each class, and for each word of rows.
SECONDS_PER_PAIR, SECONDS_PER_CLASS, SECONDS_PER_WORD = 3e-9, 1.5e-9, 0.5e-9
# The cost of a triple on one core: for each rated class, and for each word of rows. And that of each of its pairs.
SECONDS_PER_TRIPLE, SECONDS_PER_TRIPLE_WORD, SECONDS_PER_SECOND = 12e-9, 0.55e-9, 0.4e-6


@dataclass(frozen=True, slots=True)
class ScreenPlan:
    """What the screens of a table count."""

    # All triples, and not only all pairs.
    triples: bool = False
    # Pairs at tenths of the rows too, and triples at sixths.
    tenths: bool = False
    sixths: bool = False
    # The sizes of conjunctions that are grown.
    grown: tuple[int, ...] = ()


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


def triple_blocks(features: int, pieces: int) -> list[tuple[int, int]]:
    """Return ranges of the triples' second features, with about equally many triples each."""
    second = np.arange(features, dtype=np.int64)
    triples = np.cumsum(second * (features - 1 - second))
    if not features or not triples[-1]:
        return []
    targets = triples[-1] * np.arange(1, pieces + 1) // pieces
    stops = np.unique(np.searchsorted(triples, targets) + 1)
    return [(int(start), int(stop)) for start, stop in zip([0, *stops[:-1]], stops, strict=True)]


def count_triples(start: int, stop: int, features: int) -> int:
    """Return the number of triples with one of start … stop − 1 as their second feature."""
    return sum(second * (features - 1 - second) for second in range(start, stop))


def screen_blocks(features: int, pieces: int, triple_pieces: int) -> list[tuple[int, int]]:
    """Return the blocks of a screen: those of pairs, and then those of triples, whose features are numbered from D on.

    Without pieces for triples there are no blocks of them.
    """
    triples = triple_blocks(features, triple_pieces) if triple_pieces else []
    return pair_blocks(features, pieces) + [(features + start, features + stop) for start, stop in triples]


def has_triples(start: int, features: int) -> bool:
    """True if the block of a screen that starts here is one of triples."""
    return start >= features


def count_sets(start: int, stop: int, features: int) -> int:
    """Return the number of pairs or triples of a block of a screen."""
    if has_triples(start, features):
        return count_triples(start - features, stop - features, features)
    return count_pairs(start, stop, features)


def triples_seconds(features: int, rows: int, classes: int) -> float:
    """Estimate how long all triples take on one core, for this many training rows."""
    rated = 1 if classes == 2 else 2 * classes  # of more than two classes each is rated, and more often
    each = SECONDS_PER_TRIPLE * rated + SECONDS_PER_TRIPLE_WORD * (rows / WORD + classes / 2)
    return comb(features, 3) * each + comb(features, 2) * SECONDS_PER_SECOND


def screen_seconds(features: int, rows: int, classes: int, *, triples: bool) -> float:
    """Estimate how long all pairs, and all triples if they are screened, take on one core."""
    pairs = comb(features, 2) * pair_seconds(rows, classes)
    return pairs + (triples_seconds(features, rows, classes) if triples else 0.0)
