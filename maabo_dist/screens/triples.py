"""The screen of triples: three features that together say more about a class than any two of them.

A triple has a strength for each class and one for its interaction.

For a class, the strength is that of its best *box*: each feature above, or not above, one of its two cuts. A box is
compared with all rows; and each of its three conditions must bear a third of that strength, among the rows of the other
two. So a triple is only strong if all three conditions are needed. The interaction is strong where the class depends on
the product of the three features though no two of them show it, as in a parity.

Strengths are lower bounds of −ln p for one comparison, by Bernstein's inequality. They need no logarithm, so that every
machine computes the same bits. Counts are exact and a triple's strengths depend on them alone: any division of the work
gives the same strongest triples.
"""

from concurrent.futures import Executor
from dataclasses import dataclass
from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist.screens import box_bound, triple_kernel
from maabo_dist.screens.blocks import triple_blocks
from maabo_dist.screens.lanes import LANES, in_lanes
from maabo_dist.screens.pairs import BitTable

# The second features whose counts with all later ones are kept at a time.
TILE = 64
LN_2 = 0.6931471805599453


class TripleTable(NamedTuple):
    """A `BitTable`, and what the kernel of triples needs of it beside the bits."""

    bits: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    totals: npt.NDArray[np.int64]
    above: npt.NDArray[np.int64]
    # (D, words, 2): 32 rows of each feature, above each cut.
    words: npt.NDArray[np.uint32]
    # (blocks, words, 2, lanes): the same of 16 features side by side; those past the last are empty.
    lanes: npt.NDArray[np.uint32]
    # The classes that are rated: all, or the second of two, which is rated for both.
    rated: npt.NDArray[np.int64]
    # (blocks, 1 + rated, 2, lanes): rows above each cut, of all classes and of each rated one.
    singles: npt.NDArray[np.float32]
    # (D, 4): the factor a and the offset b of a feature's centred value a L − b, where L counts the cuts below it;
    # and the factors of being above each cut in its square.
    scales: npt.NDArray[np.float64]
    # (blocks, 4, lanes): the same.
    lane_scales: npt.NDArray[np.float32]
    # The bits that counts are shifted by in the bound of boxes, and the share of each rated class: see `box_bound`.
    bits_of_scale: int
    shares: npt.NDArray[np.int64]
    # (blocks, rated, 2, 2, lanes): rows above each cut, and those of the class beyond the expectation.
    single_halves: npt.NDArray[np.int32]

    @classmethod
    def build(cls, table: BitTable) -> "TripleTable":
        """Lay out the bits for the kernel."""
        classes = len(table.totals)
        rated = np.arange(1 if classes == 2 else 0, classes)
        words = np.ascontiguousarray(table.bits.view(np.uint32).transpose(0, 2, 1))
        above = table.above.transpose(0, 2, 1)  # (D, C, 2)
        singles = np.concatenate([above.sum(axis=1, keepdims=True), above[:, rated]], axis=1)
        scales, rows = _scales(table), int(table.totals.sum())
        bits = box_bound.scale_bits(rows)
        shares = [box_bound.share_of_words(int(table.totals[c]), rows) for c in rated]
        halves = [
            box_bound.in_both_halves(singles[:, 1 + q], singles[:, 0], share, bits) for q, share in enumerate(shares)
        ]
        return cls(
            *table,
            words=words,
            lanes=in_lanes(words),
            rated=rated,
            singles=in_lanes(singles.astype(np.float32)),
            scales=scales,
            lane_scales=in_lanes(scales.astype(np.float32)),
            bits_of_scale=bits,
            shares=np.array(shares, np.int64),
            single_halves=in_lanes(np.stack(halves).transpose(2, 0, 1, 3)),
        )


def _scales(table: BitTable) -> npt.NDArray[np.float64]:
    mean = table.above.sum(axis=(1, 2)) / max(1, int(table.totals.sum()))
    a = 1.0 / np.maximum(mean, 2.0 - mean)
    b = a * mean
    return np.stack([a, b, a * a - 2 * a * b, 3 * a * a - 2 * a * b], axis=1)


