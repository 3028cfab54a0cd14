"""The state machine of a job: after any sequence of events, the search is the same."""

from functools import cache
from math import ceil, log2
from uuid import uuid4

import numpy as np
import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from maabo_dist.cluster.store import FileStore
from maabo_dist.cluster.table_cache import TableCache
from maabo_dist.contract.job import JobSpec, JobState
from maabo_dist.mining import run as mining_run
from maabo_dist.mining.run import SearchRun
from maabo_dist.rules.publishing import TreePool
from maabo_dist.search.proposer import SubsetProposer
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
from maabo_dist.trees.forest import Forest, failed_forest
from maabo_dist.trees.training import depth_search
from maabo_dist.trees.wire import pack_forest, unpack_forest
from scheduler.core.machines import MAX_SUBSET_FAILURES, JobMachine, TaskKey
from scheduler.core.preparation import open_job, prepare
from scheduler.ledger import Ledger
from scheduler.ledger.leases import FencedError
from scheduler.ledger.search import BatchRow, ResultRow, TaskRow
from tests import factories

# With a patience, which is never exhausted, a job pools its trees, so that tests can read them.
MINING = MiningSettings(
    subset_size=2, max_depth=3, trees=40, initial=8, min_samples=2, batch=8, in_flight=3, seed=3, patience=1000
)
ALLOWANCE = 3.0
NO_SUBSETS = frozenset()


@cache
def columns():
    return factories.make_columns(np.random.default_rng(5), 60, 10, 2)


@cache
def study():
    return Study.build(columns(), MINING)


@cache
def screen():
    return factories.screen_of(study())


def grow(subsets, bad=NO_SUBSETS):
    """Simulate the trees of workers; bad subsets fail."""
    return Forest.concatenate([tree_of(subset, subset in bad) for subset in map(tuple, subsets.tolist())])


@cache
def tree_of(subset, is_bad):
    alone = np.array([subset], np.int32)
    return failed_forest(alone, MINING.max_depth, 2) if is_bad else depth_search(study().table, alone, MINING.max_depth)


class RecordingProposer(SubsetProposer):
    """Records the observed scores by subset."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.scores = {}

    def observe(self, subsets, scores):
        super().observe(subsets, scores)
        self.scores |= zip(map(tuple, subsets.tolist()), scores.tolist(), strict=True)


@pytest.fixture(scope="module", autouse=True)
def _scores_are_recorded():
    """Record scores in all searches of this module, including those restored from the ledger."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mining_run, "SubsetProposer", RecordingProposer)
        yield


def a_machine():
    return JobMachine(SearchRun(study(), TreePool(study()), screen()), MINING.max_depth, 2)


class World:
    """A machine and a manually driven worker."""

    def __init__(self):
        self.machine, self.now, self.batches = a_machine(), 0.0, []
        self.propose()

    @property
    def proposed(self):
        return [tuple(row) for subsets in self.batches for row in subsets.tolist()]

    def propose(self):
        self.batches += [subsets for _, subsets in self.machine.propose()]

    def send(self, max_size=1000):
        task = self.machine.next_task(max_size, self.now)
        if task is not None:
            self.machine.mark_sent(task.key, task.attempt, self.now)
        return task

    def send_all(self, max_size=1000):
        return list(iter(lambda: self.send(max_size), None))

    def answer(self, task, bad=NO_SUBSETS):
        fresh = self.machine.accept(task.key, grow(task.subsets, bad))
        self.propose()
        return fresh

    def silence(self, seconds):
        """Let workers take all sent tasks, and no answer arrive for this time."""
        self.machine.outbox.mark_taken(self.now, self.now)
        self.now += seconds
        return self.machine.outbox.resend_unanswered(self.now, lambda key: ALLOWANCE)

    def finish(self, bad=NO_SUBSETS):
        while (task := self.send()) is not None:
            self.answer(task, bad)
        assert self.machine.finished


@cache
def undisturbed(bad=NO_SUBSETS, stop_after=None):
    world = World()
    if stop_after is not None:
        world.machine = a_machine()
        world.machine.stop(stop_after, "time")
        world.batches = []
        world.propose()
    world.finish(bad)
    return world


