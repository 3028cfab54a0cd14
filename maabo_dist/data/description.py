"""What a table's file says of itself, before anything large is read: how many columns, and how much memory at least.

A small Parquet file may unpack to any size: equal values are counted in it, not repeated.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from maabo_dist.data.cells import finite_numbers, holds_numbers, levels
from maabo_dist.data.columns import ColumnKind
from maabo_dist.data.readers import (
    PARQUET,
    SEPARATORS,
    check_readable,
    extension,
    find_separator,
    header_line,
    outside_quotes,
    reading,
)
from maabo_dist.errors import DatasetError

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
_WIDTH = 8
"""Bytes of a cell of any other type: the number itself, or where a text begins."""


@dataclass(frozen=True, slots=True)
class Outline:
    """Bounds from below: the file may turn out to hold more."""

    columns: int
    cells_bytes: int
    """Of all cells in memory; 0 where only reading the file tells."""


def outline(path: Path) -> Outline:
    """The outline of a text or Parquet file; nothing is known of others."""
    check_readable(path)
    kind = extension(path)
    if kind in SEPARATORS:
        header = header_line(path)
        return Outline(outside_quotes(header).count(find_separator(header, kind).encode()) + 1, 0)
    return _of_parquet(path) if kind in PARQUET else Outline(0, 0)


def _of_parquet(path: Path) -> Outline:
    from pyarrow import parquet

    with reading(path, "Parquet"), parquet.ParquetFile(path) as file:
        about = file.metadata
        width = sum(_width(about.schema.column(place)) for place in range(about.num_columns))
        packed = sum(about.row_group(place).total_byte_size for place in range(about.num_row_groups))
        return Outline(about.num_columns, max(about.num_rows * width, packed))


def _width(column: Any) -> int:
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return max(1, int(column.length))
    return _WIDTHS.get(column.physical_type, _WIDTH)


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """One column, before any settings."""

    name: str
    kind: ColumnKind
    missing: int
    distinct: int | None = None
    levels: tuple[str, ...] | None = None
    smallest: float | None = None
    largest: float | None = None


def describe(frame: pd.DataFrame) -> Iterator[ColumnDescription]:
    """The columns in their order, one at a time: a wide table has many levels."""
    for name, cells in frame.items():
        try:
            yield _numbers(str(name), cells) if holds_numbers(cells, remedy="") else _levels(str(name), cells)
        except DatasetError:  # dates, lists, bytes, infinite numbers
            yield ColumnDescription(str(name), "other", int(cells.isna().sum()))


def _numbers(name: str, cells: pd.Series) -> ColumnDescription:
    values = finite_numbers(cells, remedy="")
    present = np.unique(values[~np.isnan(values)])
    missing = int(np.count_nonzero(np.isnan(values)))
    ends = (float(present[0]), float(present[-1])) if len(present) else (None, None)
    return ColumnDescription(name, "number", missing, len(present), None, *ends)


def _levels(name: str, cells: pd.Series) -> ColumnDescription:
    found = levels(cells)
    kind: ColumnKind = "pair" if len(found.texts) == 2 and not found.missing else "level"
    return ColumnDescription(name, kind, found.missing, len(found.texts), found.texts)
