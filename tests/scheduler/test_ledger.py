"""The ledger's contract, on SQLite and on a real PostgreSQL: leases with fencing, writes in one piece, recovery."""

from contextlib import contextmanager, suppress
from functools import partial

import pytest
from sqlalchemy import NullPool, create_engine, event, text
from sqlalchemy.engine import make_url

from maabo_dist.contract.job import JobSpec, JobState, Priority
from maabo_dist.errors import FormatError, SettingsError
from scheduler.database import DuplicateError, LedgerError
from scheduler.ledger import BatchRow, BlockRow, FencedError, Lease, Ledger, ResultRow, Segment, TaskRow
from scheduler.schema import jobs
from tests import servers
from tests.ledgers import connected, opened, side_by_side

TABLE = "0123456789abcdef" * 4
CALLBACK = {"callback": {"task": "other.done", "queue": "other"}}
TABLES = (
    *("maabo_meta", "maabo_jobs", "maabo_batches", "maabo_tasks", "maabo_results"),
    *("maabo_screen_blocks", "maabo_screens"),
    *("maabo_datasets", "maabo_tokens", "maabo_quotas", "maabo_idempotency_keys"),
)


# Where ledgers are.


@pytest.fixture
def ledger(url):
    with opened(url) as ledger:
        yield ledger


def contents(url):
    """Everything that a ledger holds."""
    with connected(url) as connection:
        return {name: sorted(map(repr, connection.execute(text(f"SELECT * FROM {name}")))) for name in TABLES}


# Jobs for them.


def a_job(number=1, **changes):
    return JobSpec.parse({"id": f"{number:032x}", "dataset": {"fingerprint": TABLE}} | changes)


def numbers(leases):
    return [int(lease.job, 16) for lease in leases]


def held(ledger, number=1, now=100.0, **changes):
    ledger.add([a_job(number, **changes)], now)
    (lease,) = ledger.acquire("one", now, seconds=10, most=1)
    return lease


def with_search(ledger, lease, now=101.0):
    """A batch of nine subsets, two tasks, an answer."""
    ledger.write(
        lease,
        now,
        {"state": JobState.RUNNING.value, "trees": 5},
        new_batches=[BatchRow(0, b"subsets")],
        new_results=[ResultRow(0, 0, 5, b"trees", None, 0.25)],
        sent=[TaskRow(0, 0, 5, 0), TaskRow(0, 5, 9, 0)],
    )


def rows_of_search(ledger, job):
    return [*ledger.batches(job), *ledger.results(job), *ledger.tasks(job)]


# Jobs, as their owners see them.


def test_a_job_is_added_once(ledger):
    ledger.add([a_job()], 1.0)
    ledger.add([a_job(), a_job(2), a_job(2)], 2.0)
    ledger.add([], 3.0)

    assert ledger.counts() == {"queued": 2}
    assert [ledger.job(a_job(number).id).created for number in (1, 2)] == [1.0, 2.0]


def test_schedulers_that_take_the_same_jobs_in_at_once_add_each_once(url):
    with opened(url) as one, opened(url) as two, opened(url) as three:
        for first in range(0, 100, 20):
            specs = [a_job(first + number) for number in range(20)]
            orders = (one, specs), (two, specs[::-1]), (three, specs[10:])
            side_by_side(*[partial(ledger.add, some, 1.0) for ledger, some in orders])

        assert one.counts() == {"queued": 100}


def test_a_job_comes_back_as_it_was_given(ledger):
    spec = a_job(settings={"trees": "50%", "seed": 4}, priority="high", tenant="Größe 表", **CALLBACK)
    ledger.add([spec], 1.5)

    row = ledger.job(spec.id)

    assert row.spec == spec
    assert (row.state, row.wanted, row.created, row.trees, row.failed) == (JobState.QUEUED, "run", 1.5, 0, 0)
    assert (row.started, row.finished, row.ran, row.segments, row.stop_after) == (None, None, 0.0, (), None)
    assert ledger.jobs([spec.id, "f" * 32]) == [row]
    assert (ledger.job("f" * 32), ledger.document("f" * 32), ledger.jobs([])) == (None, None, [])


def test_a_moment_is_kept_to_the_microsecond(ledger):
    ledger.add([a_job()], 1_763_270_000.123456)

    assert ledger.job(a_job().id).created == 1_763_270_000.123456


