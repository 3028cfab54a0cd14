"""Random faults on a complete cluster with several concurrent jobs, until the time is up; then it recovers.

    each iteration:  undo faults that are due ─► restart dead processes ─► submit ─► a fault, if it is time

All random choices come from the seed. The seed does not fix which line of code a fault interrupts.
"""

import heapq
import os
import re
import signal
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

import psutil
import redis

from maabo_dist.contract.job import JobState
from tests.faults.world import World, expected_digest

SCHEDULERS, WORKERS, CONCURRENT_JOBS = 2, 2, 4
PAUSE = (0.5, 5.0)
"""Seconds between two faults."""
SHORT, LONG = (0.2, 2.0), (3.0, 9.0)
"""Seconds that something stays frozen: less than every timeout, or longer than the lease and most timeouts."""
RESUBMIT_SECONDS = 5.0
"""A client submits its job again if it is still unknown after this time."""
SETTINGS = {"lease_seconds": 3.0, "task_seconds": 0.02, "partial_seconds": 2.0}


@dataclass
class Job:
    id: str
    name: str
    mining: dict
    submitted: float = 0.0
    submissions: int = 0
    known: bool = False
    ended: bool = False


@dataclass
class Summary:
    seed: int
    seconds: float
    faults: Counter = field(default_factory=Counter)
    restarts: Counter = field(default_factory=Counter)
    jobs: int = 0
    resubmitted: int = 0
    trees: int = 0
    given_up: int = 0
    takeovers: int = 0
    resent: int = 0
    lost: int = 0
    dropped: int = 0
    settled: float = 0.0
    wrong: list = field(default_factory=list)

    def __str__(self):
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        restarts = ", ".join(f"{kind} {count}" for kind, count in sorted(self.restarts.items()))
        lines = [
            f"chaos: seed {self.seed}, {self.seconds:.0f} s of faults, all done {self.settled:.0f} s after the last",
            f"  faults    {self.faults.total()}: {faults}",
            f"  restarts  {self.restarts.total()}: {restarts}",
            f"  jobs      {self.jobs}, submitted again {self.resubmitted}, taken over {self.takeovers} times",
            f"  trees     {self.trees:,}, subsets given up {self.given_up}",
            f"  tasks     sent again {self.resent}, reported lost {self.lost}, answers dropped {self.dropped}",
            f"  wrong     {self.wrong or 'none'}",
        ]
        return "\n".join(lines)


