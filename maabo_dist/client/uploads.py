"""Conversion of files and DataFrames to CSV or Parquet, the formats that servers read.

Files in these formats are sent unchanged. Others are converted here so that the server reads exactly what `maabo mine`
reads: compressed text is decompressed, tabs become commas, and Feather becomes Parquet.
"""

import csv
import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from maabo_dist.errors import DatasetError

if TYPE_CHECKING:
    import pandas as pd

CSV = "text/csv"
PARQUET = "application/vnd.apache.parquet"
MAX_NAME_LENGTH = 200
_TEXT = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_PARQUET = {".parquet", ".pq"}
_FEATHER = {".feather", ".arrow"}
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Upload:
    """A file to send."""

    name: str
    media_type: str
    file: Path


def prepare_upload(table: "str | Path | pd.DataFrame", name: str | None, folder: Path) -> Upload:
    """Return what to send for a table; a file that has to be converted first is written to `folder`."""
    if isinstance(table, str | Path):
        path = _check_file(Path(table))
        return Upload((name or path.name)[:MAX_NAME_LENGTH], *_convert(path, folder))
    frame = folder / "table.parquet"
    _write_frame(table, frame)
    return Upload((name or "table")[:MAX_NAME_LENGTH], PARQUET, frame)


def _check_file(path: Path) -> Path:
    """Report a file that cannot be read before a connection is made."""
    try:
        with path.open("rb") as file:
            if not file.read(1):
                raise DatasetError(f"{path} is empty. Give a file with a header and rows.")
    except FileNotFoundError:
        raise DatasetError(f"There is no file {path}. Check the path.") from None
    except IsADirectoryError:
        raise DatasetError(f"{path} is a directory. Give one file.") from None
    except (OSError, ValueError) as error:
        raise DatasetError(f"{str(path)!r} cannot be opened: {error}.") from error
    return path


def _convert(path: Path, folder: Path) -> tuple[str, Path]:
    compressed, kind = _file_kind(path)
    if kind in _PARQUET:
        return PARQUET, path
    if kind in _FEATHER:
        return PARQUET, _feather_to_parquet(path, folder / "table.parquet")
    if compressed:
        path = _decompress(path, folder / "decompressed.csv")
    return CSV, path if _TEXT[kind] == "," else _tabs_to_commas(path, folder / "commas.csv")


def _file_kind(path: Path) -> tuple[bool, str]:
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes[-1:] == [".gz"] and suffixes[0] in _TEXT:
        return True, suffixes[0]
    if suffixes and suffixes[-1] in {*_TEXT, *_PARQUET, *_FEATHER}:
        return False, suffixes[-1]
    raise DatasetError(
        f"{path} has no known extension. Use .csv or .tsv (also with .gz), .parquet or .feather; rename or convert it."
    )


def _decompress(path: Path, target: Path) -> Path:
    try:
        with gzip.open(path) as source, target.open("wb") as file:
            while chunk := source.read(_CHUNK_BYTES):
                file.write(chunk)
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(
            f"{path} cannot be decompressed: {error}. It is damaged or truncated; write it again."
        ) from error
    return target


def _tabs_to_commas(path: Path, target: Path) -> Path:
    csv.field_size_limit(1 << 30)
    try:
        with (
            path.open(encoding="utf-8-sig", newline="") as tabs,
            target.open("w", encoding="utf-8", newline="") as commas,
        ):
            csv.writer(commas).writerows(csv.reader(tabs, delimiter="\t"))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{path} cannot be read as tab-separated text: {error}. Correct the file.") from error
    return target


def _feather_to_parquet(path: Path, target: Path) -> Path:
    import pyarrow as pa  # imported here, as in _write_frame: most uploads do not need it, and it takes 0.2 s
    from pyarrow import parquet

    try:
        with pa.OSFile(str(path)) as file:
            parquet.write_table(pa.ipc.open_file(file).read_all(), target)
    except Exception as error:  # pyarrow raises many kinds of errors for damaged files
        raise DatasetError(f"{path} cannot be read as Feather: {error}. Write it again.") from error
    return target


def _write_frame(frame: "pd.DataFrame", target: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), target)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DatasetError(f"The DataFrame cannot be sent: {error}. Give each column values of one type.") from error
