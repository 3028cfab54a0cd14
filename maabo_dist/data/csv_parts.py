"""Delimited text read in blocks: the types of its columns by one pass over all files, then typed batches of rows."""

import codecs
import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from maabo_dist._util.text import format_names
from maabo_dist.data.dataset_files import DataFile
from maabo_dist.data.file_checks import first_line, name_problems
from maabo_dist.data.text_files import MISSING_TEXTS, find_separator
from maabo_dist.data.text_types import DECIMAL_COMMAS, FALSE_TEXTS, TEXT, TRUE_TEXTS, TypeCandidates, convert_texts
from maabo_dist.errors import DatasetError

# Bytes of text that are read at a time; no line may be longer.
BLOCK_BYTES = 1 << 24
# Metadata of a column whose numbers have decimal commas.
_WITH_COMMAS = {"decimal": ","}
_TYPES = {"int64": pa.int64(), "bool": pa.bool_(), "float64": pa.float64(), TEXT: pa.string()}


def scan_text(files: Sequence[DataFile], na_values: tuple[str, ...]) -> tuple[pa.Schema, list[int]]:
    """Return the types of the columns and the number of rows of each file, after reading all of them once.

    Columns are found by their names; each file must have the same ones. Cells must be UTF-8.
    """
    names: list[str] = []
    candidates: dict[str, TypeCandidates] = {}
    rows = []
    for file in files:
        count = 0
        text = _TextFile.open(file)
        names = names or text.names
        _check_names(file, files[0], text.names, names)
        for name in names:
            candidates.setdefault(name, TypeCandidates(decimal_commas=text.separator != ","))
        for batch in text.read(dict.fromkeys(names, pa.string()), na_values):
            for name, cells in zip(names, batch.columns, strict=True):
                candidates[name].narrow(cells)
            count += batch.num_rows
        rows.append(count)
    return pa.schema([_field(name, candidates[name].best) for name in names]), rows


def _field(name: str, kind: str) -> pa.Field:
    if kind == DECIMAL_COMMAS:
        return pa.field(name, pa.float64(), metadata=_WITH_COMMAS)
    return pa.field(name, _TYPES[kind])


def read_text_batches(
    file: DataFile, schema: pa.Schema, columns: Sequence[str], na_values: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file in their order, as the types of the schema."""
    commas = {name for name in columns if schema.field(name).metadata}
    types = {name: pa.string() if name in commas else schema.field(name).type for name in columns}
    for batch in _TextFile.open(file).read(types, na_values):
        arrays = [
            convert_texts(cells, DECIMAL_COMMAS) if name in commas else cells
            for name, cells in zip(types, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=list(types))


@dataclass(frozen=True)
class _TextFile:
    file: DataFile
    separator: str
    names: list[str]

    @classmethod
    def open(cls, file: DataFile) -> "_TextFile":
        """Read the header."""
        kind = file.path.lower().removesuffix(".gz")
        try:
            with _stream(file) as source:
                header = source.readline().removeprefix(codecs.BOM_UTF8).rstrip(b"\r\n")
            separator = find_separator(header, kind[kind.rfind(".") :])
            names = next(csv.reader([header.decode()], delimiter=separator), [])
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            raise _unreadable(file, error) from error
        if problems := name_problems(Path(file.path), names):
            raise DatasetError("\n".join(problems))
        return cls(file, separator, names)

    def read(self, types: dict[str, Any], na_values: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Yield blocks of the columns with these types, in their order."""
        options = arrow_csv.ConvertOptions(
            column_types=types,
            include_columns=list(types),
            null_values=[*MISSING_TEXTS, *na_values],
            strings_can_be_null=True,
            true_values=list(TRUE_TEXTS),
            false_values=list(FALSE_TEXTS),
        )
        parsing = arrow_csv.ParseOptions(delimiter=self.separator, newlines_in_values=True)
        reading = arrow_csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False)
        try:
            with _stream(self.file) as source, arrow_csv.open_csv(source, reading, parsing, options) as reader:
                yield from reader
        except (OSError, EOFError, KeyError, zlib.error, pa.ArrowException) as error:
            raise _unreadable(self.file, error) from error


def _stream(file: DataFile) -> Any:
    opened = file.open()
    return gzip.GzipFile(fileobj=opened) if file.path.lower().endswith(".gz") else opened


def _unreadable(file: DataFile, error: Exception) -> DatasetError:
    return DatasetError(
        f"{file.path} cannot be read as delimited text: {first_line(error)}. Correct it or write it again."
    )


def _check_names(file: DataFile, first: DataFile, names: Sequence[str], expected: Sequence[str]) -> None:
    if set(names) == set(expected):
        return
    absent, extra = [name for name in expected if name not in names], [name for name in names if name not in expected]
    what = f"it lacks {format_names(absent)}" if absent else f"only it has {format_names(extra)}"
    raise DatasetError(f"{file.path} has other columns than {first.path}: {what}. Give files of one table.")