def test_text_that_no_database_would_hold_does_not_stop_the_ledger(ledger):
    lease = held(ledger, tenant="a\0b")
    ledger.write(lease, 101.0, new_results=[ResultRow(0, 0, 1, b"\0\xff", "died\0", 0.1)])

    assert [(row.trees, row.reason) for row in ledger.results(lease.job)] == [(b"\0\xff", "died\ufffd")]
    ledger.end(lease, 102.0, JobState.FAILED, reason="\0")
    assert ledger.job(lease.job).reason == "\ufffd"


def test_jobs_are_counted_by_state(ledger):
    lease = held(ledger)
    ledger.end(lease, 101.0, JobState.DONE, document="{}", digest="d" * 64)
    ledger.add([a_job(2), a_job(3)], 102.0)

    assert ledger.counts() == {"done": 1, "queued": 2}
    assert ledger.document(lease.job) == "{}"


# What owners ask for.

ENDED = JobState.DONE, JobState.FAILED, JobState.CANCELLED


def in_state(ledger, state, *, is_held):
    """A job in a state, with a search; its lease."""
    lease = held(ledger)
    with_search(ledger, lease)
    if state in ENDED:
        ledger.end(lease, 102.0, state)
    else:
        ledger.write(lease, 102.0, {"state": state.value})
    if not is_held:
        ledger.release([lease], 103.0)
    return lease


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING, JobState.MINING])
@pytest.mark.parametrize("wanted", ["run", "pause", "cancel"])
def test_what_is_asked_of_a_job_that_is_held_is_left_to_who_holds_it(ledger, state, wanted):
    lease = in_state(ledger, state, is_held=True)

    ledger.ask(lease.job, wanted, 105.0)

    row = ledger.job(lease.job)
    assert (row.state, row.wanted, row.finished) == (state, wanted, None)
    assert ledger.renew([lease], 106.0, seconds=10) == {lease.job: wanted}
    assert len(rows_of_search(ledger, lease.job)) == 4


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING, JobState.MINING, JobState.PAUSED])
@pytest.mark.parametrize(
    ("wanted", "then"), [("run", None), ("pause", JobState.PAUSED), ("cancel", JobState.CANCELLED)]
)
def test_what_is_asked_of_a_job_that_nobody_holds_is_done_at_once(ledger, state, wanted, then):
    lease = in_state(ledger, state, is_held=False)

    ledger.ask(lease.job, wanted, 105.0)

    row = ledger.job(lease.job)
    resumed = JobState.QUEUED if state is JobState.PAUSED else state
    assert (row.state, row.wanted) == (then or resumed, wanted)
    assert row.finished == (105.0 if wanted == "cancel" else None)
    assert len(rows_of_search(ledger, lease.job)) == (0 if wanted == "cancel" else 4)


@pytest.mark.parametrize("state", ENDED)
@pytest.mark.parametrize("wanted", ["run", "pause", "cancel"])
def test_nothing_is_asked_of_a_job_that_has_ended(ledger, url, state, wanted):
    lease = in_state(ledger, state, is_held=False)
    before = contents(url)

    ledger.ask(lease.job, wanted, 105.0)
    ledger.ask("f" * 32, wanted, 105.0)

    assert contents(url) == before
    assert ledger.acquire("two", 500.0, seconds=10, most=5) == []


def test_a_paused_job_is_taken_by_nobody_until_it_is_to_run_again(ledger):
    lease = held(ledger)
    ledger.write(lease, 101.0, {"state": JobState.PAUSED.value, "lease_until": 0.0})

    assert ledger.acquire("two", 102.0, seconds=10, most=5) == []
    ledger.ask(lease.job, "run", 103.0)
    assert numbers(ledger.acquire("two", 104.0, seconds=10, most=5)) == [1]


def test_who_was_frozen_while_its_job_was_cancelled_does_not_bring_it_back(ledger, url):
    lease = held(ledger, now=100.0)
    ledger.ask(lease.job, "cancel", 111.0)
    before = contents(url)

    with pytest.raises(FencedError):
        ledger.end(lease, 112.0, JobState.DONE, digest="d" * 64)

    assert contents(url) == before
    assert ledger.job(lease.job).state is JobState.CANCELLED
    assert ledger.renew([lease], 113.0, seconds=10) == {}


# Leases.


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


# Writing and recovery.


def test_what_was_written_is_there_after_a_restart(ledger, url):
    lease = held(ledger)
    with_search(ledger, lease)
    ledger.write(lease, 103.0, sent=[TaskRow(0, 5, 9, 1)])
    ledger.write(lease, 104.0, {"started": 101.0, "planned": 9, "best_score": 0.8, "ran": 2.5, "stop_after": 3})

    with opened(url) as again:
        row = again.job(lease.job)
        assert list(again.batches(lease.job)) == [BatchRow(0, b"subsets")]
        assert list(again.results(lease.job)) == [ResultRow(0, 0, 5, b"trees", None, 0.25)]
        assert again.tasks(lease.job) == [TaskRow(0, 5, 9, 1), TaskRow(0, 0, 5, 0)]

    assert (row.state, row.trees, row.best_score, row.planned) == (JobState.RUNNING, 5, 0.8, 9)
    assert (row.started, row.ran, row.stop_after, row.fence) == (101.0, 2.5, 3, lease.fence)


