"""Random faults on a complete cluster with several concurrent jobs, until there were enough; then it recovers.

    each iteration:  undo faults that are due ─► restart dead processes ─► submit ─► a fault, if it is time

All random choices come from the seed. The seed does not fix which line of code a fault interrupts.
"""

import heapq
import re
import time
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from uuid import UUID

import psutil
import redis

from maabo_dist.contract.job import JobState
from scheduler.ledger.database import LedgerError
from tests.faults.world import World, expected_digest
from tests.soak.fault_kinds import CLOCK_OFFSETS, Faults
from tests.soak.summary import Summary

SCHEDULERS, WORKERS, CONCURRENT_JOBS = 2, 2, 4
PAUSE = (0.3, 4.0)
"""Seconds between two faults."""
START_SECONDS = 300.0
"""Within which there are the first trees, before the first fault."""
RESUBMIT_SECONDS = 5.0
"""A client submits its job again if it is still unknown after this time."""
SETTINGS = {"lease_seconds": 3.0, "task_seconds": 0.02, "partial_seconds": 2.0}
REFUSED = re.compile("(message|request|job|answer) refused")
OUTAGES = (redis.RedisError, psutil.Error, LedgerError, OSError)


@dataclass
class Job:
    id: str
    name: str
    mining: dict
    submitted: float = 0.0
    submissions: int = 0
    trees: int = 0
    known: bool = False
    ended: bool = False


