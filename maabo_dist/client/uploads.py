"""From a file or a DataFrame to what is uploaded: CSV or Parquet, which servers read.

Both go as they are. Other files are turned into one of the two here, so that they read exactly as `maabo mine` reads
them: packed text is unpacked, tabs become commas, and Feather becomes Parquet.
"""

import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from maabo_dist.errors import DatasetError

if TYPE_CHECKING:
    import pandas as pd

CSV = "text/csv"
PARQUET = "application/vnd.apache.parquet"
MOST_NAME = 200
_TEXT = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_PARQUET = {".parquet", ".pq"}
_FEATHER = {".feather", ".arrow"}
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Upload:
    """What is sent."""

    name: str
    media_type: str
    content: Path


@contextmanager
def uploadable(table: "str | Path | pd.DataFrame", name: str | None = None) -> Iterator[Upload]:
    """The table as a file that exists during the block."""
    with TemporaryDirectory(prefix="maabo-") as folder:
        if isinstance(table, str | Path):
            path = _checked(Path(table))
            yield Upload((name or path.name)[:MOST_NAME], *_sendable(path, Path(folder)))
        else:
            made = Path(folder) / "table.parquet"
            _write_frame(table, made)
            yield Upload((name or "table")[:MOST_NAME], PARQUET, made)


def _checked(path: Path) -> Path:
    """The operating system's refusals, before a connection is made."""
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


def _sendable(path: Path, folder: Path) -> tuple[str, Path]:
    packed, kind = _kind(path)
    if kind in _PARQUET:
        return PARQUET, path
    if kind in _FEATHER:
        return PARQUET, _feather_to_parquet(path, folder / "table.parquet")
    if packed:
        path = _unpacked(path, folder / "unpacked.csv")
    return CSV, path if _TEXT[kind] == "," else _tabs_to_commas(path, folder / "commas.csv")


def _kind(path: Path) -> tuple[bool, str]:
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes[-1:] == [".gz"] and suffixes[0] in _TEXT:
        return True, suffixes[0]
    if suffixes and suffixes[-1] in {*_TEXT, *_PARQUET, *_FEATHER}:
        return False, suffixes[-1]
    raise DatasetError(
        f"{path} has no extension that says what it is. Known are .csv, .tsv (also .gz), .parquet and .feather; "
        "rename or convert it."
    )


def _unpacked(path: Path, made: Path) -> Path:
    try:
        with gzip.open(path) as packed, made.open("wb") as file:
            while chunk := packed.read(_CHUNK):
                file.write(chunk)
    except (OSError, EOFError, zlib.error) as error:
        raise DatasetError(f"{path} does not unpack: {error}. It is damaged or truncated; write it again.") from error
    return made


def _tabs_to_commas(path: Path, made: Path) -> Path:
    csv.field_size_limit(1 << 30)
    try:
        with (
            path.open(encoding="utf-8-sig", newline="") as tabs,
            made.open("w", encoding="utf-8", newline="") as commas,
        ):
            csv.writer(commas).writerows(csv.reader(tabs, delimiter="\t"))
    except (UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{path} does not read as text separated by tabs: {error}. Correct the file.") from error
    return made


def _feather_to_parquet(path: Path, made: Path) -> Path:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with pa.OSFile(str(path)) as file:
            parquet.write_table(pa.ipc.open_file(file).read_all(), made)
    except Exception as error:  # damage comes out as any of many errors
        raise DatasetError(f"{path} does not read as Feather: {error}. Write it again.") from error
    return made


def _write_frame(frame: "pd.DataFrame", made: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), made)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise DatasetError(f"The DataFrame cannot be sent: {error}. Give each column values of one kind.") from error
