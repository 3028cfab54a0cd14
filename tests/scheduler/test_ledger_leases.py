"""Jobs are held by leases with fences: by one scheduler at a time, and a frozen scheduler cannot write."""

import time
from functools import partial

import pytest
from sqlalchemy import select

from maabo_dist.contract.job import JobState, Priority
from scheduler.ledger.jobs import Segment
from scheduler.ledger.leases import FencedError, Lease
from scheduler.ledger.search import BatchRow, BlockRow, ResultRow, TaskRow
from tests.ledgers import TABLE, a_job, call_concurrently, contents, held, numbers, opened, write_search

pytestmark = pytest.mark.xdist_group("ledger")


def test_a_job_is_held_by_one_scheduler_at_a_time(ledger):
    held(ledger, now=100.0)

    assert ledger.leases.acquire("two", 105.0, seconds=10, limit=5) == []


def test_an_expired_lease_is_acquired_by_the_next_scheduler_with_a_higher_fence(ledger):
    first = held(ledger, now=100.0)

    (second,) = ledger.leases.acquire("two", 110.5, seconds=10, limit=5)

    assert second == Lease(first.job, first.fence + 1)


def test_higher_priorities_and_older_jobs_are_taken_first(ledger):
    for number, priority in enumerate([Priority.LOW, Priority.NORMAL, Priority.NORMAL, Priority.HIGH], start=1):
        ledger.jobs.add([a_job(number, priority=priority)], float(number))

    assert numbers(ledger.leases.acquire("one", 100.0, seconds=10, limit=3)) == [4, 2, 3]
    assert numbers(ledger.leases.acquire("one", 100.0, seconds=10, limit=3)) == [1]
    assert ledger.leases.acquire("one", 200.0, seconds=10, limit=0) == []


@pytest.mark.parametrize(
    ("least", "taken"), [(Priority.HIGH, [3]), (Priority.NORMAL, [3, 2]), (Priority.LOW, [3, 2, 1])]
)
def test_jobs_below_the_minimum_priority_are_not_acquired(ledger, least, taken):
    for number, priority in enumerate(Priority, start=1):
        ledger.jobs.add([a_job(number, priority=priority)], 1.0)

    assert numbers(ledger.leases.acquire("one", 100.0, seconds=10, limit=9, min_priority=least)) == taken


def test_schedulers_that_acquire_concurrently_share_the_jobs(url, ledger):
    ledger.jobs.add([a_job(number) for number in range(1, 61)], 1.0)

    def acquire(owner):
        with opened(url) as own_ledger:
            return [
                number
                for _ in range(20)
                for number in numbers(own_ledger.leases.acquire(owner, 100.0, seconds=60, limit=3))
            ]

    taken = call_concurrently(*[partial(acquire, owner) for owner in ("one", "two", "three")])

    assert sorted(number for numbers_of_owner in taken for number in numbers_of_owner) == list(range(1, 61))


def test_a_renewed_lease_does_not_expire_and_returns_the_command(ledger):
    ledger.jobs.add([a_job(1), a_job(2)], 100.0)
    leases = ledger.leases.acquire("one", 100.0, seconds=10, limit=2)
    ledger.jobs.set_command(a_job(2).id, "pause", 105.0)

    commands = ledger.leases.renew([*leases, Lease("f" * 32, 1)], 108.0, seconds=10)

    assert commands == {a_job(1).id: "run", a_job(2).id: "pause"}
    assert ledger.leases.acquire("two", 115.0, seconds=10, limit=5) == []
    assert ledger.leases.renew([], 116.0, seconds=10) == {}


def test_renewing_the_same_leases_in_another_order_causes_no_deadlock(url, ledger):
    ledger.jobs.add([a_job(number) for number in range(1, 21)], 1.0)
    leases = ledger.leases.acquire("one", 100.0, seconds=10, limit=20)

    def renew(order):
        with opened(url) as own_ledger:
            for _ in range(10):
                commands = own_ledger.leases.renew(leases[::order], 105.0, seconds=10)
            own_ledger.leases.release(leases[::order], 106.0)
            return len(commands)

    assert call_concurrently(partial(renew, 1), partial(renew, -1)) == [20, 20]


