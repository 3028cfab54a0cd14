"""Fault: nobody said that there were no workers, or that Redis refused writes. Now the job's record does."""

import pytest

from maabo_dist.cluster.queue_client import QueueClient
from maabo_dist.contract.job import JobState
from scheduler.ledger.tenants import QuotaRow
from tests import servers
from tests.faults import test_screens
from tests.faults.world import MINING

pytestmark = pytest.mark.xdist_group("faults")


@pytest.fixture(autouse=True)
def _no_block_is_held_afterwards(world):
    yield
    world.hold.unlink(missing_ok=True)


SMALL = MINING | {"trees": 40}


def wait_for_obstacle(world, job, kind, seconds=30):
    def look():
        record = world.record(job)
        return record if record is not None and record.obstacle is not None and record.obstacle.kind == kind else None

    return servers.wait_for(look, seconds, what=f"the obstacle {kind}")


@pytest.mark.slow
def test_a_job_without_workers_says_so_until_there_is_one(world):
    world.end(world.first_worker)
    job = world.submit(SMALL)

    record = wait_for_obstacle(world, job, "workers")
    assert record.state is JobState.RUNNING
    assert record.obstacle.text == "no worker is connected"
    assert "Start workers" in record.obstacle.remedy

    world.first_worker = world.worker()
    world.check_done(job, SMALL)
    assert world.record(job).obstacle is None


@pytest.mark.slow
def test_a_job_whose_workers_are_busy_says_so(world):
    held = test_screens.half_screened(world)
    job = world.submit(SMALL)

    assert "is free" in wait_for_obstacle(world, job, "busy").obstacle.text
    test_screens.check_done(world, held)
    world.check_done(job, SMALL)


@pytest.mark.slow
def test_a_redis_that_refuses_writes_is_in_the_ledger_and_shown_to_clients(world):
    job = world.submit(MINING)
    world.under_way(job)
    world.client.config_set("maxmemory", "1mb")
    try:
        servers.wait_for(
            lambda: (
                [outage.kind for outage in world.ledger.outages.current() if "Raise maxmemory" in outage.remedy]
                == ["redis"]
            ),
            20,
            what="the outage in the ledger",
        )
        client = QueueClient(world.settings, world.client)
        silence = servers.wait_for(client.find_silence, 20, what="the silence")
        assert "maxmemory" in silence.text
    finally:
        world.client.config_set("maxmemory", "0")

    world.check_done(job, seconds=60)
    servers.wait_for(lambda: not world.ledger.outages.current(), 20, what="the end of the outage")


def test_a_paused_job_says_how_to_continue_it(world):
    job = world.submit(MINING | {"trees": 20_000})
    world.under_way(job)
    world.ask("pause", job)

    assert f"maabo resume {job[:8]}" in wait_for_obstacle(world, job, "paused").obstacle.remedy
    world.ask("cancel", job)
    world.ended(job)


def test_a_queued_job_says_how_many_are_before_it(world):
    world.ledger.quotas.set(QuotaRow("small", running=1))
    jobs = [world.submit(MINING | {"trees": 400_000}, tenant="small") for _ in range(3)]

    def places():
        records = [record for job in jobs if (record := world.record(job)) is not None]
        return sorted(record.obstacle.text for record in records if record.state is JobState.QUEUED and record.obstacle)

    running = "waiting for its turn: 1 job is running"
    expected = [running, f"{running}, and 1 job is ahead of it"]
    servers.wait_for(lambda: places() == expected, 20, what="the places of two jobs")

    assert places() == expected
    for job in jobs:
        world.ask("cancel", job)
    for job in jobs:
        world.ended(job)
