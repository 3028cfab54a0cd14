"""Nothing leaks: after many small jobs everything is back where it was; and thousands may wait."""

import os
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
"""A pool opens a connection when two threads happen to need one at a time; it is kept, and not one for each job."""
GROWTH = 30 << 20
"""Bytes that a process may grow by: allocators keep some of what they were given."""


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
    """A scheduler and perhaps a worker, seen from outside."""

    def __init__(self, settings, directory, **processes):
        self.settings, self.processes = settings, processes
        self.redis, self.ledger = open_redis(settings), Ledger(settings.ledger_url)
        self.columns = factories.make_columns(np.random.default_rng(5), 60, 8)
        store_table(settings, directory, self.columns)

    def close(self):
        self.redis.close()
        self.ledger.close()

    def send(self, count, cancelled_of_ten=0):
        """Jobs in bulk, some of them taken back at once; gives their ids."""
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

    def forgotten(self):
        """Every job has ended, and its time in the ledger and in Redis has passed."""
        listed, taken_in = self.redis.zcard(names.JOB_LIST), self.redis.xlen(names.INTAKE_STREAM)
        return not self.ledger.jobs.count_by_state() and not listed and not taken_in

    def held(self):
        """What the cluster holds on to."""
        found = {"keys": self.redis.dbsize(), "connections": len(self.redis.client_list())}
        for name, process in self.processes.items():
            found[f"{name} threads"] = _status(process, "Threads")
            found[f"{name} files"] = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
        return found

    def memory(self):
        return {name: _status(process, "VmRSS") * 1024 for name, process in self.processes.items()}


def _status(process, field):
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def within(found, before):
    return all(found[name] <= before[name] + SLACK for name in before)


@pytest.mark.soak
@pytest.mark.parametrize(("first", "count"), [(20, 40), (100, 1000)])
def test_after_many_jobs_everything_is_back_where_it_was(tmp_path, first, count):
    log = tmp_path / "scheduler.log"
    with servers.redis_server(tmp_path) as url:
        settings = cluster_settings(url, tmp_path, retention=2, lease_seconds=1)
        with (
            scheduler_process(settings, log) as scheduler,
            servers.worker(settings, tmp_path, "--pool", "threads", "-c", "2") as worker,
        ):
            cluster = Cluster(settings, tmp_path, scheduler=scheduler, worker=worker)
            cluster.send(first, cancelled_of_ten=1)
            servers.wait_for(cluster.forgotten, 120, what="the end of the first jobs")
            before, memory = cluster.held(), cluster.memory()
            cluster.send(count, cancelled_of_ten=1)
            servers.wait_for(cluster.forgotten, 300, what="the end of all jobs")
            servers.wait_for(lambda: within(cluster.held(), before), 30, what=f"less than {cluster.held()} ({before})")
            grown = {name: after - memory[name] for name, after in cluster.memory().items()}
            ours = set(cluster.redis.scan_iter("maabo:*"))
            cluster.close()
    text = log.read_text()

    assert text.count("job done") >= 0.9 * (first + count)
    assert "WARNING" not in text
    assert ours == {b"maabo:cluster", b"maabo:intake"}
    assert {name: size for name, size in grown.items() if size > GROWTH} == {}
    assert len(list(Path(settings.cache_dir).glob(".*"))) <= 3 * 256


@pytest.mark.soak
@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_thousands_of_jobs_wait_and_the_scheduler_still_answers(tmp_path, count):
    with servers.redis_server(tmp_path) as url:
        settings = cluster_settings(url, tmp_path)
        with scheduler_process(settings, tmp_path / "log") as scheduler:
            cluster = Cluster(settings, tmp_path, scheduler=scheduler)
            client = QueueClient(settings, cluster.redis)
            jobs = cluster.send(count)
            servers.wait_for(
                lambda: sum(cluster.ledger.jobs.count_by_state().values()) == count, 120, what="all of them taken in"
            )
            urgent = submit(settings, tmp_path, cluster.columns, document={"priority": "high"}, **TINY)
            servers.wait_for(
                lambda: (row := cluster.ledger.jobs.get(urgent)) and row.state is JobState.RUNNING, what="an urgent job"
            )
            cancelled = client.send_command(jobs[-1], "cancel")
            counts = cluster.ledger.jobs.count_by_state()
            shown = len(client.jobs())
            cluster.close()

    assert cancelled.state is JobState.CANCELLED
    assert counts == {"running": 51, "queued": count - 51, "cancelled": 1}
    assert shown == count + 1
