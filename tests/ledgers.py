"""Ledgers for tests: opened, looked at past their methods, and reached for by several at once."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

from sqlalchemy import NullPool, create_engine

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
