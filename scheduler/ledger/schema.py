"""The ledger's tables, their version, and the way from each version to the next."""

from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    case,
    inspect,
    text,
    update,
)
from sqlalchemy.engine import Dialect

VERSION = 4


class _Told(TypeDecorator[str]):
    """Text from outside. PostgreSQL holds no NUL, and what somebody sent must not make a write fail for ever."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's
        return None if value is None else value.replace("\0", "\ufffd")


class _ToldAtLength(_Told):
    impl = Text
    cache_ok = True


def _partial_index(name: str, *columns: str, where: str) -> Index:
    """An index of the rows of which `where` is true; a query that says the same uses it."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


metadata = MetaData()

meta = Table(
    "maabo_meta",
    metadata,
    Column("key", String(40), primary_key=True),
    Column("value", Text, nullable=False),
)

jobs = Table(
    "maabo_jobs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("tenant", _Told(200), nullable=False),
    Column("priority", String(10), nullable=False),
    Column("rank", Integer, nullable=False, server_default=text("1")),  # of the priority; lower goes first
    Column("state", String(12), nullable=False),
    Column("wanted", String(8), nullable=False),  # run, pause or cancel: what its owner asked for last
    Column("spec", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("started", Double),
    Column("finished", Double),
    Column("updated", Double, nullable=False),
    Column("ran", Double, nullable=False, server_default=text("0")),  # seconds of running, pauses left out
    Column("trees", BigInteger, nullable=False),
    Column("planned", BigInteger),
    Column("failed", BigInteger, nullable=False, server_default=text("0")),  # subsets whose tree could not be had
    Column("best_score", Double),
    Column("rules", BigInteger),  # rules so far
    Column("stop_after", BigInteger),  # batches after which a search that was stopped ends
    Column("segments", Text, nullable=False, server_default=text("'[]'")),  # of trees in the store, as JSON
    Column("reason", _ToldAtLength),  # of a failure, or of an end before the budget
    Column("digest", String(64)),
    Column("document", Text),  # the result
    Column("called", Double),  # when the callback was called; 0 if there is none, -1 if it was given up
    Column("calls", Integer, nullable=False, server_default=text("0")),  # attempts to call back
    Column("call_next", Double, nullable=False, server_default=text("0")),  # when to try (again)
    Column("same", String(64)),  # SHA-256 of what decides the result
    Column("dataset", String(64)),  # the raw table, where it was uploaded
    Column("correlation", _Told(200)),  # what the one who asked calls it
    Column("owner", String(80)),
    Column("fence", BigInteger, nullable=False),
    Column("lease_until", Double, nullable=False),
    _partial_index("maabo_jobs_waiting", "tenant", "rank", "created", "id", where="finished IS NULL"),
    _partial_index("maabo_jobs_held", "lease_until", "tenant", where="finished IS NULL"),
    _partial_index("maabo_jobs_finished", "finished", where="finished IS NOT NULL"),
    _partial_index("maabo_jobs_to_call", "call_next", where="finished IS NOT NULL AND called IS NULL"),
    Index("maabo_jobs_newest", "created", "id"),
    Index("maabo_jobs_of_tenant", "tenant", "created", "id"),
    Index("maabo_jobs_same", "tenant", "same", "created", "id"),
)

batches = Table(
    "maabo_batches",
    metadata,
    Column("job", String(32), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("subsets", LargeBinary, nullable=False),
)

tasks = Table(
    "maabo_tasks",
    metadata,
    Column("job", String(32), primary_key=True),
    Column("batch", Integer, primary_key=True),
    Column("start", Integer, primary_key=True),
    Column("stop", Integer, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("issued", Double, nullable=False),
)

results = Table(
    "maabo_results",
    metadata,
    Column("job", String(32), primary_key=True),
    Column("batch", Integer, primary_key=True),
    Column("start", Integer, primary_key=True),
    Column("stop", Integer, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("trees", LargeBinary, nullable=False),  # packed; empty for a failed subset
    Column("reason", _ToldAtLength),  # why a subset failed
)

blocks = Table(
    "maabo_screen_blocks",
    metadata,
    Column("job", String(32), primary_key=True),
    Column("start", Integer, primary_key=True),  # features start … stop − 1 are the first of their pairs
    Column("stop", Integer, nullable=False),
    Column("attempt", Integer),  # as it was sent last; null before
    Column("seconds", Double, nullable=False),
    Column("pairs", LargeBinary),  # packed; null until it is answered
)

screens = Table(
    "maabo_screens",
    metadata,
    Column("job", String(32), primary_key=True),
    Column("screen", LargeBinary, nullable=False),  # packed; of all blocks
)

datasets = Table(
    "maabo_datasets",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("tenant", _Told(200), nullable=False),
    Column("name", _Told(200), nullable=False),
    Column("digest", String(64), nullable=False),  # SHA-256 of the raw file, tables/<digest> in the store
    Column("format", String(20), nullable=False),
    Column("size", BigInteger, nullable=False),  # bytes
    Column("rows", BigInteger, nullable=False),
    Column("columns", BigInteger, nullable=False),
    Column("description", Text, nullable=False),  # as JSON
    Column("created", Double, nullable=False),
    Index("maabo_datasets_of_tenant", "tenant", "id"),
)

tokens = Table(
    "maabo_tokens",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("tenant", _Told(200), nullable=False),
    Column("name", _Told(200), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),  # SHA-256 of the secret
    Column("scopes", Text, nullable=False),  # names with spaces between
    Column("created", Double, nullable=False),
    Column("expires", Double),
    Column("revoked", Double),
)

quotas = Table(
    "maabo_quotas",
    metadata,
    Column("tenant", _Told(200), primary_key=True),
    Column("queued", BigInteger),  # null for no limit, as below
    Column("running", BigInteger),
    Column("bytes", BigInteger),
    Column("trees", BigInteger),
)

keys = Table(
    "maabo_idempotency_keys",
    metadata,
    Column("tenant", _Told(200), primary_key=True),
    Column("key", _Told(200), primary_key=True),
    Column("body", String(64), nullable=False),  # SHA-256 of what was asked for
    Column("job", String(32), nullable=False, index=True),
)


def create(connection: Connection) -> None:
    """Make the tables that are not there."""
    metadata.create_all(connection)


def _to_2(connection: Connection) -> None:
    """Jobs can be paused and timed, report rules so far, keep their trees in the store and call back."""
    _add_columns(connection)
    rank = case((jobs.c.priority == "high", 0), (jobs.c.priority == "low", 2), else_=1)
    connection.execute(update(jobs).values(called=0, rank=rank))
    _renew_indexes(connection, "maabo_jobs_open", "maabo_jobs_created")


def _to_3(connection: Connection) -> None:
    """Pairs of features are screened in blocks."""
    for table in (blocks, screens):
        table.create(connection, checkfirst=True)


def _to_4(connection: Connection) -> None:
    """Tenants have tables, tokens, quotas and fair shares; callbacks are tried again in time."""
    for table in (datasets, tokens, quotas, keys):
        table.create(connection, checkfirst=True)
    _add_columns(connection)
    _renew_indexes(connection, "maabo_jobs_next", "maabo_jobs_uncalled")


def _add_columns(connection: Connection) -> None:
    """Whatever jobs have now and had not then."""
    known = {column["name"] for column in inspect(connection).get_columns("maabo_jobs")}
    compiler = connection.dialect.ddl_compiler(connection.dialect, None)  # type: ignore[arg-type]  # columns need no statement
    for column in jobs.columns:
        if column.name not in known:
            definition = compiler.get_column_specification(column)
            connection.execute(text(f"ALTER TABLE maabo_jobs ADD COLUMN {definition}"))


def _renew_indexes(connection: Connection, *outdated: str) -> None:
    for name in outdated:
        connection.execute(text(f"DROP INDEX IF EXISTS {name}"))
    for index in jobs.indexes:
        index.create(connection, checkfirst=True)


MIGRATIONS: dict[int, Callable[[Connection], None]] = {1: _to_2, 2: _to_3, 3: _to_4}
"""From a version to the one after it; run in the transaction that notes the new version."""