class Scratch(NamedTuple):
    """The memory that the kernel works in, of one thread."""

    counts: npt.NDArray[np.int32]
    total: npt.NDArray[np.int32]
    # Counts of the first and the second features with third ones. And the same for the bound of boxes, scaled, with
    # those of the class beyond the expectation, in half words.
    first: npt.NDArray[np.float32]
    second: npt.NDArray[np.float32]
    first_halves: npt.NDArray[np.int32]
    second_halves: npt.NDArray[np.int32]
    # The ANDs of pairs, their rows on each side, and what the tests and the bound of boxes need.
    left: npt.NDArray[np.uint32]
    sides: npt.NDArray[np.float32]
    numbers: npt.NDArray[np.float32]
    box_numbers: npt.NDArray[np.int32]
    cells: npt.NDArray[np.float64]
    skipped: npt.NDArray[np.bool_]
    # The strengths that a triple needs, and what the bound of boxes needs of each class.
    least: npt.NDArray[np.float32]
    parameters: npt.NDArray[np.float32]
    # What the tests and the bound of boxes read.
    addresses: npt.NDArray[np.int64]
    bound_inputs: npt.NDArray[np.int64]
    # Of a triple that is rated.
    grid: npt.NDArray[np.int64]
    boxes: npt.NDArray[np.int64]
    strengths: npt.NDArray[np.float64]

    @classmethod
    def allocate(cls, table: TripleTable, tile: int) -> "Scratch":
        """Allocate the memory for a table and so many second features at a time."""
        classes, rated, words = len(table.totals), len(table.rated), table.words.shape[1]
        blocks, tile = len(table.lanes), tile + tile % 2
        pairs = (1 + rated, triple_kernel.PAIR_COUNTS, LANES)
        halves = (rated, 2, triple_kernel.PAIR_COUNTS, LANES)
        return cls(
            counts=np.zeros((2, classes, triple_kernel.TRIPLE_COUNTS, LANES), np.int32),
            total=np.zeros((2, triple_kernel.TRIPLE_COUNTS, LANES), np.int32),
            first=np.zeros((blocks, 1, *pairs), np.float32),
            second=np.zeros((blocks, tile, *pairs), np.float32),
            first_halves=np.zeros((blocks, 1, *halves), np.int32),
            second_halves=np.zeros((blocks, tile // 2, *halves), np.int32),
            left=np.zeros((tile, words, 4), np.uint32),
            sides=np.zeros((tile, 1 + rated, box_bound.SIDES), np.float32),
            numbers=np.zeros((tile, rated, triple_kernel.PAIR_NUMBERS), np.float32),
            box_numbers=np.zeros((tile // 2, rated, box_bound.NUMBERS, box_bound.SIDES), np.int32),
            cells=np.zeros((1 + rated, 3, 3)),
            skipped=np.zeros(tile, np.bool_),
            least=np.zeros(rated + 1, np.float32),
            parameters=np.zeros((rated, box_bound.PARAMETERS), np.float32),
            addresses=np.zeros(triple_kernel.ADDRESSES, np.int64),
            bound_inputs=np.zeros(box_bound.INPUTS, np.int64),
            grid=np.zeros((1 + classes, 3, 3, 3), np.int64),
            boxes=np.zeros((1 + classes, 5, 5, 5), np.int64),
            strengths=np.zeros(classes + 1),
        )


class _Heaps(NamedTuple):
    """The strongest triples of each kind so far, the weakest on top."""

    strengths: npt.NDArray[np.float64]
    features: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Triples:
    """The strongest triples of each kind, strongest first; ties in the order of their features."""

    # The class, or the number of classes for an interaction; ascending.
    kinds: npt.NDArray[np.int32]
    # (triples, 3): ascending.
    features: npt.NDArray[np.int32]
    strengths: npt.NDArray[np.float64]

    @classmethod
    def empty(cls) -> "Triples":
        """Return no triples."""
        return cls(np.empty(0, np.int32), np.empty((0, 3), np.int32), np.empty(0))

    @classmethod
    def strongest(cls, parts: "list[Triples]", most: int) -> "Triples":
        """Return the strongest of several lists, at most `most` of each kind; a triple twice is as strong as once."""
        parts = [cls.empty(), *parts]
        kinds = np.concatenate([part.kinds for part in parts])
        features = np.concatenate([part.features for part in parts])
        strengths = np.concatenate([part.strengths for part in parts])
        order = np.lexsort([*features.T[::-1], -strengths, kinds])
        sets = np.column_stack([kinds, features])[order]
        order = order[np.sort(np.unique(sets, axis=0, return_index=True)[1])]
        kinds = kinds[order]
        rank = np.arange(len(order)) - np.searchsorted(kinds, kinds)
        best = order[rank < most]
        return cls(kinds[rank < most], features[best], strengths[best])

    def __len__(self) -> int:
        return len(self.strengths)


def least_strength(features: int) -> float:
    """The strength below which no triple is kept: half of what one comparison in all triples hardly reaches by chance.

    At better cuts a triple may be much stronger than at those of the screen.
    """
    return comb(features, 3).bit_length() * LN_2 / 2


def screen_triples(
    table: BitTable, most: int, *, floor: float | None = None, pool: Executor | None = None, pieces: int = 1
) -> Triples:
    """Return the strongest of all triples, at most `most` of each kind, and none that is not stronger than `floor`."""
    laid_out = TripleTable.build(table)
    blocks = triple_blocks(table.features, pieces)
    run = pool.map if pool is not None else map
    parts = run(lambda block: screen_triple_block(laid_out, block[0], block[1], most, floor=floor), blocks)
    return Triples.strongest(list(parts), most)


def screen_triple_block(table: TripleTable, start: int, stop: int, most: int, *, floor: float | None = None) -> Triples:
    """Return the strongest triples whose second feature is one of start … stop − 1."""
    kinds = len(table.totals) + 1
    heaps = _Heaps(np.zeros((kinds, most)), np.zeros((kinds, most, 3), np.int32), np.zeros(kinds, np.int64))
    floors = np.full(kinds, least_strength(len(table.words)) if floor is None else floor)
    scratch = Scratch.allocate(table, min(TILE, stop - start))
    for first in range(start, stop, TILE):
        triple_kernel.screen_tile(table, scratch, first, min(stop, first + TILE), floors, heaps)
    found = [
        Triples(np.full(n, kind, np.int32), heaps.features[kind, :n], heaps.strengths[kind, :n])
        for kind, n in enumerate(heaps.counts)
    ]
    return Triples.strongest(found, most)
