"""Leases: a scheduler's hold on a job, with the number that fences off whoever held it before."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, select, update

from maabo_dist.errors import MaaboError
from scheduler.schema import jobs
from scheduler.shares import is_free


class FencedError(MaaboError):
    """Another scheduler holds the job now; whoever gets this must drop it."""

    def __init__(self, job: str) -> None:
        super().__init__(f"Job {job} is held by another scheduler now.")
        self.job = job


@dataclass(frozen=True, slots=True)
class Lease:
    """A scheduler's hold on a job."""

    job: str
    fence: int
    correlation: str | None = field(default=None, compare=False)
    """What the one who asked for the job calls it."""

    @property
    def named(self) -> dict[str, str | None]:
        """What log lines call the job."""
        return {"job": self.job, "correlation": self.correlation}


def take(connection: Connection, ids: Sequence[str], owner: str, now: float, seconds: float) -> list[Lease]:
    """Those of these jobs that are still free and that nobody else reaches for at this moment."""
    query = select(jobs.c.id, jobs.c.fence, jobs.c.correlation).where(jobs.c.id.in_(ids), is_free(now))
    found = {row.id: row for row in connection.execute(query.with_for_update(skip_locked=True))}
    taken = [Lease(job, found[job].fence + 1, found[job].correlation) for job in ids if job in found]
    for lease in taken:
        values = {"owner": owner, "fence": lease.fence, "lease_until": now + seconds}
        connection.execute(update(jobs).where(jobs.c.id == lease.job).values(values))
    return taken


def in_order(leases: Collection[Lease]) -> list[Lease]:
    """So that two schedulers never wait for each other's locks."""
    return sorted(leases, key=lambda lease: lease.job)
