"""Read a table from a file: CSV, TSV, JSON lines, Excel, Parquet or Feather, by the extension of its name.

Text files are read strictly: a row with a field too many or too few is an error, never a shifted row. Dates in them
stay text. Text that is not UTF-8, and decimal commas, are recognised and noted. Every failure is a DatasetError that
names the file, all positions and the remedy. `outline` gives the size of a file before it is read.
"""

import codecs
import csv
import gzip
import json
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
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
JSON_LINES = (".jsonl", ".ndjson", ".json")
EXCEL = (".xlsx", ".xlsm")
_KNOWN = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".tab", ".tab.gz", *PARQUET, *FEATHER, *JSON_LINES, *EXCEL)
# The attribute of a frame that holds notes on how it was read.
NOTES = "maabo_notes"
STANDARD_INPUT = "-"
_MAGIC = {b"PAR1": ".parquet", b"ARROW1": ".feather", b"PK\x03\x04": ".xlsx", b"\x1f\x8b": ".csv.gz"}
# Problems of one kind that a message lists.
_MAX_PROBLEMS = 5
_DECIMAL_COMMA = r"\s*[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?\s*"
_BLOCK_BYTES = 1 << 25  # the longest line that can be read: room for a header of a million columns

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
# Bytes of a cell of any other type: the number itself, or the offset of a text.
_WIDTH = 8


