"""The throughput of a cluster relative to the kernels alone, and the overhead of a task."""

from dataclasses import dataclass
from multiprocessing import get_context
from time import perf_counter, process_time

from bench import printing, tables
from bench.cluster.local_cluster import LocalCluster, cpu_seconds, rate, start_cluster
from maabo_dist.trees.training import depth_search

ROWS, FEATURES = 20_000, 200


@dataclass(frozen=True)
class Cost:
    """Trees per second, and the CPU seconds of a tree."""

    rate: float
    cpu: float

    @classmethod
    def mean(cls, one: "Cost", other: "Cost") -> "Cost":
        return cls((one.rate + other.rate) / 2, (one.cpu + other.cpu) / 2)


def run(options) -> None:
    seconds = 6.0 if options.quick else 20.0
    columns = tables.generated(ROWS, FEATURES)
    pools = [("prefork", 1), ("prefork", 2), ("threads", 2)]
    rows = [_delivered(columns, pool, workers, seconds) for pool, workers in pools]
    printing.print_table(
        f"Throughput, {ROWS:,} × {FEATURES}, tasks of about 1 s",
        [
            "workers",
            "kernel alone",
            "cluster",
            "ratio",
            "CPU alone",
            "scheduler",
            "workers",
            "Redis",
            "ratio",
            "goal",
            "",
        ],
        [_cells(*row) for row in rows],
        [
            "Kernel alone: as many processes as workers, each with depth_search over the same table and nothing else.",
            "CPU: of a tree. Its ratio does not depend on what else the machine does, unlike that of the rates.",
        ],
    )
    _overhead(150 if options.quick else 500)


def _cells(workers: str, alone: Cost, delivered: float, cpu: tuple[float, ...]) -> tuple[str, ...]:
    efficiency = alone.cpu / sum(cpu)
    return (
        workers,
        f"{alone.rate:,.0f} trees/s",
        f"{delivered:,.0f} trees/s",
        f"{delivered / alone.rate:.2f}",
        printing.format_time(alone.cpu),
        *map(printing.format_time, cpu),
        f"{efficiency:.2f}",
        *printing.format_verdict(efficiency, printing.Goal(minimum=0.9)),
    )


def _delivered(columns, pool: str, workers: int, seconds: float) -> tuple[str, Cost, float, tuple[float, ...]]:
    before = _alone(columns, workers)
    with start_cluster() as cluster:
        cluster.start_scheduler()
        worker = cluster.start_worker("-P", pool, "-c", str(workers))
        mining = {"strategy": "random", "trees": 10_000_000, "batch": 4096, "in_flight": 12, "subset_size": 3}
        job = cluster.submit(columns, **mining)
        cluster.wait_for_trees(job, 16_384)
        processes = cluster.scheduler, worker, cluster.redis
        used = [cpu_seconds(process) for process in processes]
        delivered, passed = rate(lambda: cluster.job(job).trees, seconds)
        spent = [cpu_seconds(process) - early for process, early in zip(processes, used, strict=True)]
    after = _alone(columns, workers)
    cpu = tuple(part / (delivered * passed) for part in spent)
    return f"{workers} × {pool}", Cost.mean(before, after), delivered, cpu


def _alone(columns, processes: int) -> Cost:
    """The cost of trees in this many processes without a cluster."""
    context = get_context("fork")
    with context.Pool(processes) as pool:
        costs = pool.map(_grow, [columns] * processes, chunksize=1)
    return Cost(sum(cost.rate for cost in costs), sum(cost.cpu for cost in costs) / processes)


def _grow(columns) -> Cost:
    table, subsets = tables.training(columns), tables.random_subsets(FEATURES, 3, 4096)
    depth_search(table, subsets[:64], 5)
    start, cpu, count = perf_counter(), process_time(), 0
    while perf_counter() - start < 3:
        depth_search(table, subsets, 5)
        count += len(subsets)
    return Cost(count / (perf_counter() - start), (process_time() - cpu) / count)


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
