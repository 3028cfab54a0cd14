"""Read a table from a file: CSV, TSV, JSON lines, Excel, Parquet, Feather or NPY, by the extension of its name.

Text files are read strictly: a row with a field too many or too few is an error, never a shifted row. Dates in them
stay text. Text that is not UTF-8, and decimal commas, are recognised and noted. Every failure is a DatasetError that
names the file, all positions and the remedy. `outline` gives the size of a file before it is read.
"""

import codecs
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from maabo_dist._util.files import check_table_file
from maabo_dist._util.text import format_names
from maabo_dist.data.arrays import NPY, ArraySource
from maabo_dist.data.file_checks import name_columns, to_frame, with_notes, wrap_read_errors
from maabo_dist.data.text_files import (
    MISSING_TEXTS,
    SEPARATORS,
    encoding_problem,
    find_separator,
    header_line,
    outside_quotes,
    read_text,
)
from maabo_dist.errors import DatasetError

PARQUET = (".parquet", ".pq")
FEATHER = (".feather", ".arrow")
JSON_LINES = (".jsonl", ".ndjson", ".json")
EXCEL = (".xlsx", ".xlsm")
_KNOWN = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".tab", ".tab.gz", *PARQUET, *FEATHER, *NPY, *JSON_LINES, *EXCEL)
STANDARD_INPUT = "-"
_MAGIC = {
    b"PAR1": ".parquet",
    b"ARROW1": ".feather",
    b"PK\x03\x04": ".xlsx",
    b"\x1f\x8b": ".csv.gz",
    b"\x93NUMPY": ".npy",
}
# The format of standard input is recognised by its first bytes.
_START_BYTES = 1 << 16
# Problems of one kind that a message lists.
_MAX_PROBLEMS = 5
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4}
# Bytes of a cell of any other type: the number itself, or the offset of a text.
_WIDTH = 8


def read_table(path: str | Path, *, na_values: tuple[str, ...] = ()) -> pd.DataFrame:
    r"""Read a table with at least one row.

    Parameters
    ----------
    path
        A CSV, TSV, JSON lines, Excel, Parquet, Feather or NPY file, by its extension; CSV and TSV may be compressed
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
        return read_text(path, kind, na_values)
    if kind in JSON_LINES:
        return mask_texts(_read_json(path), (*MISSING_TEXTS, *na_values))
    if kind in EXCEL:
        return mask_texts(_read_excel(path), (*MISSING_TEXTS, *na_values))
    if kind in NPY:
        source = ArraySource.open(path, na_values)
        return source.read(source.names)
    return mask_texts(_read_binary(path, kind), na_values)


def save_standard_input(folder: Path) -> Path:
    """Write standard input to a file in the folder, with the extension of its format."""
    start = sys.stdin.buffer.read(_START_BYTES)
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)
    if kind is None:
        kind = ".jsonl" if start.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in {b"{", b"["} else ".csv"
    path = folder / f"standard input{kind}"
    with path.open("wb") as file:
        file.write(start)
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def extension(path: Path) -> str:
    """Return the extension of the name, without `.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes[-1:] == [".gz"] and suffixes[0] in SEPARATORS:
        return suffixes[0]
    if suffixes and suffixes[-1] in {*SEPARATORS, *PARQUET, *FEATHER, *NPY, *JSON_LINES, *EXCEL}:
        return suffixes[-1]
    raise DatasetError(f"{path} has an unknown file extension. Supported: {' '.join(_KNOWN)}. Rename or convert it.")


def _read_json(path: Path) -> pd.DataFrame:
    """Read one object per line, or a list of objects."""
    try:
        content = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DatasetError(encoding_problem(path) or f"{path} is not UTF-8.") from None
    records, problems = _parse_list(content) or _parse_lines(content)
    if problems:
        more = f"\n… and {len(problems) - _MAX_PROBLEMS:,} more lines" if len(problems) > _MAX_PROBLEMS else ""
        lines = "\n".join(f"{path}: {problem}" for problem in problems[:_MAX_PROBLEMS])
        raise DatasetError(f'{lines}{more}\nGive one JSON object per line, such as {{"age": 31, "sex": "male"}}.')
    if not records:
        raise DatasetError(f"{path} has no rows. Give a file with rows.")
    frame = pd.DataFrame.from_records(records)
    names, notes = name_columns(path, [str(name) for name in frame.columns])
    return with_notes(frame.set_axis(names, axis="columns").infer_objects(), notes)


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
    with wrap_read_errors(path, "Excel"):
        sheets: dict[str, pd.DataFrame] = pd.read_excel(path, sheet_name=None, engine="openpyxl")
        first, frame = next(iter(sheets.items()))
        if frame.empty:
            raise DatasetError(f"{path}: the sheet {first!r} has no rows. Put the table on the first sheet.")
        nameless = [str(name).startswith("Unnamed: ") for name in frame.columns]
        # Columns beside the table that only have a format.
        frame = frame.loc[:, ~(np.array(nameless) & frame.isna().all().to_numpy())]
        given = ["" if str(name).startswith("Unnamed: ") else str(name) for name in frame.columns]
        names, notes = name_columns(path, given)
        frame = frame.set_axis(names, axis="columns")
    if others := [name for name in sheets if name != first]:
        notes = [f"Read the sheet {first!r}; not read: {format_names(others)}.", *notes]
    return with_notes(frame, notes)


def _read_binary(path: Path, kind: str) -> pd.DataFrame:
    with wrap_read_errors(path, "Parquet" if kind in PARQUET else "Feather"):
        if kind in PARQUET:
            with parquet.ParquetFile(path) as file:
                table = file.read()
        else:
            with pa.OSFile(str(path)) as file:
                table = pa.ipc.open_file(file).read_all()
        return to_frame(path, table)


def mask_texts(frame: pd.DataFrame, na_values: tuple[str, ...]) -> pd.DataFrame:
    """Replace these texts by missing values, in columns of the frame that can hold text."""
    if not na_values:
        return frame
    for name, cells in frame.items():
        if not pd.api.types.is_numeric_dtype(cells.dtype):
            frame[name] = cells.mask(cells.isin(na_values))
    return frame


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
        header = header_line(path)
        return Outline(outside_quotes(header).count(find_separator(header, kind).encode()) + 1, 0)
    return _outline_parquet(path) if kind in PARQUET else Outline(0, 0)


def _outline_parquet(path: Path) -> Outline:
    with wrap_read_errors(path, "Parquet"), parquet.ParquetFile(path) as file:
        metadata = file.metadata
        width = sum(_width(metadata.schema.column(index)) for index in range(metadata.num_columns))
        packed = sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))
        return Outline(metadata.num_columns, max(metadata.num_rows * width, packed))


def _width(column: Any) -> int:
    if column.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return max(1, int(column.length))
    return _WIDTHS.get(column.physical_type, _WIDTH)
