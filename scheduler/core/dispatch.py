"""`Turns`: whose task is sent next. Tenants share the workers alike, the jobs of a tenant share by their priority.

tenant with least under way ──► its job with least under way for its share ──► next task
"""

import heapq
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from maabo_dist.contract.job import JobState, Priority
from scheduler.core.job import ActiveJob, HeldJob, ScreeningJob
from scheduler.ledger.leases import Lease
from scheduler.resources import Resources


@dataclass(frozen=True, slots=True)
class Entrant:
    """A job that may have something to send."""

    job: str
    tenant: str
    share: int
    under_way: float
    """Seconds of work."""


@dataclass(slots=True)
class _Tenant:
    under_way: float = 0.0
    jobs: list[tuple[float, str, int]] = field(default_factory=list)
    """A heap: seconds under way for the share, id, share."""


class Turns:
    """Says which job comes next, and is told what became of it."""

    def __init__(self, entrants: Iterable[Entrant]) -> None:
        self._tenants: dict[str, _Tenant] = {}
        for one in entrants:
            tenant = self._tenants.setdefault(one.tenant, _Tenant())
            tenant.under_way += one.under_way
            tenant.jobs.append((one.under_way / one.share, one.job, one.share))
        for tenant in self._tenants.values():
            heapq.heapify(tenant.jobs)
        self._order = [(tenant.under_way, name) for name, tenant in self._tenants.items()]
        heapq.heapify(self._order)

    def next(self) -> str | None:
        """The job whose turn it is; None when all have passed."""
        return self._tenants[self._order[0][1]].jobs[0][1] if self._order else None

    def sent(self, seconds: float) -> None:
        """The job whose turn it was sends so much more."""
        _, name = self._order[0]
        tenant = self._tenants[name]
        load, job, share = tenant.jobs[0]
        heapq.heapreplace(tenant.jobs, (load + seconds / share, job, share))
        tenant.under_way += seconds
        heapq.heapreplace(self._order, (tenant.under_way, name))

    def passed(self) -> None:
        """The job whose turn it was has nothing to send for now."""
        tenant = self._tenants[self._order[0][1]]
        heapq.heappop(tenant.jobs)
        if not tenant.jobs:
            heapq.heappop(self._order)


LEAST_LOAD = 0.05


def choose(jobs: Collection[ActiveJob | ScreeningJob], room: int, seconds: float, now: float) -> dict[str, list[Any]]:
    """Up to `room` tasks of about so many seconds, by their jobs; they are the caller's then."""
    held = {job.lease.job: job for job in jobs}
    chosen: dict[str, list[Any]] = {}
    turns = Turns(_entrant(job) for job in jobs if job.state is JobState.RUNNING)
    while room > 0 and (name := turns.next()) is not None:
        job = held[name]
        task = job.next_task(seconds, now)
        if task is None:
            turns.passed()
            continue
        chosen.setdefault(name, []).append(task)
        room -= 1
        turns.sent(max(LEAST_LOAD, job.speed.expected(task.key.size)))
    return chosen


def _entrant(job: HeldJob) -> Entrant:
    return Entrant(job.lease.job, job.spec.tenant, job.spec.priority.share, job.under_way)


MOST_JOBS = 50
"""Jobs that run side by side; others wait in the ledger."""
URGENT_SEATS, GUEST_SEATS = 10, 25
"""Beside those: for urgent jobs, and for one job each of tenants who have none running."""


class Seats:
    """Takes free jobs for one scheduler."""

    def __init__(self, resources: Resources, owner: str) -> None:
        self._ledger, self._settings, self._owner = resources.ledger, resources.settings, owner
        self._guests: set[str] = set()

    def fill(self, held: set[str], now: float) -> list[Lease]:
        """As many as there is room for; urgent ones and guests find a seat when all others are taken."""
        self._guests &= held
        room = MOST_JOBS - len(held - self._guests)
        take = partial(self._ledger.leases.acquire, self._owner, now, self._settings.lease_seconds)
        if room > 0:
            return take(room)
        guests = take(GUEST_SEATS - len(self._guests), idle_tenants_only=True)
        self._guests |= {lease.job for lease in guests}
        return guests + take(room + URGENT_SEATS, Priority.HIGH)
