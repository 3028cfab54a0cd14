"""Callbacks of jobs that have ended, and their deletion."""

import pytest

from maabo_dist.contract.job import JobState
from scheduler.ledger.jobs import Segment
from tests.ledgers import CALLBACK, TABLE, a_job, call_concurrently, held, opened

pytestmark = pytest.mark.xdist_group("ledger")


def test_callbacks_of_ended_jobs_are_claimed_once(ledger):
    for number in (1, 2, 3):
        lease = held(ledger, number, **({} if number == 3 else CALLBACK))
        if number != 2:
            ledger.search.end_job(lease, 101.0, JobState.DONE)

    assert [row.id for row in ledger.callbacks.claim(102.0, seconds=10)] == [a_job(1).id]
    assert [ledger.callbacks.record_success([a_job(1).id], now) for now in (105.0, 106.0)] == [1, 0]
    assert (ledger.callbacks.claim(200.0, seconds=10), ledger.jobs.get(a_job(1).id).called_back) == ([], 105.0)
    ledger.jobs.set_command(a_job(2).id, "cancel", 500.0)
    callbacks = [(row.id, row.state) for row in ledger.callbacks.claim(501.0, seconds=10)]
    assert callbacks == [(a_job(2).id, JobState.CANCELLED)]


def test_a_callback_is_claimed_by_one_scheduler_at_a_time(ledger, url):
    for number in range(1, 21):
        ledger.search.end_job(held(ledger, number, **CALLBACK), 101.0, JobState.DONE)

    def claim():
        with opened(url) as own_ledger:
            return [row.id for row in own_ledger.callbacks.claim(102.0, seconds=10, limit=8)]

    first = [job for some in call_concurrently(claim, claim, claim) for job in some]
    rest = [row.id for row in ledger.callbacks.claim(102.0, seconds=10)]

    assert sorted([*first, *rest]) == [a_job(number).id for number in range(1, 21)]
    assert ledger.callbacks.claim(111.0, seconds=10) == []
    assert len(ledger.callbacks.claim(112.0, seconds=10)) == 20


def test_a_failed_callback_is_retried_later_and_finally_given_up(ledger):
    job = held(ledger, 1, **CALLBACK)
    ledger.search.end_job(job, 101.0, JobState.DONE)
    ledger.callbacks.claim(102.0, seconds=10)

    ledger.callbacks.record_failure([job.job], retry_at=150.0)
    assert ledger.callbacks.claim(149.0, seconds=10) == []
    assert [row.callback_attempts for row in ledger.callbacks.claim(150.0, seconds=10)] == [1]
    ledger.callbacks.record_failure([job.job], retry_at=None)

    row = ledger.jobs.get(job.job)
    assert (ledger.callbacks.claim(1e9, seconds=10), row.called_back, row.callback_attempts) == ([], -1.0, 2)
    ledger.callbacks.record_success([job.job], 200.0)
    assert ledger.jobs.get(job.job).called_back == -1.0


def test_jobs_that_ended_long_ago_are_deleted(ledger, url):
    for number, ended in enumerate([200.0, 300.0, None], start=1):
        lease = held(ledger, number)
        if ended is not None:
            ledger.search.end_job(lease, ended, JobState.DONE)

    assert ledger.jobs.purge(before=200.0) == []
    assert ledger.jobs.purge(before=250.0) == [a_job(1).id]
    assert ledger.jobs.count_by_state() == {"done": 1, "queued": 1}
    ledger.jobs.purge(before=1e12)
    assert ledger.jobs.count_by_state() == {"queued": 1}


def test_artifacts_that_jobs_refer_to_are_kept(ledger):
    lease = held(ledger)
    ledger.search.write_segments(lease, 101.0, [Segment("a" * 64, 3), Segment("b" * 64, 7)])
    ledger.jobs.add([a_job(2, dataset={"fingerprint": "c" * 64})], 102.0)

    tables, trees = {f"columns/{TABLE}", f"columns/{'c' * 64}"}, {f"trees/{'a' * 64}", f"trees/{'b' * 64}"}
    figures = {f"figures/{a_job(number).id}" for number in (1, 2)}
    assert ledger.artifacts() == tables | trees | figures
