"""The ledger's tables, the schema version, and the migrations between versions."""

from collections.abc import Callable

from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    event,
    text,
)
from sqlalchemy.engine import Connection, Dialect
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeDecorator

VERSION = 6
MAX_OWNER = 80  # characters of the name of a scheduler


class _UserString(TypeDecorator[str]):
    """A string from outside. NUL is replaced: PostgreSQL rejects it, and the write would fail each time."""

    impl = String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's
        return None if value is None else value.replace("\0", "\ufffd")


class _UserText(_UserString):
    impl = Text
    cache_ok = True


def _partial_index(name: str, *columns: str, where: str) -> Index:
    """An index over the rows that match `where`; queries with the same condition use it."""
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


metadata = MetaData()


def _table(name: str, *items: SchemaItem) -> Table:
    return Table(name, metadata, *items)


def _job_table(name: str, *items: SchemaItem) -> Table:
    """A table whose rows belong to jobs; the job is the first column of its primary key."""
    return _table(name, Column("job", String(32), primary_key=True), *items)


meta = _table(
    "maabo_meta",
    Column("key", String(40), primary_key=True),
    Column("value", Text, nullable=False),
)

jobs = _table(
    "maabo_jobs",
    Column("id", String(32), primary_key=True),
    Column("tenant", _UserString(200), nullable=False),
    Column("priority", String(10), nullable=False),
    Column("rank", Integer, nullable=False, server_default=text("1")),  # from the priority; lower runs first
    Column("state", String(12), nullable=False),
    Column("command", String(8), nullable=False),  # the owner's last command: run, pause or cancel
    Column("spec", Text, nullable=False),
    Column("created", Double, nullable=False),
    Column("started", Double),
    Column("finished", Double),
    Column("updated", Double, nullable=False),
    Column("run_seconds", Double, nullable=False, server_default=text("0")),  # without pauses
    Column("trees", BigInteger, nullable=False),
    Column("planned", BigInteger),
    Column("failed", BigInteger, nullable=False, server_default=text("0")),  # subsets given up
    Column("best_score", Double),
    Column("rules", BigInteger),  # rules mined so far
    Column("stop_after", BigInteger),  # number of batches after which a stopped search ends
    Column("segments", Text, nullable=False, server_default=text("'[]'")),  # tree segments in the store, as JSON
    Column("reason", _UserText),  # why the job failed or stopped early
    Column("digest", String(64)),
    Column("document", Text),  # the result document
    Column("called_back", Double),  # time of the callback; 0 if the job has none, -1 if it was given up
    Column("callback_attempts", Integer, nullable=False, server_default=text("0")),
    Column("callback_due", Double, nullable=False, server_default=text("0")),  # time of the next attempt
    Column("work", String(64)),  # SHA-256 of everything that decides the result
    Column("dataset", String(64)),  # id of the uploaded table, if any
    Column("correlation", _UserString(200)),  # the correlation id of the request
    Column("owner", String(MAX_OWNER)),
    Column("fence", BigInteger, nullable=False),
    Column("lease_until", Double, nullable=False),
    Column("title", _UserString(200)),  # the owner's name for the job
    Column("note", _UserText),  # what the owner wants to remember about it
    _partial_index("maabo_jobs_waiting", "tenant", "rank", "created", "id", where="finished IS NULL"),
    _partial_index("maabo_jobs_held", "lease_until", "tenant", where="finished IS NULL"),
    _partial_index("maabo_jobs_finished", "finished", where="finished IS NOT NULL"),
    _partial_index("maabo_jobs_callback", "callback_due", where="finished IS NOT NULL AND called_back IS NULL"),
    Index("maabo_jobs_newest", "created", "id"),
    Index("maabo_jobs_of_tenant", "tenant", "created", "id"),
    Index("maabo_jobs_work", "tenant", "work", "created", "id"),
    Index("maabo_jobs_of_dataset", "dataset"),
)

batches = _job_table(
    "maabo_batches",
    Column("number", Integer, primary_key=True),
    Column("subsets", LargeBinary, nullable=False),
)

tasks = _job_table(
    "maabo_tasks",
    Column("batch", Integer, primary_key=True),
    Column("start", Integer, primary_key=True),
    Column("stop", Integer, primary_key=True),
    Column("attempt", Integer, nullable=False),
    Column("issued", Double, nullable=False),
)

