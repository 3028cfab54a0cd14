"""The state machine of a job: its tasks, their answers and failures."""

from math import ceil, log2

import numpy as np
import pytest

from scheduler.core.machines import MAX_SUBSET_FAILURES, TaskKey
from tests.scheduler.machine_world import (
    ALLOWANCE,
    MINING,
    World,
    a_machine,
    grow,
    in_flight_state,
    outcome,
    undisturbed,
)

pytestmark = pytest.mark.usefixtures("recorded_scores")


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
