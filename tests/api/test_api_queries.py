"""The queries of alerts and dashboards use metrics that a real cluster exposes."""

import json
import subprocess
import time
from contextlib import closing

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from scheduler.resources import Resources
from tests import servers
from tests.api_data import token_for
from tests.cluster import ask, submit
from tests.queries import MONITORING, OF_PROMETHEUS, needed, program, queries

pytestmark = pytest.mark.xdist_group("shared-cluster")


@pytest.fixture(scope="module")
def busy_cluster(shared_cluster, tmp_path_factory):
    """A client of a cluster that is running a job, with the scope that Prometheus needs."""
    settings, address = shared_cluster
    with closing(Resources.connect(settings)) as resources:
        headers = token_for(resources, scopes=("admin",))
    columns = prepare(*load_bundled("breast_cancer")).columns
    # Workers report every two seconds whether they are busy, so tasks must be long enough to be reported.
    endless = {"preset": "paper", "trees": 500_000, "subset_size": 6, "batch": 2048}
    job = submit(settings, tmp_path_factory.mktemp("table"), columns, **endless)
    with httpx.Client(base_url=address, headers=headers) as client:
        servers.wait_for(lambda: _value(client, "maabo_trees_observed_total") > 0, what="a tree")
        servers.wait_for(lambda: _value(client, "maabo_worker_processes_busy") > 0, what="a busy worker")
        yield client
        ask(settings, "cancel", job)
        servers.wait_for(lambda: _value(client, "maabo_tenant_jobs") == 0, what="the job's end")


def read_samples(client):
    """The labels and values of all samples, by name."""
    samples = {}
    for family in text_string_to_metric_families(client.get("/metrics").raise_for_status().text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((frozenset(sample.labels), sample.value))
    return samples


def _value(client, name):
    return sum(value for _labels, value in read_samples(client).get(name, []))


def test_every_query_uses_existing_metrics_and_labels(busy_cluster):
    labels_by_metric = {
        name: set().union(*(labels for labels, _ in samples)) for name, samples in read_samples(busy_cluster).items()
    }

    missing = [
        (where, required.metric, sorted(required.labels - labels_by_metric.get(required.metric, set())))
        for where, query in queries().items()
        for required in needed(query)
        if required.metric not in OF_PROMETHEUS
        and (required.metric not in labels_by_metric or required.labels - labels_by_metric[required.metric])
    ]
    assert missing == []


def test_a_busy_worker_is_counted(busy_cluster):
    assert [_value(busy_cluster, f"maabo_{name}") for name in ("workers", "worker_processes")] == [1, 1]
    servers.wait_for(lambda: _has_a_task_for_each_busy_process(busy_cluster), what="a task for each busy process")


def _has_a_task_for_each_busy_process(client):
    """False for a moment between two batches: processes are reported as busy up to two seconds later."""
    return _value(client, "maabo_tasks_wanted") >= _value(client, "maabo_worker_processes_busy") > 0


# With a real Prometheus.


@pytest.fixture
def prometheus(busy_cluster, tmp_path):
    """The address of a Prometheus that scrapes the cluster every second, with our alert rules."""
    host, port = busy_cluster.base_url.netloc.decode(), servers.free_port()
    token = busy_cluster.headers["Authorization"].removeprefix("Bearer ")
    configuration = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(MONITORING / "alerts.yml")],
        "scrape_configs": [
            {"job_name": "maabo-api", "static_configs": [{"targets": [host]}], "authorization": {"credentials": token}}
        ],
    }
    (tmp_path / "prometheus.yml").write_text(json.dumps(configuration))
    command = [
        program("prometheus"),
        f"--config.file={tmp_path}/prometheus.yml",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (tmp_path / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}"
        servers.wait_for(lambda: _ready(address), what="a Prometheus that is ready")
        yield address
    finally:
        process.terminate()
        process.wait()


def _ready(address):
    try:
        return httpx.get(f"{address}/-/ready").is_success
    except httpx.TransportError:
        return False


def query_prometheus(address, query):
    response = httpx.get(f"{address}/api/v1/query", params={"query": query}).json()
    assert response["status"] == "success", (query, response)
    return response["data"]["result"]


@pytest.mark.soak
def test_prometheus_evaluates_every_query_and_panels_have_data(prometheus):
    servers.wait_for(lambda: query_prometheus(prometheus, "max(maabo_trees_observed_total)"), what="a scrape")
    time.sleep(8)  # rates need some samples
    results = {where: query_prometheus(prometheus, query) for where, query in queries().items()}

    empty = {where for where, rows in results.items() if where.startswith("panel") and not rows}
    assert empty <= {"panel Refused because of quotas or load A"}  # no request was refused
    assert {where: rows for where, rows in results.items() if where.startswith("alert") and rows} == {}
    rules = httpx.get(f"{prometheus}/api/v1/rules").json()["data"]["groups"]
    assert {rule["health"] for group in rules for rule in group["rules"]} == {"ok"}
