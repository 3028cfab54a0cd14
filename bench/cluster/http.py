"""Latency of the HTTP API under load, compared with FastAPI that returns a constant."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from bench import printing
from bench.cluster.http_load import latencies
from bench.cluster.local_cluster import LocalCluster, start_cluster
from maabo_dist.data.bundled import load_bundled
from scheduler.resources import Resources
from tests import servers
from tests.api_data import stored_table

CONNECTIONS = 8


def run(options) -> None:
    requests = 500 if options.quick else 4000
    with start_cluster() as cluster:
        frame, settings = load_bundled("diabetes")
        resources = Resources.connect(cluster.settings)
        dataset = stored_table(resources, cluster.directory, frame).id
        resources.close()
        ours, baseline = _start_service(cluster), _start_baseline(cluster)
        table = settings.model_dump(mode="json", exclude_unset=True)

        def submission(number: int) -> tuple[str, str, bytes]:
            document = {"dataset": dataset, "table": table, "settings": {"seed": number, "trees": 20}}
            return "POST", "/v1/jobs", json.dumps(document).encode()

        def posted(number: int) -> tuple[str, str, bytes]:
            _, _, body = submission(number)
            return "POST", "/", body

        latencies(ours, submission, 20, 1)  # the table is prepared once
        first = cluster.ledger.jobs.page(None, limit=1)[0].id
        pairs = [
            ("status", lambda _: ("GET", f"/v1/jobs/{first}", b""), lambda _: ("GET", "/", b"")),
            ("a page of 50 jobs", lambda _: ("GET", "/v1/jobs", b""), lambda _: ("GET", "/", b"")),
            ("submit", lambda number: submission(number + 1000), posted),
        ]
        rows = []
        for name, mine, theirs in pairs:
            count = requests // 4 if name != "status" else requests
            seconds = latencies(ours, mine, count, CONNECTIONS), latencies(baseline, theirs, count, CONNECTIONS)
            rows += [(f"{name}, p{share}", *_compare(seconds, share)) for share in (50, 99)]
    printing.print_comparison(
        f"HTTP under load: {CONNECTIONS} connections on loopback, server and load on the same two cores",
        "ours",
        "FastAPI",
        rows,
        ["Ours reads the ledger (SQLite) for the caller and the job, and Redis; submit commits the job to the ledger."],
    )


def _compare(seconds: tuple[np.ndarray, np.ndarray], share: int) -> tuple[float, float, float, None]:
    mine, theirs = (float(np.percentile(each, share)) for each in seconds)
    return mine, theirs, mine / theirs, None


def _start_service(cluster: LocalCluster) -> str:
    log = cluster.directory / "service.log"
    _start(cluster, [sys.executable, "-m", "scheduler", "serve", "--port", "0"], log)
    match = servers.wait_for(lambda: re.search(r"listening on (http\S+)", log.read_text()), what="a server")
    return match[1]


def _start_baseline(cluster: LocalCluster) -> str:
    port, log = servers.free_port(), cluster.directory / "fastapi.log"
    _start(cluster, [sys.executable, "-m", "bench.cluster.fastapi_baseline", str(port)], log)
    servers.wait_for(lambda: _answers(port), what="FastAPI")
    return f"http://127.0.0.1:{port}"


def _start(cluster: LocalCluster, command: list[str], log: Path) -> None:
    environment = os.environ | cluster.settings.environment()
    process = subprocess.Popen(
        command, cwd=servers.ROOT, env=environment, stdout=log.open("wb"), stderr=subprocess.STDOUT
    )
    cluster.stack.callback(process.wait)
    cluster.stack.callback(process.kill)


def _answers(port: int) -> bool:
    try:
        return bool(len(latencies(f"http://127.0.0.1:{port}", lambda _: ("GET", "/", b""), 1, 1)))
    except OSError:
        return False
