"""Which free jobs are taken next: tenants alike, and each tenant's jobs by priority and age."""

import heapq
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import CTE, ColumnElement, Connection, func, select, update

from maabo_dist.contract.job import Priority
from maabo_dist.errors import MaaboError
from scheduler.ledger.jobs import OPEN, RANKS
from scheduler.ledger.schema import jobs, quotas

NO_LIMIT = 2**31
_ORDER = ("rank", "created", "id")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a scheduler has room for."""

    most: int
    least: Priority = Priority.LOW
    """Only jobs of this priority or a higher one."""
    guests: bool = False
    """Only tenants of whom nobody holds a job, and one job of each."""


def next_jobs(connection: Connection, now: float, wanted: Wanted, without: Collection[str] = ()) -> list[str]:
    """Ids of free jobs, each time of the tenant of whom fewest are held; `without` those of another attempt.

    A tenant who has as many jobs running as its quota allows has to wait.
    """
    held = _held(connection, now)
    limits = _limits(connection)

    def room(tenant: str) -> int:
        limit = limits.get(tenant, NO_LIMIT)
        return (min(limit, 1) if wanted.guests else limit) - held[tenant]

    heads = [head for head in _heads(connection, now, wanted) if room(head.tenant) > 0]
    heads.sort(key=lambda head: (held[head.tenant], *_place(head)))
    heap = []
    for head in heads[: wanted.most]:
        rows = _free_of(connection, head.tenant, now, wanted, min(wanted.most, room(head.tenant)), without)
        if rows:
            heap.append((held[head.tenant], _place(rows[0]), rows))
    heapq.heapify(heap)
    found: list[str] = []
    while heap and len(found) < wanted.most:
        count, place, rows = heapq.heappop(heap)
        found.append(place[-1])
        if rows[1:]:
            heapq.heappush(heap, (count + 1, _place(rows[1]), rows[1:]))
    return found


def any_free(connection: Connection, now: float, wanted: Wanted) -> bool:
    """Whether there is anything to take, quotas aside."""
    return bool(_heads(connection, now, wanted))


def is_free(now: float) -> ColumnElement[bool]:
    """Open, and held by nobody."""
    return jobs.c.finished.is_(None) & jobs.c.state.in_(OPEN) & (jobs.c.lease_until < now)


def _held(connection: Connection, now: float) -> Counter[str]:
    query = select(jobs.c.tenant).where(jobs.c.finished.is_(None), jobs.c.lease_until >= now)
    return Counter(connection.execute(query).scalars())


def _limits(connection: Connection) -> dict[str, int]:
    rows = connection.execute(select(quotas.c.tenant, quotas.c.running).where(quotas.c.running.is_not(None)))
    limits: dict[str, int] = {row.tenant: row.running for row in rows}
    return limits


def _heads(connection: Connection, now: float, wanted: Wanted) -> list[Any]:
    """The first free job of every tenant who has one."""
    tenants = _tenants()
    first = (
        select(jobs.c.id)
        .where(jobs.c.tenant == tenants.c.tenant, jobs.c.rank <= RANKS[wanted.least], is_free(now))
        .order_by(*(jobs.c[name] for name in _ORDER))
        .limit(1)
        .correlate(tenants)
        .scalar_subquery()
    )
    job = jobs.alias()
    columns = [job.c[name] for name in ("tenant", *_ORDER)]
    return list(connection.execute(select(*columns).select_from(tenants.join(job, job.c.id == first))).all())


def _tenants() -> CTE:
    """Everyone with an open job, by one step in the index for each."""
    tenants = select(func.min(jobs.c.tenant).label("tenant")).where(jobs.c.finished.is_(None))
    found = tenants.cte("tenants", recursive=True)
    after = select(func.min(jobs.c.tenant)).where(jobs.c.finished.is_(None), jobs.c.tenant > found.c.tenant)
    following = select(after.correlate(found).scalar_subquery()).where(found.c.tenant.is_not(None))
    return found.union_all(following)


def _free_of(
    connection: Connection, tenant: str, now: float, wanted: Wanted, room: int, without: Collection[str]
) -> list[Any]:
    query = select(*(jobs.c[name] for name in _ORDER)).where(
        jobs.c.tenant == tenant, jobs.c.rank <= RANKS[wanted.least], is_free(now)
    )
    if without:
        query = query.where(jobs.c.id.not_in(list(without)))
    return list(connection.execute(query.order_by(*(jobs.c[name] for name in _ORDER)).limit(room)).all())


def _place(row: Any) -> tuple[int, float, str]:
    return row.rank, row.created, row.id


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
