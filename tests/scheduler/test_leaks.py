"""Nothing leaks after many small jobs, and thousands of jobs can be queued."""

import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

from maabo_dist.cluster.queue_client import QueueClient
from maabo_dist.cluster.streams import HEADER, open_redis
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.contract.messages import Request
from scheduler.ledger import Ledger
from tests import factories, servers
from tests.cluster import cluster_settings, store_table, submit

TINY = {"trees": 20, "batch": 10, "subset_size": 2, "max_depth": 3, "min_samples": 5}
SLACK = 4
"""Pools may open and keep a few more connections, when two threads need one at the same time."""
GROWTH = 30 << 20
"""Bytes that a process may grow by: allocators do not return all freed memory."""


@contextmanager
def scheduler_process(settings, log_path):
    with log_path.open("wb") as log:
        command, environment = [sys.executable, "-m", "scheduler"], os.environ | settings.environment()
        process = subprocess.Popen(command, cwd=servers.ROOT, env=environment, stderr=log)
    try:
        servers.wait_for(lambda: "ready as" in log_path.read_text(), what="a scheduler that is ready")
        yield process
    finally:
        process.kill()
        process.wait()


class Cluster:
    """A scheduler and perhaps a worker, observed from outside."""

    def __init__(self, settings, directory, **processes):
        self.settings, self.processes = settings, processes
        self.redis, self.ledger = open_redis(settings), Ledger(settings.ledger_url)
        self.columns = factories.make_clear(np.random.default_rng(5), 60, 8)
        store_table(settings, directory, self.columns)

    def close(self):
        self.redis.close()
        self.ledger.close()

    def send(self, count, cancelled_of_ten=0):
        """Submit many jobs and cancel some of them immediately; return their ids."""
        jobs = [uuid4().hex for _ in range(count)]
        with self.redis.pipeline(transaction=False) as pipe:
            for number, job in enumerate(jobs):
                document = {"id": job, "dataset": {"fingerprint": self.columns.fingerprint}, "settings": TINY}
                self._put(pipe, Request(kind="submit", job=job, document=document))
                if number % 10 < cancelled_of_ten:
                    self._put(pipe, Request(kind="cancel", job=job))
            pipe.execute()
        return jobs

    def _put(self, pipe, request):
        pipe.xadd(self.settings.key(names.INTAKE_STREAM), {HEADER: request.model_dump_json()})

    def has_forgotten_all(self):
        """True if every job has ended and has expired in the ledger and in Redis."""
        listed, taken_in = self.redis.zcard(names.JOB_LIST), self.redis.xlen(names.INTAKE_STREAM)
        return not self.ledger.jobs.count_by_state() and not listed and not taken_in

    def resources(self):
        """Return the numbers of keys, connections, threads and open files of the cluster."""
        counts = {"keys": self.redis.dbsize(), "connections": len(self.redis.client_list())}
        for name, process in self.processes.items():
            counts[f"{name} threads"] = _status(process, "Threads")
            counts[f"{name} files"] = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
        return counts

    def memory(self):
        return {name: _status(process, "VmRSS") * 1024 for name, process in self.processes.items()}


def _status(process, field):
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def within(counts, before):
    return all(counts[name] <= before[name] + SLACK for name in before)


@pytest.mark.soak
@pytest.mark.parametrize(("first", "count"), [(20, 40), (100, 1000)])
def test_after_many_jobs_no_resources_are_left_in_use(tmp_path, first, count):
    log = tmp_path / "scheduler.log"
    with servers.redis_server(tmp_path) as url:
        settings = cluster_settings(url, tmp_path, retention=2, lease_seconds=1)
        with (
            scheduler_process(settings, log) as scheduler,
            servers.worker(settings, tmp_path, "--pool", "threads", "-c", "2") as worker,
        ):
            cluster = Cluster(settings, tmp_path, scheduler=scheduler, worker=worker)
            cluster.send(first, cancelled_of_ten=1)
            servers.wait_for(cluster.has_forgotten_all, 120, what="the end of the first jobs")
            before, memory = cluster.resources(), cluster.memory()
            cluster.send(count, cancelled_of_ten=1)
            servers.wait_for(cluster.has_forgotten_all, 300, what="the end of all jobs")
            servers.wait_for(
                lambda: within(cluster.resources(), before), 30, what=f"less than {cluster.resources()} ({before})"
            )
            growth = {name: after - memory[name] for name, after in cluster.memory().items()}
            keys = set(cluster.redis.scan_iter("maabo:*"))
            cluster.close()
    text = log.read_text()

    assert text.count("job done") >= 0.9 * (first + count)
    assert "WARNING" not in text
    host = socket.gethostname()
    alive = {f"maabo:meters:{host}:{scheduler.pid}", f"maabo:workers:celery@{host}"}  # one each; they expire
    assert {key.decode() for key in keys} == {"maabo:cluster", "maabo:intake"} | alive
    assert {name: size for name, size in growth.items() if size > GROWTH} == {}
    assert len(list(Path(settings.cache_dir).glob(".*"))) <= 3 * 256


@pytest.mark.soak
@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_the_scheduler_responds_while_thousands_of_jobs_are_queued(tmp_path, count):
    with servers.redis_server(tmp_path) as url:
        settings = cluster_settings(url, tmp_path)
        with scheduler_process(settings, tmp_path / "log") as scheduler:
            cluster = Cluster(settings, tmp_path, scheduler=scheduler)
            client = QueueClient(settings, cluster.redis)
            jobs = cluster.send(count)
            servers.wait_for(
                lambda: sum(cluster.ledger.jobs.count_by_state().values()) == count, 120, what="all jobs in the ledger"
            )
            urgent = submit(settings, tmp_path, cluster.columns, document={"priority": "high"}, **TINY)
            servers.wait_for(
                lambda: (row := cluster.ledger.jobs.get(urgent)) and row.state is JobState.RUNNING, what="an urgent job"
            )
            cancelled = client.send_command(jobs[-1], "cancel")
            counts = cluster.ledger.jobs.count_by_state()
            listed = len(client.jobs())
            cluster.close()

    assert cancelled.state is JobState.CANCELLED
    assert counts == {"running": 51, "queued": count - 51, "cancelled": 1}
    assert listed == count + 1
