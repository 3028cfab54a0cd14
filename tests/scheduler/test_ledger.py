"""The ledger: leases with fencing, writes in one piece, recovery by reading."""

from threading import Thread

import pytest
from sqlalchemy import create_engine, text

from maabo_dist.contract.job import JobSpec, JobState, Priority
from maabo_dist.errors import SettingsError
from scheduler.ledger import FencedError, Lease, Ledger, LedgerError, ResultRow

TABLE = "0123456789abcdef" * 4


def a_job(number=1, **changes):
    return JobSpec.parse({"id": f"{number:032x}", "dataset": {"fingerprint": TABLE}} | changes)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture
def ledger(url):
    ledger = Ledger(url)
    yield ledger
    ledger.close()


def held(ledger, number=1, now=100.0):
    ledger.add(a_job(number), now)
    (lease,) = ledger.acquire("one", now, seconds=10, most=1)
    return lease


def test_a_job_is_added_once(ledger):
    added = [ledger.add(a_job(), 1.0), ledger.add(a_job(), 2.0)]

    assert added == [True, False]
    assert ledger.counts() == {"queued": 1}
    assert ledger.job(a_job().id).created == 1.0


def test_a_job_comes_back_as_it_was_given(ledger):
    spec = a_job(settings={"trees": "50%", "seed": 4}, priority="high", tenant="t")
    ledger.add(spec, 1.0)

    row = ledger.job(spec.id)

    assert row.spec == spec
    assert (row.state, row.wanted, row.trees) == (JobState.QUEUED, "run", 0)


def test_a_job_is_held_by_one_scheduler_at_a_time(ledger):
    held(ledger, now=100.0)

    assert ledger.acquire("two", 105.0, seconds=10, most=5) == []


def test_a_lapsed_lease_goes_to_the_next_with_a_higher_fence(ledger):
    first = held(ledger, now=100.0)

    (second,) = ledger.acquire("two", 111.0, seconds=10, most=5)

    assert second.fence == first.fence + 1


def test_who_was_frozen_writes_nothing_when_it_comes_back(ledger):
    first = held(ledger, now=100.0)
    (second,) = ledger.acquire("two", 111.0, seconds=10, most=5)
    ledger.write_batch(second, 112.0, 0, b"right")

    with pytest.raises(FencedError):
        ledger.write_results(first, 113.0, [(ResultRow(0, 0, 1, b"x", None), 0.1)], trees=1, best_score=0.5)
    with pytest.raises(FencedError):
        ledger.write_state(first, 113.0, JobState.FAILED, reason="late")

    assert list(ledger.results(first.job)) == []
    assert ledger.job(first.job).state is JobState.QUEUED


def test_a_renewed_lease_does_not_lapse_and_tells_what_is_wanted(ledger):
    lease = held(ledger, now=100.0)
    ledger.ask(lease.job, "pause", 105.0)

    kept, wanted = ledger.renew([lease, Lease("f" * 32, 1)], 108.0, seconds=10)

    assert (kept, wanted) == ([lease], {lease.job: "pause"})
    assert ledger.acquire("two", 115.0, seconds=10, most=5) == []


def test_a_released_job_can_be_taken_at_once(ledger):
    lease = held(ledger, now=100.0)

    ledger.release([lease], 101.0)

    assert [taken.job for taken in ledger.acquire("two", 101.5, seconds=10, most=5)] == [lease.job]


def test_higher_priorities_and_older_jobs_are_taken_first(ledger):
    for number, priority in enumerate([Priority.LOW, Priority.NORMAL, Priority.NORMAL, Priority.HIGH], start=1):
        ledger.add(a_job(number, priority=priority), float(number))

    taken = [int(lease.job, 16) for lease in ledger.acquire("one", 100.0, seconds=10, most=3)]

    assert taken == [4, 2, 3]


def test_what_was_written_is_there_after_a_restart(ledger, url):
    lease = held(ledger)
    ledger.write_batch(lease, 101.0, 0, b"subsets")
    ledger.write_tasks(lease, 102.0, [(0, 0, 5, 0), (0, 5, 9, 0)])
    ledger.write_tasks(lease, 103.0, [(0, 5, 9, 1)])
    ledger.write_results(lease, 104.0, [(ResultRow(0, 0, 5, b"trees", None), 0.2)], trees=5, best_score=0.8)
    ledger.write_state(lease, 105.0, JobState.RUNNING, started=101.0, planned=9)

    again = Ledger(url)

    assert list(again.batches(lease.job)) == [(0, b"subsets")]
    assert list(again.results(lease.job)) == [ResultRow(0, 0, 5, b"trees", None)]
    assert again.attempts(lease.job) == {(0, 0, 5): 0, (0, 5, 9): 1}
    row = again.job(lease.job)
    assert (row.state, row.trees, row.best_score, row.planned) == (JobState.RUNNING, 5, 0.8, 9)
    again.close()


def test_the_same_result_twice_is_refused_whole(ledger):
    lease = held(ledger)
    row = ResultRow(0, 0, 5, b"trees", None)
    ledger.write_results(lease, 104.0, [(row, 0.2)], trees=5, best_score=0.8)

    with pytest.raises(Exception, match="UNIQUE"):
        ledger.write_results(lease, 105.0, [(ResultRow(0, 5, 6, b"n", None), 0.1), (row, 0.2)], trees=6, best_score=0.9)

    assert list(ledger.results(lease.job)) == [row]
    assert ledger.job(lease.job).trees == 5


def test_nothing_is_asked_of_a_job_that_has_ended(ledger):
    lease = held(ledger)
    ledger.write_state(lease, 101.0, JobState.DONE, finished=101.0)

    assert not ledger.ask(lease.job, "cancel", 102.0)
    assert not ledger.ask("f" * 32, "cancel", 102.0)
    assert ledger.acquire("two", 500.0, seconds=10, most=5) == []


def test_schedulers_that_reach_for_the_same_jobs_share_them(url, ledger):
    for number in range(1, 41):
        ledger.add(a_job(number), float(number))
    taken = [[], []]

    def reach(place):
        mine = Ledger(url)
        for _ in range(20):
            taken[place] += [lease.job for lease in mine.acquire(f"s{place}", 100.0, seconds=60, most=2)]
        mine.close()

    threads = [Thread(target=reach, args=(place,)) for place in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(taken[0] + taken[1]) == sorted(a_job(number).id for number in range(1, 41))


def test_a_ledger_of_a_newer_schema_is_refused(url, ledger):
    with create_engine(url).begin() as connection:
        connection.execute(text("UPDATE maabo_meta SET value = '99' WHERE key = 'schema'"))

    with pytest.raises(SettingsError, match="schema version 99; this scheduler knows 1"):
        Ledger(url)


def test_a_ledger_that_is_no_database_is_said_plainly(tmp_path):
    (tmp_path / "x.db").write_bytes(b"this is not a database, not at all" * 100)

    with pytest.raises(LedgerError, match="not a database"):
        Ledger(f"sqlite:///{tmp_path}/x.db")