def outcome(machine):
    """Return the result of a search as plain values: every subset with its score, and every leaf."""
    proposer, leaves = machine.run.proposer, machine.run.pool.leaves.distinct()
    scores = np.array([proposer.scores.get(tuple(row), np.nan) for row in proposer.proposed.rows.tolist()])
    arrays = [proposer.proposed.rows, scores, leaves.logic, leaves.bounds, leaves.counts, leaves.tree, leaves.score]
    high = sorted(proposer.guide.high(proposer.proposed).tolist())
    pending = sorted(proposer.proposed.pending), len(proposer.guide), high
    summary = machine.run.reason, machine.run.best_score, machine.run.trees
    return [array.tobytes() for array in arrays], pending, summary


def in_flight_state(machine):
    """Return every subset in flight as (batch, index, where it is)."""
    keys_by_state = {
        "unsent": [key for key, _ in machine.outbox.unsent],
        "sent": list(machine.outbox.sent),
        "postponed": [key for _, key, _ in machine.outbox.postponed],
    }
    return [
        (key.batch, index, state)
        for state, keys in keys_by_state.items()
        for key in keys
        for index in range(key.start, key.stop)
    ]


def sent_subsets(machine):
    return {(batch, index) for batch, index, state in in_flight_state(machine) if state == "sent"}


# Examples.


def test_a_machine_proposes_the_same_as_a_search_without_it():
    run, waiting, proposed = a_machine().run, [], []
    while not run.finished:
        subsets = run.propose()
        if subsets is None:
            run.observe(grow(waiting.pop(0)))
        else:
            waiting.append(subsets)
            proposed += [tuple(row) for row in subsets.tolist()]

    assert undisturbed().proposed == proposed
    assert len(proposed) == MINING.trees


@pytest.mark.parametrize("count", [1, 2, 5, 9, 14])
def test_a_machine_accepts_answers_to_tasks_of_other_sizes(count):
    first, answers = World(), []
    for _ in range(count):
        task = first.send(2)
        first.answer(task)
        answers.append(task)
    second = World()

    for task in answers:
        assert second.answer(task)
    second.finish()

    assert outcome(second.machine) == outcome(undisturbed().machine)


def test_a_task_is_not_larger_than_requested():
    world = World()

    sizes = [world.send(3).key.size for _ in range(3)]

    assert sizes == [3, 3, 2]


def test_a_task_that_could_not_be_sent_is_the_next_one():
    world = World()
    task = world.machine.next_task(2, world.now)

    world.machine.outbox.put_back(task.key, task.attempt)

    assert world.machine.outbox.in_flight == 0
    assert world.send(2).key == task.key


def test_a_failed_task_is_sent_in_halves():
    world = World()
    task = world.send(5)

    assert not world.machine.fail(task.key, 0)
    assert [(half.key, half.attempt) for half in world.send_all()[:2]] == [
        (TaskKey(0, 0, 2), 0),
        (TaskKey(0, 2, 5), 0),
    ]


def test_a_failure_is_counted_once():
    world = World()
    task = world.send(1)
    world.machine.fail(task.key, 0)
    world.send(1)

    assert not world.machine.fail(task.key, 0)
    assert world.machine.outbox.sent[task.key].attempt == 1


def test_a_single_subset_is_given_up_after_repeated_failures():
    world, failures = World(), []
    for _ in range(MAX_SUBSET_FAILURES):
        task = world.send(1)
        failures.append((task.key, world.machine.fail(task.key, task.attempt)))

    assert failures == [(TaskKey(0, 0, 1), False)] * (MAX_SUBSET_FAILURES - 1) + [(TaskKey(0, 0, 1), True)]


@pytest.mark.parametrize("index", range(8))
def test_halving_finds_the_one_bad_subset_and_loses_no_other(index):
    world, failures, given_up = World(), 0, []
    bad = {world.proposed[index]}
    while not world.machine.finished:
        task = world.send()
        if not bad & {tuple(row) for row in task.subsets.tolist()}:
            world.answer(task)
            continue
        failures += 1
        if world.machine.fail(task.key, task.attempt):
            given_up.append(task.key)
            world.machine.give_up(task.key)
            world.propose()

    assert given_up == [TaskKey(0, index, index + 1)]
    assert failures <= ceil(log2(MINING.batch)) + MAX_SUBSET_FAILURES
    assert outcome(world.machine) == outcome(undisturbed(frozenset(bad)).machine)


