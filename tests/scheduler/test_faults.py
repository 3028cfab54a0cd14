"""Faults on real parts. Whatever is killed: the job is done, and its digest is that of an undisturbed run."""

import os
import signal
import time

import pytest

from maabo_dist.cluster.streams import open_redis
from maabo_dist.contract.job import JobState
from maabo_dist.data import load_bundled, prepare
from maabo_dist.mining import mine
from maabo_dist.settings import MiningSettings
from tests import servers
from tests.cluster import a_scheduler, cluster_settings, ended, some_trees, submit



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
        yield cluster_settings(url, tmp_path, task_seconds=0.002, lease_seconds=3)


def test_a_killed_worker_changes_no_rule(cluster, columns, expected, tmp_path):
    with a_scheduler(cluster) as ledger:
        with servers.worker(cluster, tmp_path, "-c", "2") as first:
            job = submit(cluster, tmp_path, columns, **MINING)
            some_trees(ledger, job, 300)
            os.kill(first.pid, signal.SIGKILL)
        with servers.worker(cluster, tmp_path, "-c", "2"):
            row = ended(ledger, job)

    assert (row.state, row.digest) == (JobState.DONE, expected)


def test_a_scheduler_that_lost_its_lease_writes_nothing_more_and_stays_up(cluster, columns, expected, tmp_path):
    with a_scheduler(cluster) as ledger, servers.worker(cluster, tmp_path, "-c", "2"):
        job = submit(cluster, tmp_path, columns, **MINING)
        some_trees(ledger, job, 300)
        (stolen,) = ledger.acquire("another", time.time() + 3600, seconds=-3600, most=1)
        ledger.release([stolen], time.time())
        row = ended(ledger, job)

    assert row.fence > stolen.fence
    assert (row.state, row.digest) == (JobState.DONE, expected)


def test_an_emptied_redis_changes_no_rule(cluster, columns, expected, tmp_path):
    with a_scheduler(cluster) as ledger, servers.worker(cluster, tmp_path, "-c", "2"):
        job = submit(cluster, tmp_path, columns, **MINING)
        some_trees(ledger, job, 300)
        open_redis(cluster).flushall()
        row = ended(ledger, job)

    assert (row.state, row.digest) == (JobState.DONE, expected)
