"""`DataDirectory`: all that a local cluster keeps, in one place that one cluster uses at a time.

lock           held by the cluster and everything it started
secret         password of the private Redis
redis/         append-only file and configuration
ledger.db      jobs and answers
store/ cache/  tables
logs/          one file for each part
"""

import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from maabo_dist._util.files import replacing
from maabo_dist.errors import SettingsError

LARGEST_LOG = 10_000_000
LEFTOVER_SECONDS = 15.0
"""How long the parts of a cluster that was killed may take to stop."""


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The paths in a data directory, made when they are needed."""

    root: Path

    @classmethod
    def prepared(cls, path: Path) -> Self:
        """The directory, made if it is not there: for this user alone, and not for version control."""
        root = path.absolute()
        if any(mark in str(root) for mark in "?#") or "::" in str(root):
            raise SettingsError(f"--data-dir {path}: in an address, ? and # and :: mean something else. Give another.")
        try:
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            for folder in ("redis", "logs", "store", "cache"):
                (root / folder).mkdir(exist_ok=True, mode=0o700)
            if not (root / ".gitignore").exists():
                (root / ".gitignore").write_text("*\n")
        except OSError as error:
            raise SettingsError(f"--data-dir {path} cannot be used: {error}.") from None
        return cls(root)

    def secret(self) -> str:
        """The password of this directory's Redis; the same at every start, so that addresses stay good."""
        path = self.root / "secret"
        if not path.exists():
            write_private(path, secrets.token_urlsafe(24))
        return path.read_text().strip()

    def log(self, name: str) -> Path:
        """Where a part logs to."""
        return self.root / "logs" / f"{name}.log"

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Holds the directory; gives the descriptor of the lock, for parts to inherit.

        A lock belongs to all who have inherited it: when this process is killed, the next cluster waits until the last
        of its parts is gone, and two Redis servers never write to one file.
        """
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._acquire(descriptor)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield descriptor
        finally:
            os.close(descriptor)

    def _acquire(self, descriptor: int) -> None:
        end = time.monotonic() + LEFTOVER_SECONDS
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            owner = os.pread(descriptor, 20, 0).decode()
            if _runs(owner):
                raise SettingsError(
                    f"{self.root} is in use by the local cluster of process {owner}. "
                    "Stop that one with Ctrl-C, or give another --data-dir."
                )
            if time.monotonic() > end:
                raise SettingsError(
                    f"{self.root} is still in use by what process {owner} started before it was killed. "
                    "End those processes, or give another --data-dir."
                )
            time.sleep(0.05)


def write_private(path: Path, text: str) -> None:
    """Write a file, whole or not at all, that only this user reads."""
    with replacing(path) as file:
        os.fchmod(file.fileno(), 0o600)  # before anything is in it
        file.write(text.encode())


def rotate(log: Path) -> None:
    """Put a log that has grown large aside, in place of the one before."""
    if log.exists() and log.stat().st_size > LARGEST_LOG:
        log.replace(log.with_suffix(".log.1"))


def _runs(pid: str) -> bool:
    """Whether there is such a process. A cluster that has not written its number yet is waited for."""
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True
