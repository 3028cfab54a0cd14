"""Latency and CPU time of the HTTP API under load, compared with FastAPI that returns a constant."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from bench import printing
from bench.cluster.http_load import Request, latencies
from bench.cluster.local_cluster import LocalCluster, cpu_seconds, start_cluster
from maabo_dist.data.bundled import load_bundled
from scheduler.resources import Resources
from tests import servers
from tests.api_data import stored_table, token_for

CLIENTS = (8, 50)
WARM_UP = 20


@dataclass(frozen=True)
class Server:
    url: str
    process: int
    headers: str = ""


@dataclass(frozen=True)
class Measurement:
    seconds: np.ndarray
    cpu: float  # seconds of the server for each request

    def quantile(self, share: int) -> float:
        return float(np.percentile(self.seconds, share))


def run(options) -> None:
    requests = 400 if options.quick else 2000
    for name, ledger in _ledgers():
        for clients in CLIENTS:
            with ledger() as changes, start_cluster(**changes) as cluster:
                _compare(cluster, name, clients, requests)


def _compare(cluster: LocalCluster, ledger: str, clients: int, requests: int) -> None:
    frame, settings = load_bundled("diabetes")
    resources = Resources.connect(cluster.settings)
    dataset, token = stored_table(resources, cluster.directory, frame).id, token_for(resources)
    resources.close()
    ours = _start_service(cluster, f"Authorization: {token['Authorization']}\r\n")
    baseline = _start_baseline(cluster)
    table = settings.model_dump(mode="json", exclude_unset=True)

    def document(number: int) -> bytes:
        return json.dumps({"dataset": dataset, "table": table, "settings": {"seed": number, "trees": 20}}).encode()

    def submit(number: int) -> tuple[str, str, bytes]:
        return "POST", "/v1/jobs", document(number)

    latencies(ours.url, submit, WARM_UP, 1, ours.headers)  # the table is prepared once
    for number in range(60):  # so that a page is full
        latencies(ours.url, lambda _, number=number: submit(100 + number), 1, 1, ours.headers)
    job = cluster.ledger.jobs.page(None, limit=1)[0].id
    pairs: list[tuple[str, Request, Request]] = [
        ("status", lambda _: ("GET", f"/v1/jobs/{job}", b""), lambda _: ("GET", "/", b"")),
        ("a page of 50 jobs", lambda _: ("GET", "/v1/jobs", b""), lambda _: ("GET", "/", b"")),
        ("submit", lambda number: submit(number + 1000), lambda number: ("POST", "/", document(number))),
    ]
    rows = []
    for name, mine, theirs in pairs:
        measured = _measure(ours, mine, requests, clients)
        plain = _measure(baseline, theirs, requests, clients)
        for share in (50, 99):
            one, other = measured.quantile(share), plain.quantile(share)
            rows.append((f"{name}, p{share}", one, other, one / other, None))
        rows.append((f"{name}, CPU a request", measured.cpu, plain.cpu, measured.cpu / plain.cpu, None))
    printing.print_comparison(
        f"HTTP under load: {clients} clients, {ledger}, server and load on the same machine",
        "ours",
        "FastAPI",
        rows,
        ["Ours checks a token and reads the ledger and Redis; submit commits a job to the ledger."],
    )


def _measure(server: Server, request: Request, requests: int, clients: int) -> Measurement:
    before = cpu_seconds(server.process)
    seconds = latencies(server.url, request, requests, clients, server.headers)
    return Measurement(seconds, (cpu_seconds(server.process) - before) / requests)


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


def _start_service(cluster: LocalCluster, headers: str) -> Server:
    log = cluster.directory / "service.log"
    process = _start(cluster, [sys.executable, "-m", "scheduler", "serve", "--port", "0"], log)
    match = servers.wait_for(lambda: re.search(r"listening on (http\S+)", log.read_text()), what="a server")
    return Server(match[1], process, headers)


def _start_baseline(cluster: LocalCluster) -> Server:
    port, log = servers.free_port(), cluster.directory / "fastapi.log"
    process = _start(cluster, [sys.executable, "-m", "bench.cluster.fastapi_baseline", str(port)], log)
    servers.wait_for(lambda: _answers(port), what="FastAPI")
    return Server(f"http://127.0.0.1:{port}", process)


def _start(cluster: LocalCluster, command: list[str], log: Path) -> int:
    environment = os.environ | cluster.settings.environment()
    process = subprocess.Popen(
        command, cwd=servers.ROOT, env=environment, stdout=log.open("wb"), stderr=subprocess.STDOUT
    )
    cluster.stack.callback(process.wait)
    cluster.stack.callback(process.kill)
    return process.pid


def _answers(port: int) -> bool:
    try:
        return bool(len(latencies(f"http://127.0.0.1:{port}", lambda _: ("GET", "/", b""), 1, 1)))
    except OSError:
        return False
