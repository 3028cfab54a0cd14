"""Screens on workers: after any fault during a screen, the digest is that of one process."""

import os
import re
import signal
from math import comb

import pytest

from maabo_dist.cluster.streams import BODY, SCREEN_HEADER
from maabo_dist.contract.job import JobState
from maabo_dist.contract.messages import ScreenAnswer
from tests import servers

pytestmark = pytest.mark.xdist_group("faults")

SCREENED_MINING = {
    "trees": 120,
    "batch": 16,
    "in_flight": 4,
    "seed": 1,
    "preset": "auto",
    "min_samples": 10,
    "literals": "paper",  # otherwise there are too few rules to distinguish searches
}
PLANTED = "planted 200"


def submit(world, **more):
    return world.submit(SCREENED_MINING | more, name=PLANTED)


@pytest.fixture(autouse=True)
def _no_block_is_held_afterwards(world):
    yield
    world.hold.unlink(missing_ok=True)


def half_screened(world, least=3):
    """Return a job of which some blocks are answered and the others are held by workers until `check_done`."""
    world.hold.touch()
    job = submit(world)

    def look():
        blocks = world.ledger.screens.blocks(job)
        answered = sum(block.pairs is not None for block in blocks)
        return blocks if least <= answered < len(blocks) else None

    servers.wait_for(look, 30, what="a half-finished screen")
    return job


def check_done(world, job, seconds=30):
    world.hold.unlink(missing_ok=True)
    row = world.check_done(job, SCREENED_MINING, name=PLANTED, seconds=seconds)
    assert row.rules > 20
    return row


def test_a_screen_on_workers_changes_no_rule_and_its_progress_is_published(world):
    job = half_screened(world)
    record = servers.wait_for(
        lambda: (current := world.record(job)) and current.pairs_screened and current, 10, what="a record of the screen"
    )

    row = check_done(world, job)
    assert (record.state, record.pairs, record.trees) == (JobState.RUNNING, comb(200, 2) + comb(200, 3), 0)
    assert 0 < record.pairs_screened < record.pairs
    assert (world.record(job).pairs_screened, row.trees) == (None, 120)


def test_a_worker_child_killed_in_the_middle_of_a_screen_changes_no_rule(world):
    before = len(world.first_scheduler.log)
    job = half_screened(world)
    children = world.first_worker.children
    for child in children:
        held = f"process {child} holds a block of job {job}"
        servers.wait_for(lambda held=held: held in world.first_worker.log, 30, what="a block for each process")
    for child in children:
        os.kill(child, signal.SIGKILL)

    check_done(world, job)
    assert world.first_worker.alive
    assert re.search("task lost .*task=screen", world.first_scheduler.log[before:])


@pytest.mark.soak
def test_a_redis_emptied_in_the_middle_of_a_screen_changes_no_rule(world):
    job = half_screened(world)
    world.client.flushall()

    check_done(world, job)


@pytest.mark.soak
def test_a_job_paused_in_the_middle_of_a_screen_resumes_there(world):
    job = half_screened(world)
    world.ask("pause", job)
    servers.wait_for(lambda: world.row(job).state is JobState.PAUSED, 10, what="a job that is paused")
    world.ask("resume", job)

    check_done(world, job)


@pytest.mark.soak
def test_a_job_cancelled_in_the_middle_of_a_screen_leaves_nothing_behind(world):
    job = half_screened(world)
    world.ask("cancel", job)

    assert world.ended(job).state is JobState.CANCELLED
    assert (world.ledger.screens.blocks(job), world.ledger.screens.screen(job)) == ([], None)
    servers.wait_for(lambda: world.record(job).state is JobState.CANCELLED, 10, what="the job's record")
    assert world.record(job).pairs_screened is None


def test_a_time_budget_spent_on_the_screen_leaves_time_for_the_first_batches_only(world):
    job = submit(world, time_limit=0.3)

    row = world.ended(job)
    assert (row.state, row.reason) == (JobState.DONE, "the time limit was reached")
    assert 0 < row.trees < SCREENED_MINING["trees"]


def test_an_answer_that_does_not_match_a_block_is_refused(world):
    world.first_worker.signal(signal.SIGSTOP)
    job, before = submit(world), len(world.first_scheduler.log)
    block = servers.wait_for(lambda: world.ledger.screens.blocks(job), 20, what="blocks")[0]
    header = {"kind": "done", "job": job, "attempt": 0, "worker": "unknown"}
    for start, stop, body in [(block.start, block.stop, b"short"), (0, 1000, b"")]:
        answer = ScreenAnswer.read(header | {"start": start, "stop": stop})
        world.client.xadd(world.stream(job), {SCREEN_HEADER: answer.model_dump_json(), BODY: body})
    servers.wait_for(lambda: world.first_scheduler.log[before:].count("answer refused") >= 2, 15, what="two refusals")
    world.first_worker.signal(signal.SIGCONT)

    check_done(world, job)


@pytest.mark.soak
def test_a_scheduler_killed_at_any_step_of_a_screen_changes_no_rule(world):
    steps = [f"{when} {action}" for action in ("block", "block-publish", "screen") for when in ("before", "after")]
    world.first_scheduler.signal(signal.SIGTERM)
    world.first_scheduler.exit_code(15)
    dying = world.scheduler("tests.faults.dying_scheduler", *steps, lease_seconds=1.0)
    jobs = [submit(world), submit(world)]  # a screen is written once
    for step in steps:
        servers.wait_for(lambda step=step: f"died: {step}, by signal 9" in dying.log, 30, what=f"a death {step}")

    for job in jobs:
        check_done(world, job)


@pytest.mark.soak
def test_after_a_scheduler_is_killed_during_a_screen_another_resumes_it(world):
    job = half_screened(world)
    world.first_scheduler.signal(signal.SIGKILL)
    world.first_scheduler.exit_code(10)
    answered_blocks = {block.start for block in world.ledger.screens.blocks(job) if block.pairs is not None}
    second = world.scheduler()

    check_done(world, job)
    assert len(answered_blocks) >= 3
    assert f"screening job={job} screened=0 " not in second.log
    assert f"screening job={job} screened=" in second.log
