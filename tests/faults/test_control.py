"""Jobs that are wait_for_end at any time, and clusters without workers."""

import signal
import time

import pytest

from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from tests import servers
from tests.faults.world import MINING

pytestmark = pytest.mark.xdist_group("faults")


def wait_for_end(world, job, seconds=15):
    """Wait until the job has ended and its record shows the same state; return its row."""
    row = world.ended(job, seconds)
    servers.wait_for(lambda: (record := world.record(job)) and record.state is row.state, 10, what="the job's record")
    return row


def test_a_job_cancelled_while_it_is_queued_is_never_started(world):
    world.first_scheduler.signal(signal.SIGTERM)
    world.first_scheduler.exit_code(15)
    job = world.submit()
    world.ask("cancel", job)
    world.scheduler()

    row = wait_for_end(world, job)
    assert (row.state, row.started, row.trees) == (JobState.CANCELLED, None, 0)


def test_a_job_cancelled_while_it_runs_ends_and_leaves_nothing_behind(world):
    world.first_scheduler.signal(signal.SIGTERM)
    world.scheduler(retention=5.0)  # also the interval at which it removes leftovers
    job = world.submit()
    world.under_way(job)
    world.ask("cancel", job)

    assert wait_for_end(world, job).state is JobState.CANCELLED
    servers.wait_for(lambda: not world.client.keys(f"*{job}*"), 30, what="a Redis without the job")


@pytest.mark.slow
def test_a_job_cancelled_while_its_rules_are_mined_ends(new_world):
    world = new_world(task_limit=5)
    world.scheduler(wait=False)
    world.worker("workers.app", "-c", "2", "-Q", "maabo.evaluate")
    job = world.submit()
    servers.wait_for(lambda: world.row(job) and world.row(job).state is JobState.MINING, 30, what="a job that mines")
    world.ask("cancel", job)

    row = wait_for_end(world, job)
    assert (row.state, row.digest) == (JobState.CANCELLED, None)
    servers.wait_for(lambda: not world.client.exists(world.stream(job)), 10, what="no stream")


@pytest.mark.soak
def test_a_job_waits_for_workers_and_is_done_by_several(world):
    world.first_worker.signal(signal.SIGKILL)
    world.first_worker.end()
    job = world.submit()
    servers.wait_for(lambda: world.ledger.search.tasks(job), 20, what="tasks that wait")
    waiting = []
    for _ in range(10):
        time.sleep(1)
        waiting.append(world.client.llen(world.settings.key(names.EVALUATE_QUEUE)))
    for worker in [world.worker(wait=False) for _ in range(2)]:
        worker.ready(" ready.")

    world.check_done(job)
    assert max(waiting) < 2 * MINING["in_flight"], "tasks that no worker took were sent repeatedly"
    servers.wait_for(lambda: not world.client.exists(world.stream(job)), 10, what="no stream")
