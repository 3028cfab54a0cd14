"""Network faults between hosts: no rule changes, and no subset has two rows."""

import os
import signal
import time
from contextlib import contextmanager

import pytest
from sqlalchemy import text

from scheduler.ledger.database import NETWORK_TIMEOUT
from tests import hosts, servers
from tests.faults.client import MINING
from tests.faults.far_world import WORKERS, FarWorld
from tests.faults.world import LEASE
from tests.ledgers import connected

pytestmark = pytest.mark.xdist_group("faults")

SHORT_MINING = MINING | {"trees": 600}
FAULTY_LINK = {"loss": 0.02, "twice": 0.02, "jitter": 0.01}


@pytest.fixture(scope="module")
def _shared_world(tmp_path_factory):
    hosts.need()
    world = FarWorld(tmp_path_factory.mktemp("hosts"))
    try:
        world.start("scheduler", *WORKERS)
        yield world
    finally:
        world.close()


@pytest.fixture
def far(_shared_world):
    """A cluster on five hosts, with a healthy network."""
    yield _shared_world
    _shared_world.network.repair()


@pytest.fixture
def two_schedulers(tmp_path):
    """A scheduler on each of two hosts, with their ledger on a third."""
    hosts.need()
    if hosts.namespace_command() != hosts.PLAIN or servers.postgres_programs() is None:
        pytest.skip("PostgreSQL on its own host needs root and an installed PostgreSQL.")
    world = FarWorld(tmp_path, postgres=True)
    try:
        world.start("scheduler-1", "scheduler-2", *WORKERS)
        yield world
    finally:
        world.close()


@contextmanager
def busy(worker):
    """Stop a worker while it has trees to grow, so that it does not answer inside the block."""
    (child,) = worker.children

    def stopped_in_a_task():
        os.kill(child, signal.SIGSTOP)
        time.sleep(0.05)
        if has_unanswered_trees(worker.log):
            return True
        os.kill(child, signal.SIGCONT)
        return False

    servers.wait_for(stopped_in_a_task, 20, what="a task that is not answered")
    try:
        yield
    finally:
        os.kill(child, signal.SIGCONT)


def has_unanswered_trees(log):
    """True if the last task received is an evaluation without an outcome in the log; outcomes are logged before the
    answer.
    """
    before, received, after = log.rpartition("] received")
    return bool(received) and "maabo.evaluate[" in before.splitlines()[-1] and "] task " not in after


def wait_for_resending(far, before):
    """Wait until the scheduler has sent a task again."""
    process = far.processes["scheduler"]
    servers.wait_for(lambda: "no answer; sending again" in process.log[before:], 60, what="a task that is sent again")


@pytest.mark.slow
def test_a_job_on_three_hosts_has_the_digest_of_one_process(far):
    far.check_done(far.submit(SHORT_MINING), SHORT_MINING)

    assert all(far.count_tasks(name) for name in WORKERS)


@pytest.mark.slow
def test_lost_duplicated_or_reordered_packets_change_no_rule(far):
    far.network.change(**FAULTY_LINK)

    far.check_done(far.submit(SHORT_MINING), SHORT_MINING, seconds=60)
    assert all(far.network.counts[fault] for fault in ("loss", "twice", "late"))


@pytest.mark.slow
def test_a_temporary_link_failure_of_a_worker_host_changes_no_rule(far):
    job, before = far.submit(), len(far.processes["scheduler"].log)
    far.under_way(job)
    with busy(far.processes["worker-1"]):
        far.hosts["worker-1"].link("down")
    wait_for_resending(far, before)
    far.hosts["worker-1"].link("up")

    far.check_done(job)


@pytest.mark.soak
def test_a_reconnected_host_works_again(far):
    far.network.cut(far.hosts["worker-2"])
    far.check_done(far.submit(SHORT_MINING), SHORT_MINING, seconds=60)
    before = len(far.processes["worker-2"].log)
    far.network.repair()

    servers.wait_for(
        lambda: far.check_done(far.submit(SHORT_MINING), SHORT_MINING) and far.count_tasks("worker-2", before),
        60,
        what="a task done by the host",
    )


@pytest.mark.soak
@pytest.mark.parametrize("seconds", [2, 8, 25])
@pytest.mark.parametrize("name", ["worker-1", "scheduler", "redis"])
def test_a_host_that_is_cut_off_for_a_while_changes_no_rule(far, name, seconds):
    job = far.submit()
    far.under_way(job)
    far.network.cut(far.hosts[name])
    time.sleep(seconds)
    far.network.repair()

    far.check_done(job, seconds=60)


@pytest.mark.soak
@pytest.mark.parametrize("seconds", [4, 25])
@pytest.mark.parametrize("name", ["worker-1", "scheduler", "redis"])
@pytest.mark.parametrize("direction", ["from", "to"])
def test_packets_that_are_lost_in_one_direction_change_no_rule(far, name, seconds, direction):
    job = far.submit()
    far.under_way(job)
    far.network.change(**{{"from": "sources", "to": "targets"}[direction]: [far.hosts[name]]}, loss=1.0)
    time.sleep(seconds)
    far.network.repair()

    far.check_done(job, seconds=60)


@pytest.mark.soak
@pytest.mark.parametrize(
    "conditions",
    [
        {"loss": 0.1},
        {"delay": 0.05},
        {"jitter": 0.1},
        {"twice": 0.3},
        {"loss": 0.05, "delay": 0.02, "jitter": 0.05, "twice": 0.05},
    ],
    ids=str,
)
def test_a_bad_network_changes_no_rule(far, conditions):
    far.network.change(**conditions)

    far.check_done(far.submit(SHORT_MINING), SHORT_MINING, seconds=180)


@pytest.mark.soak
@pytest.mark.parametrize("direction", ["both", "from", "to"])
def test_a_scheduler_host_that_is_cut_off_past_its_lease_is_succeeded_and_fenced_off(two_schedulers, direction):
    far, job = two_schedulers, two_schedulers.submit()
    fence = far.under_way(job).fence
    first = holder(far, job)
    if direction != "to":
        far.network.silence(far.hosts[first])
    if direction != "from":
        far.network.change(targets=[far.hosts[first]], loss=1.0)
    servers.wait_for(lambda: far.row(job).fence > fence, LEASE + NETWORK_TIMEOUT + 15, what="another holder of the job")
    second = holder(far, job)
    servers.wait_for(
        lambda: "outage; trying again" in far.processes[first].log, NETWORK_TIMEOUT + 30, what="an outage in the log"
    )
    far.network.repair()

    far.check_done(job, seconds=60)
    assert second != first
    servers.wait_for(lambda: "outage over" in far.processes[first].log, 60, what="its return")
    far.network.cut(far.hosts[second])
    far.check_done(far.submit(SHORT_MINING), SHORT_MINING, seconds=60)


def holder(far, job):
    """Return the host whose scheduler holds the job."""
    with connected(far.settings.ledger_url) as connection:
        owner = connection.execute(text("SELECT owner FROM maabo_jobs WHERE id = :job"), {"job": job}).scalar()
    return owner.split(":")[0]
