"""Writes to a ledger are atomic and survive a restart."""

import pytest

from maabo_dist.contract.job import JobState
from scheduler.ledger.database import DuplicateError, LedgerError
from scheduler.ledger.jobs import Segment
from scheduler.ledger.search import BatchRow, BlockRow, ResultRow, TaskRow
from tests.ledgers import a_job, contents, held, opened, rows_of_search, write_search

pytestmark = pytest.mark.xdist_group("ledger")


def test_a_search_survives_a_restart(ledger, url):
    lease = held(ledger)
    write_search(ledger, lease)
    ledger.search.write(lease, 103.0, sent=[TaskRow(0, 5, 9, 1)])
    ledger.search.write(
        lease, 104.0, {"started": 101.0, "planned": 9, "best_score": 0.8, "run_seconds": 2.5, "stop_after": 3}
    )

    with opened(url) as reopened:
        row = reopened.jobs.get(lease.job)
        assert list(reopened.search.batches(lease.job)) == [BatchRow(0, b"subsets")]
        assert list(reopened.search.results(lease.job)) == [ResultRow(0, 0, 5, b"trees", None, 0.25)]
        assert reopened.search.tasks(lease.job) == [TaskRow(0, 5, 9, 1), TaskRow(0, 0, 5, 0)]

    assert (row.state, row.trees, row.best_score, row.planned) == (JobState.RUNNING, 5, 0.8, 9)
    assert (row.started, row.run_seconds, row.stop_after, row.fence) == (101.0, 2.5, 3, lease.fence)


def test_an_unfinished_screen_survives_a_restart(ledger, url):
    lease = held(ledger)
    ledger.screens.write_blocks(lease, 101.0, [BlockRow(5, 9), BlockRow(0, 5), BlockRow(9, 11)])
    ledger.screens.write_blocks(lease, 102.0, [BlockRow(0, 5, 0), BlockRow(5, 9, 0)])
    ledger.screens.write_blocks(lease, 103.0, [BlockRow(0, 5, 0, b"pairs", 0.25)], {"run_seconds": 2.5})
    ledger.screens.write_blocks(lease, 104.0, [BlockRow(5, 9, 1)])
    ledger.screens.write_blocks(lease, 105.0, [])

    with opened(url) as reopened:
        assert reopened.screens.blocks(lease.job) == [
            BlockRow(0, 5, 0, b"pairs", 0.25),
            BlockRow(5, 9, 1),
            BlockRow(9, 11),
        ]
        assert (reopened.screens.screen(lease.job), reopened.jobs.get(lease.job).run_seconds) == (None, 2.5)
        assert reopened.screens.blocks(a_job(2).id) == []


def test_a_screen_replaces_its_blocks(ledger):
    lease = held(ledger)
    ledger.jobs.add([a_job(2)], 101.0)
    (other,) = ledger.leases.acquire("one", 101.0, seconds=10, limit=1)
    for job_lease in (lease, other):
        ledger.screens.write_blocks(job_lease, 101.0, [BlockRow(0, 5)])
    ledger.screens.write_screen(lease, 102.0, b"screen", {"run_seconds": 9.0})

    assert (
        ledger.screens.screen(lease.job),
        ledger.screens.blocks(lease.job),
        ledger.jobs.get(lease.job).run_seconds,
    ) == (b"screen", [], 9.0)
    assert (ledger.screens.screen(other.job), ledger.screens.blocks(other.job)) == (None, [BlockRow(0, 5)])
    with pytest.raises(DuplicateError):
        ledger.screens.write_screen(lease, 103.0, b"another")


@pytest.mark.parametrize("ending", ["end", "cancel", "purge"])
def test_screens_of_ended_jobs_are_deleted(ledger, url, ending):
    lease = held(ledger)
    ledger.screens.write_screen(lease, 101.0, b"screen")
    ledger.screens.write_blocks(lease, 102.0, [BlockRow(0, 5, 0, b"pairs")])
    if ending == "cancel":
        ledger.jobs.set_command(lease.job, "cancel", 1000.0)
    else:
        ledger.search.end_job(lease, 103.0, JobState.FAILED)
    if ending == "purge":
        ledger.jobs.purge(before=200.0)

    assert (contents(url)["maabo_screens"], contents(url)["maabo_screen_blocks"]) == ([], [])


def test_segments_are_replaced_as_a_whole(ledger):
    lease = held(ledger)
    segments = [Segment("a" * 64, 3), Segment("b" * 64, 7)]
    ledger.search.write_segments(lease, 101.0, segments[:1])
    ledger.search.write_segments(lease, 102.0, segments)

    assert ledger.jobs.get(lease.job).segments == tuple(segments)


def test_a_range_of_batches_is_read_in_order(ledger):
    lease = held(ledger)
    ledger.search.write(
        lease,
        101.0,
        new_batches=[BatchRow(number, b"%d" % number) for number in (2, 0, 3, 1)],
        new_results=[ResultRow(batch, start, start + 1, b"") for batch in (3, 1, 2) for start in (1, 0)],
    )

    assert [row.number for row in ledger.search.batches(lease.job, first=1, until=3)] == [1, 2]
    rows = [(row.batch, row.start) for row in ledger.search.results(lease.job, first=1, until=3)]
    assert rows == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_a_duplicate_answer_is_refused_with_the_whole_write(ledger, url):
    lease = held(ledger)
    write_search(ledger, lease)
    before = contents(url)

    with pytest.raises(DuplicateError) as caught:
        ledger.search.write(
            lease,
            105.0,
            {"trees": 6},
            new_batches=[BatchRow(1, b"next")],
            new_results=[ResultRow(0, 5, 6, b"new"), ResultRow(0, 0, 5, b"again")],
            sent=[TaskRow(1, 0, 2, 0)],
        )

    assert isinstance(caught.value, LedgerError)
    assert contents(url) == before
    ledger.search.write(lease, 106.0, new_results=[ResultRow(0, 5, 6, b"new")])


def test_a_search_can_be_read_unchanged_while_it_is_written(ledger):
    lease = held(ledger)
    ledger.search.write(lease, 101.0, new_results=[ResultRow(0, start, start + 1, b"x" * 5000) for start in range(70)])

    count = 0
    for row in ledger.search.results(lease.job):
        count += 1
        ledger.search.write(lease, 102.0 + count, new_results=[ResultRow(1, row.start, row.stop, b"")])
        assert ledger.leases.renew([lease], 103.0, seconds=10) == {lease.job: "run"}

    assert count == 70
    assert len(list(ledger.search.results(lease.job))) == 140


def test_the_end_of_a_job_deletes_its_search(ledger):
    lease = held(ledger)
    ledger.jobs.add([a_job(2)], 101.0)
    (other,) = ledger.leases.acquire("one", 101.0, seconds=10, limit=1)
    for job_lease in (lease, other):
        write_search(ledger, job_lease)

    ledger.search.end_job(lease, 110.0, JobState.DONE, digest="d" * 64, document="{}", run_seconds=9.5)

    row = ledger.jobs.get(lease.job)
    assert (row.state, row.finished, row.digest, row.run_seconds) == (JobState.DONE, 110.0, "d" * 64, 9.5)
    assert rows_of_search(ledger, lease.job) == []
    assert len(rows_of_search(ledger, other.job)) == 4
    assert ledger.leases.acquire("two", 105.0, seconds=10, limit=5) == []
