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
from maabo_dist.data.column_counts import ColumnCounts
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
class DrawnRows:
    """The rows that were drawn from some pieces of a table, in no particular order."""

    rows: pa.Table
    # (drawn): what orders them; indices into the classes; and parts.
    keys: Hashes
    labels: npt.NDArray[np.uint8]
    parts: npt.NDArray[np.uint8]
    # (parts, classes): all rows of the pieces.
    totals: npt.NDArray[np.int64]
    # The sum of all hashes: the same for the same rows in any order.
    checksum: int
    # Of all rows of the pieces, by column.
    columns: dict[str, ColumnCounts]


@dataclass(frozen=True)
class RowSample:
    """The rows of the sample, in an order that depends on the rows alone."""

    frame: pd.DataFrame
    # (sample): indices into the classes, and parts.
    labels: npt.NDArray[np.int32]
    parts: npt.NDArray[np.uint8]
    # (parts, classes): rows of the table.
    totals: npt.NDArray[np.int64]
    checksum: int
    # Of all rows of the table, by column.
    columns: dict[str, ColumnCounts]

    @classmethod
    def of(cls, drawn: Sequence[DrawnRows]) -> "RowSample":
        """Put together what was drawn from all pieces."""
        order = np.argsort(np.concatenate([each.keys for each in drawn]), kind="stable")
        columns = {name: ColumnCounts() for name in drawn[0].columns}
        for each in drawn:
            for name, counts in each.columns.items():
                columns[name].merge(counts)
        return cls(
            pa.concat_tables([each.rows for each in drawn]).take(pa.array(order)).to_pandas(),
            np.concatenate([each.labels for each in drawn])[order].astype(np.int32),
            np.concatenate([each.parts for each in drawn])[order],
            np.sum([each.totals for each in drawn], axis=0),
            sum(each.checksum for each in drawn) % (1 << 64),
            columns,
        )


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
) -> tuple[RowSample, npt.NDArray[np.uint8]]:
    """Read these columns of all rows; return the sample, and the part of each row, in a file of `folder`."""
    parts: Any = np.memmap(folder / "parts", np.uint8, "w+", shape=(table.rows,))
    drawer = RowDrawer(plan, pa.schema([table.schema.field(name) for name in columns]), table.rows)
    for batch in table.batches(columns):
        rows = slice(batch.start, batch.start + batch.cells.num_rows)
        parts[rows] = drawer.add(batch.cells, classes.labels[rows])
        progress(rows.stop)
    return RowSample.of([drawer.finish()]), parts


class RowDrawer:
    """Draws from the rows of batches that are added one after another."""

    def __init__(self, plan: SamplePlan, schema: pa.Schema, rows: int, numbers: "RowNumbers | None" = None) -> None:
        """`rows` are as many as will be added. `numbers` has counted identical rows that are added elsewhere."""
        # A tenth more than expected of hashes that are chosen by chance.
        self.numbers = numbers or RowNumbers(min(rows, int(1.1 * MAX_NUMBERED)))
        self._plan, self._schema = plan, schema
        rates = np.zeros(NO_CLASS + 1)
        rates[: len(plan.rates)] = np.array(plan.rates) / plan.numbered
        self._limits = _limits(rates)
        self._totals = np.zeros((len(Part), len(plan.rates)), np.int64)
        self._checksum = 0
        self._columns = {name: ColumnCounts() for name in schema.names}
        self._rows: list[pa.RecordBatch] = []
        self._drawn: list[tuple[Hashes, npt.NDArray[np.uint8], npt.NDArray[np.uint8]]] = []

    def add(self, cells: pa.RecordBatch, labels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Draw from the rows of a batch; return the part of each."""
        hashes = _hash(cells, labels)
        for name, column in zip(cells.schema.names, cells.columns, strict=True):
            self._columns[name].add(column)
        parts, priorities, chosen = self._draw(hashes, labels)
        self._checksum += int(hashes.sum(dtype=np.uint64))
        present = labels != NO_CLASS
        counted = parts[present].astype(np.int64) * self._totals.shape[1] + labels[present]
        self._totals += np.bincount(counted, minlength=self._totals.size).reshape(self._totals.shape)
        self._rows.append(plain(cells.take(pa.array(chosen))).cast(self._schema))
        self._drawn.append((priorities[chosen], labels[chosen], parts[chosen]))
        return parts

    def finish(self) -> DrawnRows:
        """Return the rows that were drawn."""
        nothing = np.zeros(0, np.uint64), np.zeros(0, np.uint8), np.zeros(0, np.uint8)
        keys, labels, parts = (np.concatenate(each) for each in zip(nothing, *self._drawn, strict=True))
        rows = pa.Table.from_batches(self._rows, self._schema)
        return DrawnRows(rows, keys, labels, parts, self._totals, self._checksum % (1 << 64), self._columns)

    def _draw(
        self, hashes: Hashes, labels: npt.NDArray[np.uint8]
    ) -> tuple[npt.NDArray[np.uint8], Hashes, npt.NDArray[np.int64]]:
        """Return the part of each row, its priority, and the rows that are drawn."""
        plan = self._plan
        counted = _below(hashes, plan.seed, _Purpose.NUMBERED, plan.numbered)
        numbers = self.numbers.count(hashes, counted)
        parts = np.full(len(hashes), Part.TRAIN, np.uint8)
        parts[_below(hashes, plan.split_seed, _Purpose.VALIDATION, plan.test_size, numbers)] = Part.VALIDATION
        parts[_below(hashes, plan.split_seed, _Purpose.HOLDOUT, plan.holdout, numbers)] = Part.HOLDOUT
        priorities = draw_uniform(hashes, numbers, draws.stream(plan.seed, 0, _Purpose.SAMPLE))
        # Halves, as 2⁶⁴ is no 64-bit number.
        drawn = (priorities >> np.uint64(1) < self._limits[labels]) & counted & (parts != Part.HOLDOUT)
        return parts, priorities, np.flatnonzero(drawn & (labels != NO_CLASS))


def _below(
    hashes: Hashes, seed: int, purpose: _Purpose, share: float, numbers: npt.NDArray[np.uint32] | None = None
) -> npt.NDArray[np.bool_]:
    numbers = np.zeros(len(hashes), np.uint32) if numbers is None else numbers
    drawn = draw_uniform(hashes, numbers, draws.stream(seed, 0, purpose))
    below: npt.NDArray[np.bool_] = drawn >> np.uint64(1) < _limits(np.array([share]))[0]
    return below


def _hash(cells: pa.RecordBatch, labels: npt.NDArray[np.uint8]) -> Hashes:
    """(rows): hashes of the columns in the order of their names, and the class."""
    order = sorted(range(cells.num_columns), key=cells.schema.names.__getitem__)
    ordered = [pa.array(labels), *(cells.column(index) for index in order)]
    return hash_rows(pa.RecordBatch.from_arrays(ordered, names=[str(index) for index in range(len(ordered))]))


def _limits(shares: npt.NDArray[np.float64]) -> npt.NDArray[np.uint64]:
    """Return the numbers below which this share of 63-bit numbers is."""
    return (np.minimum(shares, 1.0) * 2.0**63).astype(np.uint64)
