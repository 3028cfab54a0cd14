"""`Leases`: which scheduler holds which job.

A scheduler holds a job by a lease with a fencing number. Every write to the job names that number; a scheduler that was
frozen and whose job was taken over finds its number outdated, and nothing that it tries to write is written.

The database's clock decides when a lease expires: the clocks of schedulers may differ, and may be set while they run.

Free jobs are given out evenly over tenants, and by priority and age within a tenant.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Update, func, select, update

from maabo_dist.cluster.settings import MAX_LEASE_SECONDS
from maabo_dist.contract.job import Priority
from maabo_dist.errors import MaaboError
from scheduler.ledger.database import Database, LedgerTopic, Moment
from scheduler.ledger.jobs import OPEN, RANKS, UNENDED, is_expired
from scheduler.ledger.schema import jobs, quotas
from scheduler.ledger.tenants import EVERYONE

NO_LIMIT = 2**31
_ORDER = ("rank", "created", "id")
Condition = ColumnElement[bool]


class FencedError(MaaboError):
    """Another scheduler holds the job now; the receiver of this error must drop it."""

    def __init__(self, job: str) -> None:
        super().__init__(f"Job {job} is held by another scheduler now.")
        self.job = job


@dataclass(frozen=True, slots=True)
class Lease:
    """A scheduler's hold on a job."""

    job: str
    fence: int
    correlation: str | None = field(default=None, compare=False)

    @property
    def log_fields(self) -> dict[str, str | None]:
        """The fields that identify the job in log lines."""
        return {"job": self.job, "correlation": self.correlation}


class Leases(LedgerTopic):
    """Gives jobs to schedulers. Jobs are locked in the order of their ids."""

    def acquire(
        self,
        owner: str,
        now: Moment,
        seconds: float,
        limit: int,
        min_priority: Priority = Priority.LOW,
        *,
        idle_tenants_only: bool = False,
    ) -> list[Lease]:
        """Take up to `limit` open jobs that no scheduler holds.

        With `idle_tenants_only`, take one job each of tenants of whom no job is held.
        """
        free = _is_free(now) & (jobs.c.rank <= RANKS[min_priority])
        with self._database.read() as connection:  # usually there is no free job, and then nothing is locked
            if limit < 1 or not _first_free_jobs(connection, free):
                return []
        taken: list[Lease] = []
        tried: list[str] = []
        with self._database.write() as connection:
            while len(taken) < limit:
                held_limit = 1 if idle_tenants_only else NO_LIMIT
                chosen = _choose_jobs(connection, now, free, held_limit, limit - len(taken), tried)
                if not chosen:
                    break
                tried += chosen
                taken += _take(connection, chosen, owner, now, seconds)
        return taken

    def renew(self, leases: Collection[Lease], now: Moment, seconds: float) -> dict[str, str]:
        """Extend leases; return the jobs still held, each with its owner's last command."""
        if not leases:
            return {}
        commands = {}
        with self._database.write() as connection:
            for lease in _in_order(leases):
                if connection.execute(_update_held(lease).values(lease_until=now + seconds)).rowcount == 1:
                    command = connection.execute(select(jobs.c.command).where(jobs.c.id == lease.job)).scalar()
                    commands[lease.job] = str(command)
        return commands

    def release_all(self, owner: str) -> int:
        """Give all jobs of a scheduler back that has died; return how many."""
        with self._database.write() as connection:
            held = update(jobs).where(UNENDED, jobs.c.owner == owner)
            return connection.execute(held.values(owner=None, lease_until=0.0)).rowcount

    def release(self, leases: Collection[Lease], now: Moment) -> None:
        """Give jobs back; any scheduler can take them immediately."""
        if not leases:
            return
        with self._database.write() as connection:
            for lease in _in_order(leases):
                connection.execute(_update_held(lease).values(owner=None, lease_until=0.0, updated=now))


@contextmanager
def fenced(database: Database, lease: Lease, now: float, **values: object) -> Iterator[Connection]:
    """A transaction that sets columns of a job and succeeds only while the lease is valid."""
    with database.write() as connection:
        if connection.execute(_update_held(lease).values(updated=now, **values)).rowcount != 1:
            raise FencedError(lease.job)
        yield connection


def _update_held(lease: Lease) -> Update:
    """Updates the job only while the lease is valid."""
    return update(jobs).where(jobs.c.id == lease.job, jobs.c.fence == lease.fence)


