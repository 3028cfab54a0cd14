"""The number of simulated workers that one scheduler keeps busy."""

import os
import subprocess
import sys
from time import sleep

from bench import printing, tables
from bench.cluster.local_cluster import LocalCluster, cpu_seconds, rate, start_cluster
from bench.cluster.simulated_workers import BUSY
from maabo_dist.cluster.streams import open_redis
from tests import servers

SECONDS_A_SUBSET = 0.02
FEATURES, SIZE = 1000, 3
WORKERS_A_PROCESS = 500
"""Workers that one process simulates."""


def run(options) -> None:
    counts = (1, 100) if options.quick else (1, 10, 100, 300, 1000)
    rows = [_busy(workers, 5.0 if options.quick else 10.0) for workers in counts]
    printing.print_table(
        f"One scheduler and simulated workers: {SECONDS_A_SUBSET * 1000:.0f} ms a subset, tasks of 1 s, D′ = {SIZE}",
        ["workers", "busy", "tasks/s", "subsets/s", "scheduler CPU", "a task", "a subset", "Redis CPU"],
        rows,
        [
            "CPU as a share of one core. `a task` and `a subset` are the scheduler's CPU time divided by either.",
            "The simulated workers take CPU of the same two cores; on a cluster they do not.",
        ],
    )


def _busy(workers: int, seconds: float) -> tuple[str, ...]:
    columns = tables.generated(300, FEATURES)
    with start_cluster(partial_seconds=3600) as cluster:
        cluster.start_scheduler()
        _start_workers(cluster, workers)
        job = cluster.submit(columns, trees=50_000_000, batch=500, in_flight=10_000, subset_size=SIZE)
        client = open_redis(cluster.settings)
        ready = workers / SECONDS_A_SUBSET * 2  # completed, so that the ramp allows enough in flight
        cluster.wait_for_trees(job, int(max(200, ready)))
        sleep(2)
        worked = lambda: int(client.get(BUSY) or 0) / 1000  # noqa: E731 - three readings of one moment
        before = cpu_seconds(cluster.scheduler), cpu_seconds(cluster.redis), worked()
        subsets, passed = rate(lambda: cluster.job(job).trees, seconds)
        after = cpu_seconds(cluster.scheduler), cpu_seconds(cluster.redis), worked()
    scheduler, redis, done = ((late - early) / passed for early, late in zip(before, after, strict=True))
    tasks = done  # of one second each
    return (
        str(workers),
        f"{done / workers:.0%}",
        f"{tasks:,.0f}",
        f"{subsets:,.0f}",
        f"{scheduler:.0%}",
        printing.format_time(scheduler / max(tasks, 1e-9)),
        printing.format_time(scheduler / max(subsets, 1e-9)),
        f"{redis:.0%}",
    )


def _start_workers(cluster: LocalCluster, workers: int) -> None:
    environment = os.environ | cluster.settings.environment()
    for first in range(0, workers, WORKERS_A_PROCESS):
        count = min(WORKERS_A_PROCESS, workers - first)
        command = [
            sys.executable,
            "-m",
            "bench.cluster.simulated_workers",
            str(count),
            str(SECONDS_A_SUBSET),
            str(SIZE),
        ]
        process = subprocess.Popen(command, cwd=servers.ROOT, env=environment)
        cluster.stack.callback(process.kill)
