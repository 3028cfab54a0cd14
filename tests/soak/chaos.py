"""Faults at random moments on a whole cluster that has several jobs at once, until the time is up; then it may rest.

    each moment:  undo what is due ─► restart what is dead ─► submit ─► a fault, if it is time

Everything random comes from the seed. (When a fault meets which line of code does not.)
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

SCHEDULERS, WORKERS, JOBS_AT_ONCE = 2, 2, 4
PAUSE = (0.5, 5.0)
"""Seconds between two faults."""
SHORT, LONG = (0.2, 2.0), (3.0, 9.0)
"""Seconds that something stays frozen: within every time-out, or beyond the lease and most of them."""
ASKED_AGAIN = 5.0
"""A client submits again when nobody knows its job after so many seconds."""
SETTINGS = {"lease_seconds": 3.0, "task_seconds": 0.02, "partial_seconds": 2.0}


@dataclass
class Job:
    id: str
    name: str
    mining: dict
    asked: float = 0.0
    asks: int = 0
    known: bool = False
    over: bool = False


@dataclass
class Summary:
    seed: int
    seconds: float
    faults: Counter = field(default_factory=Counter)
    restarts: Counter = field(default_factory=Counter)
    jobs: int = 0
    asked_again: int = 0
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
            f"  jobs      {self.jobs}, submitted again {self.asked_again}, taken over {self.takeovers} times",
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
        """Faults until the time is up; then wait until all jobs have ended."""
        try:
            self._supervise()
            next_fault = time.monotonic() + 5
            while (now := time.monotonic()) < self._end:
                self._undo_what_is_due(now)
                self._supervise()
                self._submit(now)
                if now >= next_fault:
                    self._fault()
                    next_fault = now + self._random.uniform(*PAUSE)
                time.sleep(0.05)
            self._settle(settle_seconds)
            self._judge()
        finally:
            self._world.close()
        return self.summary

    # Jobs.

    def _submit(self, now, *, new=True):
        """Keep some jobs under way; ask again for those that nobody knows."""
        while new and sum(not job.over for job in self._jobs) < JOBS_AT_ONCE:
            self._jobs.append(self._drawn())
        for job in self._jobs:
            if not job.over:
                row = self._world.row(job.id)
                job.known, job.over = row is not None, row is not None and row.state.ended
            if not job.known and now - job.asked > ASKED_AGAIN:
                self._ask_for(job, now)

    def _ask_for(self, job, now):
        job.asked, job.asks = now, job.asks + 1
        with suppress(redis.RedisError, OSError):  # then later, as a client does
            self._world.submit(job.mining, name=job.name, job=job.id)

    def _drawn(self):
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
        """What has died comes back."""
        if not self._world.redis.alive and time.monotonic() >= self._redis_back:
            self._world.redis.start()
        self._restart(self._schedulers, "scheduler", self._new_scheduler)
        self._restart(self._workers, "worker", self._new_worker)

    def _restart(self, processes, kind, start):
        for place, process in enumerate(processes):
            if process is None or not process.alive:
                if process is not None:
                    self._world.end(process)
                    self.summary.restarts[kind] += 1
                processes[place] = start()

    def _new_scheduler(self):
        process = self._world.scheduler("tests.soak.talkative_scheduler", wait=False)
        self._logs.append(process.log_path)
        return process

    def _new_worker(self):
        return self._world.worker(wait=False)

    # Faults.

    def _fault(self):
        kind, fault = self._random.choice(list(self._kinds().items()))
        with suppress(redis.RedisError, psutil.Error, OSError):  # it was not there to be hurt
            fault()
            self.summary.faults[kind] += 1

    def _kinds(self):
        return {
            "scheduler killed": lambda: self._one(self._schedulers).signal(signal.SIGKILL),
            "scheduler told to go": lambda: self._one(self._schedulers).signal(signal.SIGTERM),
            "scheduler frozen": lambda: self._freeze(self._one(self._schedulers).pid, LONG),
            "worker killed": lambda: self._one(self._workers).signal(signal.SIGKILL),
            "worker told to go": lambda: self._one(self._workers).signal(signal.SIGTERM),
            "worker frozen": lambda: self._freeze(self._one(self._workers).pid, LONG),
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

    def _one(self, processes):
        return self._random.choice(processes)

    def _child(self):
        children = self._one(self._workers).children
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

    def _undo_what_is_due(self, now):
        while self._undo and self._undo[0][0] <= now:
            action = heapq.heappop(self._undo)[2]
            with suppress(ProcessLookupError):  # killed while it was frozen
                action()

    # The end.

    def _settle(self, seconds):
        """No more faults and no new jobs."""
        started = time.monotonic()
        self._undo_what_is_due(float("inf"))
        self._redis_back = 0.0
        while not all(job.over for job in self._jobs) and time.monotonic() - started < seconds:
            self._supervise()
            self._submit(time.monotonic(), new=False)
            time.sleep(0.2)
        self.summary.settled = time.monotonic() - started

    def _judge(self):
        """Every job is done, and its digest is that of one process."""
        summary = self.summary
        summary.jobs = len(self._jobs)
        for job in self._jobs:
            row = self._world.row(job.id)
            summary.asked_again += job.asks - 1
            if row is None or row.state is not JobState.DONE or row.digest != expected_digest(job.mining, job.name):
                found = "unknown" if row is None else f"{row.state.value} {row.reason or ''} {row.digest}"
                summary.wrong.append(f"{job.id}: {found} {job.name} {job.mining}")
                continue
            summary.trees += row.trees
            summary.given_up += row.failed
            summary.takeovers += row.fence - 1
        for path in self._logs:
            self._count(path)

    def _count(self, path):
        with path.open(errors="replace") as lines:
            for line in lines:
                if found := re.search(r"no answer; sending again .*tasks=(\d+)", line):
                    self.summary.resent += int(found[1])
                self.summary.lost += "task lost" in line
                self.summary.dropped += "answer dropped" in line
