"""Fault: leases were written by each machine's clock, so that a job of a scheduler ahead of the others stood still."""

import signal

import pytest
from sqlalchemy import select

from maabo_dist.contract.job import JobState
from scheduler.ledger.schema import jobs
from tests import servers
from tests.faults import test_screens
from tests.faults.world import LEASE

pytestmark = pytest.mark.xdist_group("faults")


@pytest.fixture
def held(new_world, offset):
    """A cluster whose only scheduler, with a clock that is `offset` seconds ahead, holds a job as long as needed."""
    world = new_world()
    world.worker(wait=False)
    world.wrong_scheduler = world.scheduler("tests.faults.wrong_clock", environment={"CLOCK_OFFSET": str(offset)})
    world.job = test_screens.half_screened(world)
    return world


def wait_for_renewals(world, number):
    seen = set()

    def look():
        with world.ledger.database.read() as connection:
            seen.add(connection.execute(select(jobs.c.lease_until).where(jobs.c.id == world.job)).scalar())
        return len(seen) > number

    servers.wait_for(look, number * LEASE, what=f"{number} renewals")


@pytest.mark.slow
@pytest.mark.parametrize("offset", [-20, 20, 3600])
def test_a_scheduler_with_a_wrong_clock_keeps_its_job_and_is_succeeded(held):
    second = held.scheduler()
    wait_for_renewals(held, 4)
    assert held.row(held.job).fence == 1, "the second took a job whose lease was valid"

    held.wrong_scheduler.signal(signal.SIGKILL)
    servers.wait_for(lambda: held.row(held.job).fence == 2, LEASE + 10, what="the takeover")
    test_screens.check_done(held, held.job)
    assert second.alive


@pytest.mark.slow
@pytest.mark.parametrize("offset", [3600])
def test_a_job_whose_scheduler_was_ahead_and_died_can_be_cancelled(held):
    held.wrong_scheduler.signal(signal.SIGKILL)
    held.scheduler()
    held.ask("cancel", held.job)

    assert held.ended(held.job, LEASE + 10).state is JobState.CANCELLED