def _choose_jobs(
    connection: Connection, now: Moment, free: Condition, max_held: int, limit: int, exclude: Collection[str]
) -> list[str]:
    """Ids of free jobs, each from the tenant with the fewest held jobs; without those already tried.

    A tenant with as many running jobs as its quota allows has to wait.
    """
    held_jobs = select(jobs.c.tenant).where(UNENDED, jobs.c.lease_until.between(now, now + MAX_LEASE_SECONDS))
    held_by_tenant = Counter(connection.execute(held_jobs).scalars())
    limited = connection.execute(select(quotas.c.tenant, quotas.c.running))
    limits: dict[str, int] = {row.tenant: NO_LIMIT if row.running is None else row.running for row in limited}

    def room(tenant: str) -> int:
        return min(limits.get(tenant, limits.get(EVERYONE, NO_LIMIT)), max_held) - held_by_tenant[tenant]

    firsts = [row for row in _first_free_jobs(connection, free) if room(row.tenant) > 0]
    firsts.sort(key=lambda row: (held_by_tenant[row.tenant], *_sort_key(row)))
    heap = []
    for first in firsts[:limit]:
        query = select(*(jobs.c[name] for name in _ORDER)).where(jobs.c.tenant == first.tenant, free)
        if exclude:
            query = query.where(jobs.c.id.not_in(list(exclude)))
        query = query.order_by(*(jobs.c[name] for name in _ORDER)).limit(min(limit, room(first.tenant)))
        rows = connection.execute(query).all()
        if rows:
            heap.append((held_by_tenant[first.tenant], _sort_key(rows[0]), rows))
    heapq.heapify(heap)
    chosen: list[str] = []
    while heap and len(chosen) < limit:
        count, key, rows = heapq.heappop(heap)
        chosen.append(key[-1])
        if rows[1:]:
            heapq.heappush(heap, (count + 1, _sort_key(rows[1]), rows[1:]))
    return chosen


def _is_free(now: Moment) -> Condition:
    """True for open jobs that no scheduler holds."""
    return UNENDED & jobs.c.state.in_(OPEN) & is_expired(now)


def _first_free_jobs(connection: Connection, free: Condition) -> list[Any]:
    """The first free job of every tenant who has one."""
    # All tenants with an open job, found by one index step each.
    open_tenants = select(func.min(jobs.c.tenant).label("tenant")).where(UNENDED)
    tenants = open_tenants.cte("tenants", recursive=True)
    after = select(func.min(jobs.c.tenant)).where(UNENDED, jobs.c.tenant > tenants.c.tenant)
    following = select(after.correlate(tenants).scalar_subquery()).where(tenants.c.tenant.is_not(None))
    tenants = tenants.union_all(following)
    first = (
        select(jobs.c.id)
        .where(jobs.c.tenant == tenants.c.tenant, free)
        .order_by(*(jobs.c[name] for name in _ORDER))
        .limit(1)
        .correlate(tenants)
        .scalar_subquery()
    )
    job = jobs.alias()
    columns = [job.c[name] for name in ("tenant", *_ORDER)]
    return list(connection.execute(select(*columns).select_from(tenants.join(job, job.c.id == first))).all())


def _sort_key(row: Any) -> tuple[int, float, str]:
    return row.rank, row.created, row.id


def _take(connection: Connection, ids: Sequence[str], owner: str, now: Moment, seconds: float) -> list[Lease]:
    """Take those of these jobs that are still free and that no other scheduler is taking at this moment."""
    query = select(jobs.c.id, jobs.c.fence, jobs.c.correlation).where(jobs.c.id.in_(ids), _is_free(now))
    rows = {row.id: row for row in connection.execute(query.with_for_update(skip_locked=True))}
    leases = [Lease(job, rows[job].fence + 1, rows[job].correlation) for job in ids if job in rows]
    for lease in leases:
        values = {"owner": owner, "fence": lease.fence, "lease_until": now + seconds}
        connection.execute(update(jobs).where(jobs.c.id == lease.job).values(values))
    return leases


def _in_order(leases: Collection[Lease]) -> list[Lease]:
    """Sorted by job, so that two schedulers never wait for each other's locks."""
    return sorted(leases, key=lambda lease: lease.job)
