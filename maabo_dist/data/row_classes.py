"""The class of every row of a dataset, by a pass over its target column alone."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from maabo_dist._util.text import format_names
from maabo_dist.data.datasets import Dataset
from maabo_dist.data.target import MAX_NUMERIC_CLASSES, Target, count_below, encode_target
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings

# The label of a row without a target.
NO_CLASS = 255
# Distinct values of a target, beyond which it is no class.
MAX_VALUES = 10_000
# Rows whose target may be in memory to find its median, mean or quantiles.
MAX_CUT_ROWS = 20_000_000

# Called with the rows read so far; returns True to stop.
ReadProgress = Callable[[int], None]


@dataclass(frozen=True)
class TargetReader:
    """Returns the classes of cells of the target, in whatever order rows come."""

    # The class of each value.
    values: dict[Any, int] = field(default_factory=dict)
    # The greatest value of each class but the last, if the target is a number that is cut.
    edges: npt.NDArray[np.float64] | None = None

    def read(self, column: Any) -> npt.NDArray[np.uint8]:
        """(rows): indices of classes, or NO_CLASS."""
        if self.edges is not None:
            numbers = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            return np.where(np.isnan(numbers), NO_CLASS, count_below(self.edges, numbers)).astype(np.uint8)
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        values = encoded.dictionary.to_pylist()
        lookup = np.array([*(self.values.get(value, NO_CLASS) for value in values), NO_CLASS], np.uint8)
        labels: npt.NDArray[np.uint8] = lookup[encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)]
        return labels


@dataclass(frozen=True)
class RowClasses:
    """The classes of a table, and the class of each row, in a file."""

    classes: tuple[str, ...]
    # The predicted quantity, as displayed.
    text: str
    notes: tuple[str, ...]
    # (rows): indices into `classes`, or NO_CLASS.
    labels: npt.NDArray[np.uint8]
    # (classes): the rows of each.
    totals: npt.NDArray[np.int64]
    reader: TargetReader


def read_classes(
    table: Dataset, settings: TableSettings, folder: Path, progress: ReadProgress = lambda _rows: None
) -> RowClasses:
    """Read the target column and return the class of each row; `folder` is for a file of one byte a row."""
    codes = np.memmap(folder / "values", np.uint16, "w+", shape=(table.rows,))
    distinct = _read_values(table, settings, codes, progress)
    labels: Any = np.memmap(folder / "labels", np.uint8, "w+", shape=(table.rows,))
    if distinct is None:
        target, reader = _cut_numbers(table, settings, labels, progress)
    else:
        target = encode_target(pd.Series(distinct, name=settings.target).infer_objects(), settings)
        # A missing cell has the last code.
        lookup = np.full(MAX_VALUES + 1, NO_CLASS, np.uint8)
        lookup[: len(distinct)] = target.labels
        reader = TargetReader(dict(zip(distinct, target.labels.tolist(), strict=True)))
        for start in range(0, table.rows, 1 << 20):
            labels[start : start + (1 << 20)] = lookup[codes[start : start + (1 << 20)]]
    (folder / "values").unlink()
    totals = np.zeros(len(target.classes), np.int64)
    for start in range(0, table.rows, 1 << 20):
        totals += np.bincount(labels[start : start + (1 << 20)], minlength=256)[: len(totals)]
    return RowClasses(target.classes, target.text, target.notes, labels, totals, reader)


def _read_values(table: Dataset, settings: TableSettings, codes: Any, progress: ReadProgress) -> list[Any] | None:
    """Number the distinct values of the target in the order in which they come; None if it is a number to be cut."""
    is_number = _is_number(table.schema.field(settings.target or "").type)
    if is_number and (settings.target_above is not None or settings.target_quantiles is not None):
        return None
    numbers: dict[Any, int] = {}
    missing = {None, *settings.na_values}
    for start, column in _target_cells(table, settings, progress):
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        values = encoded.dictionary.to_pylist()
        for value in values:
            if value not in missing and value == value and value not in numbers:  # noqa: PLR0124 - NaN
                numbers[value] = len(numbers)
        if is_number and (len(numbers) > MAX_NUMERIC_CLASSES or any(value % 1 for value in numbers)):
            return None
        if len(numbers) >= MAX_VALUES:
            raise DatasetError(
                f"Target column {settings.target!r} has more than {MAX_VALUES:,} values, such as "
                f"{format_names(map(str, numbers))}. Name another --target."
            )
        lookup = np.array([*(numbers.get(value, MAX_VALUES) for value in values), MAX_VALUES], np.uint16)
        indices = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
        codes[start : start + len(column)] = lookup[indices]
    if not numbers:
        raise DatasetError(f"Target column {settings.target!r} has no values. Name another --target.")
    return list(numbers)


def _cut_numbers(
    table: Dataset, settings: TableSettings, labels: Any, progress: ReadProgress
) -> tuple[Target, TargetReader]:
    """Cut a number into classes, by a limit that depends on all of its values."""
    if table.rows > MAX_CUT_ROWS:
        raise DatasetError(
            f"Target column {settings.target!r} is a number, and its median over {table.rows:,} rows is not computed. "
            "Add a column with the class to the table."
        )
    values = np.empty(table.rows)
    for start, column in _target_cells(table, settings, progress):
        numbers = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        values[start : start + len(column)] = numbers
    present = ~np.isnan(values)
    target = encode_target(pd.Series(values[present], name=settings.target), settings)
    labels[:] = NO_CLASS
    labels[present] = target.labels
    numbers = range(len(target.classes) - 1)
    edges = np.array([values[present][target.labels <= number].max(initial=-np.inf) for number in numbers])
    return target, TargetReader(edges=edges)


def _target_cells(table: Dataset, settings: TableSettings, progress: ReadProgress) -> Iterator[tuple[int, Any]]:
    for batch in table.batches([settings.target or ""]):
        yield batch.start, batch.cells.column(0)
        progress(batch.start + batch.cells.num_rows)


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
