"""The number of simulated workers that one scheduler keeps busy, and how long the last of them works at the end."""

import os
import subprocess
import sys
from dataclasses import dataclass
from time import monotonic, sleep

import numpy as np

from bench import printing, tables
from bench.cluster.local_cluster import LocalCluster, cpu_seconds, start_cluster
from maabo_dist.contract.job import JobState
from tests import servers

FEATURES, SIZE = 1000, 3
WORKERS_A_PROCESS = 2500
"""Workers that one process simulates."""
FULL = 0.98
"""The share of the workers that is called all of them, at the start."""
BUSY_GOAL, TAIL_GOAL = printing.Goal(minimum=0.95), printing.Goal(maximum=2.0)


@dataclass(frozen=True)
class Load:
    """A fleet, and a job that keeps it busy for about `seconds` after it has begun."""

    workers: int
    seconds_a_subset: float
    seconds: float

    @property
    def trees(self) -> int:
        return int(self.workers * self.seconds / self.seconds_a_subset)


@dataclass(frozen=True)
class Tasks:
    """When simulated workers began and ended their tasks, in order of their beginnings."""

    began: np.ndarray
    ended: np.ndarray

    @classmethod
    def read(cls, paths) -> "Tasks":
        rows = np.concatenate([np.loadtxt(path, ndmin=2).reshape(-1, 2) for path in paths])
        rows = rows[np.argsort(rows[:, 0])]
        return cls(rows[:, 0], rows[:, 1])

    def busy(self, start: float, stop: float) -> float:
        """The number of busy workers in this time, on average."""
        spent = np.clip(self.ended, start, stop) - np.clip(self.began, start, stop)
        return float(spent.sum() / (stop - start))

    def at_full_load(self, workers: int) -> tuple[float, float]:
        """From when all workers were busy for the first time, or the middle of the run, to the last task's beginning."""
        times, changes = np.concatenate([self.began, self.ended]), np.repeat([1, -1], len(self.began))
        order = np.argsort(times, kind="stable")
        full = times[order][np.cumsum(changes[order]) >= FULL * workers]
        first, last = self.began[0], self.began[-1]
        return float(full[0] if len(full) else (first + last) / 2), float(last)


def run(options) -> None:
    loads = [Load(1, 0.02, 20), Load(100, 0.02, 20), Load(1000, 0.05, 30), Load(10_000, 0.5, 150)]
    rows = [_row(load) for load in (loads[:2] if options.quick else loads)]
    printing.print_table(
        f"One scheduler and simulated workers, tasks of 1 s asked for, D′ = {SIZE}",
        ["workers", "a subset", "busy", "goal", "", "a task", "tasks/s", "CPU a task", "a subset", "tail", "goal", ""],
        rows,
        [
            "Busy: while there was work for all, after the start, where the search may have only as many subsets in",
            "flight as are done. CPU a task and a subset: the scheduler's CPU time, divided by either. Tail: the time",
            "from the beginning of the last task to its end, in lengths of the tasks before.",
            "The simulated workers take CPU of the same cores; on a cluster they do not.",
        ],
    )


def _row(load: Load) -> tuple[str, ...]:
    columns = tables.generated(300, FEATURES)
    with start_cluster(partial_seconds=3600) as cluster:
        cluster.start_scheduler()
        logs = _start_workers(cluster, load)
        job = cluster.submit(columns, trees=load.trees, batch=500, in_flight=10_000, subset_size=SIZE)
        half = cluster.wait_for_trees(job, load.trees // 2)
        before = cpu_seconds(cluster.scheduler), monotonic(), half.trees
        late = cluster.wait_for_trees(job, load.trees * 4 // 5)
        after = cpu_seconds(cluster.scheduler), monotonic(), late.trees
        servers.wait_for(lambda: cluster.job(job).state is not JobState.RUNNING, 600, what="the end of the search")
        sleep(0.5)
        tasks = Tasks.read(logs)
    begun = (tasks.began >= before[1]) & (tasks.began < after[1])
    length = float(np.median(tasks.ended[begun] - tasks.began[begun]))
    busy = tasks.busy(*tasks.at_full_load(load.workers)) / load.workers
    tail = float(tasks.ended.max() - tasks.began.max()) / length
    cpu = after[0] - before[0]
    return (
        f"{load.workers:,}",
        printing.format_time(load.seconds_a_subset),
        f"{busy:.1%}",
        *printing.format_verdict(busy, BUSY_GOAL),
        printing.format_time(length),
        f"{begun.sum() / (after[1] - before[1]):,.0f}",
        printing.format_time(cpu / max(1, begun.sum())),
        printing.format_time(cpu / max(1, after[2] - before[2])),
        f"{tail:.2f}",
        *printing.format_verdict(tail, TAIL_GOAL),
    )


def _start_workers(cluster: LocalCluster, load: Load) -> list:
    environment = os.environ | cluster.settings.environment()
    logs = []
    for first in range(0, load.workers, WORKERS_A_PROCESS):
        count = min(WORKERS_A_PROCESS, load.workers - first)
        logs.append(cluster.directory / f"tasks-{first}")
        arguments = [str(count), str(load.seconds_a_subset), str(SIZE), str(logs[-1])]
        command = [sys.executable, "-m", "bench.cluster.simulated_workers", *arguments]
        process = subprocess.Popen(command, cwd=servers.ROOT, env=environment)
        cluster.stack.callback(process.kill)
    return logs
