"""The files of a dataset: a directory, a glob or a list, on disk or wherever fsspec reaches, and their identities."""

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

from maabo_dist._util.text import format_names
from maabo_dist.errors import DatasetError

PARQUET = (".parquet", ".pq")
TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".tab", ".tab.gz")
# What Hive writes for a missing value.
_HIVE_MISSING = "__HIVE_DEFAULT_PARTITION__"
# A Parquet file ends with the length of its footer and these bytes.
_MAGIC = b"PAR1"
# Bytes at the end of a file that are part of its identity: the footer of most Parquet files.
_TAIL = 1 << 16


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file and its identity at the time when it was opened."""

    # A path, or a URL such as s3://bucket/part-0.parquet.
    path: str
    size: int
    # SHA-256 of its size, its last bytes and its version: the ETag of an object, the time of change of a file.
    fingerprint: str
    # The columns that Hive writes into the names of directories, as text; None if a value is missing.
    partitions: tuple[tuple[str, str | None], ...] = ()

    @property
    def is_parquet(self) -> bool:
        """True for Parquet, False for delimited text."""
        return self.path.lower().endswith(PARQUET)

    def open(self) -> Any:
        """Open the file for reading, as bytes."""
        try:
            return _open(self.path)
        except (OSError, ValueError) as error:
            raise _gone(self.path, error) from error

    def check_unchanged(self) -> None:
        """Raise a DatasetError if the file is gone or another one than before."""
        if _identify(self.path, self.partitions) != self:
            raise DatasetError(f"{self.path} was changed while it was read. Run the command again on files at rest.")


def is_dataset(source: str) -> bool:
    """True for a directory, a glob or a URL, False for the path of one file."""
    return "://" in source or Path(source).is_dir() or (glob.has_magic(source) and not Path(source).exists())


def list_files(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> tuple[DataFile, ...]:
    """Return the files of a directory, a glob, a URL or a list of files, in the order of their paths.

    Names that begin with a dot or an underscore are left out, as Spark and Hive write their own files so.
    """
    if isinstance(source, str | os.PathLike):
        root, paths = _list_one(os.fspath(source))
    else:
        root, paths = "", sorted({os.fspath(path) for path in source})
    if not paths:
        raise DatasetError(f"{source} has no Parquet or CSV file. Supported: {' '.join((*PARQUET, *TEXT))}.")
    kinds = {path.lower().endswith(PARQUET) for path in paths}
    if len(kinds) > 1:
        mixed = [next(path for path in paths if path.lower().endswith(PARQUET) == kind) for kind in (True, False)]
        raise DatasetError(
            f"{source} has Parquet and text files, such as {format_names(mixed)}. Use a glob for one kind."
        )
    return tuple(_identify(path, _partitions(root, path)) for path in paths)


def fingerprint_of(files: Sequence[DataFile]) -> str:
    """Return the SHA-256 of the identities of all files."""
    return sha256("\n".join(file.fingerprint for file in files).encode()).hexdigest()


def _list_one(source: str) -> tuple[str, list[str]]:
    """Return the directory that the names of partitions begin after, and the paths of all files in it."""
    if "://" in source:
        return _list_url(source)
    if Path(source).is_dir():
        return source, sorted(str(path) for path in Path(source).rglob("*") if _is_data(source, str(path)))
    if not glob.has_magic(source) or Path(source).exists():
        return str(Path(source).parent), [source]
    fixed = Path(*_fixed_parts(Path(source).parts))
    found = glob.glob(source, recursive=True)  # noqa: PTH207 - a pattern of any directory
    inside = [each for path in found for each in (_list_one(path)[1] if Path(path).is_dir() else [path])]
    paths = sorted({path for path in inside if _is_data(str(fixed), path)})
    if not paths:
        raise DatasetError(f"No Parquet or CSV file matches {source}. Check the pattern; quote it in a shell.")
    return str(fixed), paths


def _fixed_parts(parts: Sequence[str]) -> Iterator[str]:
    for part in parts:
        if glob.has_magic(part):
            return
        yield part


def _is_data(root: str, path: str) -> bool:
    names = PurePosixPath(os.path.relpath(path, root)).parts if root else (PurePosixPath(path).name,)
    return path.lower().endswith((*PARQUET, *TEXT)) and not any(name.startswith((".", "_")) for name in names)


def _list_url(url: str) -> tuple[str, list[str]]:
    filesystem, root = _filesystem(url)
    try:
        if glob.has_magic(root):
            found, fixed = filesystem.glob(root), "/".join(_fixed_parts(root.split("/")))
        elif filesystem.isfile(root):
            found, fixed = [root], root.rpartition("/")[0]
        else:
            found, fixed = filesystem.find(root), root
    except Exception as error:  # each file system has errors of its own
        raise DatasetError(f"{url} cannot be listed: {error}. Check the address and your credentials.") from error
    return fixed, sorted(filesystem.unstrip_protocol(path) for path in found if _is_data(fixed, path))


def _filesystem(url: str) -> tuple[Any, str]:
    """Return the file system of a URL and the path in it."""
    try:
        import fsspec  # noqa: PLC0415 - optional
    except ImportError:
        raise DatasetError(
            f"{url} needs the package fsspec. Install it with pip install 'maabo-dist[s3]', or give a local path."
        ) from None
    try:
        filesystem, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except (ImportError, ValueError) as error:
        raise DatasetError(f"{url}: {error}. For s3:// install it with pip install 'maabo-dist[s3]'.") from error
    return filesystem, str(path)


def _partitions(root: str, path: str) -> tuple[tuple[str, str | None], ...]:
    """Return the values in the names of the directories below the root: `year=2024/month=3`."""
    inside = path.partition("://")[2] if "://" in path else path
    folders = PurePosixPath(os.path.relpath(inside, root)).parts[:-1] if root else PurePosixPath(inside).parts[:-1]
    pairs = [folder.partition("=") for folder in folders if "=" in folder]
    return tuple((unquote(name), None if value == _HIVE_MISSING else unquote(value)) for name, _, value in pairs)


def _identify(path: str, partitions: tuple[tuple[str, str | None], ...]) -> DataFile:
    try:
        version, size = _version(path)
        with _open(path) as file:
            file.seek(max(0, size - _TAIL))
            tail = file.read()
    except (OSError, ValueError) as error:
        raise _gone(path, error) from error
    if not size:
        raise DatasetError(f"{path} is empty. Remove it, or write it again.")
    if path.lower().endswith(PARQUET) and not tail.endswith(_MAGIC):
        raise DatasetError(
            f"{path} is no whole Parquet file: its end is missing. It is damaged or still being written."
        )
    digest = sha256(f"{size}\n{version}\n".encode() + tail).hexdigest()
    return DataFile(path, size, digest, partitions)


def _version(path: str) -> tuple[str, int]:
    """Return what changes whenever the file does, and its size."""
    if "://" not in path:
        status = Path(path).stat()
        return str(status.st_mtime_ns), status.st_size
    filesystem, inside = _filesystem(path)
    info = filesystem.info(inside)
    version = next((info[key] for key in ("ETag", "etag", "mtime", "LastModified") if key in info), "")
    return str(version), int(info["size"])


def _open(path: str) -> Any:
    if "://" not in path:
        return Path(path).open("rb")
    filesystem, inside = _filesystem(path)
    return filesystem.open(inside, "rb")


def _gone(path: str, error: Exception) -> DatasetError:
    if isinstance(error, FileNotFoundError):
        return DatasetError(f"There is no file {path} (any more). Check the path, and that nothing removes it.")
    return DatasetError(f"{path} cannot be opened: {error}.")
