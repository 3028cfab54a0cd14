"""Read a table from a file: CSV, TSV, Parquet or Feather, by the extension of its name; `outline` gives its size.

Text files are read strictly: a row with a field too many or too few is an error, never a shifted row. Dates in them
stay text. Every failure is a DatasetError that names the file, the position and the remedy.
"""

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from maabo_dist._util.files import check_table_file
from maabo_dist._util.text import format_count, format_list, format_names
from maabo_dist.errors import DatasetError

# Cells of a text file that mean a missing value; the same texts as in pandas.
MISSING_TEXTS = (
    *("", "NA", "N/A", "n/a", "<NA>", "#N/A", "#N/A N/A", "#NA", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None"),
    *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)

SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
PARQUET = (".parquet", ".pq")
FEATHER = (".feather", ".arrow")
_KNOWN = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".tab", ".tab.gz", *PARQUET, *FEATHER)
_BLOCK_BYTES = 1 << 25  # the longest line that can be read: room for a header of a million columns

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
# Bytes of a cell of any other type: the number itself, or the offset of a text.
_WIDTH = 8


def read_table(path: str | Path, *, na_values: tuple[str, ...] = ()) -> pd.DataFrame:
    r"""Read a table with at least one row.

    Parameters
    ----------
    path
        A CSV, TSV, Parquet or Feather file, by its extension; text files may be compressed (`.gz`).
    na_values
        More texts that stand for a missing value, such as `?`.

    Returns
    -------
    pandas.DataFrame
        The table, with the rows numbered from 0.

    Raises
    ------
    DatasetError
        If the file cannot be read: the message names the file, the position and the remedy.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as directory:
    ...     path = Path(directory, "pets.csv")
    ...     _ = path.write_text("name,weight\ncat,4\ndog,?\n")
    ...     read_table(path, na_values=("?",))["weight"].tolist()
    [4.0, nan]
    """
    path = Path(path)
    check_table_file(path)
    kind = extension(path)
    if kind in SEPARATORS:
        return _read_delimited(path, _find_separator(_header_line(path), kind), na_values)
    return _mask_texts(_read_binary(path, kind), na_values)