def test_a_subset_given_up_is_not_proposed_again():
    world = World()
    task = world.send(1)

    given_up = world.machine.give_up(task.key)
    world.propose()
    world.finish()

    assert given_up
    assert world.machine.run.trees == MINING.trees
    assert world.proposed.count(tuple(task.subsets[0].tolist())) == 1


def test_a_subset_that_has_a_tree_is_not_given_up():
    world = World()
    task = world.send(1)
    world.answer(task)

    assert not world.machine.give_up(task.key)
    assert not world.machine.give_up(TaskKey(99, 0, 1))


def test_a_late_answer_to_a_split_task_completes_its_halves():
    world = World()
    whole = world.send(4)
    world.machine.fail(whole.key, 0)
    world.send(4)

    assert world.answer(whole)
    assert not [entry for entry in in_flight_state(world.machine) if entry[0] == 0 and entry[1] < 4]


def test_after_an_answer_to_part_of_a_task_the_rest_is_sent_again():
    world = World()
    whole = world.send(8)
    middle = TaskKey(0, 1, 3)

    assert world.machine.accept(middle, grow(whole.subsets[1:3]))
    assert [entry for entry in in_flight_state(world.machine) if entry[0] == 0] == [
        (0, index, "unsent") for index in (3, 4, 5, 6, 7, 0)
    ]
    assert world.machine.outbox.in_flight == 0


def test_a_task_that_no_worker_could_start_is_sent_later_and_does_not_count_as_a_failure():
    world = World()
    task = world.send_all()[0]

    world.machine.outbox.postpone(task.key, 0, until=5.0)

    assert world.send() is None
    world.now = 5.0
    again = world.send()
    assert (again.key, again.attempt) == (task.key, 0)


def test_a_missing_answer_is_not_a_failure_and_the_allowance_doubles():
    world = World()
    sent, sent_times = [world.send(5)], [0.0]
    for _ in range(9):
        while not world.silence(1.0):
            pass
        sent_times.append(world.now)
        sent.append(world.send(5))

    assert {(task.key, task.attempt) for task in sent} == {(TaskKey(0, 0, 5), 0)}
    assert np.diff(sent_times).tolist() == [ALLOWANCE * 2 ** min(silences, 6) + 1 for silences in range(9)]


def test_a_task_that_waits_in_the_queue_is_not_overdue():
    world = World()
    world.send(5)

    assert world.machine.outbox.resend_unanswered(now=1e9, allowance=lambda key: ALLOWANCE) == []


def test_a_task_that_is_sent_again_keeps_its_size():
    world = World()
    task = world.send(5)
    world.silence(ALLOWANCE + 1)

    assert world.send(2).key == task.key


def test_tasks_sent_by_a_predecessor_are_not_sent_twice():
    first, second = World(), World()
    under_way = first.send_all(2)

    for task in reversed(under_way):
        second.machine.adopt(task.key, task.attempt, second.now)

    assert second.send() is None
    assert second.machine.outbox.in_flight == first.machine.outbox.in_flight
    for task in under_way:
        second.answer(task)
    second.finish()
    assert outcome(second.machine) == outcome(undisturbed().machine)


def test_of_two_tasks_that_a_predecessor_sent_for_the_same_subsets_the_newer_is_awaited():
    world = World()

    world.machine.adopt(TaskKey(0, 0, 2), 0, 0.0)
    world.machine.adopt(TaskKey(0, 0, 5), 0, 0.0)

    assert list(world.machine.outbox.sent) == [TaskKey(0, 0, 2)]
    assert world.send().key == TaskKey(0, 2, 8)


@pytest.mark.parametrize("key", [TaskKey(99, 0, 1), TaskKey(0, 0, 500), TaskKey(0, 3, 3), TaskKey(0, 3, 1)])
def test_an_answer_without_a_task_is_dropped(key):
    world = World()

    assert not world.machine.accept(key, grow(np.array([[0, 1]], np.int32)))


@pytest.mark.parametrize(("after", "reason"), [(1, "time"), (3, "time"), (5, "budget")])
def test_a_stopped_search_ends_when_all_proposed_batches_are_observed(after, reason):
    world = World()
    while world.machine.proposed < after:
        world.answer(world.send())

    proposed = world.machine.proposed
    world.machine.stop(proposed, "time")
    world.finish()

    assert len(world.batches) == proposed
    assert outcome(world.machine) == outcome(undisturbed(stop_after=proposed).machine)
    assert world.machine.run.reason == reason


# Random events in random order.


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
