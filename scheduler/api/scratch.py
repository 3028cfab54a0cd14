"""`ScratchSpace`: folders for the files of requests. What killed processes left behind is removed."""

import fcntl
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir, mkdtemp
from threading import Lock
from typing import IO

PREFIX, LOCK_FILE = "maabo-api-", "lock"


class ScratchSpace:
    """A directory of this process, which holds a lock on it; a directory without such a process is abandoned.

    It is made when it is first used.
    """

    def __init__(self) -> None:
        self._opening = Lock()
        self._path: Path | None = None
        self._lock_file: IO[bytes] | None = None

    def new_folder(self) -> "TemporaryDirectory[str]":
        """Return a new folder, which is removed at the end of its `with` block."""
        with self._opening:
            while self._path is None:
                path = Path(mkdtemp(prefix=PREFIX))
                self._lock_file = (path / LOCK_FILE).open("wb")
                # Unless another process took it for abandoned before it was locked.
                self._path = path if _lock(self._lock_file) else None
        return TemporaryDirectory(dir=self._path)

    def close(self) -> None:
        """Remove the directory."""
        with self._opening:
            if self._path is not None and self._lock_file is not None:
                shutil.rmtree(self._path, ignore_errors=True)
                self._lock_file.close()
                self._path = None


def remove_abandoned() -> list[Path]:
    """Remove the directories of processes that no longer exist; return their paths."""
    removed = []
    for path in Path(gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError), (path / LOCK_FILE).open("rb") as lock_file:  # removed just now, or of another user
            if _lock(lock_file):
                shutil.rmtree(path)
                removed.append(path)
    return removed


def _lock(file: IO[bytes]) -> bool:
    """Lock a file until it is closed; return False if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