def test_a_screen_under_way_is_there_after_a_restart(ledger, url):
    lease = held(ledger)
    ledger.write_blocks(lease, 101.0, [BlockRow(5, 9), BlockRow(0, 5), BlockRow(9, 11)])
    ledger.write_blocks(lease, 102.0, [BlockRow(0, 5, 0), BlockRow(5, 9, 0)])
    ledger.write_blocks(lease, 103.0, [BlockRow(0, 5, 0, b"pairs", 0.25)], {"ran": 2.5})
    ledger.write_blocks(lease, 104.0, [BlockRow(5, 9, 1)])
    ledger.write_blocks(lease, 105.0, [])

    with opened(url) as again:
        assert again.blocks(lease.job) == [BlockRow(0, 5, 0, b"pairs", 0.25), BlockRow(5, 9, 1), BlockRow(9, 11)]
        assert (again.screen(lease.job), again.job(lease.job).ran) == (None, 2.5)
        assert again.blocks(a_job(2).id) == []


def test_a_screen_takes_the_place_of_its_blocks(ledger):
    lease = held(ledger)
    ledger.add([a_job(2)], 101.0)
    (other,) = ledger.acquire("one", 101.0, seconds=10, most=1)
    for one in (lease, other):
        ledger.write_blocks(one, 101.0, [BlockRow(0, 5)])
    ledger.write_screen(lease, 102.0, b"screen", {"ran": 9.0})

    assert (ledger.screen(lease.job), ledger.blocks(lease.job), ledger.job(lease.job).ran) == (b"screen", [], 9.0)
    assert (ledger.screen(other.job), ledger.blocks(other.job)) == (None, [BlockRow(0, 5)])
    with pytest.raises(DuplicateError):
        ledger.write_screen(lease, 103.0, b"another")


@pytest.mark.parametrize("way", ["end", "cancel", "purge"])
def test_nothing_of_a_screen_is_left_when_its_job_has_ended(ledger, url, way):
    lease = held(ledger)
    ledger.write_screen(lease, 101.0, b"screen")
    ledger.write_blocks(lease, 102.0, [BlockRow(0, 5, 0, b"pairs")])
    if way == "cancel":
        ledger.ask(lease.job, "cancel", 1000.0)
    else:
        ledger.end(lease, 103.0, JobState.FAILED)
    if way == "purge":
        ledger.purge(before=200.0)

    assert (contents(url)["maabo_screens"], contents(url)["maabo_screen_blocks"]) == ([], [])


def test_segments_are_replaced_as_a_whole(ledger):
    lease = held(ledger)
    segments = [Segment("a" * 64, 3), Segment("b" * 64, 7)]
    ledger.write_segments(lease, 101.0, segments[:1])
    ledger.write_segments(lease, 102.0, segments)

    assert ledger.job(lease.job).segments == tuple(segments)


def test_a_part_of_a_search_is_read_by_its_batches_in_order(ledger):
    lease = held(ledger)
    ledger.write(
        lease,
        101.0,
        new_batches=[BatchRow(number, b"%d" % number) for number in (2, 0, 3, 1)],
        new_results=[ResultRow(batch, start, start + 1, b"") for batch in (3, 1, 2) for start in (1, 0)],
    )

    assert [row.number for row in ledger.batches(lease.job, first=1, until=3)] == [1, 2]
    found = [(row.batch, row.start) for row in ledger.results(lease.job, first=1, until=3)]
    assert found == [(1, 0), (1, 1), (2, 0), (2, 1)]


def test_an_answer_that_is_there_already_is_refused_with_all_that_came_with_it(ledger, url):
    lease = held(ledger)
    with_search(ledger, lease)
    before = contents(url)

    with pytest.raises(DuplicateError) as caught:
        ledger.write(
            lease,
            105.0,
            {"trees": 6},
            new_batches=[BatchRow(1, b"next")],
            new_results=[ResultRow(0, 5, 6, b"new"), ResultRow(0, 0, 5, b"again")],
            sent=[TaskRow(1, 0, 2, 0)],
        )

    assert isinstance(caught.value, LedgerError)
    assert contents(url) == before
    ledger.write(lease, 106.0, new_results=[ResultRow(0, 5, 6, b"new")])


