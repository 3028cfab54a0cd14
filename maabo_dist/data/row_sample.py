"""A sample of a dataset, by one pass over its columns, and the part of the split that each row belongs to.

Both follow from a row's hash (`row_hash`), the seed, and its number among identical rows. Neither depends on the number
or the order of the files.

    held out      by chance, `holdout` of the rows; they are counted, and never in the sample
    validation    by chance, `test_size` of the others
    sample        of the rows of each class that are not held out, by chance; of rare classes more, or all

Identical rows are numbered in a table of at most `MAX_NUMBERED` hashes. In a table with more rows, chance chooses which
hashes are numbered; identical rows of the others are in one part, and none of them is in the sample, for which the
numbered ones are taken more often.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from maabo_dist._util import draws
from maabo_dist.data.datasets import Dataset, plain
from maabo_dist.data.row_classes import NO_CLASS, ReadProgress, RowClasses
from maabo_dist.data.row_hash import Hashes, RowNumbers, draw_uniform, hash_rows
from maabo_dist.data.split import Part

# Hashes whose identical rows are numbered: 200 MB.
MAX_NUMBERED = 1 << 23
# A class has at least this share of the sample, or half of an equal share, if it has as many rows.
MIN_CLASS_SHARE = 0.05


class _Purpose(IntEnum):
    """The purposes of streams of draws; others number theirs up to 201."""

    HOLDOUT = 300
    VALIDATION = 301
    SAMPLE = 302
    NUMBERED = 303


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """How rows are drawn."""

    seed: int
    split_seed: int
    holdout: float
    test_size: float
    # (classes): the share of the rows that are not held out.
    rates: tuple[float, ...]
    # The share of the hashes whose identical rows are numbered.
    numbered: float

    @property
    def is_uniform(self) -> bool:
        """True if all classes are sampled alike."""
        return len(set(self.rates)) == 1


@dataclass(frozen=True)
class RowSample:
    """The rows of the sample, and the part of every row of the table."""

    # In an order that depends on the rows alone.
    frame: pd.DataFrame
    # (sample): indices into the classes, and parts.
    labels: npt.NDArray[np.int32]
    sample_parts: npt.NDArray[np.uint8]
    # (rows): the part of each row of the table, in a file.
    parts: npt.NDArray[np.uint8]
    # (parts, classes): rows of the table.
    totals: npt.NDArray[np.int64]
    # The sum of all hashes: the same for the same rows in any order.
    checksum: int


def plan_sample(
    totals: npt.NDArray[np.int64], size: int, *, seed: int, split_seed: int, holdout: float, test_size: float
) -> SamplePlan:
    """Choose the rate of each class so that about `size` rows are drawn; `totals` are the rows of each class.

    One rate for all classes, unless too few rows of one would be drawn.
    """
    mined = totals * (1 - holdout)
    least = np.minimum(mined, size * min(MIN_CLASS_SHARE, 0.5 / len(totals)))
    rare = size * mined / mined.sum() < least
    others = (size - least[rare].sum()) / max(1.0, mined[~rare].sum())
    rates = np.minimum(1.0, np.where(rare, least / np.maximum(mined, 1.0), others))
    numbered = min(1.0, MAX_NUMBERED / max(1, int(totals.sum())))
    return SamplePlan(seed, split_seed, holdout, test_size, tuple(np.minimum(rates, numbered).tolist()), numbered)


def draw_sample(
    table: Dataset,
    columns: Sequence[str],
    classes: RowClasses,
    plan: SamplePlan,
    folder: Path,
    progress: ReadProgress = lambda _rows: None,
) -> RowSample:
    """Read these columns of all rows and draw the sample; `folder` is for a file of one byte a row."""
    parts: Any = np.memmap(folder / "parts", np.uint8, "w+", shape=(table.rows,))
    drawing, count = _Drawing(plan, table.rows), len(classes.classes)
    totals = np.zeros((len(Part), count), np.int64)
    kept: list[pa.RecordBatch] = []
    keys: list[Hashes] = []
    labels: list[npt.NDArray[np.uint8]] = []
    of_part: list[npt.NDArray[np.uint8]] = []
    checksum = 0
    for batch in table.batches(columns):
        own = classes.labels[batch.start : batch.start + batch.cells.num_rows]
        hashes = _hash(batch.cells, own)
        checksum += int(hashes.sum(dtype=np.uint64))
        drawn_parts, priorities, chosen = drawing.draw(hashes, own)
        parts[batch.start : batch.start + len(own)] = drawn_parts
        present = own != NO_CLASS
        cells = drawn_parts[present].astype(np.int64) * count + own[present]
        totals += np.bincount(cells, minlength=totals.size).reshape(totals.shape)
        kept.append(plain(batch.cells.take(pa.array(chosen))))
        keys.append(priorities[chosen])
        labels.append(own[chosen])
        of_part.append(drawn_parts[chosen])
        progress(batch.start + len(own))
    order = np.argsort(np.concatenate(keys), kind="stable")
    schema = pa.schema([table.schema.field(name) for name in columns])
    drawn = pa.Table.from_batches([each.cast(schema) for each in kept], schema).take(pa.array(order))
    return RowSample(
        drawn.to_pandas(),
        np.concatenate(labels)[order].astype(np.int32),
        np.concatenate(of_part)[order],
        parts,
        totals,
        checksum % (1 << 64),
    )


def _hash(cells: pa.RecordBatch, labels: npt.NDArray[np.uint8]) -> Hashes:
    """(rows): hashes of the columns in the order of their names, and the class."""
    order = sorted(range(cells.num_columns), key=cells.schema.names.__getitem__)
    ordered = [pa.array(labels), *(cells.column(index) for index in order)]
    return hash_rows(pa.RecordBatch.from_arrays(ordered, names=[str(index) for index in range(len(ordered))]))


class _Drawing:
    def __init__(self, plan: SamplePlan, rows: int) -> None:
        self._plan = plan
        # A tenth more than expected of hashes that are chosen by chance.
        self._numbers = RowNumbers(min(rows, int(1.1 * MAX_NUMBERED)))
        rates = np.zeros(NO_CLASS + 1)
        rates[: len(plan.rates)] = np.array(plan.rates) / plan.numbered
        self._limits = _limits(rates)

    def draw(
        self, hashes: Hashes, labels: npt.NDArray[np.uint8]
    ) -> tuple[npt.NDArray[np.uint8], Hashes, npt.NDArray[np.int64]]:
        """Return the part of each row, its priority, and the rows that are drawn."""
        plan = self._plan
        counted = self._below(hashes, plan.seed, _Purpose.NUMBERED, plan.numbered)
        numbers = self._numbers.count(hashes, counted)
        parts = np.full(len(hashes), Part.TRAIN, np.uint8)
        parts[self._below(hashes, plan.split_seed, _Purpose.VALIDATION, plan.test_size, numbers)] = Part.VALIDATION
        parts[self._below(hashes, plan.split_seed, _Purpose.HOLDOUT, plan.holdout, numbers)] = Part.HOLDOUT
        priorities = draw_uniform(hashes, numbers, draws.stream(plan.seed, 0, _Purpose.SAMPLE))
        # Halves, as 2⁶⁴ is no 64-bit number.
        drawn = (priorities >> np.uint64(1) < self._limits[labels]) & counted & (parts != Part.HOLDOUT)
        return parts, priorities, np.flatnonzero(drawn & (labels != NO_CLASS))

    @staticmethod
    def _below(
        hashes: Hashes, seed: int, purpose: _Purpose, share: float, numbers: npt.NDArray[np.uint32] | None = None
    ) -> npt.NDArray[np.bool_]:
        numbers = np.zeros(len(hashes), np.uint32) if numbers is None else numbers
        drawn = draw_uniform(hashes, numbers, draws.stream(seed, 0, purpose))
        below: npt.NDArray[np.bool_] = drawn >> np.uint64(1) < _limits(np.array([share]))[0]
        return below


def _limits(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    """Return the numbers below which this share of 63-bit numbers is."""
    return (np.minimum(shares, 1.0) * 2.0**63).astype(np.uint64)
