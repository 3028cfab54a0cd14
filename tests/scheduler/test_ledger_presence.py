"""A scheduler that was killed is noticed soon, on SQLite and PostgreSQL; one that is frozen is not.

On PostgreSQL, neither is one whose session was terminated, or whose server was restarted: it opens another.
"""

import os
import signal
import sys
from contextlib import contextmanager, suppress
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy import text

from scheduler.ledger.database import LedgerError, owner_key
from scheduler.ledger.presence import CHECK_SECONDS, GRACE_SECONDS, RESTART_GRACE_SECONDS, Presence
from scheduler.ledger.schema import MAX_OWNER
from tests import forked, servers
from tests.ledgers import a_job, connected, opened

pytestmark = pytest.mark.xdist_group("ledger")

LONG_NAME = "h" * (MAX_OWNER - 17) + ":1234567:01234567"


@contextmanager
def holder(url, owner="one"):
    """A process that holds a job."""
    command = [sys.executable, "-m", "tests.scheduler.holder", url, owner]
    reading, writing = os.pipe()
    with os.fdopen(reading) as output:
        with os.fdopen(writing, "w") as stdout:
            process = forked.start(command, env=os.environ, stdout=stdout)
        try:
            assert output.readline() == "ready\n"
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def second(ledger):
    presence = Presence(ledger.database, "two")
    presence.refresh()
    yield presence
    presence.close()


@pytest.mark.parametrize("owner", ["one", LONG_NAME], ids=["short", "long"])
def test_a_killed_scheduler_is_gone_and_its_jobs_can_be_taken(ledger, url, second, owner):
    ledger.jobs.add([a_job(1)], 1.0)
    with holder(url, owner) as process:
        assert second.find_gone() == []
        process.send_signal(signal.SIGKILL)
        servers.wait_for(lambda: second.find_gone() == [owner], GRACE_SECONDS + 10, what="its absence")

    assert ledger.leases.release_all(owner) == 1
    second.forget(owner)
    assert second.find_gone() == []
    assert [lease.fence for lease in ledger.leases.acquire("two", ledger.now, 10.0, limit=1)] == [2]


def test_a_frozen_scheduler_is_not_gone(ledger, url, second):
    ledger.jobs.add([a_job(1)], 1.0)
    with holder(url) as process:
        process.send_signal(signal.SIGSTOP)
        second.find_gone()
        with pytest.raises(AssertionError, match="its absence did not happen"):
            servers.wait_for(second.find_gone, GRACE_SECONDS + 1, what="its absence")


def test_a_scheduler_of_an_earlier_release_is_not_gone(ledger, second):
    ledger.jobs.add([a_job(1)], 1.0)
    ledger.leases.acquire("old", ledger.now, 500.0, limit=1)

    assert second.find_gone() == []


@contextmanager
def two_schedulers(ledger):
    """The presences of a scheduler that holds a job and of another one, and the clock of the latter."""
    now = [0.0]
    first, second = Presence(ledger.database, "one"), Presence(ledger.database, "two", lambda: now[0])
    first.refresh()
    second.refresh()
    ledger.jobs.add([a_job(1)], 1.0)
    assert ledger.leases.acquire("one", ledger.now, 500.0, limit=1)
    try:
        yield first, second, now
    finally:
        first.close()
        second.close()


def end_session(url, owner):
    with connected(url) as connection:
        where = f"FROM maabo_meta WHERE key = '{owner_key('session:', owner)}'"
        query = f"SELECT pg_terminate_backend(split_part(value, ' ', 1)::int, 5000) {where}"
        assert connection.execute(text(query)).scalar()


def test_a_scheduler_whose_session_was_terminated_is_not_gone_if_it_opens_another(postgres_url):
    with opened(postgres_url) as ledger, two_schedulers(ledger) as (first, second, now):
        end_session(postgres_url, "one")
        assert second.find_gone() == []
        now[0] += 2 * CHECK_SECONDS
        assert second.find_gone() == []

        first.refresh()
        now[0] += 1000
        assert second.find_gone() == []


def test_a_scheduler_whose_session_has_ended_is_gone_after_the_short_grace(postgres_url):
    with opened(postgres_url) as ledger, two_schedulers(ledger) as (_, second, now):
        end_session(postgres_url, "one")
        assert second.find_gone() == []
        now[0] += GRACE_SECONDS - 0.01
        assert second.find_gone() == []
        now[0] += 0.02
        assert second.find_gone() == ["one"]


@pytest.fixture
def own_postgres(postgres):  # which is skipped where PostgreSQL is not installed
    with TemporaryDirectory(prefix="maabo-postgres-") as directory:
        server = servers.PostgresServer(directory)
        server.start()
        yield server
        server.stop()


def find_gone_after_outage(presence):
    """Try again after an error, as the scheduler's loop does; the pool has connections of the former server."""
    for _ in range(5):
        with suppress(LedgerError):
            return presence.find_gone()
    return presence.find_gone()


def test_after_a_restart_of_the_server_a_scheduler_has_the_long_grace(own_postgres):
    with opened(own_postgres.url) as ledger, two_schedulers(ledger) as (first, second, now):
        own_postgres.stop()
        own_postgres.start()
        assert find_gone_after_outage(second) == []
        now[0] += RESTART_GRACE_SECONDS - 0.01
        assert second.find_gone() == []

        first.refresh()
        now[0] += 1000
        assert second.find_gone() == []
        own_postgres.stop()
        own_postgres.start()
        assert find_gone_after_outage(second) == []
        now[0] += RESTART_GRACE_SECONDS + 0.01
        assert second.find_gone() == ["one"]