def test_a_search_is_read_as_it_was_while_more_of_it_is_written(ledger):
    lease = held(ledger)
    ledger.write(lease, 101.0, new_results=[ResultRow(0, start, start + 1, b"x" * 5000) for start in range(70)])

    found = 0
    for row in ledger.results(lease.job):
        found += 1
        ledger.write(lease, 102.0 + found, new_results=[ResultRow(1, row.start, row.stop, b"")])
        assert ledger.renew([lease], 103.0, seconds=10) == {lease.job: "run"}

    assert found == 70
    assert len(list(ledger.results(lease.job))) == 140


def test_the_end_forgets_what_only_the_search_needed(ledger):
    lease = held(ledger)
    ledger.add([a_job(2)], 101.0)
    (other,) = ledger.acquire("one", 101.0, seconds=10, most=1)
    for one in (lease, other):
        with_search(ledger, one)

    ledger.end(lease, 110.0, JobState.DONE, digest="d" * 64, document="{}", ran=9.5)

    row = ledger.job(lease.job)
    assert (row.state, row.finished, row.digest, row.ran) == (JobState.DONE, 110.0, "d" * 64, 9.5)
    assert rows_of_search(ledger, lease.job) == []
    assert len(rows_of_search(ledger, other.job)) == 4
    assert ledger.acquire("two", 105.0, seconds=10, most=5) == []


# Callbacks and retention.


def test_ended_jobs_are_called_back_once(ledger):
    for number in (1, 2, 3):
        lease = held(ledger, number, **({} if number == 3 else CALLBACK))
        if number != 2:
            ledger.end(lease, 101.0, JobState.DONE)

    assert [row.id for row in ledger.claim_calls(102.0, seconds=10)] == [a_job(1).id]
    assert [ledger.note_called([a_job(1).id], now) for now in (105.0, 106.0)] == [1, 0]
    assert (ledger.claim_calls(200.0, seconds=10), ledger.job(a_job(1).id).called) == ([], 105.0)
    ledger.ask(a_job(2).id, "cancel", 500.0)
    found = [(row.id, row.state) for row in ledger.claim_calls(501.0, seconds=10)]
    assert found == [(a_job(2).id, JobState.CANCELLED)]


def test_a_callback_is_given_to_one_scheduler_at_a_time(ledger, url):
    for number in range(1, 21):
        ledger.end(held(ledger, number, **CALLBACK), 101.0, JobState.DONE)

    def claim():
        with opened(url) as mine:
            return [row.id for row in mine.claim_calls(102.0, seconds=10, most=8)]

    first = [job for some in side_by_side(claim, claim, claim) for job in some]
    rest = [row.id for row in ledger.claim_calls(102.0, seconds=10)]

    assert sorted([*first, *rest]) == [a_job(number).id for number in range(1, 21)]
    assert ledger.claim_calls(111.0, seconds=10) == []
    assert len(ledger.claim_calls(112.0, seconds=10)) == 20


def test_a_callback_that_failed_is_tried_again_in_time_and_given_up_in_the_end(ledger):
    job = held(ledger, 1, **CALLBACK)
    ledger.end(job, 101.0, JobState.DONE)
    ledger.claim_calls(102.0, seconds=10)

    ledger.note_uncalled([job.job], until=150.0)
    assert ledger.claim_calls(149.0, seconds=10) == []
    assert [row.calls for row in ledger.claim_calls(150.0, seconds=10)] == [1]
    ledger.note_uncalled([job.job], until=None)

    row = ledger.job(job.job)
    assert (ledger.claim_calls(1e9, seconds=10), row.called, row.calls) == ([], -1.0, 2)
    ledger.note_called([job.job], 200.0)
    assert ledger.job(job.job).called == -1.0


def test_jobs_that_ended_long_ago_are_forgotten(ledger, url):
    for number, ended in enumerate([200.0, 300.0, None], start=1):
        lease = held(ledger, number)
        if ended is not None:
            ledger.end(lease, ended, JobState.DONE)

    assert ledger.purge(before=200.0) == []
    assert ledger.purge(before=250.0) == [a_job(1).id]
    assert ledger.counts() == {"done": 1, "queued": 1}
    ledger.purge(before=1e12)
    assert ledger.counts() == {"queued": 1}


