"""Latency and CPU time of the HTTP API under load, compared with FastAPI that returns a constant.

The servers take turns in short rounds, so that other work on the machine slows all of them down alike.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench import printing, tables
from bench.cluster.http_load import Request, latencies
from bench.cluster.local_cluster import LocalCluster, cpu_seconds, start_cluster
from maabo_dist.data.bundled import load_bundled
from scheduler.resources import Resources
from tests import servers
from tests.api_data import stored_table, token_for

CLIENTS = (8, 50)
WARM_UP = 60
ROUNDS = 5
GOALS = {"status": (2, None), "page of 50 jobs": (2, None), "submit": (3, 10)}  # of p50 and p99


@dataclass
class Server:
    name: str
    url: str
    process: int
    headers: str = ""
    seconds: dict[str, list[np.ndarray]] = field(default_factory=dict)  # of each kind of request, by round
    cpu: dict[str, list[float]] = field(default_factory=dict)  # of the server for each request

    def measure(self, kind: str, request: Request, requests: int, clients: int) -> None:
        before = cpu_seconds(self.process)
        self.seconds.setdefault(kind, []).append(latencies(self.url, request, requests, clients, self.headers))
        self.cpu.setdefault(kind, []).append((cpu_seconds(self.process) - before) / requests)

    def quantile(self, kind: str, share: int) -> float:
        return float(np.percentile(np.concatenate(self.seconds[kind]), share))

    def mean_cpu(self, kind: str) -> float:
        return float(np.mean(self.cpu[kind]))


def run(options) -> None:
    requests = 100 if options.quick else 400  # in a round
    for (name, ledger), clients, busy in product(_ledgers(), CLIENTS, (False, True)):
        with ledger() as changes, start_cluster(**changes) as cluster:
            title = f"HTTP under load: {clients} clients, {name}, workers {'busy' if busy else 'idle'}"
            _compare(cluster, title, clients, requests, options.before, busy=busy)


def _compare(
    cluster: LocalCluster, title: str, clients: int, requests: int, before: Path | None, *, busy: bool
) -> None:
    frame, settings = load_bundled("diabetes")
    resources = Resources.connect(cluster.settings)
    dataset, token = stored_table(resources, cluster.directory, frame).id, token_for(resources)
    resources.close()
    headers = f"Authorization: {token['Authorization']}\r\n"
    ours, baseline = _start_service(cluster, "ours", headers), _start_baseline(cluster)
    others = [] if before is None else [_start_service(cluster, "before", headers, before)]
    table = settings.model_dump(mode="json", exclude_unset=True)
    numbers = iter(range(10**9))

    def document() -> bytes:
        seed = next(numbers)  # no two jobs are equal
        return json.dumps({"dataset": dataset, "table": table, "settings": {"seed": seed, "trees": 20}}).encode()

    def submit(_: int) -> tuple[str, str, bytes]:
        return "POST", "/v1/jobs", document()

    for server in (ours, *others):  # each prepares the table once; and a page is full
        latencies(server.url, submit, WARM_UP, 1, server.headers)
    jobs = [row.id for row in cluster.ledger.jobs.page(None, limit=50)]
    if busy:
        _occupy_workers(cluster)
    kinds: dict[str, tuple[Request, Request]] = {
        "status": (lambda number: ("GET", f"/v1/jobs/{jobs[number % 50]}", b""), lambda _: ("GET", "/", b"")),
        "page of 50 jobs": (lambda _: ("GET", "/v1/jobs", b""), lambda _: ("GET", "/", b"")),
        "submit": (submit, lambda _: ("POST", "/", document())),
    }
    for kind, (mine, plain) in kinds.items():
        for _ in range(ROUNDS):
            for server in (ours, *others, baseline):
                server.measure(kind, plain if server is baseline else mine, requests, clients)
    for server in (ours, *others):
        printing.print_comparison(
            title,
            server.name,
            "FastAPI",
            [row for kind in kinds for row in _rows(server, baseline, kind)],
            ["Ours checks a token and reads the ledger and Redis; submit commits a job to the ledger."],
        )


def _rows(server: Server, baseline: Server, kind: str) -> Iterator[tuple]:
    for share, goal in zip((50, 99), GOALS[kind], strict=True):
        one, other = server.quantile(kind, share), baseline.quantile(kind, share)
        yield f"{kind}, p{share}", one, other, one / other, None if goal is None else printing.Goal(maximum=goal)
    one, other = server.mean_cpu(kind), baseline.mean_cpu(kind)
    yield f"{kind}, CPU a request", one, other, one / other, None


def _occupy_workers(cluster: LocalCluster) -> None:
    """Keep two worker processes busy with a job that does not end."""
    cluster.start_scheduler()
    cluster.start_worker("-c", "2")
    columns = tables.generated(20_000, 200)
    mining = {"strategy": "random", "trees": 10_000_000, "batch": 4096, "in_flight": 12, "subset_size": 3}
    cluster.wait_for_trees(cluster.submit(columns, **mining), 1)


def _ledgers() -> Iterator[tuple[str, Callable]]:
    @contextmanager
    def sqlite():
        yield {}

    @contextmanager
    def postgres():
        with (
            TemporaryDirectory(prefix="maabo-bench-") as directory,
            servers.postgres_server(directory, durable=True) as url,
        ):
            yield {"ledger_url": url}

    yield "SQLite", sqlite
    if servers.postgres_programs() is not None:
        yield "PostgreSQL", postgres


def _start_service(cluster: LocalCluster, name: str, headers: str, checkout: Path = servers.ROOT) -> Server:
    log = cluster.directory / f"{name}.log"
    process = _start(cluster, [sys.executable, "-m", "scheduler", "serve", "--port", "0"], log, checkout)
    match = servers.wait_for(lambda: re.search(r"listening on (http\S+)", log.read_text()), what="a server")
    return Server(name, match[1], process, headers)


def _start_baseline(cluster: LocalCluster) -> Server:
    port, log = servers.free_port(), cluster.directory / "fastapi.log"
    process = _start(cluster, [sys.executable, "-m", "bench.cluster.fastapi_baseline", str(port)], log, servers.ROOT)
    servers.wait_for(lambda: _answers(port), what="FastAPI")
    return Server("FastAPI", f"http://127.0.0.1:{port}", process)


def _start(cluster: LocalCluster, command: list[str], log: Path, directory: Path) -> int:
    environment = os.environ | cluster.settings.environment()
    process = subprocess.Popen(command, cwd=directory, env=environment, stdout=log.open("wb"), stderr=subprocess.STDOUT)
    cluster.stack.callback(process.wait)
    cluster.stack.callback(process.kill)
    return process.pid


def _answers(port: int) -> bool:
    try:
        return bool(len(latencies(f"http://127.0.0.1:{port}", lambda _: ("GET", "/", b""), 1, 1)))
    except OSError:
        return False
