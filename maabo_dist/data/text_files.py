"""Read delimited text: CSV and TSV of any encoding, with commas, semicolons, tabs or bars between the fields."""

import codecs
import csv
import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import csv as arrow_csv

from maabo_dist._util.text import format_count, format_list, format_names
from maabo_dist.data.file_checks import NOTES, first_line, name_problems, to_frame, with_notes
from maabo_dist.errors import DatasetError

# Cells of a text file that mean a missing value; the same texts as in pandas.
MISSING_TEXTS = (
    *("", "NA", "N/A", "n/a", "<NA>", "#N/A", "#N/A N/A", "#NA", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None"),
    *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)

SEPARATORS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
DECIMAL_COMMA = r"\s*[+-]?(?:\d+|\d{1,3}(?:\.\d{3})+)(?:,\d+)?\s*"
BLOCK_BYTES = 1 << 25  # the longest line that can be read: room for a header of a million columns
DECODED_BYTES = 1 << 20


def read_text(path: Path, kind: str, na_values: tuple[str, ...]) -> pd.DataFrame:
    """Read a delimited file of any encoding; one that is not UTF-8 is converted first."""
    with as_utf8(path, kind) as (readable, notes):
        separator = find_separator(header_line(readable), kind)
        frame = _read_decimal_commas(_read_delimited(readable, separator, na_values), separator)
    later = frame.attrs.pop(NOTES, ())
    return with_notes(frame, [*notes, *later])


@contextmanager
def as_utf8(path: Path, kind: str) -> Iterator[tuple[Path, list[str]]]:
    """Yield the file, or a copy in UTF-8 if it has another encoding, and notes. Errors name the file itself."""
    problem = encoding_problem(path)
    if problem is None:
        yield path, []
        return
    with TemporaryDirectory() as folder:
        converted = Path(folder, f"{path.name.removesuffix('.gz').rpartition('.')[0]}{kind}")
        encoding = _convert(path, converted)
        if encoding is None:
            raise DatasetError(f"{problem} Save the file again with the encoding UTF-8.")
        try:
            yield converted, [f"{problem} It was read as {_TITLES[encoding]}."]
        except DatasetError as error:
            message = str(error).replace(str(converted), str(path))
            raise DatasetError(message, field=error.field, remedy=error.remedy) from None


_TITLES = {"cp1252": "Windows-1252", "latin-1": "Latin-1", "utf-16": "UTF-16"}


def _convert(path: Path, copy: Path) -> str | None:
    """Write the file in UTF-8, and return the encoding that it has; None if it is not text."""
    first = next(_lines(path), b"")
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        candidates: tuple[str, ...] = ("utf-16",)
    else:
        candidates = () if any(b"\0" in line for line in _lines(path)) else ("cp1252", "latin-1")
    for encoding in candidates:
        try:
            with copy.open("w", encoding="utf-8", newline="") as file:
                file.writelines(codecs.iterdecode(_lines(path), encoding))
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
        if len(texts) and texts.str.fullmatch(DECIMAL_COMMA).all() and texts.str.contains(",").any():
            frame[name] = parse_decimal_commas(texts).reindex(frame.index)
            converted.append(str(name))
    return with_notes(frame, decimal_comma_notes(converted))


def parse_decimal_commas(texts: pd.Series) -> pd.Series:
    """Return the numbers of texts such as `1.234,5`."""
    return pd.to_numeric(texts.str.replace(".", "", regex=False).str.replace(",", ".", regex=False)).astype(float)


def decimal_comma_notes(columns: Sequence[str]) -> list[str]:
    """Return the note on columns whose decimal commas were read."""
    return [f"Read the decimal commas of {format_names(columns)}."] if columns else []


def _read_delimited(path: Path, separator: str, na_values: tuple[str, ...]) -> pd.DataFrame:
    try:
        table = _parse(path, separator, na_values, {})
        dates = {field.name: pa.string() for field in table.schema if pa.types.is_temporal(field.type)}
        if dates:  # guessed from their format; in the file they are text
            table = _parse(path, separator, na_values, dates)
        if not any(pa.types.is_binary(field.type) for field in table.schema):
            return to_frame(path, table)
    except (DatasetError, MemoryError):
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DatasetError(explain_text(path, separator, first_line(error))) from error
    raise DatasetError(explain_text(path, separator, "it holds bytes that are not text"))


def _parse(path: Path, separator: str, na_values: tuple[str, ...], types: dict[str, Any]) -> Any:
    return arrow_csv.read_csv(str(path), **parser_options(separator, na_values, types))


def parser_options(
    separator: str, na_values: tuple[str, ...], types: dict[str, Any], columns: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the options of Arrow's readers of CSV; without `columns`, they read all."""
    return {
        "read_options": arrow_csv.ReadOptions(block_size=BLOCK_BYTES),
        # Without newlines_in_values, a quoted line break at the end of a block would split its row.
        "parse_options": arrow_csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        "convert_options": arrow_csv.ConvertOptions(
            column_types=types,
            null_values=[*MISSING_TEXTS, *na_values],
            strings_can_be_null=True,
            include_columns=list(columns) or None,
        ),
    }


def header_line(path: Path) -> bytes:
    """Return the first line of a text file that is not blank."""
    header = next((line for line in _lines(path) if line.strip()), None)
    if header is None:
        raise DatasetError(f"{path} holds blank lines only. Give a file with a header and rows.")
    return header


def find_separator(header: bytes, kind: str) -> str:
    """Return the separator of the extension; for a CSV header without commas, the most frequent one in it."""
    if kind != ".csv" or b"," in outside_quotes(header):
        return SEPARATORS[kind]
    return max(",;\t|", key=lambda separator: outside_quotes(header).count(separator.encode()))


def outside_quotes(line: bytes) -> bytes:
    """Return the bytes outside quotation marks."""
    return b"".join(line.split(b'"')[::2])


def _lines(path: Path) -> Iterator[bytes]:
    with _open(path) as file:
        yield from file


@contextmanager
def _open(path: Path) -> Iterator[BufferedIOBase]:
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(
            f"{path} cannot be decompressed: {error}. It is damaged or truncated; write it again."
        ) from error


def explain_text(path: Path, separator: str, reason: str) -> str:
    """Read the file again, slowly, to find the position where the parser stopped."""
    problems = _row_problems(path, separator)
    if not problems and sum(1 for line in _lines(path) if line.strip()) == 1:
        return f"{path} has a header and no rows. Give a file with rows."
    return "\n".join(problems) or (
        f"{path} cannot be read as text separated by {separator!r}: {reason}. Correct the file or write it again."
    )


def encoding_problem(path: Path) -> str | None:
    """Return where a file is not UTF-8; None if it is."""
    if _is_utf8(path):
        return None
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


def _is_utf8(path: Path) -> bool:
    """Decode a file in large blocks, which is much faster than line by line."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with _open(path) as file:
        try:
            while block := file.read(DECODED_BYTES):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


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
    return [*name_problems(path, header), problem]
