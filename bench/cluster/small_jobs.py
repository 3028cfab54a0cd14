"""How many small jobs a cluster finishes in a second: ten trees each, one scheduler and two worker processes."""

from pathlib import Path
from time import perf_counter
from uuid import uuid4

from bench import printing
from bench.cluster.local_cluster import LocalCluster, cpu_seconds, start_cluster
from maabo_dist.contract.job import JobSpec
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from tests import servers
from tests.cluster import store_table

TREES = 10


def run(options) -> None:
    jobs = 200 if options.quick else 2000
    checkouts = {"ours": servers.ROOT} | ({"before": options.before} if options.before else {})
    rows = [(name, *_measure(checkout, jobs)) for name, checkout in checkouts.items()]
    printing.print_table(
        f"{jobs:,} jobs of {TREES} trees, one scheduler, two worker processes, SQLite",
        ["", "jobs/s", "scheduler CPU a job", "worker CPU a job"],
        [(name, f"{rate:.1f}", *map(printing.format_time, costs)) for name, rate, *costs in rows],
    )


def _measure(checkout: Path, jobs: int) -> tuple[float, float, float]:
    columns = prepare(*load_bundled("diabetes")).columns
    with start_cluster() as cluster:
        store_table(cluster.settings, cluster.directory, columns)
        cluster.start_scheduler(checkout)
        worker = cluster.start_worker("-c", "2")
        _finish(cluster, columns.fingerprint, 10)
        before = cpu_seconds(cluster.scheduler), cpu_seconds(worker)
        start = perf_counter()
        _finish(cluster, columns.fingerprint, jobs)
        seconds = perf_counter() - start
        after = cpu_seconds(cluster.scheduler), cpu_seconds(worker)
    return jobs / seconds, (after[0] - before[0]) / jobs, (after[1] - before[1]) / jobs


def _finish(cluster: LocalCluster, fingerprint: str, jobs: int) -> None:
    """Add jobs, and wait until all jobs have ended."""
    settings = [{"trees": TREES, "seed": uuid4().int % 2**31} for _ in range(jobs)]
    documents = [{"id": uuid4().hex, "dataset": {"fingerprint": fingerprint}, "settings": each} for each in settings]
    cluster.ledger.jobs.add([JobSpec.parse(document) for document in documents], 1.0)

    def all_done() -> bool:
        counts = cluster.ledger.jobs.count_by_state()
        assert not counts.get("failed"), "a job failed"
        return counts.get("done", 0) == sum(counts.values())

    servers.wait_for(all_done, 3600, what="the end of all jobs")
