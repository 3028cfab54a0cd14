"""Processes that are killed, terminated with SIGTERM, or frozen."""

import os
import signal

import pytest

from tests import servers
from tests.faults.world import LEASE, MINING

pytestmark = pytest.mark.xdist_group("faults")


def test_a_killed_worker_child_changes_no_rule(world):
    job = world.submit()
    world.under_way(job)
    for child in world.first_worker.children:
        os.kill(child, signal.SIGKILL)

    world.check_done(job)
    assert world.first_worker.alive


def test_a_killed_worker_main_changes_no_rule(world):
    job = world.submit()
    world.under_way(job)
    world.first_worker.signal(signal.SIGKILL)
    world.worker()

    world.check_done(job)


@pytest.mark.slow
def test_a_busy_worker_exits_on_sigterm_and_loses_nothing(world):
    job = world.submit()
    world.under_way(job)
    world.first_worker.signal(signal.SIGTERM)

    assert world.first_worker.exit_code(20) == 0
    world.worker()
    world.check_done(job)


@pytest.mark.slow
def test_a_scheduler_releases_its_jobs_on_sigterm(world):
    job = world.submit()
    world.under_way(job)
    world.first_scheduler.signal(signal.SIGTERM)

    assert world.first_scheduler.exit_code(15) == 0
    assert "jobs released jobs=1" in world.first_scheduler.log
    world.scheduler()
    world.check_done(job)


@pytest.mark.slow
def test_a_killed_scheduler_is_succeeded_by_another(world):
    job = world.submit()
    fence = world.under_way(job).fence
    world.first_scheduler.signal(signal.SIGKILL)
    world.scheduler()

    assert world.check_done(job, seconds=LEASE + 30).fence > fence


def test_a_frozen_scheduler_is_fenced_off_when_it_resumes_and_can_take_new_jobs(world):
    job = world.submit()
    fence = world.under_way(job).fence
    world.freeze(world.first_scheduler)
    second = world.scheduler()
    servers.wait_for(lambda: world.row(job).fence > fence, LEASE + 10, what="another holder of the job")
    world.first_scheduler.signal(signal.SIGCONT)

    world.check_done(job)
    servers.wait_for(
        lambda: "taken over by another scheduler" in world.first_scheduler.log,
        10,
        what="the fenced scheduler in the log",
    )
    second.signal(signal.SIGTERM)
    second.exit_code(15)
    other = MINING | {"seed": 2, "trees": 500}
    world.check_done(world.submit(other), other)


def test_the_jobs_of_a_killed_scheduler_are_taken_over_before_their_leases_expire(new_world):
    world = new_world(lease_seconds=300.0)
    world.worker(wait=False)
    first = world.scheduler()
    job = world.submit()
    fence = world.under_way(job).fence
    first.signal(signal.SIGKILL)
    world.scheduler()

    assert world.check_done(job, seconds=60).fence == fence + 1
