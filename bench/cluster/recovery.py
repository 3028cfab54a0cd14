"""How long a job stands still after a fault: until it has more trees again, and what the time is spent on."""

import os
import signal
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from bench import printing, tables
from bench.cluster.local_cluster import cpu_seconds
from scheduler.ledger import Ledger
from tests import cluster, servers
from tests.faults.world import RedisServer
from tests.processes import Process

GOAL = printing.Goal(maximum=5.0)
MINING = {"strategy": "random", "trees": 10_000_000, "batch": 256, "in_flight": 8, "subset_size": 3}
WORKER = ["celery", "-A", "workers.app", "worker", "-l", "INFO", "-c", "1", "--without-mingle", "--without-gossip"]
READY = {"scheduler": "ready as", "worker": " ready."}
MAX_SECONDS = 120.0


@dataclass
class Stopwatch:
    """The time since a fault, at each step of the recovery."""

    start: float = field(default_factory=monotonic)
    steps: list[tuple[str, float]] = field(default_factory=list)

    def note(self, step: str) -> None:
        self.steps.append((step, monotonic() - self.start))

    def __str__(self) -> str:
        return ", ".join(f"{step} {seconds:.1f} s" for step, seconds in self.steps)


class Cluster:
    """Real processes, which are killed and started again."""

    def __init__(self, directory: Path, ledger_url: str) -> None:
        self.directory = directory
        self.redis = RedisServer(directory).start()
        self.settings = cluster.cluster_settings(
            self.redis.url, directory, ledger_url=ledger_url, partial_seconds=3600, lease_seconds=15.0
        )
        self.ledger = Ledger(self.settings.ledger_url)
        self.started: list[Process] = []

    def start(self, kind: str, *, wait: bool = True) -> Process:
        command = [sys.executable, "-m", "scheduler"] if kind == "scheduler" else [sys.executable, "-m", *WORKER]
        log = self.directory / f"{kind}-{len(self.started)}.log"
        process = Process(command, os.environ | self.settings.environment(), log)
        self.started.append(process)
        return process.ready(READY[kind]) if wait else process

    def close(self) -> None:
        for process in self.started:
            process.end()
        self.redis.kill()
        self.ledger.close()


@contextmanager
def running_job(ledger_url: str | None):
    """A cluster with a scheduler and a worker, and a job that has some trees."""
    with TemporaryDirectory(prefix="maabo-bench-") as name, ExitStack() as stack:
        directory = Path(name)
        here = Cluster(directory, ledger_url or f"sqlite:///{directory}/ledger.db")
        stack.callback(here.close)
        here.scheduler, here.worker = here.start("scheduler"), here.start("worker")
        here.job = cluster.submit(here.settings, directory, tables.generated(2000, 100), **MINING)
        _wait_for_trees(here, 5000)
        yield here


def run(options) -> None:
    faults = [_replaced_scheduler, _restarted_scheduler, _restarted_worker, _restarted_redis]
    rows = []
    with TemporaryDirectory(prefix="maabo-postgres-") as directory, ExitStack() as stack:
        urls = {"SQLite": None}
        if servers.postgres_programs() is not None and not options.quick:
            urls["PostgreSQL"] = stack.enter_context(servers.postgres_server(directory))
        for ledger, url in urls.items():
            for fault in faults:
                with running_job(url) as here:
                    watch, cpu = fault(here)
                seconds = watch.steps[-1][1]
                verdict = printing.format_verdict(seconds, GOAL)
                rows.append((ledger, fault.__doc__, f"{seconds:.1f} s", *verdict, cpu, str(watch)))
    printing.print_table(
        "Recovery: seconds until the next trees",
        ["ledger", "fault", "recovery", "goal", "", "CPU", "parts"],
        rows,
        ["CPU: of the process that was started, until the next trees. On a machine that does other work too, a start",
         "takes as many times longer as the process has to share its core."],
    )  # fmt: skip


def _replaced_scheduler(here: Cluster) -> tuple[Stopwatch, str]:
    """scheduler killed, a second one takes over"""
    here.start("scheduler")
    sleep(2)
    watch = Stopwatch()
    fence = here.ledger.jobs.get(here.job).fence
    here.scheduler.signal(signal.SIGKILL)
    _wait_for_fence(here, fence, watch)
    _wait_for_more(here, watch)
    return watch, "–"


def _restarted_scheduler(here: Cluster) -> tuple[Stopwatch, str]:
    """the only scheduler killed and started again"""
    watch, fence = Stopwatch(), here.ledger.jobs.get(here.job).fence
    here.scheduler.end()
    process = here.start("scheduler")
    watch.note("started")
    _wait_for_fence(here, fence, watch)
    _wait_for_more(here, watch)
    return watch, f"{cpu_seconds(process.pid):.1f} s"


def _restarted_worker(here: Cluster) -> tuple[Stopwatch, str]:
    """the only worker killed and started again"""
    watch = Stopwatch()
    here.worker.end()
    process = here.start("worker")
    watch.note("started")
    _wait_for_more(here, watch)
    return watch, f"{cpu_seconds(process.pid):.1f} s"


def _restarted_redis(here: Cluster) -> tuple[Stopwatch, str]:
    """Redis killed and started again"""
    watch = Stopwatch()
    here.redis.kill()
    here.redis.start()
    watch.note("started")
    _wait_for_more(here, watch)
    return watch, "–"


def _trees(here: Cluster) -> int:
    row = here.ledger.jobs.get(here.job)
    return 0 if row is None else row.trees


def _wait_for_trees(here: Cluster, count: int) -> None:
    servers.wait_for(lambda: _trees(here) >= count, MAX_SECONDS, what=f"{count} trees")


def _wait_for_fence(here: Cluster, fence: int, watch: Stopwatch) -> None:
    servers.wait_for(lambda: here.ledger.jobs.get(here.job).fence > fence, MAX_SECONDS, what="the takeover")
    watch.note("job taken")


def _wait_for_more(here: Cluster, watch: Stopwatch) -> None:
    """Wait for trees of tasks that were sent or done after the fault: more than were on their way."""
    before = _trees(here)
    servers.wait_for(lambda: _trees(here) > before, MAX_SECONDS, what="more trees")
    watch.note("trees")
