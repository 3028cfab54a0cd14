"""The state machine of a job: after any sequence of events, the search is the same."""

from functools import cache
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from maabo_dist.cluster.store import FileStore
from maabo_dist.cluster.table_cache import TableCache
from maabo_dist.contract.job import JobSpec, JobState
from maabo_dist.trees.wire import pack_forest, unpack_forest
from scheduler.core.machines import MAX_SUBSET_FAILURES, TaskKey
from scheduler.core.preparation import open_job, prepare
from scheduler.ledger import Ledger
from scheduler.ledger.leases import FencedError
from scheduler.ledger.search import BatchRow, ResultRow, TaskRow
from tests.scheduler.machine_world import (
    ALLOWANCE,
    MINING,
    columns,
    grow,
    in_flight_state,
    outcome,
    sent_subsets,
    undisturbed,
)

pytestmark = pytest.mark.usefixtures("recorded_scores")


@cache
def bad():
    """Return a subset that always fails."""
    return frozenset({undisturbed().proposed[27]})


DEATHS = st.sampled_from([*["lives"] * 8, "dies before the write", "dies after the write"])
PICK = st.integers(0, 30)
OFF_BY = st.sampled_from([0, 0, 0, -1, 1])
SECONDS = st.floats(0, 30)
EVENTS = {
    "send": (30, st.integers(1, 10), st.integers(1, 6), DEATHS),
    "answer": (30, st.lists(PICK, min_size=1, max_size=8), DEATHS),
    "fail": (12, PICK, OFF_BY, DEATHS),
    "answer_late": (4, PICK, st.integers(1, 10), DEATHS),
    "postpone": (6, PICK, OFF_BY, SECONDS),
    "silence": (6, SECONDS),
    "crash_at_rest": (3,),
    "cancel_and_start_over": (1,),
    "stop": (2, DEATHS),
}
"""The weight of each event, and its details. (They are not separate rules: hypothesis omits some rules in each run, and
without sending and answering a job makes no progress.)"""
EVENT = st.sampled_from([name for name, (weight, *_) in EVENTS.items() for _ in range(weight)]).flatmap(
    lambda name: st.tuples(st.just(name), *EVENTS[name][1:])
)