def extension(path: Path) -> str:
    """Return the extension of the name, without `.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes[-1:] == [".gz"] and suffixes[0] in SEPARATORS:
        return suffixes[0]
    if suffixes and suffixes[-1] in {*SEPARATORS, *PARQUET, *FEATHER}:
        return suffixes[-1]
    raise DatasetError(f"{path} has an unknown file extension. Supported: {' '.join(_KNOWN)}. Rename or convert it.")


def _to_frame(path: Path, table: Any) -> pd.DataFrame:
    names: list[str] = table.column_names
    _check_names(path, names)
    if table.num_rows == 0:
        raise DatasetError(f"{path} has {format_count(len(names), 'column')} and no rows. Give a file with rows.")
    frame: pd.DataFrame = table.to_pandas()
    return frame.reset_index(drop=True)


def _check_names(path: Path, names: Sequence[str]) -> None:
    nameless = [str(number) for number, name in enumerate(names, start=1) if not name.strip()]
    if nameless:
        raise DatasetError(
            f"{path}: column {format_list(nameless)} of {len(names):,} has no name. Name it in the header, or leave it "
            "out (pandas writes such a column for row numbers unless index=False is given)."
        )
    duplicates = [name for name, uses in Counter(names).items() if uses > 1]
    if duplicates:
        raise DatasetError(
            f"{path}: more than one column is called {format_names(duplicates)}. Rename or remove the others."
        )


def _read_binary(path: Path, kind: str) -> pd.DataFrame:
    with _wrap_read_errors(path, "Parquet" if kind in PARQUET else "Feather"):
        if kind in PARQUET:
            with parquet.ParquetFile(path) as file:
                table = file.read()
        else:
            with pa.OSFile(str(path)) as file:
                table = pa.ipc.open_file(file).read_all()
        return _to_frame(path, table)


@contextmanager
def _wrap_read_errors(path: Path, what: str) -> Iterator[None]:
    """Turn every error of a reader except MemoryError into a DatasetError."""
    try:
        yield
    except (DatasetError, MemoryError):
        raise
    except Exception as error:  # damaged metadata raises KeyError, TypeError and others
        raise DatasetError(
            f"{path} cannot be read as {what}: {_first_line(error)}. It is damaged, truncated or of another format; "
            "write it again."
        ) from error


def _mask_texts(frame: pd.DataFrame, na_values: tuple[str, ...]) -> pd.DataFrame:
    """Replace these texts by missing values, in columns that can hold text."""
    if not na_values:
        return frame
    for name, cells in frame.items():
        if not pd.api.types.is_numeric_dtype(cells.dtype):
            frame[name] = cells.mask(cells.isin(na_values))
    return frame


def _read_delimited(path: Path, separator: str, na_values: tuple[str, ...]) -> pd.DataFrame:
    try:
        table = _parse(path, separator, na_values, {})
        dates = {field.name: pa.string() for field in table.schema if pa.types.is_temporal(field.type)}
        if dates:  # guessed from their format; in the file they are text
            table = _parse(path, separator, na_values, dates)
        if not any(pa.types.is_binary(field.type) for field in table.schema):
            return _to_frame(path, table)
    except (DatasetError, MemoryError):
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DatasetError(_explain_text(path, separator, _first_line(error))) from error
    raise DatasetError(_explain_text(path, separator, "it holds bytes that are not text"))


def _parse(path: Path, separator: str, na_values: tuple[str, ...], types: dict[str, Any]) -> Any:
    return arrow_csv.read_csv(
        str(path),
        read_options=arrow_csv.ReadOptions(block_size=_BLOCK_BYTES),
        # Without newlines_in_values, a quoted line break at the end of a block would split its row.
        parse_options=arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=arrow_csv.ConvertOptions(
            column_types=types, null_values=[*MISSING_TEXTS, *na_values], strings_can_be_null=True
        ),
    )


def _header_line(path: Path) -> bytes:
    """Return the first line of a text file that is not blank."""
    header = next((line for line in _lines(path) if line.strip()), None)
    if header is None:
        raise DatasetError(f"{path} holds blank lines only. Give a file with a header and rows.")
    return header


def _find_separator(header: bytes, kind: str) -> str:
    """Return the separator of the extension; for a CSV header without commas, the most frequent one in it."""
    if kind != ".csv" or b"," in _outside_quotes(header):
        return SEPARATORS[kind]
    return max(",;\t|", key=lambda separator: _outside_quotes(header).count(separator.encode()))


def _outside_quotes(line: bytes) -> bytes:
    """Return the bytes outside quotation marks."""
    return b"".join(line.split(b'"')[::2])


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield from file
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(
            f"{path} cannot be decompressed: {error}. It is damaged or truncated; write it again."
        ) from error


def _explain_text(path: Path, separator: str, reason: str) -> str:
    """Read the file again, slowly, to find the position where the parser stopped."""
    problem = _encoding_problem(path) or _ragged_row(path, separator)
    if problem is None and sum(1 for line in _lines(path) if line.strip()) == 1:
        return f"{path} has a header and no rows. Give a file with rows."
    return problem or (
        f"{path} cannot be read as text separated by {separator!r}: {reason}. Correct the file or write it again."
    )


def _encoding_problem(path: Path) -> str | None:
    offset = 0
    for number, line in enumerate(_lines(path), start=1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return (
                f"{path} is not UTF-8: byte {offset + error.start:,}, in line {number:,}, is "
                f"0x{line[error.start]:02x}. Save the file again with the encoding UTF-8."
            )
        offset += len(line)
    return None


def _ragged_row(path: Path, separator: str) -> str | None:
    rows = csv.reader((line.decode("utf-8-sig") for line in _lines(path)), delimiter=separator)
    expected, start = 0, 1
    try:
        for row in rows:
            expected = expected or len(row)
            if row and len(row) != expected:
                return (
                    f"{path}: line {start:,} has {format_count(len(row), 'field')}, and the header has {expected:,}. "
                    "Correct the line; a field that holds the separator or a line break needs quotation marks."
                )
            start = rows.line_num + 1
    except csv.Error:  # not ragged: the parser's own message is used
        return None
    return None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


@dataclass(frozen=True, slots=True)
class Outline:
    """Lower bounds on the size of a table."""

    columns: int
    # Memory that all cells take; 0 if it is unknown before the file is read.
    cells_bytes: int


def outline(path: Path) -> Outline:
    """Return the outline of a text or Parquet file; all zeros for other files.

    It must be known before the file is read, since a small Parquet file may unpack to any size: it stores repeated
    values once.
    """
    check_table_file(path)
    kind = extension(path)
    if kind in SEPARATORS:
        header = _header_line(path)
        return Outline(_outside_quotes(header).count(_find_separator(header, kind).encode()) + 1, 0)
    return _outline_parquet(path) if kind in PARQUET else Outline(0, 0)


def _outline_parquet(path: Path) -> Outline:
    with _wrap_read_errors(path, "Parquet"), parquet.ParquetFile(path) as file:
        metadata = file.metadata
        width = sum(_width(metadata.schema.column(index)) for index in range(metadata.num_columns))
        packed = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
        return Outline(metadata.num_columns, max(metadata.num_rows * width, packed))


def _width(column: Any) -> int:
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return max(1, int(column.length))
    return _WIDTHS.get(column.physical_type, _WIDTH)
