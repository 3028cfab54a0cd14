"""The example of a service that uses only Celery, with a real Redis, scheduler and worker."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from maabo_dist.cluster.streams import open_redis
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings
from tests import factories, servers
from tests.cluster import a_scheduler, cluster_settings, ended, store_table

EXAMPLE = servers.ROOT / "deploy" / "examples" / "celery_service"
MINING = {"trees": 20, "batch": 4, "subset_size": 2, "min_samples": 5, "seed": 3}
WITHOUT_US = """
import sys
for name in ("maabo_dist", "scheduler", "workers"):
    sys.modules[name] = None
"""

pytestmark = pytest.mark.slow  # it starts whole clusters


@pytest.fixture(scope="module")
def columns():
    return factories.make_clear(np.random.default_rng(5), 60, 8)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("example")


@pytest.fixture(scope="module")
def cluster(directory, columns):
    with servers.redis_server(directory) as url:
        settings = cluster_settings(url, directory, prefix="t:", lease_seconds=1)
        store_table(settings, directory, columns)
        with servers.worker(settings, directory, "--pool", "threads", "-c", "1"):
            yield settings


@pytest.fixture(scope="module")
def service(cluster, directory):
    """Run a command of the example, in which this project cannot be imported."""
    (directory / "sitecustomize.py").write_text(WITHOUT_US)
    variables = {"MAABO_REDIS": cluster.redis_url, "MAABO_PREFIX": "t:", "PYTHONPATH": str(directory)}

    def start(*command, **options):
        return subprocess.Popen(
            [sys.executable, *command], cwd=EXAMPLE, env=os.environ | variables, text=True, **options
        )

    return start


@pytest.fixture(scope="module")
def calls(service, directory):
    """Run the worker of the service; yields a function that returns its calls so far."""
    log = directory / "service.log"
    with log.open("wb") as output:
        command = ("-m", "celery", "-A", "service", "worker", "-Q", "billing", "--pool", "solo", "-l", "INFO")
        process = service(*command, stdout=output, stderr=subprocess.STDOUT)
    try:
        servers.wait_for(lambda: " ready." in log.read_text(), what="a service that is ready")
        yield lambda: [json.loads(line.split(": ", 1)[1]) for line in called_lines(log)]
    finally:
        process.kill()
        process.wait()


def called_lines(log):
    call_lines = [
        line[line.index("called back: ") :] for line in log.read_text().splitlines() if "called back: " in line
    ]
    return [line for line in call_lines if line.endswith("}")]


def answer(service, *arguments):
    process = service("service.py", *arguments, stdout=subprocess.PIPE)
    output, _ = process.communicate(timeout=60)
    return json.loads(output)


def test_a_service_with_only_celery_submits_a_job_and_is_called_back(cluster, service, calls, columns):
    order = ("order-7", columns.fingerprint, json.dumps(MINING))
    with a_scheduler(cluster) as ledger:
        job, again = answer(service, *order), answer(service, *order)
        row = ended(ledger, job)
        called = servers.wait_for(calls, what="a call")

    assert (again, row.state, row.spec.tenant) == (job, JobState.DONE, "billing")
    assert row.digest == mine(columns, MiningSettings.parse(MINING)).digest
    assert called == [{"job": job, "state": "done", "digest": row.digest, "problem": None}]


def test_a_refused_document_is_answered_called_back_and_stored_with_the_same_problem(cluster, service, calls, columns):
    before = len(calls())
    with a_scheduler(cluster) as ledger, open_redis(cluster) as server:
        problem = answer(service, "order-8", columns.fingerprint, '{"trees": 0}')
        called = servers.wait_for(lambda: calls()[before:], what="a call")
        ((_, kept),) = server.xrevrange(cluster.key(names.REFUSED_STREAM), count=1)
        row = ledger.jobs.get(problem["instance"])

    assert (problem["type"], problem["status"]) == ("https://maabo.dev/problems/invalid-document", 422)
    assert (problem["field"].startswith("settings.trees"), "got 0" in problem["detail"]) == (True, True)
    assert called == [{"job": problem["instance"], "state": "refused", "digest": None, "problem": problem}]
    assert (json.loads(kept[b"problem"]), kept[b"reason"].decode()) == (problem, problem["detail"])
    assert row is None
