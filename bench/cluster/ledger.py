"""Scheduler CPU for each subset, ledger bytes for each tree, and the time to recover a job from the ledger."""

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from bench import printing, tables
from bench.cluster.local_cluster import LocalCluster, cpu_seconds, start_cluster
from maabo_dist.cluster.redis_store import open_store
from maabo_dist.cluster.streams import open_redis
from maabo_dist.cluster.table_cache import TableCache
from maabo_dist.warm import warm
from scheduler.core.preparation import open_job, prepare
from scheduler.ledger import Ledger
from tests import servers


def run(options) -> None:
    trees = 20_000 if options.quick else 100_000
    columns = tables.generated(300, 1000)
    with start_cluster(partial_seconds=3600, lease_seconds=3) as cluster:
        cluster.start_scheduler()
        environment = os.environ | cluster.settings.environment()
        command = [sys.executable, "-m", "bench.cluster.simulated_workers", "4", "0", "3"]
        process = subprocess.Popen(command, cwd=servers.ROOT, env=environment)
        cluster.stack.callback(process.kill)
        job = cluster.submit(columns, trees=trees, batch=4096, in_flight=4, subset_size=3)
        first = cluster.wait_for_trees(job, trees // 5).trees
        used = cpu_seconds(cluster.scheduler)
        cluster.wait_for_trees(job, trees)
        cpu = (cpu_seconds(cluster.scheduler) - used) / (trees - first)
        os.kill(cluster.scheduler, 9)
        size = sum(Path(cluster.directory, name).stat().st_size for name in ("ledger.db", "ledger.db-wal"))
        seconds, recovered = _time_recovery(cluster, job)
    assert recovered == trees
    printing.print_table(
        f"The ledger of a job of {trees:,} trees, D = 1000, D′ = 3, batches of 4,096",
        ["", "figure", "goal", ""],
        [
            ("scheduler CPU for each subset", printing.format_time(cpu), *_cpu_verdict(cpu)),
            ("ledger, with its log, for each tree", f"{size / trees:.0f} bytes", "", ""),
            ("recover the job from the ledger", printing.format_time(seconds), "", ""),
        ],
        ["Scheduler CPU: all its work while the job runs: proposing, sending, receiving, observing, writing."],
    )


def _cpu_verdict(cpu: float) -> tuple[str, str]:
    goal, verdict = printing.format_verdict(cpu * 1e6, printing.Goal(maximum=10))
    return f"{goal} µs", verdict


def _time_recovery(cluster: LocalCluster, job: str) -> tuple[float, int]:
    warm()
    ledger = Ledger(cluster.settings.ledger_url)
    cache = TableCache(
        Path(cluster.settings.cache_dir), open_store(cluster.settings, open_redis(cluster.settings)), 1 << 34
    )
    later = cluster.ledger.jobs.get(job).created + 1e6
    (lease,) = servers.wait_for(lambda: ledger.leases.acquire("bench", later, 600.0, 1), what="the lease")
    start = perf_counter()
    opened = open_job(ledger, lease, prepare(ledger.jobs.get(job).spec, cache, 1.0), 0.0, lambda: None)
    seconds = perf_counter() - start
    ledger.close()
    return seconds, opened.machine.run.trees
