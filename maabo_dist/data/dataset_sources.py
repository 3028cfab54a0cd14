"""What a dataset is read from: Parquet files, text files, or a table of another library.

Each source has `files`, a `schema` with plain types (no dictionaries, no large texts), and `pieces`. It yields batches
in which texts are dictionaries.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
from pyarrow import compute, dataset, parquet

from maabo_dist.data.csv_parts import read_text_batches, scan_text
from maabo_dist.data.dataset_files import DataFile, list_files
from maabo_dist.data.file_checks import name_problems, wrap_read_errors
from maabo_dist.errors import DatasetError

# Rows of a batch, at most: 50 columns of them take 50 MB.
BATCH_ROWS = 1 << 17


class Piece(NamedTuple):
    """A part of a dataset that can be read by itself: a row group of a Parquet file, or another file."""

    # Indices of the file and of the row group in it.
    file: int
    group: int
    # The first row, counted over all files, and the number of rows.
    start: int
    rows: int


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(field.name, _plain_type(field.type)) for field in schema])


def _as_types(cells: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with texts as dictionaries, and columns that are missing throughout as the type of the schema."""
    arrays = []
    for name in schema.names:
        column, kind = cells.column(cells.schema.get_field_index(name)), schema.field(name).type
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.dictionary(pa.int32(), kind)) if column.type.value_type != kind else column
        elif column.type != kind:
            column = column.cast(kind)
        arrays.append(column.dictionary_encode() if pa.types.is_string(column.type) else column)
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _pieces(rows: Sequence[Sequence[int]]) -> tuple[Piece, ...]:
    """Number the parts of files; `rows` has the rows of each part of each file."""
    pieces, start = [], 0
    for file, groups in enumerate(rows):
        for group, count in enumerate(groups):
            pieces.append(Piece(file, group, start, count))
            start += count
    return tuple(pieces)


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files of one schema, with the columns in the names of their directories."""

    files: tuple[DataFile, ...]
    schema: pa.Schema
    pieces: tuple[Piece, ...]
    # Columns that come from the names of directories.
    partitions: frozenset[str]
    # A temporary directory that is removed with this object.
    folder: TemporaryDirectory[str] | None = None

    @classmethod
    def open(cls, files: tuple[DataFile, ...], folder: TemporaryDirectory[str] | None = None) -> "ParquetFiles":
        """Read the schema and the number of rows."""
        schema, rows = pa.schema([]), []
        for file in files:
            with wrap_read_errors(Path(file.path), "Parquet"), file.open() as opened:
                reader = parquet.ParquetFile(opened)
                own = _plain_schema(reader.schema_arrow)
                rows.append([reader.metadata.row_group(index).num_rows for index in range(reader.num_row_groups)])
            if problems := name_problems(Path(file.path), own.names):
                raise DatasetError("\n".join(problems))
            schema = _merge_schemas(file, files[0], own, schema) if len(rows) > 1 else own
        partitions = _partition_schema(files)
        schema = pa.schema([*(field for field in schema if field.name not in partitions.names), *partitions])
        return cls(files, schema, _pieces(rows), frozenset(partitions.names), folder)

    def name(self, piece: Piece) -> str:
        """Return the file of a piece, for messages."""
        return self.files[piece.file].path

    def read(self, piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a piece, with these columns in this order."""
        file = self.files[piece.file]
        stored = [name for name in columns if name not in self.partitions]
        texts = [name for name in stored if pa.types.is_string(self.schema.field(name).type)]
        schema = pa.schema([self.schema.field(name) for name in columns])
        with wrap_read_errors(Path(file.path), "Parquet"), file.open() as opened:
            reader = parquet.ParquetFile(opened, read_dictionary=texts)
            # A row group without columns still has rows.
            for batch in reader.iter_batches(BATCH_ROWS, row_groups=[piece.group], columns=stored, use_threads=False):
                named = self.partitions.intersection(columns)
                yield _as_types(_add_partitions(batch, file, named, self.schema), schema)


def _add_partitions(
    batch: pa.RecordBatch, file: DataFile, names: AbstractSet[str], schema: pa.Schema
) -> pa.RecordBatch:
    """Add the columns in the names of a file's directories."""
    given = dict(file.partitions)
    for name in names:
        value = pa.scalar(given[name], pa.string()).cast(schema.field(name).type)
        batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
    return batch


def _merge_schemas(file: DataFile, first: DataFile, own: pa.Schema, merged: pa.Schema) -> pa.Schema:
    """Return the columns of both, which must be the same; a column without any value has the type of the others."""
    problems = [f"it lacks {name!r}" for name in merged.names if name not in own.names]
    problems += [f"only it has {name!r}" for name in own.names if name not in merged.names]
    fields = []
    for field in merged if not problems else ():
        kind = own.field(field.name).type
        if kind != field.type and not pa.types.is_null(kind) and not pa.types.is_null(field.type):
            problems.append(f"{field.name!r} is {kind}, not {field.type}")
        fields.append(pa.field(field.name, kind if pa.types.is_null(field.type) else field.type))
    if problems:
        raise DatasetError(
            f"{file.path} has another schema than {first.path}: {'; '.join(problems[:5])}. Give files of one table."
        )
    return pa.schema(fields)


