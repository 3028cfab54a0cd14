"""Jobs in a ledger, and the commands of their owners."""

from functools import partial

import pytest

from maabo_dist.contract.job import JobState
from scheduler.ledger.leases import FencedError
from scheduler.ledger.search import ResultRow
from tests.ledgers import (
    CALLBACK,
    a_job,
    call_concurrently,
    contents,
    held,
    numbers,
    opened,
    rows_of_search,
    write_search,
)

pytestmark = pytest.mark.xdist_group("ledger")

ENDED = JobState.DONE, JobState.FAILED, JobState.CANCELLED


def test_a_job_is_added_once(ledger):
    ledger.jobs.add([a_job()], 1.0)
    ledger.jobs.add([a_job(), a_job(2), a_job(2)], 2.0)
    ledger.jobs.add([], 3.0)

    assert ledger.jobs.count_by_state() == {"queued": 2}
    assert [ledger.jobs.get(a_job(number).id).created for number in (1, 2)] == [1.0, 2.0]


def test_schedulers_that_add_the_same_jobs_concurrently_add_each_once(url):
    with opened(url) as one, opened(url) as two, opened(url) as three:
        for first in range(0, 100, 20):
            specs = [a_job(first + number) for number in range(20)]
            orders = (one, specs), (two, specs[::-1]), (three, specs[10:])
            call_concurrently(*[partial(ledger.jobs.add, some, 1.0) for ledger, some in orders])

        assert one.jobs.count_by_state() == {"queued": 100}


def test_a_job_is_read_as_it_was_added(ledger):
    spec = a_job(settings={"trees": "50%", "seed": 4}, priority="high", tenant="Größe 表", **CALLBACK)
    ledger.jobs.add([spec], 1.5)

    row = ledger.jobs.get(spec.id)

    assert row.spec == spec
    assert (row.state, row.command, row.created, row.trees, row.failed) == (JobState.QUEUED, "run", 1.5, 0, 0)
    assert (row.started, row.finished, row.run_seconds, row.segments, row.stop_after) == (None, None, 0.0, (), None)
    assert ledger.jobs.get_many([spec.id, "f" * 32]) == [row]
    assert (ledger.jobs.get("f" * 32), ledger.jobs.document("f" * 32), ledger.jobs.get_many([])) == (None, None, [])


def test_times_are_stored_to_the_microsecond(ledger):
    ledger.jobs.add([a_job()], 1_763_270_000.123456)

    assert ledger.jobs.get(a_job().id).created == 1_763_270_000.123456


def test_text_with_null_characters_can_be_stored(ledger):
    lease = held(ledger, tenant="a\0b")
    ledger.search.write(lease, 101.0, new_results=[ResultRow(0, 0, 1, b"\0\xff", "died\0", 0.1)])

    assert [(row.trees, row.reason) for row in ledger.search.results(lease.job)] == [(b"\0\xff", "died\ufffd")]
    ledger.search.end_job(lease, 102.0, JobState.FAILED, reason="\0")
    assert ledger.jobs.get(lease.job).reason == "\ufffd"


def test_jobs_are_counted_by_state(ledger):
    lease = held(ledger)
    ledger.search.end_job(lease, 101.0, JobState.DONE, document="{}", digest="d" * 64)
    ledger.jobs.add([a_job(2), a_job(3)], 102.0)

    assert ledger.jobs.count_by_state() == {"done": 1, "queued": 2}
    assert ledger.jobs.document(lease.job) == "{}"


def in_state(ledger, state, *, is_held):
    """Create a job in this state, with a search; return its lease."""
    lease = held(ledger)
    write_search(ledger, lease)
    if state in ENDED:
        ledger.search.end_job(lease, 102.0, state)
    else:
        ledger.search.write(lease, 102.0, {"state": state.value})
    if not is_held:
        ledger.leases.release([lease], 103.0)
    return lease


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING, JobState.MINING])
@pytest.mark.parametrize("command", ["run", "pause", "cancel"])
def test_a_command_to_a_held_job_is_left_to_its_scheduler(ledger, state, command):
    lease = in_state(ledger, state, is_held=True)

    ledger.jobs.set_command(lease.job, command, 105.0)

    row = ledger.jobs.get(lease.job)
    assert (row.state, row.command, row.finished) == (state, command, None)
    assert ledger.leases.renew([lease], 106.0, seconds=10) == {lease.job: command}
    assert len(rows_of_search(ledger, lease.job)) == 4


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING, JobState.MINING, JobState.PAUSED])
@pytest.mark.parametrize(
    ("command", "expected"), [("run", None), ("pause", JobState.PAUSED), ("cancel", JobState.CANCELLED)]
)
def test_a_command_to_a_free_job_is_applied_immediately(ledger, state, command, expected):
    lease = in_state(ledger, state, is_held=False)

    ledger.jobs.set_command(lease.job, command, 105.0)

    row = ledger.jobs.get(lease.job)
    resumed = JobState.QUEUED if state is JobState.PAUSED else state
    assert (row.state, row.command) == (expected or resumed, command)
    assert row.finished == (105.0 if command == "cancel" else None)
    assert len(rows_of_search(ledger, lease.job)) == (0 if command == "cancel" else 4)


@pytest.mark.parametrize("state", ENDED)
@pytest.mark.parametrize("command", ["run", "pause", "cancel"])
def test_a_command_to_an_ended_job_has_no_effect(ledger, url, state, command):
    lease = in_state(ledger, state, is_held=False)
    before = contents(url)

    ledger.jobs.set_command(lease.job, command, 105.0)
    ledger.jobs.set_command("f" * 32, command, 105.0)

    assert contents(url) == before
    assert ledger.leases.acquire("two", 500.0, seconds=10, limit=5) == []


def test_a_paused_job_is_not_acquired_until_it_is_resumed(ledger):
    lease = held(ledger)
    ledger.search.write(lease, 101.0, {"state": JobState.PAUSED.value, "lease_until": 0.0})

    assert ledger.leases.acquire("two", 102.0, seconds=10, limit=5) == []
    ledger.jobs.set_command(lease.job, "run", 103.0)
    assert numbers(ledger.leases.acquire("two", 104.0, seconds=10, limit=5)) == [1]


def test_a_scheduler_that_was_frozen_cannot_revive_a_cancelled_job(ledger, url):
    lease = held(ledger, now=100.0)
    ledger.jobs.set_command(lease.job, "cancel", 111.0)
    before = contents(url)

    with pytest.raises(FencedError):
        ledger.search.end_job(lease, 112.0, JobState.DONE, digest="d" * 64)

    assert contents(url) == before
    assert ledger.jobs.get(lease.job).state is JobState.CANCELLED
    assert ledger.leases.renew([lease], 113.0, seconds=10) == {}
