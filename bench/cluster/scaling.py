"""The number of workers that one scheduler keeps busy, and how long the last of them works at the end: a simulation.

The jobs screen pairs but not triples (`complete="pairs"`). The scheduler screens so few pairs itself, before the
measurement begins; it would send triples to the workers, which only simulate the evaluation of subsets.
"""

from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench import printing, tables
from bench.cluster.local_cluster import start_cluster
from bench.cluster.simulated_workers import WAIT_SECONDS, SimulatedClock, SimulatedWorkers
from maabo_dist.contract.job import JobState
from scheduler.core.loop import READ_SECONDS, Scheduler
from scheduler.resources import Resources

ROWS, FEATURES, SIZE = 300, 1000, 3
FULL = 0.98
"""The share of the workers that is called all of them, at the start."""
BUSY_GOAL, TAIL_GOAL = printing.Goal(minimum=0.95), printing.Goal(maximum=2.0)


@dataclass(frozen=True)
class Load:
    """A fleet, and a job that takes it about `seconds`, not counting its start."""

    workers: int
    seconds_a_subset: float
    seconds: float

    @property
    def trees(self) -> int:
        return int(self.workers * self.seconds / self.seconds_a_subset)

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "trees": self.trees,
            "batch": 500,
            "in_flight": 10_000,
            "subset_size": SIZE,
            "complete": "pairs",
        }


LOADS = (Load(1, 0.02, 20), Load(100, 0.02, 20), Load(1000, 0.05, 20), Load(10_000, 1.0, 60))


def run(options) -> None:
    rows = [_row(load) for load in (LOADS[:2] if options.quick else LOADS)]
    printing.print_table(
        f"One scheduler and simulated workers, tasks of 1 s asked for, D′ = {SIZE}",
        ["workers", "a subset", "busy", "goal", "", "task", "tasks/s", "CPU", "a task", "a subset", "tail", "goal", ""],
        rows,
        [
            "Time advances with the CPU time of the scheduler, as if it had a core of its own, and by an assumed",
            f"{WAIT_SECONDS * 1000:.0f} ms a turn for Redis and the disk. Busy: from when all workers were busy for",
            "the first time to the beginning of the last task (at its start a search may have only as many subsets in",
            "flight as are done). Task: the median length. CPU: of one core; divided by tasks and by subsets. Tail:",
            "from the beginning of the last task to the end of all tasks, in lengths of a task.",
        ],
    )


def _row(load: Load) -> tuple[str, ...]:
    clock, workers = _simulate(load)
    began, ended = np.array(workers.began), np.array(workers.ended)
    start, stop = _first_full(began, ended, load.workers), float(began[-1])
    busy = workers.share_busy(start, stop)
    length = float(np.median(ended - began))
    tail = float(ended.max() - stop) / length
    passed = ended.max() - began[0]
    return (
        f"{load.workers:,}",
        printing.format_time(load.seconds_a_subset),
        f"{busy:.1%}",
        *printing.format_verdict(busy, BUSY_GOAL),
        printing.format_time(length),
        f"{len(began) / passed:,.0f}",
        f"{clock.cpu / passed:.0%}",
        printing.format_time(clock.cpu / len(began)),
        printing.format_time(clock.cpu / load.trees),
        f"{tail:.2f}",
        *printing.format_verdict(tail, TAIL_GOAL),
    )


def _simulate(load: Load) -> tuple[SimulatedClock, SimulatedWorkers]:
    """Run a job until its search is over."""
    with start_cluster(partial_seconds=1e9, lease_seconds=600.0) as cluster:
        job = cluster.submit(tables.generated(ROWS, FEATURES), **load.settings)
        clock = SimulatedClock()
        with closing(replace(Resources.connect(cluster.settings), clock=clock)) as resources:
            workers = SimulatedWorkers(resources, load.workers, load.seconds_a_subset, SIZE)
            workers.beat()
            scheduler = Scheduler(resources, "simulated")
            while (row := cluster.job(job)) is None or not row.trees:  # load the kernels and the table
                scheduler.turn()
                workers.work(clock.now)
                clock.now = max(clock.now, workers.next_end or 0.0)
            clock.cpu = 0.0
            while cluster.job(job).state is JobState.RUNNING:
                with clock.count_cpu():
                    scheduler.turn()
                if not workers.work(clock.now):  # then the scheduler waits for an answer
                    clock.now = min(workers.next_end or np.inf, clock.now + READ_SECONDS)
    return clock, workers


def _first_full(began: np.ndarray, ended: np.ndarray, workers: int) -> float:
    """When all workers were busy for the first time; the middle of the run, if they never were."""
    times, changes = np.concatenate([began, ended]), np.repeat([1, -1], len(began))
    order = np.argsort(times, kind="stable")
    full = times[order][np.cumsum(changes[order]) >= FULL * workers]
    return float(full[0] if len(full) else (began[0] + began[-1]) / 2)
