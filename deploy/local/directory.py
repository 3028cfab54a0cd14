"""`DataDirectory`: all files of a local cluster, in one directory that one cluster uses at a time.

lock           held by the cluster and every process it started
secret         password of the private Redis
redis/         append-only file and configuration
ledger.db      jobs and results
store/ cache/  tables
logs/          one file per component
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

from deploy.shared import write_private
from maabo_dist.errors import SettingsError

MAX_LOG_BYTES = 10_000_000
LEFTOVER_SECONDS = 15.0  # how long the components of a killed cluster may take to stop


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The paths in a data directory."""

    root: Path

    @classmethod
    def create(cls, path: Path) -> Self:
        """Create the directory if it does not exist, readable by this user only and ignored by git."""
        root = path.absolute()
        if any(mark in str(root) for mark in "?#") or "::" in str(root):
            raise SettingsError(f"--data-dir {path}: the path must not contain ?, # or ::. Choose another directory.")
        try:
            root.mkdir(parents=True, exist_ok=True, mode=0o700)
            for folder in ("redis", "logs", "store", "cache"):
                (root / folder).mkdir(exist_ok=True, mode=0o700)
            if not (root / ".gitignore").exists():
                (root / ".gitignore").write_text("*\n")
        except OSError as error:
            raise SettingsError(f"--data-dir {path} cannot be used: {error}.") from None
        return cls(root)

    def redis_password(self) -> str:
        """Return the password of this directory's Redis. It never changes, so that addresses remain valid."""
        path = self.root / "secret"
        if not path.exists():
            write_private(path, secrets.token_urlsafe(24))
        return path.read_text().strip()

    def log(self, name: str) -> Path:
        """Return the path of a component's log."""
        return self.root / "logs" / f"{name}.log"

    @contextmanager
    def lock(self) -> Iterator[int]:
        """Lock the directory; yields the file descriptor of the lock, which components inherit.

        The lock is released when the last process that inherited it ends. So if this process is killed, the next
        cluster waits for its components to end, and two Redis servers never write to one file.
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
            if _is_running(owner):
                raise SettingsError(
                    f"{self.root} is in use by the local cluster of process {owner}. "
                    "Stop that cluster with Ctrl-C, or choose another --data-dir."
                )
            if time.monotonic() > end:
                raise SettingsError(
                    f"{self.root} is still in use by processes that process {owner} started before it was killed. "
                    "End them, or choose another --data-dir."
                )
            time.sleep(0.05)


def rotate(log: Path) -> None:
    """Rename a large log, replacing the previous one."""
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.replace(log.with_suffix(".log.1"))


def _is_running(pid: str) -> bool:
    """True if the process exists. A cluster that has not written its process ID yet counts as ended."""
    try:
        with suppress(PermissionError):  # a process of another user
            os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    return True
