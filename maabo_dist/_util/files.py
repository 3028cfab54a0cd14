"""Files that are written atomically and survive a power failure."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4


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


def make_directory(path: Path) -> None:
    """Create the directory and its parents, each flushed to disk; no error if they exist."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        _flush(path.parent)


def _flush(directory: Path) -> None:
    """Flush the names in a directory: only its content is flushed with a file."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except PermissionError:  # Windows opens no directories
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF):  # some network file systems know no such call
            raise
    finally:
        os.close(descriptor)
