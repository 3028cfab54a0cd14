"""`open_batches`: read a table in parts, so that memory does not grow with its rows.

    Parquet, Feather     by row groups and record batches, only the columns that are needed
    CSV and TSV          in blocks, twice: the first time to find the types of the columns
    JSON lines           by lines, twice: the first time to find all columns
    Excel, a JSON list   whole: they cannot be read in parts
    NPY                  whole
    many files           as `datasets` reads them: a directory, a glob or a URL of Parquet or CSV files

Cells are the same as in a table that `read_table` reads whole. `open_batches` is the only place that knows what a table
may come from.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeAlias

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from maabo_dist._util.files import check_table_file
from maabo_dist._util.text import format_count
from maabo_dist.data.arrays import NPY
from maabo_dist.data.dataset_files import is_dataset
from maabo_dist.data.datasets import Dataset, plain
from maabo_dist.data.encoder import with_text_names
from maabo_dist.data.file_checks import NOTES, name_columns, wrap_read_errors
from maabo_dist.data.readers import (
    EXCEL,
    JSON_LINES,
    PARQUET,
    STANDARD_INPUT,
    extension,
    mask_texts,
    read_table,
    save_standard_input,
)
from maabo_dist.data.text_batches import TextTable
from maabo_dist.data.text_files import MISSING_TEXTS, SEPARATORS, as_utf8, decimal_comma_notes
from maabo_dist.data.text_types import DECIMAL_COMMAS
from maabo_dist.errors import DatasetError

# Rows of a part: few enough for any machine, and so many that the work per part does not count.
BATCH_ROWS = 1 << 16

# A file (`-` is standard input), a directory, glob or URL, or anything else that `Dataset.open` takes.
TableSource: TypeAlias = "str | Path | pd.DataFrame | Any"


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows of a table."""

    frame: pd.DataFrame
    # The same rows as Arrow has them, where they come from Arrow; all batches of a table have the same types.
    table: Any = None

    def arrow(self, columns: Sequence[str]) -> Any:
        """Return these columns as an Arrow table."""
        if self.table is not None:
            return self.table.select(columns)
        return pa.Table.from_pandas(self.frame[list(columns)], preserve_index=False)


class Batches(Protocol):
    """A table that is read in parts."""

    # Remarks for the user on how it is read; complete after `read`.
    notes: list[str]

    @property
    def names(self) -> list[str]:
        """The names of all columns."""
        ...

    def read(self, columns: Sequence[str]) -> Iterator[Batch]:
        """Yield all rows in order, with at least these columns; no part is empty."""
        ...


def open_batches(source: TableSource, *, na_values: tuple[str, ...] = ()) -> AbstractContextManager[Batches]:
    """Open a table: a file, standard input (`-`), many files, or a table of pandas, Polars or Arrow.

    Raises a DatasetError that names the file and the remedy if it cannot be read; also while it is read.
    """
    if isinstance(source, pd.DataFrame):
        return nullcontext(_FrameBatches(source))
    if isinstance(source, str | Path) and (str(source) == STANDARD_INPUT or not is_dataset(str(source))):
        return _open_file(source, na_values)
    return nullcontext(_DatasetBatches(Dataset.open(source, na_values=na_values), na_values))


@contextmanager
def _open_file(source: str | Path, na_values: tuple[str, ...]) -> Iterator[Batches]:
    with ExitStack() as stack:
        path = Path(source)
        if str(source) == STANDARD_INPUT:
            path = save_standard_input(Path(stack.enter_context(TemporaryDirectory())))
        check_table_file(path)
        kind = extension(path)
        if kind in SEPARATORS:
            readable, notes = stack.enter_context(as_utf8(path, kind))
            yield _TextBatches(readable, TextTable.open(readable, kind, na_values), notes)
        elif kind in JSON_LINES and not _is_list(path):
            yield _JsonBatches(path, na_values)
        elif kind in {*JSON_LINES, *EXCEL, *NPY}:
            yield _FrameBatches(read_table(path, na_values=na_values))
        else:
            yield stack.enter_context(_open_binary(path, kind, na_values))


class _FrameBatches:
    """A DataFrame."""

    def __init__(self, frame: pd.DataFrame) -> None:
        if not len(frame):
            raise DatasetError("The table has no rows. Give a table with rows.")
        self._frame = with_text_names(frame)
        self.notes = list(frame.attrs.get(NOTES, ()))

    @property
    def names(self) -> list[str]:
        return list(self._frame.columns)

    def read(self, columns: Sequence[str]) -> Iterator[Batch]:
        frame = self._frame[list(columns)]
        for start in range(0, len(frame), BATCH_ROWS):
            yield Batch(frame.iloc[start : start + BATCH_ROWS].reset_index(drop=True))


