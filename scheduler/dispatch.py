"""Which tasks are sent next: tenants alike, and each tenant's jobs by their shares."""

from collections.abc import Collection
from typing import Any

from maabo_dist.contract.job import JobState
from scheduler.active import ActiveJob, HeldJob, ScreeningJob
from scheduler.turns import Entrant, Turns

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
