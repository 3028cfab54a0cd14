"""`BitTable`: columns in three coarse bins, as bits, so that pairs of features are counted 64 rows at a time.

A feature has two cuts, near the thirds of its training rows, and two rows of bits: 1 if a row's value lies above the
first cut, and above the second. Rows are in order of their class, each class filled up to whole words:

    bits[feature, cut] = | class 0: 64 rows | 64 rows, the rest 0 | class 1: 64 rows | …

A feature of two values has the same cut twice.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist._util import arrayfile
from maabo_dist._util.jit import kernel
from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.screens.blocks import WORD

KIND = "bits/1"
CUTS = 2


class BitTable(NamedTuple):
    """Training rows as bits. A named tuple, which a kernel accepts as one argument."""

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
    """The rank whose rows, and those below, come nearest to `part` of `parts`; never all rows, the lower of equals."""
    best, nearest, below = -1, np.int64(1) << 62, 0
    for code in range(len(counts)):
        below += counts[code]
        if below == rows:
            break
        distance = abs(below * parts - rows * part)
        if counts[code] > 0 and distance < nearest:
            best, nearest = code, distance
    return best
