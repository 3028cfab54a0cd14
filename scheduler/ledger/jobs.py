"""Rows of jobs: how a job is written into the ledger, and read."""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, func, select

from maabo_dist.contract.job import JobSpec, JobState, Priority
from maabo_dist.errors import FormatError
from scheduler.ledger.schema import batches, blocks, jobs, keys, results, screens, tasks

OPEN = (JobState.QUEUED, JobState.RUNNING, JobState.MINING)
RANKS = {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 2}
"""Lower goes first."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Trees in the store: those of all batches before `until` that earlier segments do not hold."""

    digest: str
    until: int


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as the ledger has it."""

    id: str
    state: JobState
    wanted: str
    spec: JobSpec
    created: float
    started: float | None
    finished: float | None
    ran: float
    trees: int
    planned: int | None
    failed: int
    best_score: float | None
    rules: int | None
    stop_after: int | None
    segments: tuple[Segment, ...]
    reason: str | None
    digest: str | None
    fence: int
    called: float | None
    """When the callback was called; 0 if there is none, −1 if it was given up, None before."""
    calls: int
    """Attempts to call back so far."""


@dataclass(frozen=True, slots=True)
class Oldest:
    """Of jobs that have not ended: moments, None where there is no such job, and the most of something."""

    queued: float | None
    """When the job was submitted that has been queued for longest."""
    lease_until: float | None
    """When the first of all leases runs out, or did so without anyone taking the job."""
    taken: int = 0
    """How often schedulers took the job that changed hands most; 0 without a job."""


JOB_COLUMNS = [
    jobs.c[name]
    for name in (
        *("id", "state", "wanted", "spec", "created", "started", "finished", "ran", "trees", "planned", "failed"),
        *("best_score", "rules", "stop_after", "segments", "reason", "digest", "fence", "called", "calls"),
    )
]


def new_row(spec: JobSpec, now: float) -> dict[str, Any]:
    """A job that is queued, by its columns."""
    return {
        "id": spec.id,
        "tenant": spec.tenant,
        "priority": spec.priority.value,
        "rank": RANKS[spec.priority],
        "state": JobState.QUEUED.value,
        "wanted": "run",
        "spec": json.dumps(spec.to_json()),
        "same": spec.work,
        "dataset": spec.dataset_id,
        "correlation": spec.correlation,
        "created": now,
        "updated": now,
        "trees": 0,
        "called": None if spec.callback else 0.0,
        "fence": 0,
        "lease_until": 0.0,
    }


def readable_jobs(rows: Iterable[Any]) -> list[JobRow]:
    """Without jobs of another version's making, which this one cannot read and need not serve."""
    found = []
    for row in rows:
        with suppress(FormatError):
            found.append(read_job(row))
    return found


def read_job(row: Any) -> JobRow:
    """A job from its JOB_COLUMNS."""
    values = dict(row)
    try:
        values["state"] = JobState(row["state"])
        values["spec"] = JobSpec.model_validate_json(row["spec"])
    except ValueError as error:
        raise FormatError(f"Job {row['id']} was written by another version: {error}") from error
    values["segments"] = tuple(Segment(digest, until) for digest, until in json.loads(row["segments"]))
    return JobRow(**values)


def read_oldest(connection: Connection) -> Oldest:
    """Among jobs that have not ended."""
    unended = jobs.c.finished.is_(None)
    queued = select(func.min(jobs.c.created)).where(unended, jobs.c.state == JobState.QUEUED)
    held = select(func.min(jobs.c.lease_until)).where(unended, jobs.c.state.in_(OPEN), jobs.c.lease_until > 0)
    taken = select(func.max(jobs.c.fence)).where(unended)
    queued_at, lease_until, most = (connection.execute(query).scalar() for query in (queued, held, taken))
    return Oldest(queued_at, lease_until, most or 0)


def count_by_tenant(connection: Connection, most: int) -> dict[tuple[str, str], int]:
    """Jobs that have not ended, by tenant and state; of the tenants with the most of them."""
    unended, number = jobs.c.finished.is_(None), func.count()
    largest = select(jobs.c.tenant).where(unended).group_by(jobs.c.tenant).order_by(number.desc(), jobs.c.tenant)
    query = select(jobs.c.tenant, jobs.c.state, number.label("jobs")).group_by(jobs.c.tenant, jobs.c.state)
    names = list(connection.execute(largest.limit(most)).scalars())
    found = connection.execute(query.where(unended, jobs.c.tenant.in_(names)))
    return {(row.tenant, row.state): row.jobs for row in found}


def forget_search(connection: Connection, ids: list[str]) -> None:
    """Take away what only the search of these jobs needed."""
    for table in (batches, tasks, results, blocks, screens):
        connection.execute(delete(table).where(table.c.job.in_(ids)))


def forget_jobs(connection: Connection, ids: list[str]) -> None:
    """Take away all that there is of these jobs."""
    forget_search(connection, ids)
    connection.execute(delete(keys).where(keys.c.job.in_(ids)))
    connection.execute(delete(jobs).where(jobs.c.id.in_(ids)))
