"""Metrics, logs and traces of a job, on real components."""

import io
import json
import logging
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from uuid import uuid4

import pytest

from maabo_dist.cluster.broker import make_celery
from maabo_dist.cluster.logs import log_handler
from maabo_dist.cluster.streams import open_redis
from maabo_dist.cluster.tracing import Tracing
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from scheduler import metrics
from scheduler.core import loop
from scheduler.metrics import MetricsSnapshot
from tests import servers
from tests.cluster import a_scheduler, cluster_settings, ended, submit

MINING = {"trees": 40, "batch": 8, "seed": 2, "max_depth": 3}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    with servers.redis_server(directory) as url:
        settings = cluster_settings(url, directory, prefix="t:", lease_seconds=2, log="json")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MAABO_TRACES", f"file:{directory}/spans")
            with servers.worker(settings, directory, "--pool", "threads", "-c", "1"):
                yield settings


@pytest.fixture(autouse=True)
def _short_idle_reads(monkeypatch):
    monkeypatch.setattr(loop, "IDLE_READ_SECONDS", 0.05)


@pytest.fixture(scope="module")
def columns():
    return prepare(*load_bundled("breast_cancer")).columns


class DuplicatingRedis:
    """A Redis client that reads every stream entry twice."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def xread(self, *arguments, **named):
        return [(stream, entries + entries) for stream, entries in self._inner.xread(*arguments, **named)]


def reading_of(cluster, owner):
    with open_redis(cluster) as client:
        return MetricsSnapshot.read(client.get(cluster.key(f"{names.METERS}:{owner}")))


def test_after_a_job_the_metrics_agree_with_the_ledger_and_duplicate_answers_are_dropped(cluster, columns, tmp_path):
    with a_scheduler(cluster, "here:1", redis=DuplicatingRedis(open_redis(cluster))) as ledger:
        row = ended(ledger, submit(cluster, tmp_path, columns, **MINING))
    reading = reading_of(cluster, "here:1")

    amounts, answered = reading.amounts, sum(reading.timings[metrics.TASK_SECONDS.name]["evaluate"].counts)
    assert (row.state, amounts[metrics.TREES.name][""]) == (JobState.DONE, row.trees)
    assert amounts[metrics.DROPPED.name]["evaluate"] == answered == amounts[metrics.TASKS_SENT.name]["evaluate"]
    assert amounts[metrics.ENDED.name] == {"done": 1, "failed": 0, "cancelled": 0}
    assert amounts[metrics.LEASES.name] == {"taken": 1, "lost": 0, "given_back": 0}
    assert sum(reading.timings[metrics.JOB_WAIT.name][""].counts) == 1
    assert sum(reading.timings[metrics.COMMIT_SECONDS.name][""].counts) > 3
    assert set(amounts[metrics.TASKS_IN_FLIGHT.name].values()) == {0}


# Correlation.


@contextmanager
def scheduler_log():
    """Yield a list that contains the JSON log of the schedulers of this process at the end."""
    logger, stream, lines = logging.getLogger("maabo"), io.StringIO(), []
    handler = log_handler("json", stream)
    logger.addHandler(handler)
    before, logger.level = logger.level, logging.INFO
    try:
        yield lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        lines += map(json.loads, stream.getvalue().splitlines())


@contextmanager
def flower_arguments(cluster):
    """Yield a list of the task arguments in the events of workers, which Flower shows."""
    app, arguments, ready = make_celery(cluster), [], []

    def listen():
        with app.connection_for_read() as connection:
            handlers = {"task-received": lambda event: arguments.append(event["args"])}
            receiver = app.events.Receiver(connection, handlers=handlers)
            ready.append(receiver)
            receiver.capture(limit=None, timeout=None, wakeup=False)

    thread = Thread(target=listen, daemon=True)
    thread.start()
    servers.wait_for(lambda: ready, what="a receiver of events")
    try:
        yield arguments
    finally:
        ready[0].should_stop = True
        thread.join(5)


def worker_log(cluster):
    path = Path(cluster.cache_dir).parent / "worker.log"
    lines = path.read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_the_correlation_of_a_job_is_in_all_logs_and_in_flower(cluster, columns, tmp_path):
    correlation = f"order {uuid4().hex}"
    with scheduler_log() as lines, flower_arguments(cluster) as arguments, a_scheduler(cluster) as ledger:
        job = submit(cluster, tmp_path, columns, document={"correlation": correlation}, **MINING)
        row = ended(ledger, job)
        servers.wait_for(lambda: any("rules" in line and line.endswith(f" · {correlation}") for line in arguments), 10)

    assert row.state is JobState.DONE
    assert any("batches 0–1" in line and line.endswith(f" · {correlation}") for line in arguments)
    events = {line["event"] for line in lines if line.get("correlation") == correlation and line["job"] == job}
    assert {"job queued", "job started", "job done"} <= events
    done = [
        line for line in worker_log(cluster) if line.get("correlation") == correlation and line["event"] == "task done"
    ]
    assert {(line["task"], line["job"]) for line in done} == {(names.EVALUATE, job), (names.RULES, job)}
    assert all(line["seconds"] > 0 for line in done)
    assert {line["batch"] for line in done if line["task"] == names.EVALUATE} >= {0, 2}


# Traces.


def test_a_job_its_tasks_and_its_request_are_one_trace(cluster, columns, tmp_path):
    path = Path(cluster.cache_dir).parent / "spans"
    tracing = Tracing.from_environment({"MAABO_TRACES": f"file:{path}"}, "maabo-scheduler")
    with a_scheduler(cluster, tracing=tracing) as ledger:
        with tracing.span("request", kind="server") as request:
            job = submit(cluster, tmp_path, columns, document={"trace": request.traceparent}, **MINING)
        row = ended(ledger, job)

    trace = request.traceparent.split("-")[1]
    spans = servers.wait_for(lambda: _with_rules(path, trace), what="the span of the rules")
    by_name = {span["name"]: span for span in spans}
    assert row.state is JobState.DONE
    assert set(by_name) == {"request", "job", names.EVALUATE, names.RULES}
    assert by_name["job"]["parent"] == by_name["request"]["span"]
    assert {by_name[name]["parent"] for name in (names.EVALUATE, names.RULES)} == {by_name["job"]["span"]}
    assert by_name["job"]["facts"]["maabo.state"] == "done"
    assert by_name[names.RULES]["service"] == "maabo-worker"


def _with_rules(path, trace):
    spans = [span for span in map(json.loads, path.read_text().splitlines()) if span["trace"] == trace]
    return spans if names.RULES in {span["name"] for span in spans} else None
