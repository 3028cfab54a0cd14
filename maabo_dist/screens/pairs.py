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
from maabo_dist._util.jit import kernel, popcount
from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.screens.blocks import WORD, pair_blocks

KIND = "bits/1"
CUTS = 2


class BitTable(NamedTuple):
    """Training rows in three coarse bins, as bits, so that pairs of features are counted 64 rows at a time.

    A feature has two cuts, near the thirds of its training rows, and two rows of bits: 1 if a row's value lies above
    the first cut, and above the second. Rows are in order of their class, each class filled up to whole words:

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
    def build(cls, columns: Columns, split: Split) -> "BitTable":
        """Build the table of the training rows of a split."""
        labels = columns.labels[split.train]
        totals = np.bincount(labels, minlength=len(columns.classes)).astype(np.int64)
        starts = np.concatenate([[0], np.cumsum(-(-totals // WORD))]).astype(np.int64)
        order = np.argsort(labels, kind="stable")
        positions = np.concatenate([starts[c] * WORD + np.arange(rows) for c, rows in enumerate(totals)])
        bits = np.zeros((columns.count, CUTS, int(starts[-1])), np.uint64)
        above = np.zeros((columns.count, CUTS, len(totals)), np.int64)
        rows = split.train[order]
        sizes = np.diff(columns.offsets)
        for feature in range(columns.count):
            codes = columns.codes[feature][rows].astype(np.int64)
            _fill(codes, int(sizes[feature]), labels[order], positions, bits[feature], above[feature])
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
def _fill(codes: Any, size: int, labels: Any, positions: Any, bits: Any, above: Any) -> None:
    """Choose the cuts of one feature, and set its bits."""
    counts = np.zeros(size, np.int64)
    for code in codes:
        counts[code] += 1
    for k in range(bits.shape[0]):
        cut = _cut(counts, len(codes), k + 1, bits.shape[0] + 1)
        for i in range(len(codes)):
            if codes[i] > cut:
                bits[k, positions[i] >> 6] |= np.uint64(1) << np.uint64(positions[i] & 63)
                above[k, labels[i]] += 1


@kernel
def _cut(counts: Any, rows: int, part: int, parts: int) -> int:
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


TILE = 16


@dataclass(frozen=True, slots=True)
class Pairs:
    """The strongest pairs, strongest first; ties in the order of their features."""

    # (pairs, 2): ascending.
    features: npt.NDArray[np.int32]
    strengths: npt.NDArray[np.float64]

    @classmethod
    def strongest(cls, parts: "list[Pairs]", most: int) -> "Pairs":
        """Return the strongest of several lists."""
        features = np.concatenate([np.empty((0, 2), np.int32), *(part.features for part in parts)])
        strengths = np.concatenate([np.empty(0), *(part.strengths for part in parts)])
        best = np.lexsort([features[:, 1], features[:, 0], -strengths])[:most]
        return cls(features[best], strengths[best])

    def __len__(self) -> int:
        return len(self.strengths)


def screen_pairs(table: BitTable, most: int, *, pool: Executor | None = None, pieces: int = 1) -> Pairs:
    """Return the strongest of all pairs, at most `most`."""
    blocks = pair_blocks(table.features, pieces)
    run = pool.map if pool is not None else map
    return Pairs.strongest(list(run(lambda block: screen_block(table, block[0], block[1], most), blocks)), most)


def screen_block(table: BitTable, start: int, stop: int, most: int) -> Pairs:
    """Return the strongest pairs whose first feature is one of start … stop − 1."""
    singles = single_strengths(table)
    strengths, features = np.full(most, -np.inf), np.zeros((most, 2), np.int32)
    count = _screen(table, singles, _weights(table), start, stop, strengths, features)
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


@kernel
def _screen(table: Any, singles: Any, weights: Any, start: int, stop: int, strengths: Any, features: Any) -> int:
    """Fill a heap with the strongest pairs, the weakest on top; return their number."""
    count, rows = 0, table.totals.sum()
    squares, sizes = np.empty(9), np.empty(9, np.int64)
    for first in range(start, stop, TILE):  # a tile of first features stays in the cache while the second ones change
        for g in range(first + 1, len(table.bits)):
            for f in range(first, min(first + TILE, stop, g)):
                squares[:] = 0.0
                sizes[:] = 0
                for c in range(len(table.totals)):
                    _add_class(table, f, g, c, weights[c], squares, sizes)
                strength = _chi_squared(squares, sizes, rows) - singles[f] - singles[g]
                if count < len(strengths):
                    _sift_up(strengths, features, count, strength, f, g)
                    count += 1
                elif count and _is_weaker(strengths, features, 0, strength, f, g):
                    _sift_down(strengths, features, strength, f, g)
    return count


@kernel
def _add_class(table: Any, f: int, g: int, c: int, weight: float, squares: Any, sizes: Any) -> None:
    """Count a class's rows in the nine cells. The counts above both cuts give the bins: below, between, above."""
    low_low = low_high = high_low = high_high = np.uint64(0)
    bits = table.bits
    for word in range(table.starts[c], table.starts[c + 1]):
        f_low, f_high, g_low, g_high = bits[f, 0, word], bits[f, 1, word], bits[g, 0, word], bits[g, 1, word]
        low_low += popcount(f_low & g_low)
        low_high += popcount(f_low & g_high)
        high_low += popcount(f_high & g_low)
        high_high += popcount(f_high & g_high)
    ll, lh, hl, hh = np.int64(low_low), np.int64(low_high), np.int64(high_low), np.int64(high_high)
    fl, fh = table.above[f, 0, c], table.above[f, 1, c]
    gl, gh = table.above[g, 0, c], table.above[g, 1, c]
    _add_cell(0, table.totals[c] - gl - (fl - ll), weight, squares, sizes)
    _add_cell(1, (gl - gh) - (ll - lh), weight, squares, sizes)
    _add_cell(2, gh - lh, weight, squares, sizes)
    _add_cell(3, (fl - ll) - (fh - hl), weight, squares, sizes)
    _add_cell(4, (ll - lh) - (hl - hh), weight, squares, sizes)
    _add_cell(5, lh - hh, weight, squares, sizes)
    _add_cell(6, fh - hl, weight, squares, sizes)
    _add_cell(7, hl - hh, weight, squares, sizes)
    _add_cell(8, hh, weight, squares, sizes)


