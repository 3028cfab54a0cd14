"""Files that are written whole or not at all, and are still there after a power cut."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """A file to write to under a temporary name beside `path`; flushed to disk and renamed when all went well."""
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
    """The directory and those above it, each flushed to disk by name; no error if they are there."""
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir(exist_ok=True)
        _flush(path.parent)


def _flush(directory: Path) -> None:
    """A file's content is flushed with the file, its name with the directory."""
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
