"""A cluster to measure on: private Redis, a scheduler process, workers, and what they use of the machine."""

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
from scheduler.ledger.jobs import JobRow
from scheduler.ledger.ledger import Ledger
from tests import cluster, servers

TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class World:
    settings: ClusterSettings
    directory: Path
    ledger: Ledger
    parts: ExitStack
    scheduler: int = 0

    @property
    def redis(self) -> int:
        return _listening_process(self.settings.redis_url)

    def start_scheduler(self) -> None:
        environment = os.environ | self.settings.environment()
        log = (self.directory / "scheduler.log").open("wb")
        command = [sys.executable, "-m", "scheduler"]
        process = subprocess.Popen(command, cwd=servers.ROOT, env=environment, stderr=log)
        self.parts.callback(_end, process)
        servers.wait_for(lambda: b"ready as" in (self.directory / "scheduler.log").read_bytes(), what="a scheduler")
        self.scheduler = process.pid

    def start_worker(self, *options: str) -> int:
        return self.parts.enter_context(servers.worker(self.settings, self.directory, *options)).pid

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
def world(**changes) -> Iterator[World]:
    with TemporaryDirectory(prefix="maabo-bench-") as name, ExitStack() as parts:
        directory = Path(name)
        url = parts.enter_context(servers.redis_server(directory))
        settings = cluster.cluster_settings(url, directory, **changes)
        ledger = Ledger(settings.ledger_url)
        parts.callback(ledger.close)
        yield World(settings, directory, ledger, parts)


def cpu_seconds(process: int) -> float:
    """What a process and its children that still run have used."""
    return sum(_own_cpu_seconds(pid) for pid in [process, *children(process)])


def children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children")
    direct = [int(word) for word in found.read_text().split()] if found.exists() else []
    return [*direct, *(below for child in direct for below in children(child))]


def proportional_bytes(process: int) -> int:
    """Memory of a process; what several share is divided among them."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def rate(row, seconds: float) -> tuple[float, float]:
    """Units that `row()` grows by in a second, over at least so many seconds; and how long it really was.

    From one change to another: what grows by leaps is not cut in the middle of one.
    """
    first, start = _changed(row)
    while monotonic() - start < seconds:
        last, stop = _changed(row)
    return (last - first) / (stop - start), stop - start


def _changed(row) -> tuple[float, float]:
    before, end = row(), monotonic() + 60
    while (now := row()) == before and monotonic() < end:
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
