"""Chooses the tasks to send next and the jobs to take, and keeps the workers' queue filled.

Tenants get equal shares of the workers; the jobs of a tenant get shares by their priority:

tenant with the least work in flight ──► its job with the least work in flight per share ──► next task
"""

import heapq
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from maabo_dist.contract import names
from maabo_dist.contract.job import JobState, Priority
from scheduler.core.job import HeldJob, SearchingJob
from scheduler.core.task_lengths import TaskLengths
from scheduler.ledger.leases import Lease
from scheduler.messaging.fleet import Fleet
from scheduler.resources import Resources

# Messages that wait in the broker: enough that no worker idles, few enough that a small job need not wait.
MIN_AHEAD, MAX_AHEAD = 2, 2048
# Minimum cost of a task, in seconds.
MIN_LOAD = 0.05
# Jobs that run at the same time; others wait in the ledger.
MAX_JOBS = 50
# Additional slots for urgent jobs, and for one job each of tenants with no running job.
URGENT_SLOTS, IDLE_TENANT_SLOTS = 10, 25


# The share of the time limit that a task should take at most.
LIMIT_SHARE = 0.25


class TaskQueue:
    """The queue of all tasks but `maabo.rules`: how many more to send and how long, and which have been taken."""

    def __init__(self, resources: Resources) -> None:
        self._broker, self._settings = resources.broker, resources.settings
        self.fleet = Fleet(resources)
        # Tasks that workers have taken and not answered.
        self._taken = 0
        self._ahead = MIN_AHEAD
        self._room = self._sent = 0
        # Messages in the queue when it was last measured.
        self.waiting = 0
        # Workers have taken all tasks sent before this time: a later one was answered, or the queue was empty.
        self.taken_before = 0.0

    @property
    def is_full(self) -> bool:
        """True if workers have enough to do."""
        return self.waiting >= MIN_AHEAD // 2

    @property
    def task_lengths(self) -> TaskLengths:
        """How long tasks should be, for the workers that there are."""
        workers = max(self.fleet.processes, self._taken)
        return TaskLengths(self._settings.task_seconds, workers, LIMIT_SHARE * self._settings.task_limit)

    def measure_room(self, now: float, in_flight: int = 0) -> int:
        """Return how many more tasks to send. The target length grows when the queue ran empty."""
        self.waiting = self._broker.waiting([names.EVALUATE_QUEUE])[0]
        self._taken = max(0, in_flight - self.waiting)
        if self.waiting == 0:
            self.taken_before = now
        if self.waiting == 0 and 0 < self._room <= self._sent:
            self._ahead = min(MAX_AHEAD, self._ahead * 2)
        elif self.waiting > self._ahead // 2:
            self._ahead = max(MIN_AHEAD, self._ahead - max(1, self._ahead // 8))
        self._room, self._sent = self._ahead - self.waiting, 0
        return self._room

    def note_sent(self, tasks: int) -> None:
        """Record tasks that are being sent."""
        self._sent += tasks

    def note_taken(self, sent_at: float | None) -> None:
        """Record that a task sent at this time was answered, so that all earlier ones have been taken."""
        self.taken_before = max(self.taken_before, sent_at or 0.0)


@dataclass(frozen=True, slots=True)
class JobLoad:
    """A job that may have tasks to send."""

    job: str
    tenant: str
    share: int
    seconds_in_flight: float


@dataclass(slots=True)
class _TenantLoad:
    seconds_in_flight: float = 0.0
    # A heap: seconds in flight per share, id, share.
    jobs: list[tuple[float, str, int]] = field(default_factory=list)


class FairOrder:
    """The order in which jobs send tasks."""

    def __init__(self, loads: Iterable[JobLoad]) -> None:
        self._tenants: dict[str, _TenantLoad] = {}
        for load in loads:
            tenant = self._tenants.setdefault(load.tenant, _TenantLoad())
            tenant.seconds_in_flight += load.seconds_in_flight
            tenant.jobs.append((load.seconds_in_flight / load.share, load.job, load.share))
        for tenant in self._tenants.values():
            heapq.heapify(tenant.jobs)
        self._order = [(tenant.seconds_in_flight, name) for name, tenant in self._tenants.items()]
        heapq.heapify(self._order)

    @property
    def next_job(self) -> str | None:
        """The job to send next; None if no job is left."""
        return self._tenants[self._order[0][1]].jobs[0][1] if self._order else None

    def add_load(self, seconds: float) -> None:
        """Add a task of the next job."""
        _, name = self._order[0]
        tenant = self._tenants[name]
        load, job, share = tenant.jobs[0]
        heapq.heapreplace(tenant.jobs, (load + seconds / share, job, share))
        tenant.seconds_in_flight += seconds
        heapq.heapreplace(self._order, (tenant.seconds_in_flight, name))

    def remove_next(self) -> None:
        """Remove the next job, which has nothing more to send."""
        tenant = self._tenants[self._order[0][1]]
        heapq.heappop(tenant.jobs)
        if not tenant.jobs:
            heapq.heappop(self._order)


def choose_tasks(
    jobs: Collection[HeldJob], room: int, lengths: TaskLengths, now: float
) -> dict[str, list[Sequence[Any]]]:
    """Take the tasks of up to `room` messages from the jobs' outboxes; return those of each message, by job."""
    jobs_by_id = {job.lease.job: job for job in jobs}
    # The work of each job that is not answered, in seconds.
    left: dict[str, float] = {}
    chosen: dict[str, list[Sequence[Any]]] = {}
    order = FairOrder(
        JobLoad(job.lease.job, job.spec.tenant, job.spec.priority.share, job.speed.expected(job.outbox.in_flight))
        for job in jobs
        if job.state is JobState.RUNNING or not isinstance(job, SearchingJob)
    )
    while room > 0 and (name := order.next_job) is not None:
        job = jobs_by_id[name]
        if name not in left:
            left[name] = job.speed.expected(job.outbox.unsent_size + job.outbox.in_flight)
        tasks = job.next_tasks(lengths.next(left[name]), now)
        if not tasks:
            order.remove_next()
            continue
        chosen.setdefault(name, []).append(tasks)
        room -= 1
        order.add_load(max(MIN_LOAD, job.speed.expected(sum(task.key.size for task in tasks))))
    return chosen


class JobSlots:
    """Takes free jobs for one scheduler, as many as it has slots for."""

    def __init__(self, resources: Resources, owner: str) -> None:
        self._ledger, self._settings, self._owner = resources.ledger, resources.settings, owner
        # Held jobs in the slots for tenants with no running job.
        self._extra: set[str] = set()

    def fill(self, held: set[str]) -> list[Lease]:
        """Take jobs. When all slots are full, urgent jobs and tenants with no running job have additional ones."""
        self._extra &= held
        room = MAX_JOBS - len(held - self._extra)
        acquire = partial(self._ledger.leases.acquire, self._owner, self._ledger.now, self._settings.lease_seconds)
        if room > 0:
            return acquire(room)
        extra = acquire(IDLE_TENANT_SLOTS - len(self._extra), idle_tenants_only=True)
        self._extra |= {lease.job for lease in extra}
        return extra + acquire(room + URGENT_SLOTS, Priority.HIGH)
