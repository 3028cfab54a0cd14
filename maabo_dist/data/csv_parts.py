"""Delimited text read in blocks: the types of its columns by one pass over all files, then typed batches of rows."""

import codecs
import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import compute
from pyarrow import csv as arrow_csv

from maabo_dist._util.text import format_names
from maabo_dist.data.dataset_files import DataFile
from maabo_dist.data.file_checks import first_line, name_problems
from maabo_dist.data.text_files import MISSING_TEXTS, find_separator
from maabo_dist.errors import DatasetError

# Bytes of text that are read at a time; no line may be longer.
BLOCK_BYTES = 1 << 24
_BOOLEANS = pa.array(["true", "false", "True", "False", "TRUE", "FALSE"])
# From the narrowest type to the widest: a column has the first that all of its cells have.
_TYPES = (pa.bool_(), pa.int64(), pa.float64(), pa.string())
_TEXT = len(_TYPES) - 1


def scan_text(files: Sequence[DataFile], na_values: tuple[str, ...]) -> tuple[pa.Schema, list[int]]:
    """Return the types of the columns and the number of rows of each file, after reading all of them once.

    Columns are found by their names; each file must have the same ones. Cells must be UTF-8.
    """
    names: list[str] = []
    kinds: list[list[int]] = []
    rows = []
    for file in files:
        count = 0
        for batch in _read_blocks(file, None, na_values):
            names = names or batch.schema.names
            kinds = kinds or [list(range(len(_TYPES)))] * len(names)
            _check_names(file, files[0], batch.schema.names, names)
            columns = (batch.column(batch.schema.get_field_index(name)) for name in names)
            kinds = [_narrow(possible, cells) for possible, cells in zip(kinds, columns, strict=True)]
            count += batch.num_rows
        rows.append(count)
    return pa.schema([(name, _TYPES[possible[0]]) for name, possible in zip(names, kinds, strict=True)]), rows


def read_text_batches(
    file: DataFile, schema: pa.Schema, columns: Sequence[str], na_values: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one file in their order, as the types of the schema."""
    return _read_blocks(file, {name: schema.field(name).type for name in columns}, na_values)


def _read_blocks(file: DataFile, types: dict[str, Any] | None, na_values: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield blocks of the columns with these types; of all columns as text if there are none."""
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
    options = arrow_csv.ConvertOptions(
        column_types=types or dict.fromkeys(names, pa.string()),
        include_columns=list(types) if types else None,
        null_values=[*MISSING_TEXTS, *na_values],
        strings_can_be_null=True,
        true_values=_BOOLEANS.to_pylist()[::2],
        false_values=_BOOLEANS.to_pylist()[1::2],
    )
    parsing = arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    reading = arrow_csv.ReadOptions(block_size=BLOCK_BYTES, use_threads=False)
    try:
        with _stream(file) as source, arrow_csv.open_csv(source, reading, parsing, options) as reader:
            yield from reader
    except (OSError, EOFError, KeyError, zlib.error, pa.ArrowException) as error:
        raise _unreadable(file, error) from error


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


def _narrow(possible: list[int], cells: pa.Array) -> list[int]:
    """Return the types of these that all of the texts have; any text is text.

    All types are remembered: a column of `true` in one file may have numbers in the next, and together they are text.
    """
    return [kind for kind in possible if kind == _TEXT or _fits(cells, _TYPES[kind])]


def _fits(cells: pa.Array, kind: Any) -> bool:
    if pa.types.is_boolean(kind):
        present = cells.drop_null()
        return bool(len(present) == 0 or compute.all(compute.is_in(present, value_set=_BOOLEANS)).as_py())
    try:
        compute.cast(compute.utf8_trim_whitespace(cells), kind)
    except pa.ArrowInvalid:
        return False
    return True
