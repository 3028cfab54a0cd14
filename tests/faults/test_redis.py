"""Rows 6 and 7: a Redis that is killed, emptied, frozen, gone."""

import signal
import time

import pytest

from tests import servers
from tests.faults.world import LEASE

pytestmark = pytest.mark.xdist_group("faults")


def alive(world):
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
    assert alive(world)


def test_an_emptied_redis_changes_no_rule(world):
    job = world.submit()
    world.under_way(job)
    world.client.flushall()

    world.check_done(job)
    assert alive(world)


@pytest.mark.slow
def test_a_redis_frozen_for_longer_than_the_lease_changes_no_rule(world):
    job = world.submit()
    world.under_way(job)
    world.redis.signal(signal.SIGSTOP)
    time.sleep(LEASE + 1)
    world.redis.signal(signal.SIGCONT)

    world.check_done(job)
    assert alive(world)


@pytest.mark.soak
@pytest.mark.parametrize("way", ["killed", "frozen"])
def test_a_redis_that_is_gone_for_longer_than_every_retry_changes_no_rule(world, way):
    job = world.submit()
    world.under_way(job)
    world.redis.kill() if way == "killed" else world.redis.signal(signal.SIGSTOP)
    time.sleep(25)
    assert alive(world)
    world.redis.start() if way == "killed" else world.redis.signal(signal.SIGCONT)

    world.check_done(job, seconds=60)
    assert alive(world)


@pytest.mark.soak
def test_a_job_that_ends_while_redis_is_gone_is_seen_to_have_ended(world):
    """Nobody holds it any more; its record must not stay as it was."""
    job = world.submit()
    servers.wait_for(lambda: (row := world.row(job)) is not None and row.trees > 2500, 30, what="most trees")
    for _ in range(10):
        world.proxy.cut()
        time.sleep(0.15)

    world.check_done(job)