def test_a_store_keeps_what_some_job_refers_to(ledger):
    lease = held(ledger)
    ledger.write_segments(lease, 101.0, [Segment("a" * 64, 3), Segment("b" * 64, 7)])
    ledger.add([a_job(2, dataset={"fingerprint": "c" * 64})], 102.0)

    tables, trees = {f"columns/{TABLE}", f"columns/{'c' * 64}"}, {f"trees/{'a' * 64}", f"trees/{'b' * 64}"}
    exhibits = {f"exhibits/{a_job(number).id}" for number in (1, 2)}
    assert ledger.artifacts() == tables | trees | exhibits


# Many jobs.


@contextmanager
def explained(ledger):
    """Gives a list that gets the plan of every statement, in the words of the database."""
    engine, plans = ledger._database._engine, []
    explain = "EXPLAIN QUERY PLAN" if engine.dialect.name == "sqlite" else "EXPLAIN"

    def note(connection, cursor, statement, parameters, context, many):
        if statement.split()[0] in {"SELECT", "UPDATE", "DELETE"}:
            cursor.execute(f"{explain} {statement}", parameters)
            plans.append("\n".join([statement, *(str(row[-1]) for row in cursor.fetchall())]))

    event.listen(engine, "before_cursor_execute", note)
    yield plans
    event.remove(engine, "before_cursor_execute", note)


def copy_job(connection, first, times, **expressions):
    """Job 1, with an id and a time for each copy: its number n, of five digits."""
    last = first + times - 1
    counted = f"WITH RECURSIVE counted(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM counted WHERE n < {last})"
    replaced = {"id": f"'{'0' * 27}' || n", "created": "n"} | expressions
    values = ", ".join(replaced.get(column.name, column.name) for column in jobs.columns)
    names = ", ".join(jobs.columns.keys())
    only = f"WHERE id = '{a_job().id}'"
    connection.execute(
        text(f"INSERT INTO maabo_jobs ({names}) {counted} SELECT {values} FROM maabo_jobs, counted {only}")
    )


def test_no_call_that_comes_often_goes_through_all_jobs(ledger, url):
    ledger.add([a_job(**CALLBACK)], 1.0)
    with connected(url) as connection:
        copy_job(connection, 10_000, 10_000, state="'queued'")
        copy_job(
            connection, 30_000, 2_000, state="'done'", finished="n", called="CASE WHEN n % 10 = 0 THEN NULL ELSE n END"
        )
        connection.execute(text("ANALYZE"))
    leases = ledger.acquire("one", 20_000.0, seconds=10, most=50)

    with explained(ledger) as plans:
        (lease,) = ledger.acquire("one", 20_000.0, seconds=10, most=1)
        assert ledger.acquire("one", 20_000.0, seconds=10, most=10, least=Priority.HIGH) == []
        ledger.renew(leases, 20_001.0, seconds=10)
        with_search(ledger, lease)
        ledger.jobs([lease.job])
        ledger.ask(leases[0].job, "cancel", 20_002.0)
        ledger.release(leases, 20_002.0)
        ledger.end(lease, 20_003.0, JobState.DONE)
        ledger.note_called([row.id for row in ledger.claim_calls(20_004.0, seconds=10, most=5)], 20_004.0)
        ledger.registry.list_jobs("default", after=(15_000.0, "f"), most=20)
        ledger.registry.submit(a_job(2), 20_005.0, key="key", body="b" * 64)
        ledger.purge(before=30_100.0)

    of_jobs = [plan for plan in plans if "maabo_jobs" in plan]
    assert len(of_jobs) > 100
    assert [plan for plan in of_jobs if "Seq Scan on maabo_jobs" in plan or "SCAN maabo_jobs" in plan] == []
    assert [plan for plan in of_jobs if "Sort" in plan or "TEMP B-TREE" in plan] == []
    for index in ("waiting", "held", "to_call", "finished"):
        assert any(f"maabo_jobs_{index}" in plan for plan in of_jobs), index


# Schemas.


@pytest.mark.parametrize("attempt", range(5))
def test_schedulers_that_start_at_once_on_an_empty_database_all_begin(url, attempt):
    def start():
        with opened(url) as ledger:
            ledger.add([a_job(1)], 1.0)
            return ledger.counts()

    assert side_by_side(*[start] * 4) == [{"queued": 1}] * 4


