"""Describe a table: the size of a file before it is read, and the columns of a table that was read.

The size must be known first, since a small Parquet file may unpack to any size: it stores repeated values once.
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
    wrap_read_errors,
)
from maabo_dist.errors import DatasetError

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
# Bytes of a cell of any other type: the number itself, or the offset of a text.
_WIDTH = 8


@dataclass(frozen=True, slots=True)
class Outline:
    """Lower bounds on the size of a table."""

    columns: int
    # Memory that all cells take; 0 if it is unknown before the file is read.
    cells_bytes: int


def outline(path: Path) -> Outline:
    """Return the outline of a text or Parquet file; all zeros for other files."""
    check_readable(path)
    kind = extension(path)
    if kind in SEPARATORS:
        header = header_line(path)
        return Outline(outside_quotes(header).count(find_separator(header, kind).encode()) + 1, 0)
    return _outline_parquet(path) if kind in PARQUET else Outline(0, 0)


def _outline_parquet(path: Path) -> Outline:
    from pyarrow import parquet

    with wrap_read_errors(path, "Parquet"), parquet.ParquetFile(path) as file:
        metadata = file.metadata
        width = sum(_width(metadata.schema.column(index)) for index in range(metadata.num_columns))
        packed = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
        return Outline(metadata.num_columns, max(metadata.num_rows * width, packed))


def _width(column: Any) -> int:
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return max(1, int(column.length))
    return _WIDTHS.get(column.physical_type, _WIDTH)


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """One column, before any settings are applied."""

    name: str
    kind: ColumnKind
    missing: int
    distinct: int | None = None
    levels: tuple[str, ...] | None = None
    smallest: float | None = None
    largest: float | None = None


def describe(frame: pd.DataFrame) -> Iterator[ColumnDescription]:
    """Yield the columns in their order, one at a time: a wide table has many levels."""
    for name, cells in frame.items():
        try:
            describe_cells = _describe_numbers if holds_numbers(cells, remedy="") else _describe_levels
            yield describe_cells(str(name), cells)
        except DatasetError:  # dates, lists, bytes, infinite numbers
            yield ColumnDescription(str(name), "other", int(cells.isna().sum()))


def _describe_numbers(name: str, cells: pd.Series) -> ColumnDescription:
    values = finite_numbers(cells, remedy="")
    present = np.unique(values[~np.isnan(values)])
    missing = int(np.count_nonzero(np.isnan(values)))
    ends = (float(present[0]), float(present[-1])) if len(present) else (None, None)
    return ColumnDescription(name, "number", missing, len(present), None, *ends)


def _describe_levels(name: str, cells: pd.Series) -> ColumnDescription:
    coded = levels(cells)
    kind: ColumnKind = "pair" if len(coded.texts) == 2 and not coded.missing else "level"
    return ColumnDescription(name, kind, coded.missing, len(coded.texts), coded.texts)