@kernel
def _add_cell(cell: int, count: Any, weight: float, squares: Any, sizes: Any) -> None:
    squares[cell] += count * count * weight
    sizes[cell] += count


@kernel
def _chi_squared(squares: Any, sizes: Any, rows: int) -> float:
    """Σ (observed − expected)² / expected = Σ observed² / expected − rows, over cells and classes."""
    value = -float(rows)
    for cell in range(len(sizes)):
        if sizes[cell] > 0:
            value += squares[cell] / sizes[cell]
    return value


@kernel
def _is_weaker(strengths: Any, features: Any, place: int, strength: float, f: int, g: int) -> bool:
    """True if the pair at `place` comes after the pair of f and g. No two pairs are equal."""
    if strengths[place] != strength:
        return bool(strengths[place] < strength)
    return bool(features[place, 0] > f or (features[place, 0] == f and features[place, 1] > g))


@kernel
def _sift_up(strengths: Any, features: Any, place: int, strength: float, f: int, g: int) -> None:
    while place > 0:
        parent = (place - 1) // 2
        if _is_weaker(strengths, features, parent, strength, f, g):
            break
        strengths[place] = strengths[parent]
        features[place, 0], features[place, 1] = features[parent, 0], features[parent, 1]
        place = parent
    strengths[place] = strength
    features[place, 0], features[place, 1] = f, g


@kernel
def _sift_down(strengths: Any, features: Any, strength: float, f: int, g: int) -> None:
    place, size = 0, len(strengths)
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        other, first, second = child + 1, features[child, 0], features[child, 1]
        if other < size and _is_weaker(strengths, features, other, strengths[child], first, second):
            child = other
        if not _is_weaker(strengths, features, child, strength, f, g):
            break
        strengths[place] = strengths[child]
        features[place, 0], features[place, 1] = features[child, 0], features[child, 1]
        place = child
    strengths[place] = strength
    features[place, 0], features[place, 1] = f, g
