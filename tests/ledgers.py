"""Helpers for tests of ledgers: open ledgers, direct reads of their tables, concurrent calls, and jobs in various
states.

The rows of a search are deleted when its job ends. `remember_results` records each row when it is written.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

from sqlalchemy import NullPool, create_engine, text

from maabo_dist.contract.job import JobSpec, JobState
from scheduler.ledger import Ledger
from scheduler.ledger.search import BatchRow, ResultRow, TaskRow

TABLE = "0123456789abcdef" * 4
CALLBACK = {"callback": {"task": "other.done", "queue": "other"}}
TABLES = (
    *("maabo_meta", "maabo_jobs", "maabo_batches", "maabo_tasks", "maabo_results"),
    *("maabo_screen_blocks", "maabo_screens", "maabo_shuffle_plans", "maabo_shuffles"),
    *(
        "maabo_datasets",
        "maabo_prepared_columns",
        "maabo_tokens",
        "maabo_quotas",
        "maabo_idempotency_keys",
        "maabo_audit",
    ),
)


@contextmanager
def opened(url):
    ledger = Ledger(url)
    try:
        yield ledger
    finally:
        ledger.close()


@contextmanager
def connected(url):
    """Yield a transaction that bypasses the ledger's methods."""
    with create_engine(url, poolclass=NullPool).begin() as connection:
        yield connection


def contents(url):
    """Return the rows of all tables of a ledger."""
    with connected(url) as connection:
        return {name: sorted(map(repr, connection.execute(text(f"SELECT * FROM {name}")))) for name in TABLES}


def call_concurrently(*calls):
    """Make all calls at the same time, each in a thread, and return their results."""
    barrier = Barrier(len(calls))

    def run(call):
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def a_job(number=1, **changes):
    return JobSpec.parse({"id": f"{number:032x}", "dataset": {"fingerprint": TABLE}} | changes)


def numbers(leases):
    return [int(lease.job, 16) for lease in leases]


def held(ledger, number=1, now=100.0, **changes):
    ledger.jobs.add([a_job(number, **changes)], now)
    (lease,) = ledger.leases.acquire("one", now, seconds=10, limit=1)
    return lease


def write_search(ledger, lease, now=101.0):
    """Write a batch of nine subsets, two tasks and an answer."""
    ledger.search.write(
        lease,
        now,
        {"state": JobState.RUNNING.value, "trees": 5},
        new_batches=[BatchRow(0, b"subsets")],
        new_results=[ResultRow(0, 0, 5, b"trees", None, 0.25)],
        sent=[TaskRow(0, 0, 5, 0), TaskRow(0, 5, 9, 0)],
    )


def rows_of_search(ledger, job):
    return [*ledger.search.batches(job), *ledger.search.results(job), *ledger.search.tasks(job)]


_NOTE = "INSERT INTO remembered VALUES (NEW.job, NEW.batch, NEW.start, NEW.stop)"
_REMEMBER = {
    "sqlite": [f"CREATE TRIGGER remember AFTER INSERT ON maabo_results BEGIN {_NOTE}; END"],
    "postgresql": [
        f"CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {_NOTE}; RETURN NULL; END $$",
        "CREATE TRIGGER remember AFTER INSERT ON maabo_results FOR EACH ROW EXECUTE FUNCTION remember()",
    ],
}


def remember_results(url):
    """From now on, record every result row that is written."""
    with connected(url) as connection:
        connection.execute(text("CREATE TABLE remembered (job TEXT, batch INTEGER, start INTEGER, stop INTEGER)"))
        for statement in _REMEMBER[connection.dialect.name]:
            connection.execute(text(statement))


def remembered_subsets(url, job):
    """Return (batch, index in the batch) of every subset in a result row, once for each row."""
    with connected(url) as connection:
        rows = connection.execute(text("SELECT batch, start, stop FROM remembered WHERE job = :job"), {"job": job})
        return [(batch, index) for batch, start, stop in rows for index in range(start, stop)]
