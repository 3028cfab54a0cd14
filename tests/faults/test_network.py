"""Connections that are cut, silent or slow; messages that arrive twice or late, or whose reply is lost."""

import json
import os
import signal
import time

import pytest

from tests import servers
from tests.faults.world import MINING

pytestmark = pytest.mark.xdist_group("faults")


@pytest.fixture
def between(world):
    yield world.proxy
    world.proxy.delay(0)
    world.proxy.thaw()
    world.proxy.duplicate_commands()


def test_cut_connections_change_no_rule(world, between):
    job = world.submit()
    world.under_way(job)
    for _ in range(5):
        between.cut()
        time.sleep(0.3)

    world.check_done(job)


@pytest.mark.soak
def test_silent_connections_are_closed_in_time(world, between):
    job = world.submit()
    world.under_way(job)
    between.strand()

    world.check_done(job, seconds=25 + 10)
    assert world.first_worker.alive


@pytest.mark.soak
def test_a_network_that_stalls_for_a_while_changes_no_rule(world, between):
    job = world.submit()
    world.under_way(job)
    between.freeze()
    time.sleep(4)
    between.thaw()

    world.check_done(job)


@pytest.mark.soak
def test_a_network_that_stalls_for_longer_than_every_timeout_changes_no_rule(world, between):
    job = world.submit()
    world.under_way(job)
    between.freeze()
    time.sleep(20)
    between.thaw()

    world.check_done(job, seconds=60)


@pytest.mark.soak
@pytest.mark.parametrize("delay", [(0.1, 0.1), (0.0, 0.2)], ids=["late", "out of order"])
def test_a_slow_network_changes_no_rule(world, between, delay):
    mining = MINING | {"trees": 120}
    between.delay(*delay)
    job = world.submit(mining)

    world.check_done(job, mining, seconds=60)


def test_duplicated_messages_are_counted_once(world, between):
    mining = MINING | {"trees": 4 * MINING["trees"]}
    between.duplicate_commands(b"XADD", b"LPUSH")
    job = world.submit(mining)

    row = world.check_done(job, mining)
    assert min(between.seen[b"XADD"], between.seen[b"LPUSH"]) > 50
    assert (row.trees, json.loads(world.document(job))["search"]["trees"]) == (mining["trees"], mining["trees"])


OTHER_COMMANDS = [pytest.param(name, marks=pytest.mark.soak) for name in (b"LPUSH", b"XDEL", b"BRPOP", b"XREAD")]


@pytest.mark.parametrize("command", [b"XADD", b"MULTI", *OTHER_COMMANDS])
def test_a_lost_reply_changes_no_rule(world, between, command):
    job = world.submit()
    world.under_way(job)
    before = between.seen[command]
    between.lose_reply(command, times=5)
    servers.wait_for(lambda: between.seen[command] == before + 5, 30, what="lost replies")

    assert world.check_done(job).trees == MINING["trees"]


@pytest.mark.slow
def test_a_late_answer_is_dropped_when_another_came_first(world):
    for _ in range(5):  # sometimes the process that stays stopped has received no task
        job = world.submit()
        world.under_way(job)
        late, other = world.first_worker.children
        for child in (late, other):
            os.kill(child, signal.SIGSTOP)
        time.sleep(0.5)  # until both have received a task
        before = len(world.first_scheduler.log)
        os.kill(other, signal.SIGCONT)
        resent = _resent_before_the_end(world, job, before)
        os.kill(late, signal.SIGCONT)
        assert world.check_done(job).trees == MINING["trees"]
        if resent:
            return
    pytest.fail("nothing was ever sent again")


def _resent_before_the_end(world, job, before):
    def resent():
        return "no answer; sending again" in world.first_scheduler.log[before:]

    servers.wait_for(lambda: resent() or world.row(job).state.ended, 120, what="a task that is sent again")
    return resent()
