"""A scheduler that was killed is noticed at once, on SQLite and PostgreSQL; one that is frozen is not."""

import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from scheduler.ledger.presence import GRACE_SECONDS, Presence
from tests import servers
from tests.ledgers import a_job

pytestmark = pytest.mark.xdist_group("ledger")

HOLDER = """
import sys, time
from scheduler.ledger import Ledger
from scheduler.ledger.presence import Presence
ledger = Ledger(sys.argv[1])
Presence(ledger.database, "one").refresh()
assert ledger.leases.acquire("one", ledger.now, 500.0, limit=1)
print("ready", flush=True)
time.sleep(600)
"""


@contextmanager
def holder(url):
    """A process that holds a job."""
    command = [sys.executable, "-c", HOLDER, url]
    process = subprocess.Popen(command, cwd=servers.ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
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


def test_a_killed_scheduler_is_gone_and_its_jobs_can_be_taken(ledger, url, second):
    ledger.jobs.add([a_job(1)], 1.0)
    with holder(url) as process:
        assert second.find_gone() == []
        process.send_signal(signal.SIGKILL)
        servers.wait_for(lambda: second.find_gone() == ["one"], GRACE_SECONDS + 10, what="its absence")

    assert ledger.leases.release_all("one") == 1
    second.forget("one")
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