def _partition_schema(files: Sequence[DataFile]) -> pa.Schema:
    """Return the columns in the names of directories: whole numbers if all values are, otherwise text."""
    names = dict.fromkeys(name for file in files for name, _ in file.partitions)
    fields = []
    for name in names:
        values = [dict(file.partitions).get(name, "") for file in files]
        for file, value in zip(files, values, strict=True):
            if value == "" and name not in dict(file.partitions):
                raise DatasetError(f"{file.path} is in no directory {name}=… as others are. Give files of one table.")
        try:
            compute.cast(pa.array(values, pa.string()), pa.int64())
        except pa.ArrowInvalid:
            fields.append(pa.field(name, pa.string()))
        else:
            fields.append(pa.field(name, pa.int64()))
    return pa.schema(fields)


@dataclass(frozen=True)
class TextFiles:
    """CSV or TSV files with the same columns."""

    files: tuple[DataFile, ...]
    schema: pa.Schema
    pieces: tuple[Piece, ...]
    na_values: tuple[str, ...]
    # Columns that come from the names of directories.
    partitions: frozenset[str] = frozenset()

    @classmethod
    def open(cls, files: tuple[DataFile, ...], na_values: tuple[str, ...]) -> "TextFiles":
        """Read the schema and the number of rows."""
        schema, rows = scan_text(files, na_values)
        partitions = _partition_schema(files)
        schema = pa.schema([*(field for field in schema if field.name not in partitions.names), *partitions])
        return cls(files, schema, _pieces([[count] for count in rows]), na_values, frozenset(partitions.names))

    def name(self, piece: Piece) -> str:
        """Return the file of a piece, for messages."""
        return self.files[piece.file].path

    def read(self, piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a piece, with these columns in this order."""
        schema, file = pa.schema([self.schema.field(name) for name in columns]), self.files[piece.file]
        stored = [name for name in columns if name not in self.partitions]
        # A file is read for its rows also if none of its columns is asked for.
        read = stored or [name for name in self.schema.names if name not in self.partitions][:1]
        for batch in read_text_batches(file, self.schema, read, self.na_values):
            yield _as_types(_add_partitions(batch, file, self.partitions.intersection(columns), self.schema), schema)


@dataclass(frozen=True)
class ScannedTable:
    """A pyarrow dataset, of files or in memory."""

    scanned: Any
    files: tuple[DataFile, ...]
    schema: pa.Schema
    pieces: tuple[Piece, ...]

    @classmethod
    def open(cls, scanned: Any) -> "ScannedTable":
        """Read the schema and the number of rows."""
        local = [path for path in getattr(scanned, "files", ()) if Path(path).is_file()]
        with wrap_read_errors(Path("the dataset"), "a pyarrow dataset"):
            rows = scanned.count_rows()
        return cls(scanned, list_files(local) if local else (), _plain_schema(scanned.schema), _pieces([[rows]]))

    def name(self, piece: Piece) -> str:  # noqa: ARG002 - as the others
        """Return the name of the table, for messages."""
        return "the dataset"

    def read(self, piece: Piece, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield all rows, with these columns in this order."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        with wrap_read_errors(Path("the dataset"), "a pyarrow dataset"):
            for batch in self.scanned.to_batches(columns=list(columns), batch_size=BATCH_ROWS, batch_readahead=2):
                yield _as_types(batch, schema)


Source = ParquetFiles | TextFiles | ScannedTable


def open_object(source: Any) -> Source:
    """Open a table that is an object of another library."""
    if isinstance(source, dataset.Dataset):
        return ScannedTable.open(source)
    if isinstance(source, pd.DataFrame):
        source = pa.Table.from_pandas(source, preserve_index=False)
    if type(source).__module__.partition(".")[0] == "polars":
        if hasattr(source, "sink_parquet") and hasattr(source, "collect"):
            return _write_lazy(source)
        source = source.to_arrow()
    if isinstance(source, pa.Table):
        return ScannedTable.open(dataset.InMemoryDataset(source))
    raise DatasetError(
        f"A {type(source).__name__} is no table. Give a path, a pyarrow dataset or table, or a pandas or Polars frame."
    )


def _write_lazy(frame: Any) -> Source:
    """Let Polars compute a lazy frame in a stream, into a temporary Parquet file."""
    folder = TemporaryDirectory(prefix="maabo-")
    path = Path(folder.name, "lazy.parquet")
    frame.sink_parquet(path)
    return ParquetFiles.open(list_files(path), folder)
