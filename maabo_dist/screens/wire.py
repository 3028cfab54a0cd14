"""Pairs, triples and screens as bytes, for answers of workers and for the ledger; they are checked on reading.

    pairs:    (first, second) of each pair, int32 | strength of each pair, float64       all little-endian
    triples:  kind of each triple, int32 | (first, second, third), int32 | strength, float64
    screen:   features, pairs, triples, classes: four uint32 | features, int32 | pairs, int32 | triples, int32
              | strength of the untried triples of each class, float64; there are no classes if there are no triples

An answer has the pairs or triples of one block; the ledger stores the screen of a whole table.
"""

import numpy as np
import numpy.typing as npt

from maabo_dist.errors import FormatError
from maabo_dist.screens.blocks import count_pairs
from maabo_dist.screens.pairs import Pairs
from maabo_dist.screens.screen import Screen
from maabo_dist.screens.triples import Triples

PAIR_BYTES, TRIPLE_BYTES = 16, 24
HEAD_BYTES = 16


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


def pack_triples(triples: Triples) -> bytes:
    """Pack the kinds, then the features, then the strengths."""
    integers = triples.kinds.astype("<i4").tobytes() + triples.features.astype("<i4").tobytes()
    return integers + triples.strengths.astype("<f8").tobytes()


def unpack_triples(data: bytes, start: int, stop: int, features: int, kinds: int, most: int) -> Triples:
    """Unpack the strongest triples of a block, at most `most` of each of `kinds` kinds."""
    count = len(data) // TRIPLE_BYTES
    if len(data) != count * TRIPLE_BYTES or count > kinds * most:
        raise FormatError(f"Packed triples are {len(data)} bytes long; expected at most {kinds * most} triples.")
    own = np.frombuffer(data, "<i4", count).astype(np.int32)
    triples = np.frombuffer(data, "<i4", 3 * count, 4 * count).reshape(count, 3).astype(np.int32)
    strengths = np.frombuffer(data, "<f8", offset=16 * count).astype(np.float64)
    first, second, third = triples.T
    if not ((first >= 0) & (first < second) & (start <= second) & (second < stop)).all():
        raise FormatError(f"Packed triples contain one outside the block of second features {start} to {stop - 1}.")
    if not ((second < third) & (third < features)).all() or not ((own >= 0) & (own < kinds)).all():
        raise FormatError("Packed triples name a feature or a class that the table does not have.")
    if not np.isfinite(strengths).all():
        raise FormatError("Packed triples contain a strength that is not finite.")
    unpacked = Triples(own, triples, strengths)
    in_order = Triples.strongest([unpacked], most)
    distinct = len(np.unique(np.column_stack([own, triples]), axis=0)) == count
    if len(in_order) != count or not np.array_equal(in_order.features, triples) or not distinct:
        raise FormatError("Packed triples are not in order, or one of them is there twice.")
    return unpacked


def pack_screen(screen: Screen) -> bytes:
    """Pack everything that a search needs of a screen."""
    parts = screen.features, screen.pairs, screen.triples
    head = np.array([*(len(part) for part in parts), len(screen.untried)], "<u4")
    untried = np.array(screen.untried, "<f8")
    return head.tobytes() + b"".join(part.astype("<i4").tobytes() for part in parts) + untried.tobytes()


def unpack_screen(data: bytes, features: int) -> Screen:
    """Unpack the screen of a table with this many features."""
    head = np.frombuffer(data[:HEAD_BYTES], "<u4") if len(data) >= HEAD_BYTES else np.zeros(4, "<u4")
    count, pair_count, triple_count, classes = map(int, head)
    numbers = count + 2 * pair_count + 3 * triple_count
    if count != features or len(data) != HEAD_BYTES + 4 * numbers + 8 * classes:
        raise FormatError(f"A packed screen of {len(data)} bytes is not one of {features} features.")
    values = np.frombuffer(data, "<i4", numbers, HEAD_BYTES).astype(np.int32)
    untried = np.frombuffer(data, "<f8", offset=HEAD_BYTES + 4 * numbers)
    order, pairs, triples = np.split(values, [count, count + 2 * pair_count])
    pairs, triples = pairs.reshape(pair_count, 2), triples.reshape(triple_count, 3)
    if not np.array_equal(np.sort(order), np.arange(features)) or not (
        _are_subsets(pairs, features) and _are_subsets(triples, features)
    ):
        raise FormatError("A packed screen names features that the table does not have, or one of them twice.")
    if not np.isfinite(untried).all():
        raise FormatError("A packed screen contains a strength that is not finite.")
    return Screen(order, pairs, triples, tuple(untried.tolist()))


def _are_subsets(subsets: npt.NDArray[np.int32], features: int) -> bool:
    """True if the features of each subset ascend, and the table has them."""
    return bool((np.diff(subsets, axis=1, prepend=-1, append=features) > 0).all())