VERSION_1 = """
CREATE TABLE maabo_meta ("key" VARCHAR(40) NOT NULL, value TEXT NOT NULL, PRIMARY KEY ("key"));
CREATE TABLE maabo_jobs (
    id VARCHAR(32) NOT NULL, tenant VARCHAR(200) NOT NULL, priority VARCHAR(10) NOT NULL, state VARCHAR(12) NOT NULL,
    wanted VARCHAR(8) NOT NULL, spec TEXT NOT NULL, created FLOAT NOT NULL, started FLOAT, finished FLOAT,
    updated FLOAT NOT NULL, trees BIGINT NOT NULL, planned BIGINT, best_score FLOAT, reason TEXT, digest VARCHAR(64),
    document TEXT, owner VARCHAR(80), fence BIGINT NOT NULL, lease_until FLOAT NOT NULL, PRIMARY KEY (id)
);
CREATE INDEX maabo_jobs_created ON maabo_jobs (created);
CREATE INDEX maabo_jobs_open ON maabo_jobs (state, lease_until);
CREATE TABLE maabo_batches (
    job VARCHAR(32) NOT NULL, number INTEGER NOT NULL, subsets {binary} NOT NULL, PRIMARY KEY (job, number)
);
CREATE TABLE maabo_tasks (
    job VARCHAR(32) NOT NULL, batch INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL,
    attempt INTEGER NOT NULL, issued FLOAT NOT NULL, PRIMARY KEY (job, batch, start, stop)
);
CREATE TABLE maabo_results (
    job VARCHAR(32) NOT NULL, batch INTEGER NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL,
    seconds FLOAT NOT NULL, trees {binary} NOT NULL, reason TEXT, PRIMARY KEY (job, batch, start)
);
INSERT INTO maabo_meta VALUES ('schema', '1');
"""


def make_version_1(url):
    """With a queued job of each priority and one that is done."""
    rows = [(1, "low", "queued"), (2, "normal", "queued"), (3, "high", "queued"), (4, "normal", "done")]
    with connected(url) as connection:
        binary = "BLOB" if connection.dialect.name == "sqlite" else "BYTEA"
        for statement in filter(str.strip, VERSION_1.format(binary=binary).split(";")):
            connection.execute(text(statement))
        for number, priority, state in rows:
            spec = f'{{"version":1,"id":"{number:032x}","dataset":{{"fingerprint":"{TABLE}","name":"table"}}}}'
            values = {"id": f"{number:032x}", "priority": priority, "state": state, "spec": spec}
            done = {"finished": 9.0, "digest": "d" * 64, "document": "{}"} if state == "done" else {}
            values |= {"tenant": "default", "wanted": "run", "created": 1.0, "updated": 2.0, "trees": 7} | done
            values |= {"fence": 2, "lease_until": 0.0}
            listed = ", ".join(values), ", ".join(f":{name}" for name in values)
            connection.execute(text("INSERT INTO maabo_jobs ({}) VALUES ({})".format(*listed)), values)


def test_a_ledger_of_version_1_is_brought_up_to_date_with_its_jobs(url):
    make_version_1(url)

    with opened(url) as ledger:
        done = ledger.job(a_job(4).id)
        assert (done.state, done.finished, done.trees, done.digest) == (JobState.DONE, 9.0, 7, "d" * 64)
        assert (done.ran, done.failed, done.segments, done.stop_after, done.rules) == (0.0, 0, (), None, None)
        assert (ledger.document(done.id), ledger.claim_calls(99.0, seconds=10)) == ("{}", [])
        leases = ledger.acquire("one", 100.0, seconds=10, most=9)
        assert numbers(leases) == [3, 2, 1]
        with_search(ledger, leases[0])
        ledger.end(leases[0], 102.0, JobState.DONE)
        assert ledger.purge(before=10.0) == [done.id]


def make_version_2(url):
    """As the version before screens left it, with a job under way."""
    with opened(url) as ledger:
        with_search(ledger, held(ledger))
    with connected(url) as connection:
        for name in ("maabo_screen_blocks", "maabo_screens"):
            connection.execute(text(f"DROP TABLE {name}"))
        connection.execute(text("UPDATE maabo_meta SET value = '2' WHERE key = 'schema'"))


def test_a_ledger_of_version_2_is_brought_up_to_date_with_its_jobs(url):
    make_version_2(url)

    with opened(url) as ledger:
        (lease,) = ledger.acquire("two", 1000.0, seconds=10, most=9)
        assert len(rows_of_search(ledger, lease.job)) == 4
        assert (ledger.blocks(lease.job), ledger.screen(lease.job)) == ([], None)
        ledger.write_blocks(lease, 1001.0, [BlockRow(0, 5, 0)])
        ledger.write_screen(lease, 1002.0, b"screen")
        assert ledger.screen(lease.job) == b"screen"
        assert contents(url)["maabo_meta"] == ["('schema', '4')"]


