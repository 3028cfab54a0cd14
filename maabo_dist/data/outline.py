"""What a table's file says of itself, before anything large is read: how many columns, and how much memory at least.

A small Parquet file may unpack to any size: equal values are counted in it, not repeated.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maabo_dist.data.readers import (
    PARQUET,
    SEPARATORS,
    check_readable,
    extension,
    header_line,
    reading,
    separator_of,
    unquoted,
)

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
        return Outline(unquoted(header).count(separator_of(header, kind).encode()) + 1, 0)
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
