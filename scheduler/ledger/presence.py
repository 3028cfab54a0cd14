"""`Presence`: tells living schedulers that one of them has died, before its leases expire.

A scheduler that is killed takes something with it that the operating system or the server removes at once:

    SQLite        a lock on a file beside the ledger
    PostgreSQL    a session of the server, whose number is in the ledger

One that is frozen, or cut off with its machine, keeps it; then its leases expire. Schedulers of earlier releases have
neither, and are never reported.
"""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import quote

from sqlalchemy import delete, select, text
from sqlalchemy.exc import SQLAlchemyError

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.settings import MAX_LEASE_SECONDS
from scheduler.ledger.database import Database, owner_key, translate_errors, upsert
from scheduler.ledger.jobs import UNENDED
from scheduler.ledger.schema import jobs, meta

logger = StructuredLogger("maabo.scheduler")

# How often a scheduler makes its presence known, and looks for those of others.
CHECK_SECONDS = 0.5
# A session may also be missing because it was terminated, or because the server was restarted. Its scheduler opens
# another at its next check, or as soon as it can connect again. It is not gone before this time has passed.
GRACE_SECONDS = 1.5
RESTART_GRACE_SECONDS = 2.5
_PREFIX = "session:"
_UPSERT = upsert(meta, "value")
# A session: its process, and when it began. Not as a date, which each session formats by its own settings.
_NAME = "pid || ' ' || extract(epoch FROM backend_start)"
_SESSION = text(f"SELECT {_NAME} FROM pg_stat_activity WHERE pid = pg_backend_pid()")  # noqa: S608  # nosec B608
_FIND_SESSION = text(
    f"SELECT EXISTS (SELECT FROM pg_stat_activity WHERE {_NAME} = value) AS is_open,"  # noqa: S608  # nosec B608
    " extract(epoch FROM pg_postmaster_start_time()) > CAST(split_part(value, ' ', 2) AS numeric) AS is_older"
    f" FROM {meta.name} WHERE key = :key"
)


class Presence:
    """The presence of one scheduler, and of those that hold jobs."""

    def __init__(self, database: Database, owner: str, clock: Callable[[], float] = monotonic) -> None:
        self._database, self._owner = database, owner
        self._signs: _LockedFiles | _Sessions
        if database.engine.dialect.name == "sqlite":
            self._signs = _LockedFiles(database, owner)
        else:
            self._signs = _Sessions(database, owner, clock)

    def refresh(self) -> None:
        """Make the presence known, or known again after an outage."""
        self._signs.refresh()

    def find_gone(self) -> list[str]:
        """Return the schedulers that hold leases and have died."""
        now = self._database.now
        valid = jobs.c.lease_until.between(now, now + MAX_LEASE_SECONDS)
        holders = select(jobs.c.owner).distinct().where(UNENDED, valid, jobs.c.owner != self._owner)
        with self._database.read() as connection:
            owners = list(connection.execute(holders).scalars())
        return [owner for owner in owners if self._signs.is_gone(owner)] if owners else []

    def forget(self, owner: str) -> None:
        """Remove what a scheduler that has died left behind."""
        self._signs.forget(owner)

    def close(self) -> None:
        """Withdraw the presence."""
        self._signs.close()


class _LockedFiles:
    """Files that schedulers keep locked in a directory beside the ledger."""

    def __init__(self, database: Database, owner: str) -> None:
        self._directory = Path(f"{database.engine.url.database}-schedulers")
        self._path = self._file(owner)
        self._descriptor: int | None = None
        self._possible = True

    def refresh(self) -> None:
        if self._descriptor is not None or not self._possible:
            return
        try:
            self._directory.mkdir(exist_ok=True)
            self._descriptor = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:  # a file system without locks: jobs are taken over when their leases expire
            logger.warning("the file that shows that this scheduler lives cannot be locked", reason=error)
            self._possible = False
            self.close()

    def is_gone(self, owner: str) -> bool:
        try:
            descriptor = os.open(self._file(owner), os.O_RDWR | os.O_CLOEXEC)
        except OSError:  # of an earlier release, or not readable
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # it lives
            return False
        else:
            return True
        finally:
            os.close(descriptor)

    def forget(self, owner: str) -> None:
        self._file(owner).unlink(missing_ok=True)

    def close(self) -> None:
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None

    def _file(self, owner: str) -> Path:
        return self._directory / quote(owner, safe="")


class _Sessions:
    """Sessions of the server that schedulers keep open."""

    def __init__(self, database: Database, owner: str, clock: Callable[[], float]) -> None:
        self._database, self._key, self._clock = database, owner_key(_PREFIX, owner), clock
        self._connection: Any = None
        self._session: str | None = None
        self._missing_since: dict[str, float] = {}

    def refresh(self) -> None:
        with translate_errors():
            try:
                session = self._read_session()
            except SQLAlchemyError:
                self._drop()
                session = self._read_session()
        if session != self._session:
            with self._database.write() as connection:
                connection.execute(_UPSERT[connection.dialect.name], [{"key": self._key, "value": session}])
            self._session = session

    def is_gone(self, owner: str) -> bool:
        with self._database.read() as connection:
            session = connection.execute(_FIND_SESSION, {"key": owner_key(_PREFIX, owner)}).one_or_none()
        if session is None or session.is_open:
            self._missing_since.pop(owner, None)
            return False
        grace = RESTART_GRACE_SECONDS if session.is_older else GRACE_SECONDS  # than the server
        now = self._clock()
        return now - self._missing_since.setdefault(owner, now) >= grace

    def forget(self, owner: str) -> None:
        self._missing_since.pop(owner, None)
        with self._database.write() as connection:
            connection.execute(delete(meta).where(meta.c.key == owner_key(_PREFIX, owner)))

    def close(self) -> None:
        with suppress(Exception), self._database.write() as connection:
            connection.execute(delete(meta).where(meta.c.key == self._key))
        self._drop()

    def _read_session(self) -> str:
        if self._connection is None:
            self._connection = self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        return str(self._connection.execute(_SESSION).scalar_one())

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError, OSError):
                connection.invalidate()
                connection.close()
