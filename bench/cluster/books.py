"""What the books cost: scheduler CPU for each subset, ledger bytes for each tree, and the time to go on from them."""

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from bench import show, tables
from bench.cluster.world import cpu_seconds, world
from maabo_dist.cluster.redis_store import open_store
from maabo_dist.cluster.streams import open_redis
from maabo_dist.cluster.table_cache import TableCache
from maabo_dist.warm import warm
from scheduler.core.preparation import prepare
from scheduler.core.recovery import open_job
from scheduler.ledger.ledger import Ledger
from tests import servers


def run(options) -> None:
    trees = 20_000 if options.quick else 100_000
    columns = tables.generated(300, 1000)
    with world(partial_seconds=3600, lease_seconds=3) as place:
        place.start_scheduler()
        environment = os.environ | place.settings.environment()
        command = [sys.executable, "-m", "bench.cluster.simulated", "4", "0", "3"]
        process = subprocess.Popen(command, cwd=servers.ROOT, env=environment)
        place.parts.callback(process.kill)
        job = place.submit(columns, trees=trees, batch=4096, in_flight=4, subset_size=3)
        first = place.wait_for_trees(job, trees // 5).trees
        used = cpu_seconds(place.scheduler)
        place.wait_for_trees(job, trees)
        cpu = (cpu_seconds(place.scheduler) - used) / (trees - first)
        os.kill(place.scheduler, 9)
        size = sum(Path(place.directory, name).stat().st_size for name in ("ledger.db", "ledger.db-wal"))
        seconds, grown = _reopened(place, job)
    assert grown == trees
    show.table(
        f"The books of a job of {trees:,} trees, D = 1000, D′ = 3, batches of 4,096",
        ["", "figure", "goal", ""],
        [
            ("scheduler CPU for each subset", show.time(cpu), *_cpu_verdict(cpu)),
            ("ledger, with its log, for each tree", f"{size / trees:.0f} bytes", "", ""),
            ("open the job again from the ledger", show.time(seconds), "", ""),
        ],
        ["Scheduler CPU: everything it does once the job runs: proposing, sending, gathering, observing, writing."],
    )


def _cpu_verdict(cpu: float) -> tuple[str, str]:
    goal, verdict = show.verdict(cpu * 1e6, show.Goal(most=10))
    return f"{goal} µs", verdict


def _reopened(place, job: str) -> tuple[float, int]:
    warm()
    ledger = Ledger(place.settings.ledger_url)
    cache = TableCache(Path(place.settings.cache_dir), open_store(place.settings, open_redis(place.settings)), 1 << 34)
    (lease,) = servers.wait_for(
        lambda: ledger.leases.acquire("bench", place.ledger.jobs.get(job).created + 1e6, 1e6, 1), what="the lease"
    )
    start = perf_counter()
    opened = open_job(ledger, lease, prepare(ledger.jobs.get(job).spec, cache, 1.0), 0.0, lambda: None)
    seconds = perf_counter() - start
    ledger.close()
    return seconds, opened.machine.run.grown
