"""`Database`: transactions on SQLite or PostgreSQL, the schema brought up to date, and errors in the ledger's words."""

import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, perf_counter, sleep
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, select, text, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from maabo_dist.errors import MaaboError, SettingsError
from scheduler.ledger import schema
from scheduler.ledger.schema import meta

_SCHEMA_LOCK = 7_301_894
_WRITES = "maabo_writes"
FILES_KEPT, CONNECTIONS_KEPT, MOST_CONNECTIONS = 40, 5, 100
"""Opened as they are needed, by whoever has many threads. To open a file anew costs as much as ten queries; a server's
connections are dear to the server."""
SQLITE_PATIENCE = 10.0
"""Seconds to wait while another one writes."""
SILENCE = 10
"""Seconds after which a server whose host acknowledges nothing is given up, and after which it gives up whoever fell
silent in a transaction. Shorter than a lease: what a lost scheduler has locked is free when its jobs are."""
_WATCHFUL = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": SILENCE * 1000}


class LedgerError(MaaboError):
    """The ledger cannot be read or written: unreachable, full, damaged."""

    kind = "unavailable"


class DuplicateError(LedgerError):
    """Something is in the ledger already."""


class Database:
    """One engine. Reading never waits for writing."""

    def __init__(self, url: str) -> None:
        self.committed: Callable[[float], None] = lambda _: None
        """Told of every transaction that wrote, with its seconds."""
        self._engine = _engine(url)
        self._writing = self._engine.execution_options(**{_WRITES: True})
        try:
            with self.write() as connection:
                _bring_up_to_date(connection)
        except LedgerError as error:
            raise LedgerError(f"{error} It was to be opened at {_without_password(url)}.") from error

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """What is there; never waits."""
        with _translated(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """One snapshot for all that is read in it; `read` has one for each statement where PostgreSQL gives no more."""
        with _translated(), self._engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                connection = connection.execution_options(isolation_level="REPEATABLE READ")  # noqa: PLW2901
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction: all of it or nothing."""
        started = perf_counter()
        with _translated(), self._writing.begin() as connection:
            yield connection
        self.committed(perf_counter() - started)


def _engine(url: str) -> Engine:
    try:
        embedded = url.startswith("sqlite")
        kept = FILES_KEPT if embedded else CONNECTIONS_KEPT
        limits = {"timeout": SILENCE} if _by_pg8000(url) else {}
        engine = create_engine(
            url,
            pool_pre_ping=not embedded,
            pool_size=kept,
            max_overflow=MOST_CONNECTIONS - kept,
            connect_args=limits,
        )
    except (SQLAlchemyError, ImportError, ValueError) as error:
        raise SettingsError(f"The ledger {_without_password(url)!r} cannot be used: {error}.") from error
    if engine.dialect.name not in {"sqlite", "postgresql"}:
        raise SettingsError(f"The ledger {_without_password(url)!r} cannot be used; give a sqlite or postgresql URL.")
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    else:
        if _by_pg8000(url):
            event.listen(engine, "connect", _watch_host)
        event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _by_pg8000(url: str) -> bool:
    return url.startswith("postgresql+pg8000:")


def _without_password(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except SQLAlchemyError:
        return url


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={int(SQLITE_PATIENCE * 1000)}")
    _use_write_ahead_log(cursor)
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _use_write_ahead_log(cursor: sqlite3.Cursor) -> None:
    """Of two that switch a new file at the same moment SQLite refuses one at once, whatever its time-out says."""
    end = monotonic() + SQLITE_PATIENCE
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > end:
                raise
            sleep(0.02)
        else:
            return


def _watch_host(connection: Any, _record: object) -> None:
    """Notice a server whose host is gone. By itself, pg8000 waits as long as TCP does, which is minutes."""
    sock: socket.socket = connection._usock  # noqa: SLF001 - pg8000 offers no other way
    sock.settimeout(None)  # it was for the connecting; a server that is slow is not gone
    if sock.family == socket.AF_UNIX:
        return
    for option, value in _WATCHFUL.items():
        if hasattr(socket, option):  # not on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _prepare_postgresql(connection: Any, _record: object) -> None:
    # A scheduler that is frozen or cut off in the middle of a transaction must not hold up the others.
    cursor = connection.cursor()
    for setting in ("lock_timeout = '10s'", f"idle_in_transaction_session_timeout = '{SILENCE}s'"):
        cursor.execute(f"SET {setting}")
    cursor.close()
    connection.commit()


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that begins by reading and then writes can lose a race that waiting does not mend.
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _bring_up_to_date(connection: Connection) -> None:
    """Make or migrate the tables, while no other scheduler does the same."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})"))
        _check_encoding(connection)
    schema.meta.create(connection, checkfirst=True)
    found = connection.execute(select(meta.c.value).where(meta.c.key == "schema")).scalar()
    if found is None:
        schema.create(connection)
        connection.execute(insert(meta).values(key="schema", value=str(schema.VERSION)))
        return
    version = int(found)
    if version > schema.VERSION:
        raise SettingsError(
            f"The ledger has schema version {version}; this scheduler knows {schema.VERSION}. Use a newer scheduler."
        )
    while version < schema.VERSION:
        schema.MIGRATIONS[version](connection)
        version += 1
        connection.execute(update(meta).where(meta.c.key == "schema").values(value=str(version)))


def _check_encoding(connection: Connection) -> None:
    """Names and rules are any text; in another database the first of them that is not would end a job, or more."""
    encoding = connection.execute(text("SHOW server_encoding")).scalar()
    if encoding != "UTF8":
        raise SettingsError(
            f"The ledger's database has the encoding {encoding}; UTF8 is needed. Make it with "
            "CREATE DATABASE maabo ENCODING 'UTF8' TEMPLATE template0."
        )


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except IntegrityError as error:
        raise DuplicateError(f"The ledger failed: {_said(error)}.") from error
    except DBAPIError as error:
        raise LedgerError(f"The ledger failed: {_said(error)}.") from error
    except (SQLAlchemyError, OSError) as error:  # pg8000 lets some errors of its socket through
        raise LedgerError(f"The ledger failed: {error}.") from error


def _said(error: DBAPIError) -> str:
    """What the database said; pg8000 gives PostgreSQL's fields, of which M is the message."""
    said = error.orig.args[0] if error.orig is not None and error.orig.args else error.orig
    return str(said.get("M", said) if isinstance(said, dict) else said).strip().rstrip(".")
