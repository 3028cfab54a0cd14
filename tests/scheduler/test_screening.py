"""The state machine of a screen: after any sequence of events, the strongest pairs are the same."""

from functools import cache
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.data.split import split_rows
from maabo_dist.screens.blocks import has_triples, pair_blocks, screen_blocks
from maabo_dist.screens.pairs import BitTable, PairTable, screen_block, screen_pairs
from maabo_dist.screens.triples import TripleTable, screen_triple_block, screen_triples
from scheduler.core.blocks import MAX_BLOCK_FAILURES, MAX_BLOCKS, MIN_BLOCKS, Screening, cut_blocks
from scheduler.core.task_lengths import TaskLengths
from tests import factories

FEATURES, MAX_PAIRS, MAX_TRIPLES, ALLOWANCE = 14, 12, 7, 3.0


@cache
def table():
    columns = factories.make_columns(np.random.default_rng(3), 90, FEATURES, 2)
    return BitTable.build(columns, split_rows(columns.labels, test_size=0.3, seed=3))


@cache
def strongest_of(block):
    if has_triples(block.start, FEATURES):
        start, stop = block.start - FEATURES, block.stop - FEATURES
        return screen_triple_block(TripleTable.build(table()), start, stop, MAX_TRIPLES)
    return screen_block(PairTable.build(table()), block.start, block.stop, MAX_PAIRS)


def a_screening(pieces=5, triple_pieces=None):
    blocks = screen_blocks(FEATURES, pieces, pieces if triple_pieces is None else triple_pieces)
    return Screening(FEATURES, blocks, MAX_PAIRS, max_triples=MAX_TRIPLES)


def send(screening, now=0.0):
    task = screening.next_task(now)
    if task is not None:
        screening.outbox.mark_sent(task.key, task.attempt, now)
    return task


def finish(screening, now=1e9):
    while (task := send(screening, now)) is not None:
        screening.accept(task.key, strongest_of(task.key))
    assert screening.finished


def outcome(screening):
    return (*as_lists(screening.best, screening.best_triples), screening.screened)


def as_lists(pairs, triples):
    return [part.tolist() for part in (pairs.features, pairs.strengths, triples.kinds, triples.features)]


@cache
def undisturbed():
    strongest = as_lists(screen_pairs(table(), MAX_PAIRS), screen_triples(table(), MAX_TRIPLES))
    return (*strongest, comb(FEATURES, 2) + comb(FEATURES, 3))


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "send", "answer", "answer", "lost", "unavailable", "silence", "restart"]),
        st.integers(0, 100),
    ),
    max_size=60,
)


@settings(max_examples=200)
@given(st.integers(1, 20), EVENTS)
def test_the_pairs_are_the_same_after_any_events_in_any_order(pieces, events):
    screening, sent_tasks, now = a_screening(pieces), [], 0.0
    for name, pick in events:
        now += 1.0
        sent = sent_tasks[pick % len(sent_tasks)] if sent_tasks else None
        if name == "send" and (task := send(screening, now)) is not None:
            sent_tasks.append(task)
        elif name == "silence":
            screening.outbox.mark_taken(now, now)
            now += 100 * ALLOWANCE
            screening.outbox.resend_unanswered(now, lambda block: ALLOWANCE)
        elif name == "restart":
            screening = restart(screening, sent_tasks, pieces, now)
        elif sent is not None and name == "answer":
            was_open = screening.is_open(sent.key)
            assert screening.accept(sent.key, strongest_of(sent.key)) == was_open
        elif sent is not None and name == "lost" and sent.attempt + 1 < MAX_BLOCK_FAILURES:
            assert not screening.fail(sent.key, sent.attempt)
        elif sent is not None and name == "unavailable":
            screening.outbox.postpone(sent.key, sent.attempt, now + 1)
        check_in_flight_state(screening)
    screening.outbox.mark_taken(now, now)
    screening.outbox.resend_unanswered(now + 1e6, lambda block: ALLOWANCE)
    finish(screening)

    assert outcome(screening) == undisturbed()


def restart(before, sent_tasks, pieces, now):
    """Return a screening restored from a ledger with all answers and sent tasks."""
    after = a_screening(pieces)
    for sent in sent_tasks:
        if not before.is_open(sent.key):
            after.accept(sent.key, strongest_of(sent.key))
    for sent in {sent.key: sent for sent in sent_tasks}.values():
        after.adopt(sent.key, sent.attempt, now)
    return after


def check_in_flight_state(screening):
    """Check that each open block is in exactly one state, and no answered block is in flight."""
    box = screening.outbox
    held = [*(key for key, _ in box.unsent), *(key for _, key, _ in box.postponed), *box.sent]
    assert all(map(screening.is_open, held))
    assert len(set(held)) == len(held)
    assert sum(block.size for block in held) == screening.sets - screening.screened
    assert screening.outbox.in_flight == sum(block.size for block in box.sent)


def test_a_block_that_fails_too_often_is_given_up():
    screening = a_screening(1)

    verdicts = []
    while not verdicts or not verdicts[-1]:
        task = send(screening)
        verdicts.append(screening.fail(task.key, task.attempt))

    assert verdicts == [False] * (MAX_BLOCK_FAILURES - 1) + [True]


def test_a_late_report_of_an_earlier_attempt_does_not_count():
    screening = a_screening(1)
    task = send(screening)
    screening.fail(task.key, task.attempt)
    send(screening)

    assert not screening.fail(task.key, task.attempt)
    assert screening.outbox.in_flight == task.key.size


def test_a_block_that_no_worker_could_start_is_sent_later_and_does_not_count_as_a_failure():
    screening = a_screening(1, triple_pieces=0)
    task = send(screening)
    screening.outbox.postpone(task.key, task.attempt, until=5.0)

    assert send(screening, now=4.0) is None
    assert send(screening, now=5.0) == task


def test_a_range_that_is_not_a_block_is_unknown():
    screening = a_screening(5)

    assert screening.block(0, FEATURES) is None
    assert screening.block(*pair_blocks(FEATURES, 5)[1]) is not None


def test_progress_is_counted_in_pairs_and_triples():
    screening = a_screening(5)
    task = send(screening)
    screening.accept(task.key, strongest_of(task.key))

    assert (screening.screened, screening.sets) == (task.key.size, comb(FEATURES, 2) + comb(FEATURES, 3))
    assert (screening.number(task.key), screening.blocks) == (1, 10)


@pytest.mark.parametrize(
    ("features", "seconds", "blocks"),
    [
        (20_000, 400.0, 436),
        (20_000, 40.0, 76),
        (20_000, 0.5, MIN_BLOCKS),
        (5, 40.0, 4),  # a block has at least one first feature
    ],
)
def test_a_screen_is_cut_into_blocks_of_about_a_second_and_shorter_ones_near_the_end(features, seconds, blocks):
    ranges = cut_blocks(features, seconds, TaskLengths(1.0))

    assert len(ranges) == blocks
    assert [ranges[0][0], ranges[-1][1]] == [0, features - 1]


@pytest.mark.parametrize("workers", [1, 100, 10_000])
@pytest.mark.parametrize("features", [20_000, 50_000])
def test_a_screen_is_never_cut_into_too_many_blocks(features, workers):
    ranges = cut_blocks(features, 1e9, TaskLengths(1.0, workers), triples_seconds=1e9)

    pairs = [block for block in ranges if block[0] < features]
    assert max(len(pairs), len(ranges) - len(pairs)) <= MAX_BLOCKS
    assert pairs[-1][1] == features - 1
