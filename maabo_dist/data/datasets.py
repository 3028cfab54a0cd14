"""`Dataset`: a table that may be larger than memory, read in batches of rows and only the columns that are needed.

    a directory, glob, URL or list of Parquet files      row group by row group; Hive partitions are columns
    the same of CSV or TSV files                         block by block; one more pass finds the types
    a pyarrow dataset or table, a pandas or Polars frame batch by batch

Files are read in the order of their paths. A file that is damaged, has other columns, or changes while the dataset is
in use raises a DatasetError that names it.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from maabo_dist._util.text import format_count, suggestion
from maabo_dist.data.dataset_files import DataFile, fingerprint_of, list_files
from maabo_dist.data.dataset_sources import ParquetFiles, Piece, Source, TextFiles, open_object
from maabo_dist.errors import DatasetError


class RowBatch(NamedTuple):
    """Consecutive rows of one piece."""

    # The path of the file; what the table was made of if it is no file.
    file: str
    # The first row, counted within the file and over all files.
    row: int
    start: int
    cells: pa.RecordBatch


@dataclass(frozen=True)
class Dataset:
    """A table in files or in memory; `Dataset.open` makes one.

    Examples
    --------
    >>> table = Dataset.open(pd.DataFrame({"x": [1, 2, 3], "y": ["a", "b", "a"]}))
    >>> table.rows, table.names
    (3, ('x', 'y'))
    >>> [batch.cells.column(0).to_pylist() for batch in table.batches(["y"])]
    [['a', 'b', 'a']]
    """

    source: Source

    @classmethod
    def open(cls, source: Any, *, na_values: tuple[str, ...] = ()) -> "Dataset":
        """Open a table without reading its rows, except that CSV is read once to find the types.

        Parameters
        ----------
        source
            A directory, a glob, a URL such as `s3://bucket/sales/`, a file or a list of files; a `pyarrow.dataset`, a
            `pyarrow.Table`, a pandas or Polars DataFrame, or a Polars LazyFrame, which is written to a temporary file.
        na_values
            More texts that stand for a missing value in CSV files, such as `?`.
        """
        if isinstance(source, Dataset):
            return source
        if isinstance(source, str | os.PathLike | list | tuple):
            files = list_files(source)
            return cls(ParquetFiles.open(files) if files[0].is_parquet else TextFiles.open(files, na_values))
        return cls(open_object(source))

    @property
    def files(self) -> tuple[DataFile, ...]:
        """The files, in the order in which they are read; none if the table is in memory."""
        return self.source.files

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        return self.source.schema

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.schema.names)

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The parts that can be read by themselves, in their order."""
        return self.source.pieces

    @cached_property
    def rows(self) -> int:
        """The number of rows."""
        return sum(piece.rows for piece in self.pieces)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the identities of all files."""
        return fingerprint_of(self.files)

    def batches(
        self, columns: Sequence[str] | None = None, pieces: Sequence[Piece] | None = None
    ) -> Iterator[RowBatch]:
        """Yield all rows in a fixed order, with these columns in this order; all columns, or some pieces, if asked to.

        Text comes as dictionaries. Raises a DatasetError if a piece has another number of rows than it had at first.
        """
        names = list(self.names if columns is None else columns)
        for name in names:
            if name not in self.schema.names:
                raise DatasetError(f"The table has no column {name!r}. {suggestion(name, self.names)}")
        firsts: dict[int, int] = {}
        for piece in self.pieces:
            firsts.setdefault(piece.file, piece.start)
        for piece in self.pieces if pieces is None else pieces:
            read, file = 0, self.source.name(piece)
            for cells in self.source.read(piece, names):
                _check_rows(file, read + cells.num_rows, piece.rows, complete=False)
                start = piece.start + read
                yield RowBatch(file, start - firsts[piece.file], start, cells)
                read += cells.num_rows
            _check_rows(file, read, piece.rows, complete=True)

    def check_unchanged(self) -> None:
        """Raise a DatasetError that names the first file that is gone or was changed since the dataset was opened."""
        for file in self.files:
            file.check_unchanged()

    def read_frame(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Read all rows into memory."""
        names = list(self.names if columns is None else columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        batches = [plain(batch.cells) for batch in self.batches(names)]
        frame: pd.DataFrame = pa.Table.from_batches(batches, schema).to_pandas()
        return frame


def _check_rows(file: str, read: int, expected: int, *, complete: bool) -> None:
    if read > expected or (complete and read < expected):
        raise DatasetError(
            f"{file} has {format_count(read, 'row')} where it had {expected:,}. Run the command again on files that do "
            "not change."
        )


def plain(cells: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with texts instead of dictionaries."""
    arrays = [column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in cells.columns]
    return pa.RecordBatch.from_arrays(arrays, names=cells.schema.names)
