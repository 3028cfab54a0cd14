"""Jobs are held by leases with fences: by one scheduler at a time, and who was frozen writes nothing."""

from functools import partial

import pytest

from maabo_dist.contract.job import JobState, Priority
from scheduler.ledger.ledger import BatchRow, BlockRow, FencedError, Lease, ResultRow, Segment, TaskRow
from tests.ledgers import TABLE, a_job, contents, held, numbers, opened, side_by_side, with_search

pytestmark = pytest.mark.xdist_group("ledger")


def test_a_job_is_held_by_one_scheduler_at_a_time(ledger):
    held(ledger, now=100.0)

    assert ledger.acquire("two", 105.0, seconds=10, most=5) == []


def test_a_lapsed_lease_goes_to_the_next_with_a_higher_fence(ledger):
    first = held(ledger, now=100.0)

    (second,) = ledger.acquire("two", 110.5, seconds=10, most=5)

    assert second == Lease(first.job, first.fence + 1)


def test_higher_priorities_and_older_jobs_are_taken_first(ledger):
    for number, priority in enumerate([Priority.LOW, Priority.NORMAL, Priority.NORMAL, Priority.HIGH], start=1):
        ledger.add([a_job(number, priority=priority)], float(number))

    assert numbers(ledger.acquire("one", 100.0, seconds=10, most=3)) == [4, 2, 3]
    assert numbers(ledger.acquire("one", 100.0, seconds=10, most=3)) == [1]
    assert ledger.acquire("one", 200.0, seconds=10, most=0) == []


@pytest.mark.parametrize(
    ("least", "taken"), [(Priority.HIGH, [3]), (Priority.NORMAL, [3, 2]), (Priority.LOW, [3, 2, 1])]
)
def test_jobs_below_the_least_priority_are_left(ledger, least, taken):
    for number, priority in enumerate(Priority, start=1):
        ledger.add([a_job(number, priority=priority)], 1.0)

    assert numbers(ledger.acquire("one", 100.0, seconds=10, most=9, least=least)) == taken


def test_schedulers_that_reach_for_the_same_jobs_share_them(url, ledger):
    ledger.add([a_job(number) for number in range(1, 61)], 1.0)

    def reach(owner):
        with opened(url) as mine:
            return [number for _ in range(20) for number in numbers(mine.acquire(owner, 100.0, seconds=60, most=3))]

    taken = side_by_side(*[partial(reach, owner) for owner in ("one", "two", "three")])

    assert sorted(number for some in taken for number in some) == list(range(1, 61))


def test_a_renewed_lease_does_not_lapse_and_tells_what_is_wanted(ledger):
    ledger.add([a_job(1), a_job(2)], 100.0)
    leases = ledger.acquire("one", 100.0, seconds=10, most=2)
    ledger.ask(a_job(2).id, "pause", 105.0)

    wishes = ledger.renew([*leases, Lease("f" * 32, 1)], 108.0, seconds=10)

    assert wishes == {a_job(1).id: "run", a_job(2).id: "pause"}
    assert ledger.acquire("two", 115.0, seconds=10, most=5) == []
    assert ledger.renew([], 116.0, seconds=10) == {}


def test_schedulers_that_renew_the_same_leases_in_another_order_do_not_block_each_other(url, ledger):
    ledger.add([a_job(number) for number in range(1, 21)], 1.0)
    leases = ledger.acquire("one", 100.0, seconds=10, most=20)

    def renew(order):
        with opened(url) as mine:
            for _ in range(10):
                wishes = mine.renew(leases[::order], 105.0, seconds=10)
            mine.release(leases[::order], 106.0)
            return len(wishes)

    assert side_by_side(partial(renew, 1), partial(renew, -1)) == [20, 20]


def test_a_lease_that_went_to_another_is_neither_renewed_nor_released(ledger):
    first = held(ledger, now=100.0)
    (second,) = ledger.acquire("two", 111.0, seconds=10, most=5)

    assert ledger.renew([first], 112.0, seconds=1000) == {}
    ledger.release([first], 113.0)

    assert ledger.acquire("three", 120.0, seconds=10, most=5) == []
    assert ledger.renew([second], 120.0, seconds=10) == {second.job: "run"}


def test_a_released_job_can_be_taken_at_once(ledger):
    lease = held(ledger, now=100.0)

    ledger.release([], 101.0)
    ledger.release([lease], 101.0)

    assert numbers(ledger.acquire("two", 101.5, seconds=10, most=5)) == [1]


WRITES = {
    "a new state": lambda ledger, lease: ledger.write(lease, 113.0, {"state": "failed"}),
    "a batch": lambda ledger, lease: ledger.write(lease, 113.0, new_batches=[BatchRow(1, b"late")]),
    "an answer": lambda ledger, lease: ledger.write(lease, 113.0, new_results=[ResultRow(0, 5, 9, b"late")]),
    "a task": lambda ledger, lease: ledger.write(lease, 113.0, sent=[TaskRow(0, 0, 5, 1), TaskRow(1, 0, 5, 0)]),
    "blocks": lambda ledger, lease: ledger.write_blocks(lease, 113.0, [BlockRow(0, 5, 1), BlockRow(5, 9)]),
    "a screen": lambda ledger, lease: ledger.write_screen(lease, 113.0, b"late"),
    "segments": lambda ledger, lease: ledger.write_segments(lease, 113.0, [Segment(TABLE, 1)]),
    "the end": lambda ledger, lease: ledger.end(lease, 113.0, JobState.DONE, digest="d" * 64),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_who_was_frozen_writes_nothing_when_it_comes_back(ledger, url, write):
    first = held(ledger, now=100.0)
    with_search(ledger, first)
    (second,) = ledger.acquire("two", 111.0, seconds=10, most=5)
    before = contents(url)

    with pytest.raises(FencedError, match="held by another scheduler now"):
        write(ledger, first)

    assert contents(url) == before
    write(ledger, second)
    assert contents(url) != before
