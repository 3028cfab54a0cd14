"""Faults on real parts. Whatever is killed: the job is done, and its digest is that of an undisturbed run."""

import os
import signal
import time

import pytest

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import open_redis
from maabo_dist.contract.job import JobState
from maabo_dist.data import load_bundled, prepare
from maabo_dist.mining import mine
from maabo_dist.settings import MiningSettings
from tests import servers
from tests.cluster import a_scheduler, ended, submit

pytestmark = pytest.mark.soak

MINING = {"trees": 3000, "batch": 64, "in_flight": 4, "seed": 1}


@pytest.fixture(scope="module")
def columns():
    return prepare(*load_bundled("breast_cancer")).columns


@pytest.fixture(scope="module")
def expected(columns):
    return mine(columns, MiningSettings.parse(MINING)).digest


@pytest.fixture
def cluster(tmp_path):
    with servers.redis_server(tmp_path) as url:
        yield ClusterSettings(
            redis_url=url,
            store_url=f"file://{tmp_path}/store",
            ledger_url=f"sqlite:///{tmp_path}/ledger.db",
            cache_dir=str(tmp_path / "cache"),
            task_seconds=0.002,
        )


def some_trees(ledger, job, least):
    return servers.wait_for(lambda: (row := ledger.job(job)) is not None and row.trees >= least, what="some trees")


def test_a_killed_worker_changes_no_rule(cluster, columns, expected, tmp_path):
    with a_scheduler(cluster) as ledger:
        with servers.worker(cluster, tmp_path, "-c", "2") as first:
            job = submit(cluster, tmp_path, columns, 1, **MINING)
            some_trees(ledger, job, 300)
            os.kill(first.pid, signal.SIGKILL)
        with servers.worker(cluster, tmp_path, "-c", "2"):
            row = ended(ledger, job)

    assert (row.state, row.digest) == (JobState.DONE, expected)


def test_a_scheduler_that_lost_its_lease_writes_nothing_more_and_stays_up(cluster, columns, expected, tmp_path):
    with a_scheduler(cluster) as ledger, servers.worker(cluster, tmp_path, "-c", "2"):
        job = submit(cluster, tmp_path, columns, 3, **MINING)
        some_trees(ledger, job, 300)
        (stolen,) = ledger.acquire("another", time.time() + 3600, seconds=-3600, most=1)
        ledger.release([stolen], time.time())
        row = ended(ledger, job)

    assert row.fence > stolen.fence
    assert (row.state, row.digest) == (JobState.DONE, expected)


def test_an_emptied_redis_changes_no_rule(cluster, columns, expected, tmp_path):
    with a_scheduler(cluster) as ledger, servers.worker(cluster, tmp_path, "-c", "2"):
        job = submit(cluster, tmp_path, columns, 2, **MINING)
        some_trees(ledger, job, 300)
        open_redis(cluster).flushall()
        row = ended(ledger, job)

    assert (row.state, row.digest) == (JobState.DONE, expected)