def test_a_lost_lease_is_neither_renewed_nor_released(ledger):
    first = held(ledger, now=100.0)
    (second,) = ledger.leases.acquire("two", 111.0, seconds=10, limit=5)

    assert ledger.leases.renew([first], 112.0, seconds=100) == {}
    ledger.leases.release([first], 113.0)

    assert ledger.leases.acquire("three", 120.0, seconds=10, limit=5) == []
    assert ledger.leases.renew([second], 120.0, seconds=10) == {second.job: "run"}


def test_a_released_job_can_be_acquired_immediately(ledger):
    lease = held(ledger, now=100.0)

    ledger.leases.release([], 101.0)
    ledger.leases.release([lease], 101.0)

    assert numbers(ledger.leases.acquire("two", 101.5, seconds=10, limit=5)) == [1]


def test_the_database_decides_when_a_lease_expires(ledger):
    ledger.jobs.add([a_job(1)], 1.0)
    (first,) = ledger.leases.acquire("one", ledger.now, seconds=30, limit=1)

    assert ledger.leases.acquire("two", ledger.now, seconds=30, limit=1) == []
    assert ledger.leases.acquire("two", ledger.now + 29, seconds=30, limit=1) == []
    assert ledger.leases.acquire("two", ledger.now + 31, seconds=30, limit=1) == [Lease(first.job, first.fence + 1)]


def test_a_lease_does_not_outlast_a_clock_that_is_set_back(ledger):
    ledger.jobs.add([a_job(1)], 1.0)
    (first,) = ledger.leases.acquire("one", ledger.now + 3600, seconds=30, limit=1)

    assert ledger.leases.acquire("two", ledger.now, seconds=30, limit=1) == [Lease(first.job, first.fence + 1)]


def test_the_clock_of_a_scheduler_starts_at_the_time_of_the_database_and_ignores_later_changes(ledger, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 0.0)
    clock = ledger.database.steady_clock()
    with ledger.database.read() as connection:
        assert connection.execute(select(ledger.now)).scalar() == pytest.approx(clock(), abs=5)
    assert clock() <= clock()


WRITES = {
    "a new state": lambda ledger, lease: ledger.search.write(lease, 113.0, {"state": "failed"}),
    "a batch": lambda ledger, lease: ledger.search.write(lease, 113.0, new_batches=[BatchRow(1, b"late")]),
    "an answer": lambda ledger, lease: ledger.search.write(lease, 113.0, new_results=[ResultRow(0, 5, 9, b"late")]),
    "a task": lambda ledger, lease: ledger.search.write(lease, 113.0, sent=[TaskRow(0, 0, 5, 1), TaskRow(1, 0, 5, 0)]),
    "blocks": lambda ledger, lease: ledger.screens.write_blocks(lease, 113.0, [BlockRow(0, 5, 1), BlockRow(5, 9)]),
    "a screen": lambda ledger, lease: ledger.screens.write_screen(lease, 113.0, b"late"),
    "segments": lambda ledger, lease: ledger.search.write_segments(lease, 113.0, [Segment(TABLE, 1)]),
    "the end": lambda ledger, lease: ledger.search.end_job(lease, 113.0, JobState.DONE, digest="d" * 64),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_frozen_scheduler_cannot_write_when_it_resumes(ledger, url, write):
    first = held(ledger, now=100.0)
    write_search(ledger, first)
    (second,) = ledger.leases.acquire("two", 111.0, seconds=10, limit=5)
    before = contents(url)

    with pytest.raises(FencedError, match="held by another scheduler now"):
        write(ledger, first)

    assert contents(url) == before
    write(ledger, second)
    assert contents(url) != before
