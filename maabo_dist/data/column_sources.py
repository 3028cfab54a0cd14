"""Tables that are read by columns: Parquet, Feather and NPY files a block at a time, and DataFrames.

Parquet and Feather files store each column by itself, so that a block of columns is read without the others. NPY files
are mapped. Other files are read whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from maabo_dist._util.files import check_table_file
from maabo_dist.data import column_blocks
from maabo_dist.data.arrays import NPY, ArraySource
from maabo_dist.data.encoder import with_text_names
from maabo_dist.data.file_checks import NOTES, wrap_read_errors
from maabo_dist.data.readers import FEATHER, PARQUET, extension, mask_texts, read_table


class ColumnSource(Protocol):
    """A table whose columns can be read a few at a time."""

    @property
    def names(self) -> list[str]:
        """The names of all columns."""

    @property
    def rows(self) -> int:
        """The number of rows."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on how the table was read."""

    def read(self, names: Sequence[str]) -> pd.DataFrame:
        """Return these columns."""


@dataclass(frozen=True)
class FrameSource:
    """A table in memory."""

    frame: pd.DataFrame

    @classmethod
    def open(cls, frame: pd.DataFrame) -> "FrameSource":
        """Take a frame, with its column names as text."""
        return cls(with_text_names(frame))

    @cached_property
    def names(self) -> list[str]:
        """The names of all columns."""
        return list(self.frame.columns)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.frame)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on how the table was read."""
        return tuple(self.frame.attrs.get(NOTES, ()))

    def read(self, names: Sequence[str]) -> pd.DataFrame:
        """Return these columns."""
        return self.frame[list(names)]


@dataclass(frozen=True)
class ArrowSource:
    """A Parquet or Feather file."""

    path: Path
    names: list[str]
    rows: int
    na_values: tuple[str, ...]
    reader: "ParquetColumns | FeatherColumns"
    notes: tuple[str, ...] = ()

    @classmethod
    def open(cls, path: Path, na_values: tuple[str, ...]) -> "ArrowSource | None":
        """Open a file; None if it has to be read whole: it is small, or pandas gives its columns other names."""
        with wrap_read_errors(path, _format(path)):
            reader = ParquetColumns(path) if extension(path) in PARQUET else FeatherColumns(path)
            schema, rows = reader.schema, reader.rows
            names = list(schema.empty_table().to_pandas().columns)
        if not set(names) <= set(schema.names) or len(set(schema.names)) < len(schema.names):
            return None
        if rows * len(names) <= column_blocks.BLOCK_CELLS or not all(name.strip() for name in names):
            return None
        return cls(path, names, rows, na_values, reader)

    def read(self, names: Sequence[str]) -> pd.DataFrame:
        """Return these columns, as a frame of the whole table has them."""
        with wrap_read_errors(self.path, _format(self.path)):
            frame: pd.DataFrame = self.reader.read(names).select(list(names)).to_pandas()
        return mask_texts(frame.reset_index(drop=True), self.na_values)


class ParquetColumns:
    """The columns of a Parquet file."""

    def __init__(self, path: Path) -> None:
        self._file = parquet.ParquetFile(path)
        self.schema: pa.Schema = self._file.schema_arrow
        self.rows: int = self._file.metadata.num_rows

    def read(self, names: Sequence[str]) -> pa.Table:
        """Read at least these columns."""
        return self._file.read(columns=list(names))


class FeatherColumns:
    """The columns of a Feather file."""

    def __init__(self, path: Path) -> None:
        self._file = pa.memory_map(str(path))
        self.schema: pa.Schema = pa.ipc.open_file(self._file).schema
        self.rows: int = self._read([0]).num_rows if len(self.schema) else 0
        self._numbers = {name: number for number, name in enumerate(self.schema.names)}

    def read(self, names: Sequence[str]) -> pa.Table:
        """Read these columns."""
        return self._read([self._numbers[name] for name in names])

    def _read(self, numbers: list[int]) -> pa.Table:
        options = pa.ipc.IpcReadOptions(included_fields=numbers)
        return pa.ipc.open_file(self._file, options=options).read_all()


def _format(path: Path) -> str:
    return "Parquet" if extension(path) in PARQUET else "Feather"


def open_columns(path: Path, *, na_values: tuple[str, ...] = ()) -> ColumnSource:
    """Open a table to be read by columns: a large Parquet or Feather file or any NPY file in blocks, others whole."""
    check_table_file(path)
    if extension(path) in NPY:
        return ArraySource.open(path, na_values)
    if extension(path) in (*PARQUET, *FEATHER):
        source = ArrowSource.open(path, na_values)
        if source is not None:
            return source
    return FrameSource.open(read_table(path, na_values=na_values))
