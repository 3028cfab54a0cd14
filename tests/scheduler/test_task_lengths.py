"""The lengths of tasks: long in large fleets, short near the end, and never decisive for the result."""

import heapq

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.screens.blocks import count_pairs
from scheduler.core.blocks import cut_blocks, cut_searches
from scheduler.core.task_lengths import PEAK_RATE, SHORTEST, STEADY_RATE, TaskLengths

fleets = st.sampled_from([1, 2, 10, 100, 1000, 10_000, 100_000])
works = st.floats(1e-3, 1e8)


def work(lengths, total):
    """Give tasks to workers that are free; return when the last task began, when all ended, and the idle share."""
    free = [0.0] * lengths.workers
    began = 0.0
    for seconds in lengths.cut(total):
        began = heapq.heappop(free)
        heapq.heappush(free, began + seconds)
    return began, max(free), 1 - total / (max(free) * lengths.workers)


@given(works, fleets)
def test_a_task_is_neither_longer_nor_shorter_than_allowed(left, workers):
    seconds = TaskLengths(1.0, workers, longest=30.0).next(left)

    assert SHORTEST <= seconds <= max(1.0, min(30.0, workers / STEADY_RATE))


@given(works, works, fleets)
def test_tasks_get_shorter_towards_the_end(one, other, workers):
    lengths = TaskLengths(1.0, workers)

    assert lengths.next(min(one, other)) <= lengths.next(max(one, other))


@pytest.mark.parametrize("workers", [1, 100, 1000, 10_000])
def test_one_scheduler_can_send_the_tasks_of_every_fleet(workers):
    """With plenty of work, and when only so much is left that all workers have one more task."""
    lengths = TaskLengths(1.0, workers)

    assert workers / lengths.next(1e9) <= STEADY_RATE
    assert workers / lengths.next(workers * workers / PEAK_RATE) <= PEAK_RATE * (1 + 1e-9)


@pytest.mark.parametrize("workers", [1, 2, 100, 1000, 10_000])
@pytest.mark.parametrize("rounds", [3.7, 20.3])
def test_all_workers_end_at_about_the_same_time(workers, rounds):
    lengths = TaskLengths(1.0, workers)
    longest = lengths.next(1e12)
    began, end, idle = work(lengths, rounds * longest * workers)

    assert end - began <= longest
    assert idle < 0.05


@given(works, fleets)
def test_work_that_is_cut_in_advance_is_cut_completely(total, workers):
    lengths = TaskLengths(max(1.0, total / 5000), min(workers, 1000))
    pieces = list(lengths.cut(total))

    assert sum(pieces) == pytest.approx(total)
    assert np.all(np.diff(pieces) <= 1e-9)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 3000), st.floats(1e-3, 1e5), st.sampled_from([0, 1, 8, 1000, 10_000]))
def test_blocks_for_any_fleet_are_all_pairs_and_all_searches(count, seconds, workers):
    lengths = TaskLengths(1.0, workers)
    blocks, searches = cut_blocks(count, seconds, lengths), cut_searches(count, seconds / count, lengths)

    assert sum(count_pairs(start, stop, count) for start, stop in blocks) == count * (count - 1) // 2
    assert [number for start, stop in searches for number in range(start, stop)] == list(range(count))
