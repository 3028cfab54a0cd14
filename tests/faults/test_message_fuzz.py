"""Mutated messages, requests, answers and control messages, sent to a running scheduler and worker.

No process may exit, nothing may stay behind, and a job that runs meanwhile must give the right rules.
MAABO_FUZZ_SEED and MAABO_FUZZ_ROUNDS select another run of the long version.
"""

import json
import os
from random import Random

import pytest

from maabo_dist.cluster.streams import BODY, SCREEN_HEADER, SHUFFLE_HEADER
from maabo_dist.errors import FormatError
from maabo_dist.findings.wire import unpack_searches
from maabo_dist.screens.screen import MAX_PAIRS
from maabo_dist.screens.wire import unpack_pairs
from tests import servers
from tests.faults import test_screens, test_shuffled_tasks
from tests.faults.fuzz import Fuzz
from tests.faults.mutations import mutate_bytes
from tests.faults.world import MINING

pytestmark = pytest.mark.xdist_group("faults")


@pytest.fixture
def _nothing_is_held_afterwards(world):
    yield
    world.hold.unlink(missing_ok=True)


SMALL = MINING | {"trees": 60}


def check(world, seed, rounds):
    fuzz = Fuzz(world, seed)
    before = len(world.first_worker.log)
    fuzz.run(rounds)
    servers.wait_for(fuzz.drained, 60, what="empty queues")
    world.check_done(world.submit(SMALL), SMALL)
    assert "WorkerLostError" not in world.first_worker.log[before:]
    assert world.first_scheduler.alive
    assert world.first_worker.alive
    return fuzz.sent


def test_mutated_messages_end_no_process_and_change_no_rule(world):
    assert check(world, seed=1, rounds=100) > 200


def send_damaged(world, job, field, rows, is_valid):
    """Answer all tasks that are awaited with a damaged copy of an answer, many times."""
    random, sent = Random(3), 0
    body = next(body for _, body in rows if body is not None)
    for row, answer in rows * 20:
        damaged = mutate_bytes(random, body)
        if answer is None and not is_valid(row, damaged):
            header = {
                "kind": "done",
                "job": job,
                "attempt": 0,
                "worker": "here:1",
                "start": row.start,
                "stop": row.stop,
            }
            world.client.xadd(world.stream(job), {field: json.dumps(header), BODY: damaged})
            sent += 1
    assert sent > 20
    servers.wait_for(lambda: world.client.xlen(world.stream(job)) == 0, 20, what="the refusal of all")
    assert world.first_scheduler.alive


def is_accepted(unpack, *arguments):
    try:
        unpack(*arguments)
    except FormatError:
        return False
    return True


@pytest.mark.usefixtures("_nothing_is_held_afterwards")
def test_damaged_answers_of_a_screen_change_no_rule(world):
    job = test_screens.half_screened(world)
    rows = [(block, block.pairs) for block in world.ledger.screens.blocks(job)]
    send_damaged(
        world,
        job,
        SCREEN_HEADER,
        rows,
        lambda row, data: is_accepted(unpack_pairs, data, row.start, row.stop, 200, MAX_PAIRS),
    )

    test_screens.check_done(world, job)


@pytest.mark.usefixtures("_nothing_is_held_afterwards")
def test_damaged_answers_of_shuffled_searches_change_no_rule(world):
    job = test_shuffled_tasks.half_certified(world)
    rows = [(task, task.searches) for task in world.ledger.shuffles.rows(job)]
    send_damaged(
        world,
        job,
        SHUFFLE_HEADER,
        rows,
        lambda row, data: is_accepted(unpack_searches, data, row.stop - row.start),
    )

    test_shuffled_tasks.check_done(world, job)


@pytest.mark.soak
def test_thousands_of_mutated_messages_end_no_process_and_change_no_rule(new_world, capsys):
    """In a cluster of its own: what is left in the queues when it fails must not fail other tests."""
    world = new_world()
    world.revive()
    seed = int(os.environ.get("MAABO_FUZZ_SEED", "2"))
    sent = check(world, seed, rounds=int(os.environ.get("MAABO_FUZZ_ROUNDS", "3000")))
    with capsys.disabled():
        print(f"\nMAABO_FUZZ_SEED={seed}: {sent} mutations, no exits", flush=True)
