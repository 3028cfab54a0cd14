"""`Database`: transactions on SQLite or PostgreSQL, schema migrations, and the helpers that all tables share."""

import socket
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from time import monotonic, perf_counter, sleep
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Double,
    Select,
    Table,
    cast,
    create_engine,
    event,
    extract,
    func,
    insert,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError

from maabo_dist.errors import MaaboError, SettingsError
from scheduler.ledger import schema
from scheduler.ledger.pool import POOL_TIMEOUT, check_idle_connections, connection_share, wait_for_connections

_PURPOSE = "maabo_purpose"  # an option of connections: "write" or "snapshot"; others read
# Connections are opened as threads need them. Reopening a SQLite file costs as much as ten queries.
POOLED_FILES, MAX_FILES = 40, 100
# Seconds to wait for another writer.
SQLITE_TIMEOUT = 10.0
# Seconds after which a server whose host does not respond is given up, and after which the server ends transactions of
# a client that does not respond. Shorter than a lease, so that a lost scheduler's locks are gone when its leases are.
NETWORK_TIMEOUT = 10
_KEEPALIVE = {"TCP_KEEPIDLE": 4, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": NETWORK_TIMEOUT * 1000}
# A scheduler that is frozen or cut off in a transaction must not block the others. In the middle of a statement, only
# the keepalive of the server shows that it is gone: by default, after two hours.
_SESSION = {
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": f"{NETWORK_TIMEOUT}s",
    "tcp_keepalives_idle": _KEEPALIVE["TCP_KEEPIDLE"],
    "tcp_keepalives_interval": _KEEPALIVE["TCP_KEEPINTVL"],
    "tcp_keepalives_count": _KEEPALIVE["TCP_KEEPCNT"],
    "tcp_user_timeout": _KEEPALIVE["TCP_USER_TIMEOUT"],
}


# How a transaction of each purpose begins on PostgreSQL; without one, each statement is a transaction.
_BEGIN = {"write": "BEGIN", "snapshot": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}
_JULIAN_DAY_OF_EPOCH = 2440587.5
# A time as a number, or as an expression of the database's clock.
Moment = float | ColumnElement[float]


class LedgerError(MaaboError):
    """The ledger cannot be read or written: unreachable, full, damaged."""

    kind = "unavailable"


class DuplicateError(LedgerError):
    """A row with this key exists already."""


class Database:
    """A database engine. Readers never wait for writers."""

    def __init__(self, url: str) -> None:
        # Called after every writing transaction with its duration in seconds.
        self.observe_commit: Callable[[float], None] = lambda _: None
        self.engine = _engine(url)
        self._writing, self._snapshots = (self.engine.execution_options(**{_PURPOSE: each}) for each in _BEGIN)
        try:
            with self.write() as connection:
                _migrate(connection)
        except LedgerError as error:
            raise LedgerError(f"{error} The ledger is {_without_password(url)}.") from error

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    @property
    def now(self) -> ColumnElement[float]:
        """The time of the database's clock in seconds since the epoch, for statements.

        What schedulers on several machines have to agree on, above all leases, is decided by this clock.
        """
        if self.engine.dialect.name == "postgresql":
            return cast(extract("epoch", func.statement_timestamp()), Double)
        return (func.julianday("now", type_=Double) - _JULIAN_DAY_OF_EPOCH) * 86400.0

    def steady_clock(self) -> Callable[[], float]:
        """A clock that shows the database's time of this moment, and from then on is never set forward or back."""
        started = _elapsed()
        with self.read() as connection:
            offset = connection.execute(select(self.now)).scalar_one() - started
        return lambda: offset + _elapsed()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that reads; it never waits for a lock."""
        with translate_errors(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A connection that reads one snapshot; on PostgreSQL, `read` has a snapshot for each statement."""
        with translate_errors(), self._snapshots.connect() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that writes."""
        started = perf_counter()
        with translate_errors(), self._writing.begin() as connection:
            yield connection
        self.observe_commit(perf_counter() - started)

    def rows(self, query: Select[Any]) -> Sequence[Any]:
        """All rows of a query, as mappings."""
        with self.read() as connection:
            return connection.execute(query).mappings().all()


class LedgerTopic:
    """Base of the classes that read and write the tables of one topic; each of their methods is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database


def _elapsed() -> float:
    """Seconds of a clock that also counts while the machine is suspended, where the system has one."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@contextmanager
def deferred(connection: Connection) -> Iterator[None]:
    """Have statements whose results are not needed sent together with the next other statement, or with the commit.

    If one fails, that raises its error. SQLite executes every statement at once.
    """
    raw: Any = connection.connection.dbapi_connection
    if hasattr(raw, "defers"):
        raw.defers = True
    try:
        yield
    finally:
        if hasattr(raw, "defers"):
            raw.defers = False


_LOCK = text("SELECT pg_advisory_xact_lock(:number)")


def lock(connection: Connection, name: str) -> None:
    """Wait for other transactions that lock the same name. SQLite needs no lock: it has one writer at a time.

    The wait is over when the next statement has been executed.
    """
    if connection.dialect.name == "postgresql":
        number = int.from_bytes(sha256(name.encode()).digest()[:8], "big", signed=True)
        with deferred(connection):
            connection.execute(_LOCK, {"number": number})


def of_tenant(table: Table, tenant: str | None) -> list[ColumnElement[bool]]:
    """The condition that restricts a query to a tenant; none if the tenant is None."""
    return [] if tenant is None else [table.c.tenant == tenant]


def owner_key(kind: str, owner: str) -> str:
    """The key of a scheduler's row of a kind in the table `meta`: names of hosts may be longer than keys."""
    return f"{kind}{sha256(owner.encode()).hexdigest()[:32]}"


def upsert(table: Table, *changing: str) -> dict[str, Any]:
    """Statements, by dialect, that insert rows or update these columns of existing ones."""
    statements: dict[str, Any] = {}
    for name, insert_into in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert)):
        statement = insert_into(table)
        values = {column: statement.excluded[column] for column in changing}
        statements[name] = statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=values)
    return statements


