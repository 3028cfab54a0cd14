"""`Incoming`: a table on its way into a private file, counted and hashed as it comes, and refused when too large."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from maabo_dist.errors import InputError
from scheduler.api.problems import UnavailableError
from scheduler.ledger.tenants import QuotaError

CHUNK_BYTES = 1 << 20


class TooLargeError(InputError):
    """More was sent than is accepted."""

    kind = "too-large"


@dataclass(frozen=True, slots=True)
class Room:
    """How much may come."""

    most: int
    quota: int | None
    """Of the tenant; None for no limit."""
    stored: int
    """What the tenant has already."""

    def check(self, size: int) -> None:
        """Refuse a table of this size."""
        if size > self.most:
            raise TooLargeError(
                f"The table has {size:,} bytes or more; this server takes up to {self.most:,}.",
                remedy="Leave out columns or rows, or send Parquet, which is smaller than CSV.",
            )
        if self.quota is not None and self.stored + size > self.quota:
            raise QuotaError("bytes", self.quota, self.stored + size)


class Incoming:
    """Collects until there is enough to be worth a write: `add`, and `flush` where that says so."""

    def __init__(self, path: Path, room: Room) -> None:
        self.path, self.room, self.size = path, room, 0
        self._hash = sha256()
        self._pending = bytearray()
        self._file: Any = path.open("xb")

    def add(self, data: bytes) -> bool:
        """Take some bytes; True if it is time to write."""
        self.size += len(data)
        self.room.check(self.size)
        self._pending += data
        return len(self._pending) >= CHUNK_BYTES

    def flush(self) -> None:
        """Write what was collected."""
        self._hash.update(self._pending)
        try:
            self._file.write(self._pending)
        except OSError as error:
            raise UnavailableError(f"The table cannot be written here: {error.strerror}.") from error
        self._pending.clear()

    def finish(self, extension: str) -> tuple[Path, str]:
        """The file, which gets this extension, and its SHA-256."""
        self.flush()
        self.close()
        return self.path.rename(self.path.with_suffix(f".{extension}")), self._hash.hexdigest()

    def close(self) -> None:
        """Nothing more comes. Whoever made the folder removes it."""
        try:
            self._file.close()
        except OSError as error:  # what was buffered found no room
            raise UnavailableError(f"The table cannot be written here: {error.strerror}.") from error
