"""Pairs and screens as bytes, for answers of workers and for the ledger; they are checked on reading.

    pairs:   (first, second) of each pair, int32 | strength of each pair, float64       all little-endian
    screen:  features, pairs: two uint32 | features, int32 | (first, second) of each pair, int32

An answer has the pairs of one block; the ledger stores the screen of a whole table.
"""

import numpy as np

from maabo_dist.errors import FormatError
from maabo_dist.screens.blocks import count_pairs
from maabo_dist.screens.pairs import Pairs, Screen

PAIR_BYTES = 16
HEAD_BYTES = 8


def pack_pairs(pairs: Pairs) -> bytes:
    """Pack the features, then the strengths."""
    return pairs.features.astype("<i4").tobytes() + pairs.strengths.astype("<f8").tobytes()


def unpack_pairs(data: bytes, start: int, stop: int, features: int, most: int) -> Pairs:
    """Unpack the `most` strongest pairs of a block of a table with this many features."""
    count = min(most, count_pairs(start, stop, features))
    if len(data) != count * PAIR_BYTES:
        raise FormatError(f"Packed pairs are {len(data)} bytes long; expected {count} pairs.")
    pairs = np.frombuffer(data, "<i4", 2 * count).reshape(count, 2).astype(np.int32)
    strengths = np.frombuffer(data, "<f8", offset=8 * count).astype(np.float64)
    first, second = pairs[:, 0], pairs[:, 1]
    if not ((start <= first) & (first < stop) & (first < second) & (second < features)).all():
        raise FormatError(f"Packed pairs contain a pair outside the block of features {start} to {stop - 1}.")
    if not np.isfinite(strengths).all():
        raise FormatError("Packed pairs contain a strength that is not finite.")
    # The strongest come first, ties in the order of their features, and none twice.
    later = (first[:-1] < first[1:]) | ((first[:-1] == first[1:]) & (second[:-1] < second[1:]))
    if not ((strengths[:-1] > strengths[1:]) | ((strengths[:-1] == strengths[1:]) & later)).all():
        raise FormatError("Packed pairs are not in order.")
    return Pairs(pairs, strengths)


def pack_screen(screen: Screen) -> bytes:
    """Pack everything that a search needs of a screen."""
    head = np.array([len(screen.features), len(screen.pairs)], "<u4")
    return head.tobytes() + screen.features.astype("<i4").tobytes() + screen.pairs.astype("<i4").tobytes()


def unpack_screen(data: bytes, features: int) -> Screen:
    """Unpack the screen of a table with this many features."""
    head = np.frombuffer(data[:HEAD_BYTES], "<u4") if len(data) >= HEAD_BYTES else np.zeros(2, "<u4")
    count, pair_count = int(head[0]), int(head[1])
    if count != features or len(data) != HEAD_BYTES + 4 * count + 8 * pair_count:
        raise FormatError(f"A packed screen of {len(data)} bytes is not one of {features} features.")
    order = np.frombuffer(data, "<i4", count, HEAD_BYTES).astype(np.int32)
    pairs = np.frombuffer(data, "<i4", offset=HEAD_BYTES + 4 * count).reshape(pair_count, 2).astype(np.int32)
    ascending = (pairs[:, 0] >= 0) & (pairs[:, 0] < pairs[:, 1]) & (pairs[:, 1] < features)
    if not np.array_equal(np.sort(order), np.arange(features)) or not ascending.all():
        raise FormatError("A packed screen names features that the table does not have, or one of them twice.")
    return Screen(order, pairs)
