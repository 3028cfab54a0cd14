"""How many workers one scheduler keeps busy, shown with simulated workers."""

import os
import subprocess
import sys
from time import sleep

from bench import show, tables
from bench.cluster.simulated import BUSY
from bench.cluster.world import World, cpu_seconds, rate, world
from maabo_dist.cluster.streams import open_redis
from tests import servers

SECONDS_A_SUBSET = 0.02
FEATURES, SIZE = 1000, 3
PLAYERS = 500
"""Workers that one process plays."""


def run(options) -> None:
    counts = (1, 100) if options.quick else (1, 10, 100, 300, 1000)
    rows = [_busy(workers, 5.0 if options.quick else 10.0) for workers in counts]
    show.table(
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
    with world(partial_seconds=3600) as place:
        place.start_scheduler()
        _play(place, workers)
        job = place.submit(columns, trees=50_000_000, batch=500, in_flight=10_000, subset_size=SIZE)
        client = open_redis(place.settings)
        ready = workers / SECONDS_A_SUBSET * 2  # completed, so that the ramp allows enough in flight
        place.wait_for_trees(job, int(max(200, ready)))
        sleep(2)
        worked = lambda: int(client.get(BUSY) or 0) / 1000  # noqa: E731 - three readings of one moment
        before = cpu_seconds(place.scheduler), cpu_seconds(place.redis), worked()
        subsets, passed = rate(lambda: place.job(job).trees, seconds)
        after = cpu_seconds(place.scheduler), cpu_seconds(place.redis), worked()
    scheduler, redis, done = ((late - early) / passed for early, late in zip(before, after, strict=True))
    tasks = done  # of one second each
    return (
        str(workers),
        f"{done / workers:.0%}",
        f"{tasks:,.0f}",
        f"{subsets:,.0f}",
        f"{scheduler:.0%}",
        show.time(scheduler / max(tasks, 1e-9)),
        show.time(scheduler / max(subsets, 1e-9)),
        f"{redis:.0%}",
    )


def _play(place: World, workers: int) -> None:
    environment = os.environ | place.settings.environment()
    for first in range(0, workers, PLAYERS):
        played = min(PLAYERS, workers - first)
        command = [sys.executable, "-m", "bench.cluster.simulated", str(played), str(SECONDS_A_SUBSET), str(SIZE)]
        process = subprocess.Popen(command, cwd=servers.ROOT, env=environment)
        place.parts.callback(process.kill)