def _engine(url: str) -> Engine:
    embedded, uses_pg8000 = url.startswith("sqlite"), url.startswith("postgresql+pg8000:")
    arguments = {"timeout": NETWORK_TIMEOUT} if uses_pg8000 else {}
    try:
        pooled = connection_share(url, arguments) if url.startswith("postgresql") else POOLED_FILES
        overflow = MAX_FILES - pooled if embedded else 0
        engine = create_engine(
            url, connect_args=arguments, pool_size=pooled, max_overflow=overflow, pool_timeout=POOL_TIMEOUT
        )
    except (DBAPIError, OSError) as error:
        message = _message(error) if isinstance(error, DBAPIError) else error
        raise LedgerError(f"The ledger failed: {message}. The ledger is {_without_password(url)}.") from error
    except (SQLAlchemyError, ImportError, ValueError) as error:
        raise SettingsError(f"The ledger {_without_password(url)!r} cannot be used: {error}.") from error
    if engine.dialect.name not in {"sqlite", "postgresql"}:
        raise SettingsError(f"The ledger {_without_password(url)!r} cannot be used; give a sqlite or postgresql URL.")
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    else:
        if uses_pg8000:
            event.listen(engine, "connect", _set_socket_options)
            event.listen(engine, "begin", _begin_postgresql)
        event.listen(engine, "connect", _prepare_postgresql)
        wait_for_connections(engine)
        check_idle_connections(engine)
    return engine


def _without_password(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except SQLAlchemyError:
        return url


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin explicitly, not where the driver guesses
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={int(SQLITE_TIMEOUT * 1000)}")
    _use_write_ahead_log(cursor)
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


def _use_write_ahead_log(cursor: sqlite3.Cursor) -> None:
    """When two processes switch a new file at the same moment, SQLite refuses one of them without waiting."""
    end = monotonic() + SQLITE_TIMEOUT
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > end:
                raise
            sleep(0.02)
        else:
            return


def _set_socket_options(connection: Any, _record: object) -> None:
    """Detect a server whose host is gone, and send everything at once.

    By default, pg8000 waits as long as TCP does, which is minutes. And the end of a long group of statements would wait
    for an acknowledgement of its beginning, which the server delays until it has a response.
    """
    sock: socket.socket = connection._usock  # noqa: SLF001 - pg8000 offers no other way
    sock.settimeout(None)  # it applied to connecting; a slow server is not gone
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, value in _KEEPALIVE.items():
        if hasattr(socket, option):  # not on every system
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _prepare_postgresql(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    cursor.execute("; ".join(f"SET {name} = '{value}'" for name, value in _SESSION.items()))
    cursor.close()
    connection.commit()


def _begin_sqlite(connection: Connection) -> None:
    # A transaction that begins by reading and then writes can fail with a conflict that waiting does not resolve.
    writes = connection.get_execution_options().get(_PURPOSE) == "write"
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _begin_postgresql(connection: Connection) -> None:
    """Begin explicitly: to begin and to end a transaction for each read would triple its round trips to the server."""
    raw: Any = connection.connection.dbapi_connection
    raw.autocommit = True
    statement = _BEGIN.get(connection.get_execution_options().get(_PURPOSE, ""))
    if statement is not None:
        raw.begin(statement)


def _migrate(connection: Connection) -> None:
    """Create or migrate the tables, while no other scheduler does."""
    lock(connection, "schema")
    if connection.dialect.name == "postgresql":
        # Names and rules are arbitrary text, which a database of another encoding cannot store.
        encoding = connection.execute(text("SHOW server_encoding")).scalar()
        if encoding != "UTF8":
            raise SettingsError(
                f"The ledger's database has the encoding {encoding}; UTF8 is needed. Make it with "
                "CREATE DATABASE maabo ENCODING 'UTF8' TEMPLATE template0."
            )
    meta = schema.meta
    meta.create(connection, checkfirst=True)
    stored = connection.execute(select(meta.c.value).where(meta.c.key == "schema")).scalar()
    if stored is None:
        schema.metadata.create_all(connection)
        connection.execute(insert(meta).values(key="schema", value=str(schema.VERSION)))
        return
    version = int(stored)
    if version > schema.VERSION:
        raise SettingsError(
            f"The ledger has schema version {version}; this scheduler knows {schema.VERSION}. Use a newer scheduler."
        )
    while version < schema.VERSION:
        schema.MIGRATIONS[version](connection)
        version += 1
        connection.execute(update(meta).where(meta.c.key == "schema").values(value=str(version)))


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise a LedgerError for every error of the database."""
    try:
        yield
    except IntegrityError as error:
        raise DuplicateError(f"The ledger failed: {_message(error)}.") from error
    except DBAPIError as error:
        raise LedgerError(f"The ledger failed: {_message(error)}.") from error
    except (SQLAlchemyError, OSError) as error:  # pg8000 lets some errors of its socket through
        raise LedgerError(f"The ledger failed: {error}.") from error


def _message(error: DBAPIError) -> str:
    """The database's message; pg8000 gives PostgreSQL's fields, of which M is the message."""
    message = error.orig.args[0] if error.orig is not None and error.orig.args else error.orig
    return str(message.get("M", message) if isinstance(message, dict) else message).strip().rstrip(".")
