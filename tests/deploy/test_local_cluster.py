"""A local cluster of real processes, from start to stop."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlsplit

import psutil
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from maabo_dist.cluster.streams import open_redis
from maabo_dist.contract import names
from maabo_dist.contract.job import JobRecord, JobState
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from tests import servers
from tests.cluster import cluster_settings, submit

COMMAND = [sys.executable, "-m", "deploy.local", "up"]

pytestmark = pytest.mark.slow  # it starts whole clusters


class Cluster:
    def __init__(self, directory, process):
        self.directory, self.process = directory, process
        self.ready_file = directory / "ready.json"

    @property
    def ready(self):
        return json.loads(self.ready_file.read_text())

    @property
    def roles(self):
        return [process["role"] for process in self.ready["processes"]]

    def pids(self, *roles):
        return [process["pid"] for process in self.ready["processes"] if process["role"] in roles]

    def descendants(self):
        """All processes below the supervisor, including those that components have started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def flower(self, method, path):
        address = urlsplit(self.ready["flower"])
        connection = HTTPConnection(address.hostname, address.port, timeout=10)
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


@contextmanager
def started(directory, *options, ready=True):
    """Run `up` in a directory; yield the cluster when it is ready, and leave no process behind."""
    command = [*COMMAND, "--data-dir", str(directory / "data"), "--ready-file", str(directory / "ready.json"), *options]
    process = subprocess.Popen(command, cwd=servers.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    cluster = Cluster(directory, process)
    try:
        if ready:
            servers.wait_for(lambda: cluster.ready_file.exists() or process.poll() is not None, what="a ready cluster")
            assert process.poll() is None, process.stdout.read().decode()
        yield cluster
    finally:
        process.terminate()
        try:
            process.communicate(timeout=45)
        except subprocess.TimeoutExpired:
            process.kill()


def up(*options):
    return subprocess.run(
        [*COMMAND, *options], check=False, cwd=servers.ROOT, capture_output=True, text=True, timeout=30
    )


def is_running(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def all_gone(processes):
    return not any(is_running(process) for process in processes)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with started(tmp_path_factory.mktemp("local"), "--workers", "2") as cluster:
        yield cluster


def test_the_ready_file_has_all_addresses(cluster):
    assert sorted(cluster.roles) == ["flower", "redis", "scheduler", "service", "worker", "worker"]
    assert {psutil.Process(pid).ppid() for pid in cluster.pids(*cluster.roles)} == {cluster.process.pid}
    assert redis.Redis.from_url(cluster.ready["redis"]).ping()
    assert stat.S_IMODE(cluster.ready_file.stat().st_mode) == 0o600


def test_the_http_api_reports_that_it_is_ready(cluster):
    address = urlsplit(cluster.ready["http"])

    connection = HTTPConnection(address.hostname, address.port, timeout=10)
    connection.request("GET", "/readyz")
    response = connection.getresponse()
    assert (response.status, json.loads(response.read())["ready"]) == (200, True)
    connection.close()


def test_redis_requires_the_password(cluster):
    port = urlsplit(cluster.ready["redis"]).port

    with pytest.raises(redis.AuthenticationError):
        redis.Redis(port=port, retry=Retry(NoBackoff(), 0)).ping()


def test_flower_is_read_only(cluster):
    secret = (cluster.directory / "data" / "secret").read_text()

    for path in ("/", "/tasks", "/broker", "/api/tasks", "/api/workers?refresh=1"):
        status, body = cluster.flower("GET", path)
        assert (status, secret.encode() in body) == (200, False), path
    status, _ = cluster.flower("POST", "/api/worker/shutdown/worker1")
    assert status == 403


def test_flower_shows_each_task_in_one_line(cluster, tmp_path):
    settings = cluster_settings(cluster.ready["redis"], cluster.directory / "data")
    submit(settings, tmp_path, prepare(*load_bundled("diabetes")).columns, trees=20)

    def finished_tasks():
        query = "draw=1&start=0&length=5&order[0][column]=0&columns[0][data]=name&order[0][dir]=asc"
        _, body = cluster.flower("GET", f"/tasks/datatable?{query}")
        return [row for row in json.loads(body)["data"] if row["name"] == names.EVALUATE and row["result"]]

    task, *_ = servers.wait_for(finished_tasks, what="a task in Flower")
    assert re.fullmatch(r"job [0-9a-f]{4} · (batch \d+|batches \d+–\d+) · \d+ subsets? of 3", task["args"])
    assert re.fullmatch(r"\d+ trees? · best F1 0\.\d{3} · \d+ ms", task["result"])


def test_a_second_cluster_in_the_same_directory_is_refused(cluster):
    second = up("--data-dir", str(cluster.directory / "data"))

    assert second.returncode == 2
    assert f"is in use by the local cluster of process {cluster.process.pid}." in second.stderr


def test_killed_components_are_restarted(cluster):
    address, before = cluster.ready["redis"], cluster.pids("redis", "scheduler", "worker")
    client = redis.Redis.from_url(address)
    client.set("kept", "yes")
    # Data that Redis has not written to its file yet is lost when it is killed.
    servers.wait_for(lambda: not client.info("persistence")["aof_buffer_length"], 30, what="a key on its way to disk")

    for pid in before[:3]:
        os.kill(pid, signal.SIGKILL)
    servers.wait_for(lambda: not set(before[:3]) & set(cluster.pids(*cluster.roles)), what="new processes")

    assert cluster.ready["redis"] == address
    assert redis.Redis.from_url(address).get("kept") == b"yes"
    assert len(cluster.roles) == 6
    assert before[3] in cluster.pids("worker")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals processes when their parent ends")
def test_the_components_of_a_killed_supervisor_end(tmp_path):
    with started(tmp_path, "--no-flower", "--no-http", ready=False) as cluster:
        servers.wait_for(lambda: len(cluster.descendants()) >= 4, what="processes")
        processes = cluster.descendants()
        cluster.process.kill()

        assert servers.wait_for(lambda: all_gone(processes), 20, what="the end of all components")


def test_flower_on_all_addresses_without_a_password_is_refused(tmp_path):
    refused = up("--host", "0.0.0.0", "--data-dir", str(tmp_path / "data"))

    assert refused.returncode == 2
    assert "needs a password" in refused.stderr
    assert not (tmp_path / "data").exists()


def test_a_stopped_cluster_leaves_no_process_and_the_next_resumes_its_jobs(cluster, tmp_path):
    """This test is the last because it stops the shared cluster."""
    settings = cluster_settings(cluster.ready["redis"], cluster.directory / "data")
    job = submit(settings, tmp_path, prepare(*load_bundled("breast_cancer")).columns, trees=20_000, batch=64)
    servers.wait_for(lambda: (record := _record(settings, job)) and record.trees, what="a job that is under way")
    processes = cluster.descendants()

    cluster.process.terminate()

    assert cluster.process.wait(40) == 0
    assert all_gone(processes)
    assert not cluster.ready_file.exists()
    with started(cluster.directory, "--workers", "1", "--no-flower", "--no-http", "--pool", "threads") as cluster:
        settings = cluster_settings(cluster.ready["redis"], cluster.directory / "data")
        servers.wait_for(lambda: _record(settings, job).state.ended, what="the end of the job")
        assert _record(settings, job).state is JobState.DONE
        assert cluster.ready["flower"] is None
        assert cluster.ready["http"] is None


def _record(settings, job):
    with open_redis(settings) as client:
        text = client.get(settings.key(f"{names.JOB_RECORD}:{job}"))
    return None if text is None else JobRecord.model_validate_json(text)
