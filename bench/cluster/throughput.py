"""The throughput of a cluster relative to the kernels alone, and the overhead of a task."""

from multiprocessing import get_context
from time import perf_counter

from bench import printing, tables
from bench.cluster.local_cluster import LocalCluster, cpu_seconds, rate, start_cluster
from maabo_dist.trees.training import depth_search

ROWS, FEATURES = 20_000, 200


def run(options) -> None:
    seconds = 6.0 if options.quick else 20.0
    columns = tables.generated(ROWS, FEATURES)
    pools = [("prefork", 1), ("prefork", 2), ("threads", 2)]
    rows = [_delivered(columns, pool, workers, seconds) for pool, workers in pools]
    printing.print_table(
        f"Throughput, {ROWS:,} × {FEATURES}, tasks of about 1 s",
        ["workers", "kernel alone", "cluster", "ratio", "scheduler CPU", "goal", ""],
        [
            (
                workers,
                f"{alone:,.0f} trees/s",
                f"{delivered:,.0f} trees/s",
                f"{delivered / alone:.2f}",
                f"{scheduler:.1%} of a core",
                *(printing.format_verdict(delivered / alone, printing.Goal(minimum=0.9))),
            )
            for workers, alone, delivered, scheduler in rows
        ],
        ["Kernel alone: as many processes as workers, each with depth_search over the same table and nothing else."],
    )
    _overhead(150 if options.quick else 500)


def _delivered(columns, pool: str, workers: int, seconds: float) -> tuple[str, float, float, float]:
    before = _alone(columns, workers)
    with start_cluster() as cluster:
        cluster.start_scheduler()
        cluster.start_worker("-P", pool, "-c", str(workers))
        mining = {"strategy": "random", "trees": 10_000_000, "batch": 4096, "in_flight": 12, "subset_size": 3}
        job = cluster.submit(columns, **mining)
        cluster.wait_for_trees(job, 16_384)
        used = cpu_seconds(cluster.scheduler)
        delivered, passed = rate(lambda: cluster.job(job).trees, seconds)
        scheduler = (cpu_seconds(cluster.scheduler) - used) / passed
    after = _alone(columns, workers)
    return f"{workers} × {pool}", (before + after) / 2, delivered, scheduler


def _alone(columns, processes: int) -> float:
    """Trees per second of this many processes without a cluster."""
    context = get_context("fork")
    with context.Pool(processes) as pool:
        return sum(pool.map(_grow, [columns] * processes, chunksize=1))


def _grow(columns) -> float:
    table, subsets = tables.training(columns), tables.random_subsets(FEATURES, 3, 4096)
    depth_search(table, subsets[:64], 5)
    start, count = perf_counter(), 0
    while perf_counter() - start < 3:
        depth_search(table, subsets, 5)
        count += len(subsets)
    return count / (perf_counter() - start)


def _overhead(count: int) -> None:
    columns = tables.generated(200, 60)
    rows = []
    for pool in ("prefork", "threads"):
        for title, task_seconds, trees, mining in (
            ("one after another", 1.0, count, {"batch": 1, "in_flight": 1}),
            ("many under way", 1e-6, count * 4, {"batch": 64, "in_flight": 8, "strategy": "random"}),
        ):
            with start_cluster(partial_seconds=3600, task_seconds=task_seconds) as cluster:
                cluster.start_scheduler()
                worker = cluster.start_worker("-P", pool, "-c", "1")
                costs = _per_task(cluster, worker, columns, trees, **mining)
            rows.append((f"{pool}, {title}", *map(printing.format_time, costs)))
    printing.print_table(
        "Overhead of a task of one small tree",
        ["", "wall time", "scheduler CPU", "worker CPU"],
        rows,
        ["Worker CPU includes Celery's events (-E), which Flower needs."],
    )


def _per_task(cluster: LocalCluster, worker: int, columns, count: int, **mining) -> tuple[float, float, float]:
    job = cluster.submit(columns, trees=count + 50, subset_size=3, **mining)
    cluster.wait_for_trees(job, 50)
    start, trees = perf_counter(), cluster.job(job).trees
    before = cpu_seconds(cluster.scheduler), cpu_seconds(worker)
    done = cluster.wait_for_trees(job, count + 50)
    after = cpu_seconds(cluster.scheduler), cpu_seconds(worker)
    tasks = done.trees - trees
    wall = (perf_counter() - start) / tasks
    return wall, (after[0] - before[0]) / tasks, (after[1] - before[1]) / tasks
