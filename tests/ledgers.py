"""Ledgers for tests: opened, looked at past their methods, reached for by several at once, and with a memory.

A job that has ended leaves no rows of its search behind. `remember_results` keeps a note of each that ever was.
"""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

from sqlalchemy import NullPool, create_engine, text

from scheduler.ledger import Ledger


@contextmanager
def opened(url):
    ledger = Ledger(url)
    try:
        yield ledger
    finally:
        ledger.close()


@contextmanager
def connected(url):
    """A transaction past the ledger."""
    with create_engine(url, poolclass=NullPool).begin() as connection:
        yield connection


def side_by_side(*calls):
    """Call all at the same moment, each in a thread; gives what they return."""
    barrier = Barrier(len(calls))

    def run(call):
        barrier.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


_NOTE = "INSERT INTO remembered VALUES (NEW.job, NEW.batch, NEW.start, NEW.stop)"
_REMEMBER = {
    "sqlite": [f"CREATE TRIGGER remember AFTER INSERT ON maabo_results BEGIN {_NOTE}; END"],
    "postgresql": [
        f"CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {_NOTE}; RETURN NULL; END $$",
        "CREATE TRIGGER remember AFTER INSERT ON maabo_results FOR EACH ROW EXECUTE FUNCTION remember()",
    ],
}


def remember_results(url):
    """From now on, note every row that is written for a subset's tree."""
    with connected(url) as connection:
        connection.execute(text("CREATE TABLE remembered (job TEXT, batch INTEGER, start INTEGER, stop INTEGER)"))
        for statement in _REMEMBER[connection.dialect.name]:
            connection.execute(text(statement))


def remembered_subsets(url, job):
    """Every subset that a row was written for, as often as one was: (batch, index in the batch)."""
    with connected(url) as connection:
        rows = connection.execute(text("SELECT batch, start, stop FROM remembered WHERE job = :job"), {"job": job})
        return [(batch, index) for batch, start, stop in rows for index in range(start, stop)]