results = _job_table(
    "maabo_results",
    Column("batch", Integer, primary_key=True),
    Column("start", Integer, primary_key=True),
    Column("stop", Integer, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("trees", LargeBinary, nullable=False),  # packed; empty for a failed subset
    Column("reason", _UserText),  # why the subset failed
)

blocks = _job_table(
    "maabo_screen_blocks",
    Column("start", Integer, primary_key=True),  # of a block of pairs or triples: `screen_blocks`
    Column("stop", Integer, nullable=False),
    Column("attempt", Integer),  # the last attempt sent; null before the first
    Column("seconds", Double, nullable=False),
    Column("pairs", LargeBinary),  # pairs or triples, packed; null until answered
)

screens = _job_table(
    "maabo_screens",
    Column("screen", LargeBinary, nullable=False),  # packed
)

shuffle_plans = _job_table(
    "maabo_shuffle_plans",
    Column("count", Integer, nullable=False),  # searches on shuffled labels that may be needed
    Column("undecided", Double),  # the strongest statistic of the undecided rules; null if all searches are to run
)

shuffles = _job_table(
    "maabo_shuffles",
    Column("start", Integer, primary_key=True),  # searches start … stop − 1
    Column("stop", Integer, nullable=False),
    Column("attempt", Integer),  # the last attempt sent; null before the first
    Column("seconds", Double, nullable=False),
    Column("searches", LargeBinary),  # packed; null until answered
)

passes = _job_table(
    "maabo_passes",
    Column("number", Integer, primary_key=True),  # passes over the rows of a dataset, in order
    Column("plan", Text, nullable=False),  # as JSON, without its blocks
    Column("results", String(64)),  # in the store: results/<digest>; null until the pass is complete
    Column("artifacts", Text, nullable=False),  # names of objects in the store that later passes need, as JSON
)

pass_blocks = _job_table(
    "maabo_pass_blocks",
    Column("number", Integer, primary_key=True),  # of the pass
    Column("start", Integer, primary_key=True),
    Column("stop", Integer, nullable=False),
    Column("size", BigInteger, nullable=False),  # rows
    Column("attempt", Integer),  # the last attempt sent; null before the first
    Column("seconds", Double, nullable=False),
    Column("answer", LargeBinary),  # what was counted, drawn or planned; null until answered
)

datasets = _table(
    "maabo_datasets",
    Column("id", String(64), primary_key=True),
    Column("tenant", _UserString(200), nullable=False),
    Column("name", _UserString(200), nullable=False),
    Column("digest", String(64), nullable=False),  # SHA-256 of the raw file, tables/<digest> in the store
    Column("format", String(20), nullable=False),
    Column("size", BigInteger, nullable=False),  # bytes
    Column("rows", BigInteger, nullable=False),
    Column("columns", BigInteger, nullable=False),
    Column("description", Text, nullable=False),  # as JSON
    Column("created", Double, nullable=False),
    Index("maabo_datasets_of_tenant", "tenant", "id"),
)

prepared_columns = _table(
    "maabo_prepared_columns",
    Column("dataset", String(64), primary_key=True),
    Column("fingerprint", String(64), primary_key=True),  # columns/<fingerprint> in the store
    Column("tenant", _UserString(200), nullable=False, index=True),
    Column("size", BigInteger, nullable=False),  # bytes
    Index("maabo_prepared_columns_file", "fingerprint"),
)

tokens = _table(
    "maabo_tokens",
    Column("id", String(64), primary_key=True),
    Column("tenant", _UserString(200), nullable=False),
    Column("name", _UserString(200), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),  # SHA-256 of the secret
    Column("scopes", Text, nullable=False),  # separated by spaces
    Column("created", Double, nullable=False),
    Column("expires", Double),
    Column("revoked", Double),
)

quotas = _table(
    "maabo_quotas",
    Column("tenant", _UserString(200), primary_key=True),
    Column("queued", BigInteger),  # null for no limit; the same below
    Column("running", BigInteger),
    Column("bytes", BigInteger),
    Column("trees", BigInteger),
)

audit = _table(
    "maabo_audit",
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("time", Double, nullable=False),
    Column("tenant", _UserString(200)),  # who acted; null for commands on the ledger itself
    Column("token", String(64)),  # ID of the token
    Column("address", _UserString(200)),
    Column("action", String(40), nullable=False),
    Column("object", _UserString(200), nullable=False),
    Column("correlation", _UserString(200)),
    Index("maabo_audit_of_tenant", "tenant", "number"),
    Index("maabo_audit_of_object", "object", "number"),
)


def _append_only(table: Table) -> None:
    """Have the database refuse to change or delete rows of a table."""
    message = f"{table.name} is append-only"
    for action in ("UPDATE", "DELETE"):
        trigger = f"CREATE TRIGGER {table.name}_no_{action.lower()} BEFORE {action} ON {table.name}"
        on_sqlite = DDL(f"{trigger} BEGIN SELECT RAISE(ABORT, '{message}'); END")  # type: ignore[no-untyped-call]
        event.listen(table, "after_create", on_sqlite.execute_if(dialect="sqlite"))
    body = f"BEGIN RAISE EXCEPTION '{message}'; END"
    function = f"CREATE FUNCTION {table.name}_refuse() RETURNS trigger LANGUAGE plpgsql AS $${body}$$"
    trigger = f"CREATE TRIGGER {table.name}_append_only BEFORE UPDATE OR DELETE ON {table.name}"
    for statement in (function, f"{trigger} FOR EACH ROW EXECUTE FUNCTION {table.name}_refuse()"):
        on_postgresql = DDL(statement)  # type: ignore[no-untyped-call]  # of SQLAlchemy
        event.listen(table, "after_create", on_postgresql.execute_if(dialect="postgresql"))


_append_only(audit)

keys = _table(
    "maabo_idempotency_keys",
    Column("tenant", _UserString(200), primary_key=True),
    Column("key", _UserString(200), primary_key=True),
    Column("body", String(64), nullable=False),  # SHA-256 of the request body
    Column("job", String(32), nullable=False, index=True),
)


def _add_prepared_columns(connection: Connection) -> None:
    metadata.create_all(connection, tables=[prepared_columns])
    next(index for index in jobs.indexes if index.name == "maabo_jobs_of_dataset").create(connection, checkfirst=True)


def _add_labels(connection: Connection) -> None:
    for column in ("title VARCHAR(200)", "note TEXT"):
        connection.execute(text(f"ALTER TABLE maabo_jobs ADD COLUMN {column}"))


# The step from each version to the next; runs in the transaction that records the new version.
MIGRATIONS: dict[int, Callable[[Connection], None]] = {
    1: lambda connection: metadata.create_all(connection, tables=[shuffle_plans, shuffles]),
    2: _add_prepared_columns,
    3: lambda connection: metadata.create_all(connection, tables=[audit]),
    4: _add_labels,
    5: lambda connection: metadata.create_all(connection, tables=[passes, pass_blocks]),
}
