"""The pairwise screen: the pairs of features that say more about the class together than each alone.

For a pair, the training rows fall into nine cells of coarse bins. Pearson's χ² of cells against classes, less that of
either feature alone, is the part that only the pair explains: large for two features whose cells differ in class though
neither feature has an effect of its own, near its four degrees of freedom per class where there is nothing.

Counts are exact integers and a pair's strength depends on nothing but its counts, so that any cut of the work into
blocks, on any number of machines, gives the same strongest pairs.
"""

from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist._util import arrayfile
from maabo_dist._util.jit import kernel
from maabo_dist._util.scratch import each_block
from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.screens import pair_kernel
from maabo_dist.screens.blocks import THIRDS, WORD, Cuts, pair_blocks
from maabo_dist.screens.lanes import LANES, in_lanes

KIND = "bits/1"
CUTS = 2


class BitTable(NamedTuple):
    """Training rows in three coarse bins, as bits, so that pairs of features are counted 64 rows at a time.

    A feature has two cuts, such as near the thirds of its training rows, and two rows of bits: 1 if a row's value lies
    above the first cut, and above the second. Rows are in order of their class, each class filled up to whole words:

        bits[feature, cut] = | class 0: 64 rows | 64 rows, the rest 0 | class 1: 64 rows | …

    A feature of two values has the same cut twice. A named tuple, which a kernel accepts as one argument.
    """

    # (D, 2, words).
    bits: npt.NDArray[np.uint64]
    # (C + 1): class c has the words starts[c]:starts[c + 1].
    starts: npt.NDArray[np.int64]
    # (C): training rows of each class.
    totals: npt.NDArray[np.int64]
    # (D, 2, C): rows of each class above each cut.
    above: npt.NDArray[np.int64]

    @classmethod
    def build(cls, columns: Columns, split: Split, cuts: Cuts = THIRDS) -> "BitTable":
        """Build the table of the training rows of a split, with cuts near these parts of the rows."""
        labels = columns.labels[split.train]
        totals = np.bincount(labels, minlength=len(columns.classes)).astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(-(-totals // WORD))]).astype(np.int64)
        order = np.argsort(labels, kind="stable")
        positions = np.concatenate([starts[c] * WORD + np.arange(rows) for c, rows in enumerate(totals)])
        parts = np.array(cuts, np.int64)
        bits = np.zeros((columns.count, CUTS, int(starts[-1])), np.uint64)
        above = np.zeros((columns.count, CUTS, len(totals)), np.int64)
        rows = split.train[order]
        sizes = np.diff(columns.offsets)
        for block in each_block(columns.codes):
            for feature in range(block.start, block.stop):
                codes = columns.codes[feature][rows].astype(np.int64)
                _fill(codes, int(sizes[feature]), parts, labels[order], positions, bits[feature], above[feature])
        return cls(bits, starts, totals, above)

    @property
    def features(self) -> int:
        """D."""
        return len(self.bits)

    def save(self, path: Path) -> None:
        """Write one file, atomically, which the processes of a host share."""
        arrayfile.write(path, KIND, self._asdict(), {})

    @classmethod
    def load(cls, path: Path) -> "BitTable":
        """Map a saved file of this host, after a check of every byte."""
        arrays, _ = arrayfile.read(path, KIND, cls._fields, writable=True, verify=True)
        return cls(**arrays)


@kernel
def _fill(codes: Any, size: int, parts: Any, labels: Any, positions: Any, bits: Any, above: Any) -> None:
    """Choose the cuts of one feature, and set its bits."""
    counts = np.zeros(size, np.int64)
    for code in codes:
        counts[code] += 1
    for k in range(bits.shape[0]):
        cut = find_cut(counts, len(codes), parts[k, 0], parts[k, 1])
        for i in range(len(codes)):
            if codes[i] > cut:
                bits[k, positions[i] >> 6] |= np.uint64(1) << np.uint64(positions[i] & 63)
                above[k, labels[i]] += 1


@kernel
def find_cut(counts: Any, rows: int, part: int, parts: int) -> int:
    """The rank whose rows, and those below, come nearest to `part` of `parts`; not all rows; ties go to the lower."""
    best, nearest, below = -1, np.int64(1) << 62, 0
    for code in range(len(counts)):
        below += counts[code]
        if below == rows:
            break
        distance = abs(below * parts - rows * part)
        if counts[code] > 0 and distance < nearest:
            best, nearest = code, distance
    return best


class PairTable(NamedTuple):
    """A `BitTable`, and what the kernel of pairs needs of it beside the bits."""

    bits: npt.NDArray[np.uint64]
    starts: npt.NDArray[np.int64]
    totals: npt.NDArray[np.int64]
    above: npt.NDArray[np.int64]
    # (blocks, words, 2, lanes): 32 rows of 16 features side by side, above each cut.
    lanes: npt.NDArray[np.uint32]
    # (D, C, 2), and (blocks, C, 2, lanes): rows of each class above each cut.
    rows_above: npt.NDArray[np.int32]
    lanes_above: npt.NDArray[np.int32]
    # (C): rows over rows of the class; a class without rows has weight 0.
    weights: npt.NDArray[np.float64]
    # (D), and (blocks, lanes): χ² of each feature alone.
    singles: npt.NDArray[np.float64]
    lane_singles: npt.NDArray[np.float32]
    # (C, 3): the rows of each class; as bits of float32 its share of all rows, and its weight in the bound.
    classes: npt.NDArray[np.int32]
    # The first class in the bound, the last one + 1, and C. Of two classes, the rarer one is enough.
    ranges: npt.NDArray[np.int64]

    @classmethod
    def build(cls, table: BitTable) -> "PairTable":
        """Lay out the bits for the kernel."""
        words = np.ascontiguousarray(table.bits.view(np.uint32).transpose(0, 2, 1))
        rows_above = np.ascontiguousarray(table.above.transpose(0, 2, 1), dtype=np.int32)
        weights, singles, count = _weights(table), single_strengths(table), len(table.totals)
        rarer = int(np.argmin(table.totals))
        numbers = np.stack([table.totals / max(1, int(table.totals.sum())), weights], axis=1)
        if count == 2:
            numbers[:, 1] = weights.sum()
        numbers[:, 1] *= 1 + pair_kernel.SHARE_MARGIN
        return cls(
            *table,
            lanes=in_lanes(words),
            rows_above=rows_above,
            lanes_above=in_lanes(rows_above),
            weights=weights,
            singles=singles,
            lane_singles=in_lanes(singles.astype(np.float32)),
            classes=np.column_stack([table.totals.astype(np.int32), numbers.astype(np.float32).view(np.int32)]),
            ranges=np.array([rarer, rarer + 1, count] if count == 2 else [0, count, count]),
        )


@dataclass(frozen=True, slots=True)
class Pairs:
    """The strongest pairs, strongest first; ties in the order of their features."""

    # (pairs, 2): ascending.
    features: npt.NDArray[np.int32]
    strengths: npt.NDArray[np.float64]

    @classmethod
    def strongest(cls, parts: "list[Pairs]", most: int) -> "Pairs":
        """Return the strongest of several lists; a pair that is in two of them, as strong as it is in one."""
        features = np.concatenate([np.empty((0, 2), np.int32), *(part.features for part in parts)])
        strengths = np.concatenate([np.empty(0), *(part.strengths for part in parts)])
        order = np.lexsort([features[:, 1], features[:, 0], -strengths])
        first = np.sort(np.unique(features[order], axis=0, return_index=True)[1])
        best = order[first[:most]]
        return cls(features[best], strengths[best])

    def __len__(self) -> int:
        return len(self.strengths)


def screen_pairs(table: BitTable, most: int, *, pool: Executor | None = None, pieces: int = 1) -> Pairs:
    """Return the strongest of all pairs, at most `most`."""
    laid_out, blocks = PairTable.build(table), pair_blocks(table.features, pieces)
    run = pool.map if pool is not None else map
    return Pairs.strongest(list(run(lambda block: screen_block(laid_out, block[0], block[1], most), blocks)), most)


def screen_block(table: PairTable, start: int, stop: int, most: int) -> Pairs:
    """Return the strongest pairs whose first feature is one of start … stop − 1."""
    strengths, features = np.full(most, -np.inf), np.zeros((most, 2), np.int32)
    counts = np.zeros((len(table.totals), pair_kernel.COUNTS, LANES), np.int32)
    count = pair_kernel.screen(table, start, stop, counts, strengths, features) if most else 0
    return Pairs.strongest([Pairs(features[:count], strengths[:count])], most)


def single_strengths(table: BitTable) -> npt.NDArray[np.float64]:
    """(D): χ² of each feature's three bins against the classes."""
    low, high = table.above[:, 0], table.above[:, 1]
    cells = np.stack([table.totals - low, low - high, high], axis=1)  # (D, 3, C)
    squares, sizes = (cells.astype(np.float64) ** 2 * _weights(table)).sum(axis=2), cells.sum(axis=2)
    strengths: npt.NDArray[np.float64] = (squares / np.maximum(sizes, 1)).sum(axis=1) - table.totals.sum()
    return strengths


def _weights(table: BitTable) -> npt.NDArray[np.float64]:
    """(C): rows over rows of the class; a class without rows has weight 0."""
    present = table.totals > 0
    return np.where(present, table.totals.sum() / np.maximum(table.totals, 1), 0.0)
