"""End to end on real components: scheduler, Redis and Celery worker. The digest is that of one process."""

import os
import subprocess
import sys

import pytest

from maabo_dist.contract.job import JobState
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings
from scheduler.ledger import Ledger
from tests import forked, servers
from tests.cluster import a_scheduler, ask, cluster_settings, ended, submit


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    with servers.redis_server(directory) as url:
        settings = cluster_settings(url, directory, prefix="t:")
        with servers.worker(settings, directory, "-c", "2"):
            yield settings


@pytest.fixture(scope="module")
def columns():
    return prepare(*load_bundled("diabetes")).columns


@pytest.mark.slow
def test_another_scheduler_resumes_the_search_of_one_that_stopped(cluster, columns, tmp_path):
    mining = {"trees": 100, "batch": 1, "seed": 5}
    expected = mine(columns, MiningSettings.parse(mining)).digest
    with a_scheduler(cluster, "first") as ledger:
        job = submit(cluster, tmp_path, columns, **mining)
        servers.wait_for(lambda: (row := ledger.jobs.get(job)) is not None and row.trees > 5, what="some trees")

    with a_scheduler(cluster, "second") as ledger:
        row = ended(ledger, job)

    assert (row.state, row.digest) == (JobState.DONE, expected)


def test_the_process_does_jobs_and_exits_on_sigterm(cluster, columns, tmp_path):
    mining = {"trees": 30, "seed": 9, "batch": 8}
    log_path = tmp_path / "log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "scheduler"],
            cwd=servers.ROOT,
            env=os.environ | cluster.environment(),
            stderr=log,
        )
    try:
        servers.wait_for(lambda: b"ready as" in log_path.read_bytes(), what="a scheduler that is ready")
        ledger = Ledger(cluster.ledger_url)
        row = ended(ledger, submit(cluster, tmp_path, columns, **mining))
        ledger.close()
        process.terminate()
        code = process.wait(15)
    finally:
        process.kill()

    assert (row.digest, code) == (mine(columns, MiningSettings.parse(mining)).digest, 0)


def test_a_ledger_that_cannot_be_used_ends_the_process_with_a_reason(cluster, tmp_path):
    environment = os.environ | cluster.environment() | {"MAABO_LEDGER": "nonsense://x"}

    run = forked.run([sys.executable, "-m", "scheduler"], env=environment, timeout=60)

    assert run.returncode == 2
    assert "nonsense://x" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_table_that_is_not_in_the_store_fails_the_job_with_a_reason(cluster):
    job = "e" * 32
    with a_scheduler(cluster) as ledger:
        ask(cluster, "submit", job, document={"id": job, "dataset": {"fingerprint": "e" * 64}})
        row = ended(ledger, job)

    assert row.state is JobState.FAILED
    assert f"columns/{'e' * 64} is not in the artifact store" in row.reason
