"""A cluster for measurements: its own Redis, a scheduler process, workers, and the CPU and memory that they use."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.data.columns import Columns
from scheduler.ledger import Ledger
from scheduler.ledger.jobs import JobRow
from tests import cluster, servers

TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class LocalCluster:
    settings: ClusterSettings
    directory: Path
    ledger: Ledger
    stack: ExitStack
    scheduler: int = 0

    @property
    def redis(self) -> int:
        return _listening_process(self.settings.redis_url)

    def start_scheduler(self, checkout: Path = servers.ROOT) -> None:
        environment = os.environ | self.settings.environment()
        log = (self.directory / "scheduler.log").open("wb")
        command = [sys.executable, "-m", "scheduler"]
        process = subprocess.Popen(command, cwd=checkout, env=environment, stderr=log)
        self.stack.callback(_end, process)
        servers.wait_for(lambda: b"ready as" in (self.directory / "scheduler.log").read_bytes(), what="a scheduler")
        self.scheduler = process.pid

    def start_worker(self, *options: str) -> int:
        return self.stack.enter_context(servers.worker(self.settings, self.directory, *options)).pid

    def submit(self, columns: Columns, **mining) -> str:
        return cluster.submit(self.settings, self.directory, columns, **mining)

    def job(self, job: str) -> JobRow | None:
        return self.ledger.jobs.get(job)

    def wait_for_trees(self, job: str, least: int, seconds: float = 600) -> JobRow:
        def enough() -> JobRow | None:
            row = self.ledger.jobs.get(job)
            return row if row is not None and (row.trees >= least or row.state.ended) else None

        return servers.wait_for(enough, seconds, what=f"{least} trees")


@contextmanager
def start_cluster(**changes) -> Iterator[LocalCluster]:
    with TemporaryDirectory(prefix="maabo-bench-") as name, ExitStack() as stack:
        directory = Path(name)
        url = stack.enter_context(servers.redis_server(directory))
        settings = cluster.cluster_settings(url, directory, **changes)
        ledger = Ledger(settings.ledger_url)
        stack.callback(ledger.close)
        yield LocalCluster(settings, directory, ledger, stack)


def cpu_seconds(process: int) -> float:
    """The CPU time of a process and its running children."""
    return sum(_own_cpu_seconds(pid) for pid in [process, *children(process)])


def children(process: int) -> list[int]:
    path = Path(f"/proc/{process}/task/{process}/children")
    direct = [int(word) for word in path.read_text().split()] if path.exists() else []
    return [*direct, *(each for child in direct for each in children(child))]


def proportional_bytes(process: int) -> int:
    """The memory of a process; shared memory is divided among the processes that share it."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def rate(count, seconds: float) -> tuple[float, float]:
    """Return the increase of `count()` per second over at least `seconds`, and the actual seconds.

    Measured from one change to another, because the count may grow in large steps.
    """
    first, start = _next_change(count)
    while monotonic() - start < seconds:
        last, stop = _next_change(count)
    return (last - first) / (stop - start), stop - start


def _next_change(count) -> tuple[float, float]:
    before, end = count(), monotonic() + 60
    while (now := count()) == before and monotonic() < end:
        sleep(0.005)
    return now, monotonic()


def _own_cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def _listening_process(url: str) -> int:
    port = url.rsplit(":", 1)[1].split("/", maxsplit=1)[0]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if b"redis-server" in command[0] and any(port.encode() in word for word in command):
            return int(path.parent.name)
    raise LookupError(f"no redis-server on port {port}")


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