class JobLife(RuleBasedStateMachine):
    """A job on a real ledger, with a scheduler that dies anywhere and workers that answer anything at any time.

    Any task that was sent may be answered at any time, any number of times; late and duplicate answers are not special.
    """

    def __init__(self, directory, prepared, checked):
        super().__init__()
        self.prepared, self.now, self.checked = prepared, 1000.0, checked
        self.ledger = Ledger(f"sqlite:///{directory}/{uuid4().hex}.db")
        self.submit()

    def submit(self):
        document = {"id": uuid4().hex, "dataset": {"fingerprint": columns().fingerprint}, "settings": MINING}
        self.ledger.jobs.add([JobSpec.parse(document)], self.now)
        self.sent_tasks, self.stop_after = [], None
        self.open()

    def open(self):
        (self.lease,) = self.ledger.leases.acquire("any", self.now, seconds=10, limit=1)
        self.job = open_job(self.ledger, self.lease, self.prepared, self.now, tick=lambda: None)

    @property
    def machine(self):
        return self.job.machine

    def batches(self):
        rows = self.ledger.search.batches(self.lease.job)
        return [np.frombuffer(row.subsets, "<i4").reshape(-1, MINING.subset_size) for row in rows]

    def write(self, dies, *args, **rows):
        """Write to the ledger and return True if the scheduler survives."""
        if dies != "dies before the write" and any(map(len, (*args, *rows.values()))):
            self.ledger.search.write(self.lease, self.now, *args, **rows)
        if dies != "lives":
            self.crash()
        return dies == "lives"

    def advance(self, dies, rows=(), **changed):
        fresh = [BatchRow(number, subsets.astype("<i4").tobytes()) for number, subsets in self.machine.propose()]
        self.write(dies, changed, new_batches=fresh, new_results=rows)

    def sent_task(self, pick):
        return self.sent_tasks[-1 - pick % len(self.sent_tasks)]

    @rule(event=EVENT)
    def happens(self, event):
        name, *details = event
        if self.sent_tasks or name not in {"answer", "fail", "answer_late", "postpone"}:
            getattr(self, name)(*details)

    def send(self, max_size, count, dies="lives"):
        chosen = [task for _ in range(count) if (task := self.machine.next_task(max_size, self.now)) is not None]
        rows = [TaskRow(task.key.batch, task.key.start, task.key.stop, task.attempt) for task in chosen]
        if self.write(dies, sent=rows):
            for task in chosen:
                self.machine.mark_sent(task.key, task.attempt, self.now)
            self.sent_tasks += chosen
        self.now += 0.001

    def answer(self, picks, dies):
        rows = [row for pick in picks for row in self.answered(self.sent_task(pick))]
        self.advance(dies, rows)

    def answered(self, task):
        if holds_bad(task):
            return self.failed(task.key, task.attempt)
        if not self.machine.is_open(task.key):
            assert not self.machine.accept(task.key, grow(task.subsets))
            return []
        body = pack_forest(grow(task.subsets))
        assert self.machine.accept(task.key, unpack_forest(body, task.subsets))
        return [ResultRow(task.key.batch, task.key.start, task.key.stop, body)]

    def failed(self, key, attempt):
        if not self.machine.fail(key, attempt) or not self.job.give_up(key, "no tree"):
            return []
        return [ResultRow(key.batch, key.start, key.stop, b"", "no tree")]

    def answer_late(self, pick, max_size, dies):
        """Fail a task, send it in halves, and then accept an answer to the whole task."""
        task = self.sent_task(pick)
        self.fail(pick, 0, "lives")
        self.send(max_size, 2)
        self.advance(dies, self.answered(task))

    def is_under_way(self, task, attempt):
        sent = self.machine.outbox.sent.get(task.key)
        return sent is not None and sent.attempt == attempt

    def fail(self, pick, off_by, dies):
        task, before = self.sent_task(pick), in_flight_state(self.machine)
        attempt = task.attempt + off_by
        if not self.is_under_way(task, attempt):
            assert self.failed(task.key, attempt) == []
            assert in_flight_state(self.machine) == before
        elif holds_bad(task) or task.key.size > 1 or attempt + 1 < MAX_SUBSET_FAILURES:  # the others succeed in the end
            self.advance(dies, self.failed(task.key, attempt))

    def postpone(self, pick, off_by, seconds):
        task, before = self.sent_task(pick), in_flight_state(self.machine)
        attempt = task.attempt + off_by
        changes = self.is_under_way(task, attempt)
        self.machine.outbox.postpone(task.key, attempt, self.now + seconds)
        assert (in_flight_state(self.machine) != before) == changes

    def silence(self, seconds):
        self.machine.outbox.mark_taken(self.now, self.now)
        self.now += seconds
        for key in self.machine.outbox.resend_unanswered(self.now, lambda key: ALLOWANCE):
            assert self.machine.is_open(key)

    def crash_at_rest(self):
        before = sent_subsets(self.machine)
        self.crash()
        assert before <= sent_subsets(self.machine)  # their answers are awaited: nothing is sent twice

    def crash(self):
        self.now += 11.0
        frozen = self.lease
        self.open()
        with pytest.raises(FencedError):
            self.ledger.search.write(frozen, self.now, {"trees": -1}, new_results=[ResultRow(0, 0, 1, b"late")])

    def cancel_and_start_over(self):
        self.ledger.search.end_job(self.lease, self.now, JobState.CANCELLED)
        assert self.batches() == []
        self.submit()

    def stop(self, dies):
        if self.stop_after is not None or self.machine.observed < 1:
            return
        after = self.machine.proposed
        self.machine.stop(after, "time")
        self.advance(dies, stop_after=after)
        self.stop_after = self.ledger.jobs.get(self.lease.job).stop_after

    @invariant()
    def batches_are_those_of_the_undisturbed_search_and_hold_no_subset_twice(self):
        batches, expected = self.batches(), undisturbed(bad(), self.stop_after).batches
        assert len(batches) == self.machine.proposed <= (self.stop_after or len(expected))
        assert all(np.array_equal(batch, other) for batch, other in zip(batches, expected, strict=False))
        assert len(np.unique(np.concatenate(batches), axis=0)) == sum(map(len, batches))

    @invariant()
    def every_unanswered_subset_is_in_one_place(self):
        subsets = [(number, index) for number, batch in enumerate(self.batches()) for index in range(len(batch))]
        missing = [
            (number, index) for number, index in subsets if self.machine.is_open(TaskKey(number, index, index + 1))
        ]
        assert sorted((batch, index) for batch, index, _ in in_flight_state(self.machine)) == missing

    @invariant()
    def in_flight_is_what_was_sent_and_not_answered(self):
        assert self.machine.outbox.in_flight == len(sent_subsets(self.machine))

    def teardown(self):
        try:
            self.finish()
            expected = undisturbed(bad(), self.stop_after)
            assert outcome(self.machine) == outcome(expected.machine)
            self.crash()
            assert outcome(self.machine) == outcome(expected.machine)
            assert self.every_answer_was_written_once()
            self.checked.append(self.lease.job)
        finally:
            self.ledger.close()

    def finish(self):
        for _ in range(100):
            self.silence(seconds=1000.0)  # postponed tasks are due, and unanswered ones are sent again
            self.send(7, 1000)
            self.advance("lives", [row for task in self.sent_tasks for row in self.answered(task)])
            if self.machine.finished:
                return
        raise AssertionError("The search does not end.")

    def every_answer_was_written_once(self):
        written = [
            (row.batch, index)
            for row in self.ledger.search.results(self.lease.job)
            for index in range(row.start, row.stop)
        ]
        return written == [
            (number, index) for number, batch in enumerate(self.batches()) for index in range(len(batch))
        ]


def holds_bad(task):
    return bool(bad() & {tuple(row) for row in task.subsets.tolist()})


@pytest.mark.parametrize("number", [0, *(pytest.param(more, marks=pytest.mark.soak) for more in (1, 2))])
def test_the_search_is_the_same_after_any_events_in_any_order(tmp_path, number):
    store = FileStore(f"file://{tmp_path}/store")
    columns().save(tmp_path / "table")
    store.put(f"columns/{columns().fingerprint}", tmp_path / "table")
    spec = JobSpec.parse({"id": "0" * 32, "dataset": {"fingerprint": columns().fingerprint}, "settings": MINING})
    prepared = prepare(spec, TableCache(tmp_path / "cache", store, limit=1 << 30), screen_seconds=1.0)

    checked = []

    # Several short runs: after some examples hypothesis only varies those that it has.
    run_state_machine_as_test(
        seed(number)(lambda: JobLife(tmp_path, prepared, checked)),
        settings=settings(max_examples=10, stateful_step_count=60, suppress_health_check=list(HealthCheck)),
    )

    assert len(set(checked)) >= 10
