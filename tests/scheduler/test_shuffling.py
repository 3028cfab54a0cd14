"""The state machine of the searches on shuffled labels: after any events, the same searches decide the certificate."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.findings.certificate import MARGIN, ShuffledSearch
from maabo_dist.mining.shuffles import ShufflePlan
from scheduler.core.blocks import MAX_BLOCK_FAILURES, MAX_BLOCKS, Shuffling, cut_searches
from scheduler.core.task_lengths import TaskLengths
from tests.reference import findings as slow

ALLOWANCE, UNDECIDED = 3.0, -8.0


def search_of(strongest, block):
    return [ShuffledSearch((strongest[number],), ((number,),)) for number in range(block.start, block.stop)]


def a_shuffling(size, undecided=UNDECIDED, count=24):
    ranges = [(start, min(count, start + size)) for start in range(0, count, size)]
    return Shuffling(ShufflePlan(count, undecided), ranges)


def send(shuffling, now=0.0):
    task = shuffling.next_task(now)
    if task is not None:
        shuffling.mark_sent(task.key, task.attempt, now)
    return task


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "send", "answer", "answer", "lost", "unavailable", "silence", "restart"]),
        st.integers(0, 100),
    ),
    max_size=60,
)
STRONGEST = st.lists(st.sampled_from([-9.0, -3.0, 0.0]), min_size=24, max_size=24)


@settings(max_examples=200)
@given(STRONGEST, st.integers(1, 7), st.sampled_from([UNDECIDED, None]), EVENTS)
def test_the_searches_are_the_same_after_any_events_in_any_order(strongest, size, undecided, events):
    shuffling, sent_tasks, accepted, now = a_shuffling(size, undecided), [], [], 0.0
    for name, pick in events:
        now += 1.0
        sent = sent_tasks[pick % len(sent_tasks)] if sent_tasks else None
        if name == "send" and (task := send(shuffling, now)) is not None:
            sent_tasks.append(task)
        elif name == "silence":
            shuffling.outbox.mark_taken(now, now)
            now += 100 * ALLOWANCE
            shuffling.outbox.resend_unanswered(now, lambda block: ALLOWANCE)
        elif name == "restart":
            shuffling = a_shuffling(size, undecided)
            for block in accepted:
                shuffling.accept(block, search_of(strongest, block), 1.0)
            for task in {task.key: task for task in sent_tasks}.values():
                shuffling.adopt(task.key, task.attempt, now)
        elif sent is not None and name == "answer":
            was_open = shuffling.is_open(sent.key)
            assert shuffling.accept(sent.key, search_of(strongest, sent.key), 1.0) == was_open
            accepted += [sent.key] * was_open
        elif sent is not None and name == "lost" and sent.attempt + 1 < MAX_BLOCK_FAILURES:
            assert not shuffling.fail(sent.key, sent.attempt)
        elif sent is not None and name == "unavailable":
            shuffling.outbox.postpone(sent.key, sent.attempt, now + 1)
        check_in_flight_state(shuffling)
    shuffling.outbox.mark_taken(now, now)
    shuffling.outbox.resend_unanswered(now + 1e6, lambda block: ALLOWANCE)
    while (task := send(shuffling, 1e9)) is not None:
        shuffling.accept(task.key, search_of(strongest, task.key), 1.0)

    needed = 24 if undecided is None else slow.searches_needed(strongest, undecided, MARGIN)
    assert shuffling.finished
    assert [search.statistics for search in shuffling.result().searches] == [(value,) for value in strongest[:needed]]
    assert shuffling.result().planned == 24


def check_in_flight_state(shuffling):
    """Check that only open tasks are to be sent or in flight, each once."""
    box = shuffling.outbox
    held = [*(key for key, _ in box.unsent), *(key for _, key, _ in box.postponed), *box.sent]
    assert all(map(shuffling.is_open, held))
    assert len(set(held)) == len(held)
    assert box.in_flight == sum(block.size for block in box.sent)
    assert shuffling.finished == (not held)


def test_searches_that_are_not_needed_any_more_are_not_sent():
    shuffling = a_shuffling(4)
    tasks = [send(shuffling), send(shuffling)]
    shuffling.accept(tasks[1].key, search_of([-9.0] * 24, tasks[1].key), 2.0)

    assert send(shuffling) is None
    assert not shuffling.finished
    shuffling.accept(tasks[0].key, search_of([0.0] * 24, tasks[0].key), 3.0)
    assert shuffling.finished
    assert len(shuffling.result().searches) == 5
    assert shuffling.result().seconds == 5.0


@pytest.mark.parametrize(
    ("count", "seconds", "sizes"),
    [
        (24, 0.01, [2, 1]),  # shared by several workers
        (24, 60.0, [1, 1]),
        (1000, 0.1, [10, 1]),  # a task takes a second, and less near the end
        (1000, 60.0, [1, 1]),
        (100_000, 60.0, [4, 3]),  # not too many to keep track of: all about as long
    ],
)
def test_searches_are_cut_by_their_cost(count, seconds, sizes):
    ranges = cut_searches(count, seconds, TaskLengths(1.0))
    lengths = [stop - start for start, stop in ranges]

    assert [max(lengths), lengths[-1]] == sizes
    assert len(ranges) <= MAX_BLOCKS
    assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges[:-1])]
    assert ranges[-1][1] == count