class _DatasetBatches:
    """Many files, or a table of another library."""

    def __init__(self, table: Dataset, na_values: tuple[str, ...]) -> None:
        if not table.rows:
            raise DatasetError("The table has no rows. Give a table with rows.")
        self._table, self._na_values = table, na_values
        self.notes: list[str] = []

    @property
    def names(self) -> list[str]:
        return list(self._table.names)

    def read(self, columns: Sequence[str]) -> Iterator[Batch]:
        for batch in self._table.batches(list(columns) or self.names[:1]):
            part = pa.Table.from_batches([plain(batch.cells)])
            if part.num_rows:
                yield Batch(mask_texts(part.to_pandas(), self._na_values), part)
        self._table.check_unchanged()


@dataclass
class _Named:
    """A file whose columns without a name are called by their numbers."""

    path: Path
    # The names in the file, by the names of the columns.
    originals: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def name_columns(self, names: Sequence[str]) -> None:
        """Check and set the names of the columns."""
        given, notes = name_columns(self.path, names)
        self.originals = dict(zip(given, names, strict=True))
        self.notes += notes

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.originals)

    def check_rows(self, rows: int) -> None:
        """Raise an error if there are none."""
        if rows == 0:
            count = format_count(len(self.names), "column")
            raise DatasetError(f"{self.path} has {count} and no rows. Give a file with rows.")

    def first_if_none(self, columns: Sequence[str]) -> list[str]:
        """Return the columns, or one column if there are none, as rows must be counted."""
        return list(columns) or self.names[:1]


class _TextBatches(_Named):
    """A delimited file in UTF-8."""

    def __init__(self, path: Path, table: TextTable, notes: Sequence[str]) -> None:
        super().__init__(path)
        self._text = table
        self.notes += notes
        self.name_columns(table.names())

    def read(self, columns: Sequence[str]) -> Iterator[Batch]:
        by_original = {self.originals[name]: name for name in self.first_if_none(columns)}
        types = self._text.types(list(by_original))
        self.notes += decimal_comma_notes([by_original[name] for name, kind in types.items() if kind == DECIMAL_COMMAS])
        rows = 0
        for texts in self._text.read(types):
            block = texts.rename_columns(list(by_original.values()))
            for start in range(0, block.num_rows, BATCH_ROWS):
                part = block.slice(start, BATCH_ROWS)
                yield Batch(part.to_pandas(), part)
            rows += block.num_rows
        self.check_rows(rows)


@contextmanager
def _open_binary(path: Path, kind: str, na_values: tuple[str, ...]) -> Iterator[Batches]:
    what = "Parquet" if kind in PARQUET else "Feather"
    with ExitStack() as stack:
        with wrap_read_errors(path, what):
            file = (
                stack.enter_context(parquet.ParquetFile(path))
                if kind in PARQUET
                else pa.ipc.open_file(stack.enter_context(pa.memory_map(str(path))))
            )
        yield _BinaryBatches(path, what, file, na_values)


class _BinaryBatches(_Named):
    """A Parquet or Feather file."""

    def __init__(self, path: Path, what: str, file: Any, na_values: tuple[str, ...]) -> None:
        super().__init__(path)
        self._what, self._file, self._na_values = what, file, na_values
        self.name_columns((file.schema_arrow if what == "Parquet" else file.schema).names)

    def read(self, columns: Sequence[str]) -> Iterator[Batch]:
        columns, rows = self.first_if_none(columns), 0
        with wrap_read_errors(self.path, self._what):
            for table in self._tables([self.originals[name] for name in columns]):
                part = table.rename_columns(columns)
                rows += part.num_rows
                yield Batch(mask_texts(part.to_pandas(ignore_metadata=True), self._na_values), part)
        self.check_rows(rows)

    def _tables(self, names: list[str]) -> Iterator[Any]:
        if self._what == "Parquet":
            for batch in self._file.iter_batches(BATCH_ROWS, columns=names):
                yield pa.Table.from_batches([batch]).select(names)
            return
        for number in range(self._file.num_record_batches):
            batch = pa.Table.from_batches([self._file.get_batch(number)]).select(names)
            for start in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(start, BATCH_ROWS)


def _is_list(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"["


class _JsonBatches(_Named):
    """A file with an object per line."""

    def __init__(self, path: Path, na_values: tuple[str, ...]) -> None:
        super().__init__(path)
        self._missing = (*MISSING_TEXTS, *na_values)
        names: dict[str, None] = {}
        try:
            for record in self._records():
                names |= dict.fromkeys(map(str, record))
        except (ValueError, TypeError):  # also text that is not UTF-8; the other reader names all problems
            read_table(path)
            raise
        self.name_columns(list(names))

    def read(self, columns: Sequence[str]) -> Iterator[Batch]:
        originals, rows = {self.originals[name]: name for name in self.first_if_none(columns)}, 0
        records = self._records()
        while part := list(islice(records, BATCH_ROWS)):
            cells = {name: [record.get(original) for record in part] for original, name in originals.items()}
            rows += len(part)
            yield Batch(mask_texts(_infer(cells), self._missing))
        self.check_rows(rows)

    def _records(self) -> Iterator[Mapping[str, Any]]:
        with self.path.open(encoding="utf-8-sig") as file:
            for line in file:
                if line.strip():
                    yield dict(**json.loads(line))


def _infer(cells: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    return pd.DataFrame(cells).infer_objects()
