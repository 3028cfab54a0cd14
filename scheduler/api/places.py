"""`Place`: the operator's tables, which may be named instead of sent. Nothing outside of it can be reached."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import fsspec

from maabo_dist.errors import SettingsError
from scheduler.api.incoming import CHUNK_BYTES, Incoming
from scheduler.api.media import format_of_name
from scheduler.api.problems import NotFoundError, UnavailableError

_PART = r"[^\\%?#*:/\x00-\x1f\x7f]+"
PATH_PATTERN = rf"^{_PART}(/{_PART})*$"
"""Names between single slashes, without the signs that some place reads in its own way."""


def checked_path(path: str) -> str:
    """A path that fits the pattern, stays below where it starts and names a table."""
    if {".", ".."} & set(path.split("/")) or path.endswith("\n") or format_of_name(path) is None:
        raise ValueError("is not the path of a .csv or .parquet file below the server's place, such as sales/2024.csv")
    return path


class Place:
    """A directory or a bucket, by its fsspec URL."""

    def __init__(self, url: str | None) -> None:
        self._url = url

    def fetch(self, path: str, incoming: Incoming) -> None:
        """Copy a table; `path` was checked."""
        if self._url is None:
            raise SettingsError(
                "This server has no place of tables that could be named.",
                field="path",
                remedy="Send the table itself, or let the operator set MAABO_TABLES.",
            )
        with self._opened(self._url, path) as file:
            while chunk := file.read(CHUNK_BYTES):
                if incoming.add(chunk):
                    incoming.flush()

    @contextmanager
    def _opened(self, url: str, path: str) -> Iterator[Any]:
        try:
            files, root = fsspec.core.url_to_fs(url)
            opened = _local(Path(root), path) if "file" in files.protocol else files.open(f"{root}/{path}", "rb")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError):
            raise _nothing(path) from None
        except Exception as error:  # each kind of place has errors of its own
            raise UnavailableError("The server's place of tables cannot be reached. Try again soon.") from error
        with opened as file:
            yield file


def _local(root: Path, path: str) -> BinaryIO:
    """A plain file below the root, wherever its links lead; a link that leads elsewhere is as good as none."""
    root = root.resolve()
    found = (root / path).resolve(strict=True)
    if not found.is_relative_to(root):
        raise FileNotFoundError
    # Resolved already: a link at this place was put there just now. A pipe must not make us wait.
    file = os.open(found, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise FileNotFoundError
    return os.fdopen(file, "rb")


def _nothing(path: str) -> NotFoundError:
    return NotFoundError(
        f"There is no table {path[:200]!r} in this server's place.", field="path", remedy="Check the path."
    )