def read_table(path: str | Path, *, na_values: tuple[str, ...] = ()) -> pd.DataFrame:
    r"""Read a table with at least one row.

    Parameters
    ----------
    path
        A CSV, TSV, JSON lines, Excel, Parquet or Feather file, by its extension; CSV and TSV may be compressed
        (`.gz`). `-` is standard input, of any of these formats.
    na_values
        More texts that stand for a missing value, such as `?`.

    Returns
    -------
    pandas.DataFrame
        The table, with the rows numbered from 0. Its `attrs` hold notes on how it was read.

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
    if str(path) == STANDARD_INPUT:
        with TemporaryDirectory() as folder:
            return read_table(save_standard_input(Path(folder)), na_values=na_values)
    check_table_file(path)
    kind = extension(path)
    if kind in SEPARATORS:
        return _read_text(path, kind, na_values)
    if kind in JSON_LINES:
        return _mask_texts(_read_json(path), (*MISSING_TEXTS, *na_values))
    if kind in EXCEL:
        return _mask_texts(_read_excel(path), (*MISSING_TEXTS, *na_values))
    return _mask_texts(_read_binary(path, kind), na_values)


def save_standard_input(folder: Path) -> Path:
    """Write standard input to a file in the folder, with the extension of its format."""
    content = sys.stdin.buffer.read()
    kind = next((kind for magic, kind in _MAGIC.items() if content.startswith(magic)), None)
    if kind is None:
        kind = ".jsonl" if content.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in {b"{", b"["} else ".csv"
    path = folder / f"standard input{kind}"
    path.write_bytes(content)
    return path


def extension(path: Path) -> str:
    """Return the extension of the name, without `.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes[-1:] == [".gz"] and suffixes[0] in SEPARATORS:
        return suffixes[0]
    if suffixes and suffixes[-1] in {*SEPARATORS, *PARQUET, *FEATHER, *JSON_LINES, *EXCEL}:
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
    problems = _name_problems(path, names)
    if problems:
        raise DatasetError("\n".join(problems))


def _name_problems(path: Path, names: Sequence[str]) -> list[str]:
    problems = []
    nameless = [str(number) for number, name in enumerate(names, start=1) if not name.strip()]
    if nameless:
        problems.append(
            f"{path}: column {format_list(nameless)} of {len(names):,} has no name. Name it in the header, or leave it "
            "out (pandas writes such a column for row numbers unless index=False is given)."
        )
    duplicates = [name for name, uses in Counter(names).items() if uses > 1 and name.strip()]
    if duplicates:
        problems.append(
            f"{path}: more than one column is called {format_names(duplicates)}. Rename or remove the others."
        )
    return problems


def _read_json(path: Path) -> pd.DataFrame:
    """Read one object per line, or a list of objects."""
    try:
        content = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DatasetError(_encoding_problem(path) or f"{path} is not UTF-8.") from None
    records, problems = _parse_list(content) or _parse_lines(content)
    if problems:
        more = f"\n… and {len(problems) - _MAX_PROBLEMS:,} more lines" if len(problems) > _MAX_PROBLEMS else ""
        lines = "\n".join(f"{path}: {problem}" for problem in problems[:_MAX_PROBLEMS])
        raise DatasetError(f'{lines}{more}\nGive one JSON object per line, such as {{"age": 31, "sex": "male"}}.')
    if not records:
        raise DatasetError(f"{path} has no rows. Give a file with rows.")
    frame = pd.DataFrame.from_records(records)
    _check_names(path, [str(name) for name in frame.columns])
    return frame.infer_objects()


Records = tuple[list[dict[str, Any]], list[str]]


def _parse_list(content: str) -> Records | None:
    """Return the objects of a JSON list; None if the text is not one."""
    if not content.lstrip().startswith("["):
        return None
    try:
        records = json.loads(content)
    except ValueError:
        return None
    return (records, []) if isinstance(records, list) and all(isinstance(each, dict) for each in records) else None


def _parse_lines(content: str) -> Records:
    records, problems = [], []
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            problems.append(f"line {number:,} is not JSON ({error})")
            continue
        if isinstance(record, dict):
            records.append(record)
        else:
            problems.append(f"line {number:,} is not an object but {line.strip()[:40]}")
    return records, problems


def _read_excel(path: Path) -> pd.DataFrame:
    """Read the first sheet."""
    try:
        import openpyxl  # type: ignore[import-untyped,import-not-found,unused-ignore]  # noqa: F401, PLC0415 - optional
    except ImportError:
        raise DatasetError(
            f"{path} is an Excel file; reading it needs the package openpyxl. Install it with "
            "pip install 'maabo-dist[excel]', or save the sheet as CSV."
        ) from None
    with _wrap_read_errors(path, "Excel"):
        sheets: dict[str, pd.DataFrame] = pd.read_excel(path, sheet_name=None, engine="openpyxl")
        first, frame = next(iter(sheets.items()))
        names = ["" if str(name).startswith("Unnamed: ") else str(name) for name in frame.columns]
        _check_names(path, names)
        if frame.empty:
            raise DatasetError(f"{path}: the sheet {first!r} has no rows. Put the table on the first sheet.")
        frame = frame.set_axis(names, axis="columns")
    others = [name for name in sheets if name != first]
    return _with_notes(frame, [f"Read the sheet {first!r}; not read: {format_names(others)}."] if others else [])


def _with_notes(frame: pd.DataFrame, notes: Sequence[str]) -> pd.DataFrame:
    """Return the frame with notes for the users, after those that it has."""
    if notes:
        frame.attrs[NOTES] = (*frame.attrs.get(NOTES, ()), *notes)
    return frame


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


def _read_text(path: Path, kind: str, na_values: tuple[str, ...]) -> pd.DataFrame:
    """Read a delimited file of any encoding; one that is not UTF-8 is converted first."""
    problem = _encoding_problem(path)
    if problem is None:
        separator = _find_separator(_header_line(path), kind)
        return _read_decimal_commas(_read_delimited(path, separator, na_values), separator)
    content = b"".join(_lines(path))
    encoding = _guess_encoding(content)
    if encoding is None:
        raise DatasetError(f"{problem} Save the file again with the encoding UTF-8.")
    with TemporaryDirectory() as folder:
        converted = Path(folder, f"{path.name.removesuffix('.gz').rpartition('.')[0]}{kind}")
        converted.write_text(content.decode(encoding), encoding="utf-8", newline="")
        try:
            frame = _read_text(converted, kind, na_values)
        except DatasetError as error:
            raise DatasetError(str(error).replace(str(converted), str(path))) from None
    title = {"cp1252": "Windows-1252", "latin-1": "Latin-1", "utf-16": "UTF-16"}[encoding]
    notes = frame.attrs.pop(NOTES, ())
    return _with_notes(frame, [f"{problem} It was read as {title}.", *notes])


def _guess_encoding(content: bytes) -> str | None:
    """Return the encoding of text that is not UTF-8; None if it is not text."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        candidates: tuple[str, ...] = ("utf-16",)
    else:
        candidates = () if b"\0" in content else ("cp1252", "latin-1")
    for encoding in candidates:
        try:
            content.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return None


def _read_decimal_commas(frame: pd.DataFrame, separator: str) -> pd.DataFrame:
    """Convert columns such as `3,5`, of a file whose separator is not a comma, to numbers."""
    if separator == ",":
        return frame
    converted = []
    for name, cells in frame.items():
        if not pd.api.types.is_string_dtype(cells.dtype) and not pd.api.types.is_object_dtype(cells.dtype):
            continue
        texts = cells.dropna().astype(str)
        if len(texts) and texts.str.fullmatch(_DECIMAL_COMMA).all() and texts.str.contains(",").any():
            numbers = texts.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
            frame[name] = pd.to_numeric(numbers).astype(float).reindex(frame.index)
            converted.append(str(name))
    return _with_notes(frame, [f"Read the decimal commas of {format_names(converted)}."] if converted else [])


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
    problems = _row_problems(path, separator)
    if not problems and sum(1 for line in _lines(path) if line.strip()) == 1:
        return f"{path} has a header and no rows. Give a file with rows."
    return "\n".join(problems) or (
        f"{path} cannot be read as text separated by {separator!r}: {reason}. Correct the file or write it again."
    )


def _encoding_problem(path: Path) -> str | None:
    offset = 0
    for number, line in enumerate(_lines(path), start=1):
        try:
            line.decode()
        except UnicodeDecodeError as error:
            return (
                f"{path} is not UTF-8: byte {offset + error.start:,}, in line {number:,}, is 0x{line[error.start]:02x}."
            )
        offset += len(line)
    return None


def _row_problems(path: Path, separator: str) -> list[str]:
    """Name the columns and the lines that are wrong, all that can be found in one reading."""
    rows = csv.reader((line.decode("utf-8-sig", "replace") for line in _lines(path)), delimiter=separator)
    header: list[str] = []
    ragged, start = [], 1
    try:
        for row in rows:
            header = header or row
            if row and len(row) != len(header):
                ragged.append(f"line {start:,} has {format_count(len(row), 'field')}")
            start = rows.line_num + 1
    except csv.Error:  # not ragged: the parser's own message is used
        return []
    if not ragged:
        return []
    lines = "the lines" if len(ragged) > 1 else "the line"
    problem = (
        f"{path}: {format_list(ragged)}, and the header has {len(header):,}. Correct {lines}; a field that holds the "
        "separator or a line break needs quotation marks."
    )
    return [*_name_problems(path, header), problem]


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