class Chaos:
    """One run. The ledger may be on a small disk of its own, which is filled now and then."""

    def __init__(self, directory, seed, ledger_url, disk=None):
        self._random = Random(seed)
        self.world = World(directory, ledger_url=ledger_url, **SETTINGS)
        self.disk = disk
        self.schedulers, self.workers = [None] * SCHEDULERS, [None] * WORKERS
        self.summary = Summary(seed, ledger_url.partition(":")[0].partition("+")[0])
        self._faults = Faults(self, self._random, self._later)
        self._undo, self._jobs, self._logs = [], [], []

    def run(self, faults, jobs, max_seconds, settle_seconds):
        """Cause faults until there were this many, over this many jobs; wait for the jobs and return the summary."""
        try:
            self._wait_for_trees()
            next_fault = started = time.monotonic()
            while (now := time.monotonic()) < started + max_seconds and not self._is_enough(faults, jobs):
                self._undo_due_faults(now)
                self._supervise()
                self._submit(now)
                if now >= next_fault:
                    self._cause_fault(now)
                    next_fault = now + self._random.uniform(*PAUSE)
                time.sleep(0.05)
            self.summary.seconds = time.monotonic() - started
            self._settle(settle_seconds)
            self._check_results()
        finally:
            self.world.close()
        return self.summary

    def _wait_for_trees(self):
        """Wait until the cluster works: kernels may have to be compiled first."""
        end = time.monotonic() + START_SECONDS
        while not any(job.trees for job in self._jobs) and time.monotonic() < end:
            self._supervise()
            self._submit(time.monotonic())
            time.sleep(0.2)

    def _is_enough(self, faults, jobs):
        return self.summary.faults.total() >= faults and sum(job.ended for job in self._jobs) >= jobs

    # Jobs.

    def _submit(self, now, *, new=True):
        """Keep some jobs running; resubmit unknown jobs."""
        while new and sum(not job.ended for job in self._jobs) < CONCURRENT_JOBS:
            self._jobs.append(self._draw_job())
        for job in self._jobs:
            if not job.ended:
                self._look_at(job)
            if not job.known and now - job.submitted > RESUBMIT_SECONDS:
                self._submit_job(job, now)
        self.summary.recoveries.note_trees(sum(job.trees for job in self._jobs), time.monotonic())

    def _look_at(self, job):
        with suppress(LedgerError):
            row = self.world.row(job.id)
            job.known, job.ended = row is not None, row is not None and row.state.ended
            job.trees = 0 if row is None else row.trees

    def _submit_job(self, job, now):
        job.submitted, job.submissions = now, job.submissions + 1
        with suppress(*OUTAGES):  # retried later, as a client does
            self.world.submit(job.mining, name=job.name, job=job.id)

    def _draw_job(self):
        draw = self._random
        mining = {
            "trees": draw.choice([50, 300, 1000, 3000]),
            "batch": draw.choice([4, 16, 64, 256]),
            "in_flight": draw.choice([1, 4, 16]),
            "seed": draw.randrange(1000),
            "subset_size": draw.choice([2, 3, 4]),
            "similarity": 0.4,
        }
        return Job(UUID(int=draw.getrandbits(128)).hex, draw.choice(["breast_cancer", "diabetes"]), mining)

    # Processes.

    def _supervise(self):
        """Restart dead processes."""
        if not self.world.redis.alive and time.monotonic() >= self._faults.redis_back:
            self.world.redis.start()
        self._restart(self.schedulers, "scheduler", self._new_scheduler)
        self._restart(self.workers, "worker", lambda: self.world.worker(wait=False))

    def _restart(self, processes, kind, start):
        for index, process in enumerate(processes):
            if process is None or not process.alive:
                if process is not None:
                    self.world.end(process)
                    self.summary.restarts[kind] += 1
                processes[index] = start()

    def _new_scheduler(self):
        """Start a scheduler on a machine whose clock may be wrong."""
        clock_file = self.world.directory / f"clock-{self.world.started}"
        clock_file.write_text(str(self._random.choice(CLOCK_OFFSETS)))
        process = self.world.scheduler(
            "tests.soak.verbose_scheduler", wait=False, environment={"CLOCK_FILE": str(clock_file)}
        )
        process.clock_file = clock_file
        self._logs.append(process.log_path)
        return process

    # Faults.

    def _cause_fault(self, now):
        with suppress(*OUTAGES):  # not running
            kind = self._faults.cause()
            self.summary.faults[kind] += 1
            self.summary.recoveries.note_fault(kind, now)

    def _later(self, seconds, action):
        heapq.heappush(self._undo, (time.monotonic() + self._random.uniform(*seconds), len(self._undo), action))

    def _undo_due_faults(self, now):
        again = []
        while self._undo and self._undo[0][0] <= now:
            _, number, action = heapq.heappop(self._undo)
            try:
                action()
            except redis.RedisError:  # not running; it keeps its memory limit in neither case, but may be frozen
                again.append((time.monotonic() + 0.5, number, action))
            except ProcessLookupError:  # killed while it was frozen
                pass
        for entry in again:
            heapq.heappush(self._undo, entry)

    # The end.

    def _settle(self, seconds):
        """Wait for the jobs, without faults and new jobs."""
        started = time.monotonic()
        self._faults.redis_back = 0.0
        while not all(job.ended for job in self._jobs) and time.monotonic() - started < seconds:
            self._undo_due_faults(float("inf"))
            self._supervise()
            self._submit(time.monotonic(), new=False)
            time.sleep(0.2)
        self.summary.settled = time.monotonic() - started

    def _check_results(self):
        """Check that every job is done with the digest of one process."""
        summary = self.summary
        summary.jobs, summary.poison = len(self._jobs), self._faults.fuzz.sent
        for job in self._jobs:
            row = self.world.row(job.id)
            summary.resubmitted += job.submissions - 1
            if row is None or row.state is not JobState.DONE or row.digest != expected_digest(job.mining, job.name):
                outcome = "unknown" if row is None else f"{row.state.value} {row.reason or ''} {row.digest}"
                summary.wrong.append(f"{job.id}: {outcome} {job.name} {job.mining}")
                continue
            summary.trees += row.trees
            summary.given_up += row.failed
            summary.takeovers += row.fence - 1
        for path in self._logs:
            self._count(path)
        for path in self.world.directory.glob("worker-*.log"):
            summary.refused += len(REFUSED.findall(path.read_text(errors="replace")))

    def _count(self, path):
        with path.open(errors="replace") as lines:
            for line in lines:
                self.summary.refused += bool(REFUSED.search(line))
                if match := re.search(r"no answer; sending again .*tasks=(\d+)", line):
                    self.summary.resent += int(match[1])
                self.summary.lost += "task lost" in line
                self.summary.dropped += "answer dropped" in line
