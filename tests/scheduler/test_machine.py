"""The state machine of a job: whatever happens on the way, the search is the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.mining import split_for
from maabo_dist.run import SearchRun
from maabo_dist.settings import MiningSettings, SearchPlan
from maabo_dist.trees import TrainingTable, depth_search
from scheduler.machine import MOST_ATTEMPTS, JobMachine, TaskKey
from tests import factories

MINING = MiningSettings(subset_size=2, max_depth=3, trees=40, initial=6, min_samples=2, batch=5, in_flight=3, seed=3)


class World:
    """A small table, its job, and a worker that is asked by hand."""

    def __init__(self, mining=MINING):
        self.columns = factories.make_columns(np.random.default_rng(5), 60, 10, 2)
        split = split_for(self.columns, mining)
        self.table = TrainingTable.build(self.columns, split)
        self.mining = mining
        plan = SearchPlan.settle(mining, self.columns.count)
        run = SearchRun(self.columns, split, self.table.weights, mining, plan)
        self.machine = JobMachine(run, mining.max_depth, classes=2)
        self.proposed = []
        self.propose()

    def propose(self):
        self.proposed += [tuple(row) for _, subsets in self.machine.propose() for row in subsets.tolist()]

    def send(self, most):
        task = self.machine.next_task(most)
        if task is not None:
            self.machine.sent(task[0], task[1], deadline=10.0)
        return task

    def answer(self, task):
        key, _, subsets = task
        fresh = self.machine.answer(key, depth_search(self.table, subsets, self.mining.max_depth))
        self.propose()
        return fresh


def undisturbed():
    world = World()
    while (task := world.send(1000)) is not None:
        world.answer(task)
    assert world.machine.finished
    return world


EXPECTED = undisturbed()


def test_a_machine_proposes_what_the_search_alone_would():
    run = World().machine.run
    table, proposed = EXPECTED.table, []
    world_run = SearchRun(
        EXPECTED.columns, split_for(EXPECTED.columns, MINING), table.weights, MINING, SearchPlan.settle(MINING, 10)
    )
    waiting = []
    while not world_run.finished:
        subsets = world_run.propose()
        if subsets is None:
            world_run.observe(depth_search(table, waiting.pop(0), MINING.max_depth))
        else:
            waiting.append(subsets)
            proposed += [tuple(row) for row in subsets.tolist()]

    assert EXPECTED.proposed == proposed
    assert run.grown == 0


EVENTS = st.tuples(st.sampled_from(["send", "answer", "lose", "repeat", "overdue"]), st.integers(0, 11))


@settings(max_examples=200, deadline=None)
@given(st.lists(EVENTS, max_size=120))
def test_any_order_of_answers_losses_and_repetitions_gives_the_same_search(events):
    world, under_way, answered = World(), [], []
    for event, number in events:
        if event == "send" and (task := world.send(1 + number)) is not None:
            under_way.append(task)
        elif event == "answer" and under_way:
            task = under_way.pop(number % len(under_way))
            world.answer(task)
            answered.append(task)
        elif event == "lose" and under_way:
            _lose(world, *under_way.pop(number % len(under_way))[:2])
        elif event == "repeat" and answered:
            assert not world.answer(answered[number % len(answered)])
        elif event == "overdue":
            for key, attempt in world.machine.overdue(now=10.0):
                _lose(world, key, attempt)
    _finish(world, under_way)

    assert world.proposed == EXPECTED.proposed
    assert len(set(world.proposed)) == len(world.proposed)
    assert np.array_equal(world.machine.run.leaves.distinct().logic, EXPECTED.machine.run.leaves.distinct().logic)


def _lose(world, key, attempt):
    if attempt + 1 < MOST_ATTEMPTS or key.size > 1:  # a subset that cannot be had at all is another story
        world.machine.lost(key, attempt)


def _finish(world, under_way):
    for task in under_way:
        world.answer(task)
    while not world.machine.finished:
        if (task := world.send(50)) is not None:
            world.answer(task)
        else:
            for key, attempt in world.machine.overdue(now=10.0):
                if attempt + 1 < MOST_ATTEMPTS or key.size > 1:
                    world.machine.lost(key, attempt)
                else:  # its last attempt turns up after all
                    world.answer((key, attempt, world.machine._batches[key.batch].subsets[key.start : key.stop]))


@pytest.mark.parametrize("heard", [1, 2, 5, 9, 14])
def test_a_machine_goes_on_from_answers_that_were_cut_otherwise(heard):
    first, answers = World(), []
    for _ in range(heard):
        task = first.send(2)
        first.answer(task)
        answers.append(task)
    second = World()

    for task in answers:
        assert second.answer(task)
    while (task := second.send(1000)) is not None:
        second.answer(task)

    assert second.machine.finished
    assert second.proposed == EXPECTED.proposed


def test_a_task_is_no_larger_than_asked_for():
    world = World()

    sizes = [world.send(2)[0].size for _ in range(3)]

    assert sizes == [2, 2, 1]


def test_a_lost_task_is_sent_again_as_the_next_attempt():
    world = World()
    key, attempt, _ = world.send(5)

    world.machine.lost(key, attempt)

    assert world.send(5)[:2] == (key, 1)


def test_a_loss_is_heard_once():
    world = World()
    key, attempt, _ = world.send(5)
    world.machine.lost(key, attempt)
    world.send(5)

    assert world.machine.lost(key, attempt) is None
    assert world.machine.in_flight == 1


def test_after_the_last_attempt_a_task_is_cut_in_halves():
    world = World()
    key, attempt, _ = world.send(4)
    for _ in range(MOST_ATTEMPTS):
        world.machine.lost(key, attempt)
        task = world.send(4)
        attempt = task[1]

    assert task[0] == TaskKey(0, 0, 2)


def test_a_single_subset_that_cannot_be_had_is_named():
    world = World()
    key, attempt, _ = world.send(1)
    for _ in range(MOST_ATTEMPTS - 1):
        assert world.machine.lost(key, attempt) is None
        key, attempt, _ = world.send(1)

    assert world.machine.lost(key, attempt) == key


def test_a_search_goes_on_without_a_subset_that_cannot_be_had():
    world = World()
    key, _, subsets = world.send(1)

    given_up = world.machine.give_up(key)
    world.propose()
    while (task := world.send(1000)) is not None:
        world.answer(task)

    assert given_up
    assert world.machine.finished
    assert world.machine.run.grown == MINING.trees
    assert world.proposed.count(tuple(subsets[0])) == 1


def test_a_late_answer_of_the_whole_settles_its_halves():
    world = World()
    whole = world.send(4)
    key, attempt = whole[:2]
    while key.size == 4:
        world.machine.lost(key, attempt)
        key, attempt, _ = world.send(4)

    assert world.answer(whole)
    assert all(other.batch != 0 or other.start >= 4 for other in world.machine._sent)


@pytest.mark.parametrize("key", [TaskKey(99, 0, 1), TaskKey(0, 0, 500)])
def test_an_answer_to_nothing_that_was_asked_is_dropped(key):
    world = World()
    forest = depth_search(world.table, np.array([[0, 1]], np.int32), 3)

    assert not world.machine.answer(key, forest)
