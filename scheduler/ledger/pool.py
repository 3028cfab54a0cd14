"""Pools of connections to PostgreSQL that fit the server's limit, and that find out when a connection was lost.

The server refuses connections beyond `max_connections`, and opening one costs as much as ten transactions. So a process
opens few, as many as its share of the server's limit, and keeps them; its threads wait for each other.
"""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from sqlalchemy import Engine, NullPool, bindparam, create_engine, event, text
from sqlalchemy.engine.interfaces import Dialect
from sqlalchemy.exc import InvalidatePoolError

# Processes that can use all their connections at the same time, and the most that one of them needs.
SHARING_PROCESSES, MAX_POOLED = 8, 20
# Seconds that a thread waits for a connection of the pool, or for the server to have one to spare.
POOL_TIMEOUT = 10.0
RETRY_SECONDS = 0.1
# Connections that have not been used for this long are checked before they are used.
IDLE_SECONDS = 1.0
TOO_MANY_CONNECTIONS = "53300"
_USED = "maabo_used"
_LIMITS = ("max_connections", "superuser_reserved_connections", "reserved_connections")


def connection_share(url: str, connect_args: dict[str, Any]) -> int:
    """Return how many connections to this server a process may have."""
    engine = create_engine(url, connect_args=connect_args, poolclass=NullPool)
    wait_for_connections(engine)
    query = text("SELECT name, setting FROM pg_settings WHERE name IN :names")
    query = query.bindparams(bindparam("names", _LIMITS, expanding=True))
    with engine.connect() as connection:
        limits: dict[str, int] = {row.name: int(row.setting) for row in connection.execute(query)}
    # Servers before version 16 have no reserved_connections.
    maximum, *reserved = (limits.get(name, 0) for name in _LIMITS)
    return max(2, min(MAX_POOLED, (maximum - sum(reserved)) // SHARING_PROCESSES))


def wait_for_connections(engine: Engine) -> None:
    """Make the engine wait while other processes use all connections of the server, instead of failing at once."""

    @event.listens_for(engine, "do_connect")
    def open_connection(dialect: Dialect, _record: object, args: Any, options: Any) -> Any:
        connect: Callable[..., Any] = dialect.connect
        if dialect.driver == "pg8000":
            from scheduler.ledger.prepared import PreparingConnection  # noqa: PLC0415 - pg8000 is optional

            connect = PreparingConnection
        end = monotonic() + POOL_TIMEOUT
        while True:
            try:
                return connect(*args, **options)
            except dialect.loaded_dbapi.Error as error:
                if _error_code(error) != TOO_MANY_CONNECTIONS or monotonic() > end:
                    raise
                sleep(RETRY_SECONDS)


def check_idle_connections(engine: Engine) -> None:
    """Check connections that were idle; a check before every use would cost a round trip each time."""

    @event.listens_for(engine, "checkin")
    def remember(_connection: object, record: Any) -> None:
        record.info[_USED] = monotonic()

    @event.listens_for(engine, "checkout")
    def check(connection: Any, record: Any, _proxy: object) -> None:
        if monotonic() - record.info.get(_USED, monotonic()) < IDLE_SECONDS:
            return
        try:
            engine.dialect.do_ping(connection)
        except Exception as error:  # drivers raise errors of their own, and those of sockets
            raise InvalidatePoolError from error


def _error_code(error: Exception) -> str | None:
    """Return PostgreSQL's code of an error: pg8000 has it in the field C, other drivers in an attribute."""
    fields = error.args[0] if error.args else None
    return fields.get("C") if isinstance(fields, dict) else getattr(error, "sqlstate", None)