def make_version_3(url):
    """As the version before tenants left it, with a job under way and one whose callback is due."""
    with opened(url) as ledger:
        ledger.end(held(ledger, 2, **CALLBACK), 101.0, JobState.DONE)
        with_search(ledger, held(ledger))
    with connected(url) as connection:
        for name in ("maabo_datasets", "maabo_tokens", "maabo_quotas", "maabo_idempotency_keys"):
            connection.execute(text(f"DROP TABLE {name}"))
        for name in ("waiting", "held", "to_call", "newest", "of_tenant", "same"):
            connection.execute(text(f"DROP INDEX maabo_jobs_{name}"))
        for name in ("calls", "call_next", "same", "dataset", "correlation"):
            connection.execute(text(f"ALTER TABLE maabo_jobs DROP COLUMN {name}"))
        where = "finished IS NOT NULL AND called IS NULL"
        connection.execute(text(f"CREATE INDEX maabo_jobs_uncalled ON maabo_jobs (finished) WHERE {where}"))
        connection.execute(text("CREATE INDEX maabo_jobs_next ON maabo_jobs (rank, created, id)"))
        connection.execute(text("UPDATE maabo_meta SET value = '3' WHERE key = 'schema'"))


def test_a_ledger_of_version_3_is_brought_up_to_date_with_its_jobs(url):
    make_version_3(url)

    with opened(url) as ledger:
        assert [row.id for row in ledger.claim_calls(1000.0, seconds=10)] == [a_job(2).id]
        (lease,) = ledger.acquire("two", 1000.0, seconds=10, most=9)
        assert len(rows_of_search(ledger, lease.job)) == 4
        assert [row.id for row in ledger.registry.list_jobs("default")] == [a_job(2).id, a_job(1).id]
        assert ledger.registry.submit(a_job(3), 1001.0).created
        assert not ledger.registry.any_token()


@pytest.mark.parametrize("make_old", [make_version_1, make_version_2, make_version_3])
def test_schedulers_that_start_at_once_on_an_old_ledger_migrate_it_once(url, make_old):
    make_old(url)
    known = {make_version_1: {"queued": 3, "done": 1}, make_version_2: {"running": 1}}
    jobs = known.get(make_old, {"running": 1, "done": 1})

    def start():
        with opened(url) as ledger:
            return ledger.counts()

    assert side_by_side(*[start] * 4) == [jobs] * 4


@pytest.mark.parametrize("make_old", [make_version_1, make_version_3])
def test_a_migrated_ledger_has_the_columns_and_indexes_of_a_new_one(url, make_old):
    def shape(ledger):
        with ledger._database.read() as connection:
            if connection.dialect.name == "sqlite":
                columns = "SELECT name, '' FROM pragma_table_info('maabo_jobs')"
                indexes = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
            else:
                columns = (
                    "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'maabo_jobs'"
                )
                indexes = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
            return [sorted(map(tuple, connection.execute(text(query)))) for query in (columns, indexes)]

    with opened(url) as ledger:
        fresh = shape(ledger)
    with connected(url) as connection:
        for name in TABLES:
            connection.execute(text(f"DROP TABLE {name}"))
    make_old(url)

    with opened(url) as ledger:
        assert shape(ledger) == fresh


def test_a_ledger_of_a_newer_schema_is_refused_and_left_as_it_is(url):
    Ledger(url).close()
    with connected(url) as connection:
        connection.execute(text("UPDATE maabo_meta SET value = '99' WHERE key = 'schema'"))
    before = contents(url)

    with pytest.raises(SettingsError, match=r"schema version 99; this scheduler knows 4\. Use a newer"):
        Ledger(url)

    assert contents(url) == before


# Damage and outages.


def test_a_file_that_is_no_database_is_said_plainly(tmp_path):
    (tmp_path / "x.db").write_bytes(b"this is not a database, not at all" * 100)

    with pytest.raises(LedgerError, match=r"^The ledger failed: file is not a database\. "):
        Ledger(f"sqlite:///{tmp_path}/x.db")


@pytest.mark.parametrize("kept", [0.9, 0.5, 0.1])
def test_a_truncated_file_is_said_plainly(sqlite_url, tmp_path, kept):
    with opened(sqlite_url) as ledger:
        ledger.add([a_job(number) for number in range(100)], 1.0)
    path = tmp_path / "ledger.db"
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])

    with pytest.raises(LedgerError, match=r"^The ledger failed: database disk image is malformed\. "):
        Ledger(sqlite_url)


def test_a_directory_that_is_not_there_is_said_plainly(tmp_path):
    with pytest.raises(LedgerError, match="unable to open database file"):
        Ledger(f"sqlite:///{tmp_path}/nowhere/x.db")