class Chaos:
    """One run."""

    def __init__(self, directory, seed, seconds):
        self._random, self._end = Random(seed), time.monotonic() + seconds
        self._world = World(directory, **SETTINGS)
        self.summary = Summary(seed, seconds)
        self._undo, self._jobs = [], []
        self._schedulers, self._workers = [None] * SCHEDULERS, [None] * WORKERS
        self._redis_back = 0.0
        self._logs = []

    def run(self, settle_seconds):
        """Cause faults until the time is up, wait until all jobs have ended, and return the summary."""
        try:
            self._supervise()
            next_fault = time.monotonic() + 5
            while (now := time.monotonic()) < self._end:
                self._undo_due_faults(now)
                self._supervise()
                self._submit(now)
                if now >= next_fault:
                    self._fault()
                    next_fault = now + self._random.uniform(*PAUSE)
                time.sleep(0.05)
            self._settle(settle_seconds)
            self._check_results()
        finally:
            self._world.close()
        return self.summary

    # Jobs.

    def _submit(self, now, *, new=True):
        """Keep some jobs running; resubmit unknown jobs."""
        while new and sum(not job.ended for job in self._jobs) < CONCURRENT_JOBS:
            self._jobs.append(self._draw_job())
        for job in self._jobs:
            if not job.ended:
                row = self._world.row(job.id)
                job.known, job.ended = row is not None, row is not None and row.state.ended
            if not job.known and now - job.submitted > RESUBMIT_SECONDS:
                self._submit_job(job, now)

    def _submit_job(self, job, now):
        job.submitted, job.submissions = now, job.submissions + 1
        with suppress(redis.RedisError, OSError):  # retried later, as a client does
            self._world.submit(job.mining, name=job.name, job=job.id)

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
        if not self._world.redis.alive and time.monotonic() >= self._redis_back:
            self._world.redis.start()
        self._restart(self._schedulers, "scheduler", self._new_scheduler)
        self._restart(self._workers, "worker", self._new_worker)

    def _restart(self, processes, kind, start):
        for index, process in enumerate(processes):
            if process is None or not process.alive:
                if process is not None:
                    self._world.end(process)
                    self.summary.restarts[kind] += 1
                processes[index] = start()

    def _new_scheduler(self):
        process = self._world.scheduler("tests.soak.verbose_scheduler", wait=False)
        self._logs.append(process.log_path)
        return process

    def _new_worker(self):
        return self._world.worker(wait=False)

    # Faults.

    def _fault(self):
        kind, fault = self._random.choice(list(self._kinds().items()))
        with suppress(redis.RedisError, psutil.Error, OSError):  # not running
            fault()
            self.summary.faults[kind] += 1

    def _kinds(self):
        return {
            "scheduler killed": lambda: self._choose(self._schedulers).signal(signal.SIGKILL),
            "scheduler terminated": lambda: self._choose(self._schedulers).signal(signal.SIGTERM),
            "scheduler frozen": lambda: self._freeze(self._choose(self._schedulers).pid, LONG),
            "worker killed": lambda: self._choose(self._workers).signal(signal.SIGKILL),
            "worker terminated": lambda: self._choose(self._workers).signal(signal.SIGTERM),
            "worker frozen": lambda: self._freeze(self._choose(self._workers).pid, LONG),
            "worker child killed": lambda: os.kill(self._child(), signal.SIGKILL),
            "worker child frozen": lambda: self._freeze(self._child(), LONG),
            "Redis killed": self._kill_redis,
            "Redis emptied": self._world.client.flushall,
            "Redis frozen": lambda: self._freeze(self._world.redis.pid, self._random.choice([SHORT, LONG])),
            "connections cut": self._world.proxy.cut,
            "connections silent": self._world.proxy.strand,
            "network frozen": self._freeze_network,
            "network slow": self._slow_network,
            "messages doubled": self._double_messages,
            "replies lost": lambda: self._world.proxy.lose_reply(self._random.choice([b"XADD", b"LPUSH", b"XDEL"]), 3),
        }

    def _choose(self, processes):
        return self._random.choice(processes)

    def _child(self):
        children = self._choose(self._workers).children
        if not children:
            raise ProcessLookupError
        return self._random.choice(children)

    def _kill_redis(self):
        self._redis_back = time.monotonic() + self._random.uniform(*self._random.choice([SHORT, LONG]))
        self._world.redis.kill()

    def _freeze(self, process, seconds):
        os.kill(process, signal.SIGSTOP)
        self._later(seconds, lambda: os.kill(process, signal.SIGCONT))

    def _freeze_network(self):
        self._world.proxy.freeze()
        self._later(self._random.choice([SHORT, LONG]), self._world.proxy.thaw)

    def _slow_network(self):
        self._world.proxy.delay(0.0, 0.1)
        self._later(LONG, lambda: self._world.proxy.delay(0.0))

    def _double_messages(self):
        self._world.proxy.duplicate_commands(b"XADD", b"LPUSH")
        self._later(LONG, self._world.proxy.duplicate_commands)

    def _later(self, seconds, action):
        heapq.heappush(self._undo, (time.monotonic() + self._random.uniform(*seconds), len(self._undo), action))

    def _undo_due_faults(self, now):
        while self._undo and self._undo[0][0] <= now:
            action = heapq.heappop(self._undo)[2]
            with suppress(ProcessLookupError):  # killed while it was frozen
                action()

    # The end.

    def _settle(self, seconds):
        """Wait for the jobs, without faults and new jobs."""
        started = time.monotonic()
        self._undo_due_faults(float("inf"))
        self._redis_back = 0.0
        while not all(job.ended for job in self._jobs) and time.monotonic() - started < seconds:
            self._supervise()
            self._submit(time.monotonic(), new=False)
            time.sleep(0.2)
        self.summary.settled = time.monotonic() - started

    def _check_results(self):
        """Check that every job is done with the digest of one process."""
        summary = self.summary
        summary.jobs = len(self._jobs)
        for job in self._jobs:
            row = self._world.row(job.id)
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

    def _count(self, path):
        with path.open(errors="replace") as lines:
            for line in lines:
                if match := re.search(r"no answer; sending again .*tasks=(\d+)", line):
                    self.summary.resent += int(match[1])
                self.summary.lost += "task lost" in line
                self.summary.dropped += "answer dropped" in line
