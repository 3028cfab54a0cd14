"""Files that are written atomically and survive a power failure, and a check of table files."""

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from maabo_dist.errors import DatasetError


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Open a temporary file in the directory of `path`; it is flushed to disk and renamed on success."""
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        with temporary.open("xb") as file:  # with the permissions that any new file of this user gets
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush(path.parent)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_directory(path: Path) -> None:
    """Create the directory and its parents, each flushed to disk; no error if they exist."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        _flush(path.parent)


def check_table_file(path: Path) -> None:
    """Raise a DatasetError if the file cannot be opened or is empty."""
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except FileNotFoundError:
        raise DatasetError(f"There is no file {path}. Check the path.") from None
    except IsADirectoryError:
        raise DatasetError(f"{path} is a directory. Give one file.") from None
    except PermissionError:
        raise DatasetError(f"{path}: permission denied. Change its permissions.") from None
    except (OSError, ValueError) as error:
        raise DatasetError(f"{str(path)!r} cannot be opened: {error}.") from error
    if empty:
        raise DatasetError(f"{path} is empty. Give a file with a header and rows.")


def _flush(directory: Path) -> None:
    """Flush the names in a directory: only its content is flushed with a file."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except PermissionError:  # Windows opens no directories
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF):  # some network file systems do not support it
            raise
    finally:
        os.close(descriptor)