def test_a_full_disk_leaves_nothing_of_what_was_written(sqlite_url):
    room = {"pages": 2**30}
    with opened(sqlite_url) as ledger:
        engine = ledger._database._engine
        event.listen(engine, "checkout", lambda raw, *_: raw.execute(f"PRAGMA max_page_count={room['pages']}"))
        lease = held(ledger)
        with_search(ledger, lease)
        before, room["pages"] = contents(sqlite_url), 1  # then it stays as large as it is

        with pytest.raises(LedgerError, match="full"):
            ledger.write(lease, 105.0, {"trees": 9}, new_results=[ResultRow(0, 5, 9, b"x" * 1_000_000)])

        assert contents(sqlite_url) == before
        room["pages"] = 2**30
        ledger.write(lease, 106.0, new_results=[ResultRow(0, 5, 9, b"x" * 1_000_000)])


@pytest.mark.parametrize("url", ["mysql://me:geheim@host/x", "nonsense://me:geheim@host/x", "oracle://me:geheim@h/x"])
def test_a_database_of_another_kind_is_refused_without_its_password(url):
    with pytest.raises(SettingsError, match="cannot be used") as caught:
        Ledger(url)

    assert "geheim" not in str(caught.value)


def test_a_job_that_another_transaction_holds_is_left_and_the_next_one_taken(postgres_url):
    with opened(postgres_url) as ledger:
        ledger.add([a_job(1), a_job(2)], 1.0)
        with connected(postgres_url) as frozen:
            frozen.execute(text(f"SELECT id FROM maabo_jobs WHERE id = '{a_job(1).id}' FOR UPDATE"))

            assert numbers(ledger.acquire("one", 100.0, seconds=10, most=5)) == [2]


def test_a_socket_that_breaks_is_a_failure_of_the_ledger(ledger):
    with pytest.raises(LedgerError, match="reset by peer"), ledger._database.write():
        raise ConnectionResetError(104, "Connection reset by peer")


def test_a_ledger_outlives_the_loss_of_its_connections(postgres_url):
    with opened(postgres_url) as ledger:
        lease = held(ledger)
        cut_off(postgres_url)
        assert again_and_again(ledger.counts) == {"queued": 1}

        with pytest.raises(LedgerError), ledger._fenced(lease, 101.0, trees=9):
            cut_off(postgres_url)

        assert again_and_again(lambda: ledger.job(lease.job)).trees == 0
        ledger.write(lease, 102.0, {"trees": 9})


def again_and_again(call):
    """As the scheduler's loop does in an outage."""
    for _ in range(5):
        with suppress(LedgerError):
            return call()
    return call()


def cut_off(url):
    others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with connected(url) as connection:
        connection.execute(text(f"SELECT pg_terminate_backend(pid) {others}"))


def test_a_server_that_is_not_there_or_refuses_is_said_plainly_and_without_the_password(postgres):
    right = make_url(postgres)
    said = {}
    for name, wrong in {"port": servers.free_port(), "password": "geheim", "database": "nowhere"}.items():
        with pytest.raises(LedgerError) as caught:
            Ledger(right.set(**{name: wrong}).render_as_string(hide_password=False))
        said[name] = str(caught.value)

    assert "Can't create a connection to host 127.0.0.1" in said["port"]
    assert 'The ledger failed: password authentication failed for user "maabo".' in said["password"]
    assert 'The ledger failed: database "nowhere" does not exist.' in said["database"]
    assert not any(secret in text for text in said.values() for secret in (right.password, "geheim"))


def test_a_job_that_another_version_wrote_is_said_to_be_so_and_stops_nobody(ledger):
    ledger.add([a_job(1), a_job(2)], 1.0)
    with ledger._database.write() as connection:
        connection.execute(text(f"UPDATE maabo_jobs SET spec = '{{}}' WHERE id = '{a_job(1).id}'"))

    assert [row.id for row in ledger.jobs([a_job(1).id, a_job(2).id])] == [a_job(2).id]
    with pytest.raises(FormatError, match="another version"):
        ledger.job(a_job(1).id)


def test_a_database_of_another_encoding_is_refused_with_the_remedy(postgres_url):
    engine = create_engine(postgres_url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
    with engine.connect() as connection:
        connection.execute(text("DROP DATABASE IF EXISTS odd"))
        connection.execute(
            text("CREATE DATABASE odd ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
        )

    with pytest.raises(
        SettingsError, match=r"has the encoding SQL_ASCII; UTF8 is needed\. Make it with CREATE DATABASE"
    ):
        Ledger(make_url(postgres_url).set(database="odd").render_as_string(hide_password=False))
