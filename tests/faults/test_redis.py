"""A Redis server that is killed, emptied, frozen or unavailable."""

import signal
import time

import pytest

from tests import servers
from tests.faults.world import LEASE

pytestmark = pytest.mark.xdist_group("faults")


def all_alive(world):
    return world.first_worker.alive and world.first_scheduler.alive


@pytest.mark.parametrize("appendonly", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_killed_redis_changes_no_rule(world, appendonly):
    world.redis.kill()
    world.redis.start(appendonly=appendonly)
    job = world.submit()
    world.under_way(job)
    world.redis.kill()
    time.sleep(0.5)
    world.redis.start(appendonly=appendonly)

    world.check_done(job)
    assert all_alive(world)


def test_an_emptied_redis_changes_no_rule(world):
    job = world.submit()
    world.under_way(job)
    world.client.flushall()

    world.check_done(job)
    assert all_alive(world)


@pytest.mark.slow
def test_a_redis_frozen_for_longer_than_the_lease_changes_no_rule(world):
    job = world.submit()
    world.under_way(job)
    world.redis.signal(signal.SIGSTOP)
    time.sleep(LEASE + 1)
    world.redis.signal(signal.SIGCONT)

    world.check_done(job)
    assert all_alive(world)


@pytest.mark.soak
@pytest.mark.parametrize("fault", ["killed", "frozen"])
def test_a_redis_outage_longer_than_every_retry_changes_no_rule(world, fault):
    job = world.submit()
    world.under_way(job)
    world.redis.kill() if fault == "killed" else world.redis.signal(signal.SIGSTOP)
    time.sleep(25)
    assert all_alive(world)
    world.redis.start() if fault == "killed" else world.redis.signal(signal.SIGCONT)

    world.check_done(job, seconds=60)
    assert all_alive(world)


@pytest.mark.soak
def test_the_end_of_a_job_is_published_after_an_outage_of_redis(world):
    """No scheduler holds the job any more, but its record must still be updated."""
    job = world.submit()
    servers.wait_for(lambda: (row := world.row(job)) is not None and row.trees > 2500, 30, what="most trees")
    for _ in range(10):
        world.proxy.cut()
        time.sleep(0.15)

    world.check_done(job)
