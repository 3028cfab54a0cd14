"""The state machine of a pass over rows: after any events, in any order, the counts are those of all blocks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.contract.passes import DrawnBlock, PassPlan, PassShape, dump_blocks, parse_blocks
from maabo_dist.errors import FormatError
from maabo_dist.rules.passes import Overlaps, pack_counts, unpack_counts
from scheduler.core.blocks import MAX_BLOCK_FAILURES
from scheduler.core.passes import Passing

ALLOWANCE = 3.0
SHAPE = PassShape(rules=2, classes=2)
COUNT = 9


def a_pass(size, shape=SHAPE, kind="count"):
    blocks = tuple((start, min(COUNT, start + size), 10 + start) for start in range(0, COUNT, size))
    return Passing(0, PassPlan(kind=kind, request="a" * 64, shape=shape, blocks=blocks), blocks)


def answer(block, shape=SHAPE):
    """Counts that depend on the block alone."""
    rng = np.random.default_rng(block.start)
    if not shape.together:
        return pack_counts(rng.integers(0, 50, (shape.rules, 3 * shape.classes)))
    codes = {int(code): rng.integers(0, 9, shape.classes) for code in rng.integers(0, 4, 2)}
    return pack_counts(Overlaps(rng.integers(0, 9, shape.rules), rng.integers(0, 9, shape.classes), codes))


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "send", "answer", "answer", "lost", "unavailable", "silence", "restart"]),
        st.integers(0, 100),
    ),
    max_size=60,
)


@settings(max_examples=150)
@given(st.integers(1, 4), st.booleans(), EVENTS)
def test_the_counts_are_the_same_after_any_events_in_any_order(size, together, events):
    shape = PassShape(rules=2, classes=2, together=together)
    machine, sent, accepted, now = a_pass(size, shape), [], [], 0.0
    for name, pick in events:
        now += 1.0
        task = sent[pick % len(sent)] if sent else None
        if name == "send" and (following := machine.next_task(now)) is not None:
            machine.mark_sent(following.key, following.attempt, now)
            sent.append(following)
        elif name == "silence":
            machine.outbox.mark_taken(now, now)
            now += 100 * ALLOWANCE
            machine.outbox.resend_unanswered(now, lambda block: ALLOWANCE)
        elif name == "restart":
            machine = a_pass(size, shape)
            for block in accepted:
                machine.accept(block, answer(block, shape))
            for each in {each.key: each for each in sent}.values():
                machine.adopt(each.key, each.attempt, now)
        elif task is not None and name == "answer" and machine.accept(task.key, answer(task.key, shape)):
            accepted.append(task.key)
        elif task is not None and name == "lost":
            machine.fail(task.key, task.attempt)
        elif task is not None and name == "unavailable":
            machine.outbox.postpone(task.key, task.attempt, now + 1)
    machine.outbox.mark_taken(now, now)
    machine.outbox.resend_unanswered(now + 1000 * ALLOWANCE, lambda block: ALLOWANCE)
    while (task := machine.next_task(now + 10_000)) is not None:
        machine.mark_sent(task.key, task.attempt, now)
        assert machine.accept(task.key, answer(task.key, shape))

    assert machine.finished
    assert machine.done == machine.rows
    alone = a_pass(size, shape)
    while (task := alone.next_task(0.0)) is not None:
        alone.accept(task.key, answer(task.key, shape))
    assert machine.results() == alone.results()


def test_a_block_that_fails_too_often_is_given_up():
    machine = a_pass(4)
    for attempt in range(MAX_BLOCK_FAILURES):
        task = machine.next_task(0.0)
        assert (task.key.start, task.attempt) == (0, attempt)
        machine.mark_sent(task.key, attempt, 0.0)
        assert machine.fail(task.key, attempt) == (attempt + 1 == MAX_BLOCK_FAILURES)


def test_what_is_drawn_is_returned_in_the_order_of_the_blocks():
    machine = a_pass(1, None, "draw")
    tasks = [machine.next_task(0.0) for _ in range(COUNT)]
    for task in reversed(tasks):
        drawn = DrawnBlock(cells=f"{task.key.start:064x}", drawn="b" * 64)
        machine.accept(task.key, dump_blocks([drawn]))

    body, artifacts = machine.results()
    assert [int(block.cells, 16) for block in parse_blocks(body)] == list(range(COUNT))
    assert f"cells/{COUNT - 1:064x}" in artifacts


@pytest.mark.parametrize("body", [b"", b"short", pack_counts(np.full((2, 6), -1)), pack_counts(np.zeros((1, 6), int))])
def test_counts_that_do_not_match_are_refused_and_the_block_stays_open(body):
    machine = a_pass(4)
    task = machine.next_task(0.0)

    with pytest.raises(FormatError, match="Packed counts"):
        machine.accept(task.key, body)
    assert machine.is_open(task.key)


@settings(max_examples=50)
@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_packed_counts_are_read_as_they_were(seed, rules, classes, together):
    rng, shape = np.random.default_rng(seed), PassShape(rules=rules, classes=classes, together=together)
    counts = rng.integers(0, 2**40, (rules, 3 * classes))
    if together:
        codes = rng.choice(1 << rules, size=int(rng.integers(0, 3)), replace=False).tolist()
        combined = {code: rng.integers(0, 99, classes) for code in sorted(codes)}
        counts = Overlaps(counts[:, 0], rng.integers(0, 99, classes), combined)

    again = unpack_counts(pack_counts(counts), shape)

    np.testing.assert_equal(again, counts)
