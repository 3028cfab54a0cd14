"""`Ledger`: the truth about jobs. What is not in it did not happen.

A scheduler holds a job by a lease with a fencing number. Every write to the job names that number; a scheduler that was
frozen and whose job went to another finds its number outdated, and nothing it wanted to write is written.

SQLite (in WAL mode) or PostgreSQL, by URL.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, func, insert, or_, select, update

from maabo_dist.cluster.store import figures_name
from maabo_dist.contract.job import JobSpec, JobState, Priority
from scheduler.ledger.database import Database, DuplicateError
from scheduler.ledger.jobs import (
    JOB_COLUMNS,
    OPEN,
    JobRow,
    Oldest,
    Segment,
    count_by_tenant,
    forget_jobs,
    forget_search,
    new_row,
    read_job,
    read_oldest,
    readable_jobs,
)
from scheduler.ledger.leases import FencedError, Lease, Wanted, any_free, in_order, next_jobs, take
from scheduler.ledger.schema import datasets, jobs
from scheduler.ledger.search import (
    BatchRow,
    BlockRow,
    ResultRow,
    TaskRow,
    insert_search,
    read_batches,
    read_blocks,
    read_results,
    read_screen,
    read_tasks,
    replace_blocks,
    upsert_blocks,
    upsert_tasks,
)
from scheduler.ledger.tenants import Registry

__all__ = [
    "BatchRow",
    "BlockRow",
    "FencedError",
    "JobRow",
    "Lease",
    "Ledger",
    "ResultRow",
    "Segment",
    "TaskRow",
]

LAST = 2**31 - 1
IDS_AT_ONCE = 500
GIVEN_UP = -1.0
"""In the place of the time of a call that nobody took."""


class Ledger:
    """All reads and writes; each method is one transaction. Jobs are locked in the order of their ids."""

    def __init__(self, url: str) -> None:
        self._database = Database(url)
        self.registry = Registry(self._database)
        """What belongs to tenants."""

    def close(self) -> None:
        """Let go of all connections."""
        self._database.close()

    def time_commits(self, committed: Callable[[float], None]) -> None:
        """From now on, tell of every transaction that wrote, with its seconds."""
        self._database.committed = committed

    # Jobs, as their owners see them.

    def add(self, specs: Sequence[JobSpec], now: float) -> None:
        """Queue jobs; one whose id is there already stays as it is."""
        if not specs:
            return
        try:
            with self._database.write() as connection:
                ids = [spec.id for spec in specs]
                known = set(connection.execute(select(jobs.c.id).where(jobs.c.id.in_(ids))).scalars())
                rows = {spec.id: new_row(spec, now) for spec in specs if spec.id not in known}
                if rows:
                    connection.execute(insert(jobs), [rows[job] for job in sorted(rows)])
        except DuplicateError:  # another scheduler took one of them in at this moment
            if len(specs) > 1:
                for spec in specs:
                    self.add([spec], now)

    def ask(self, job: str, wanted: str, now: float) -> None:
        """Note what a job's owner wants: run, pause or cancel. Done at once where nobody holds the job.

        Who held it and was frozen is fenced off then.
        """
        unheld = or_(jobs.c.lease_until < now, jobs.c.state == JobState.PAUSED)
        at_once: dict[str, dict[str, Any]] = {
            "run": {"state": JobState.QUEUED.value},
            "pause": {"state": JobState.PAUSED.value},
            "cancel": {"state": JobState.CANCELLED.value, "finished": now},
        }
        states = [JobState.PAUSED] if wanted == "run" else [*OPEN, JobState.PAUSED]
        with self._database.write() as connection:
            not_ended = jobs.c.state.in_([*OPEN, JobState.PAUSED])
            connection.execute(update(jobs).where(jobs.c.id == job, not_ended).values(wanted=wanted, updated=now))
            settled = update(jobs).where(jobs.c.id == job, jobs.c.state.in_(states), unheld)
            settled = settled.values(fence=jobs.c.fence + 1, **at_once[wanted])
            if connection.execute(settled).rowcount and wanted == "cancel":
                forget_search(connection, [job])

    def job(self, job: str) -> JobRow | None:
        """One job."""
        with self._database.read() as connection:
            row = connection.execute(select(*JOB_COLUMNS).where(jobs.c.id == job)).mappings().first()
        return None if row is None else read_job(row)

    def jobs(self, ids: Collection[str]) -> list[JobRow]:
        """Those of these jobs that are there."""
        asked, found = list(ids), list[JobRow]()
        with self._database.read() as connection:
            for start in range(0, len(asked), IDS_AT_ONCE):
                some = jobs.c.id.in_(asked[start : start + IDS_AT_ONCE])
                found += readable_jobs(connection.execute(select(*JOB_COLUMNS).where(some)).mappings())
        return found

    def document(self, job: str) -> str | None:
        """The result of a job that is done."""
        with self._database.read() as connection:
            found: str | None = connection.execute(select(jobs.c.document).where(jobs.c.id == job)).scalar()
        return found

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        with self._database.read() as connection:
            rows = connection.execute(select(jobs.c.state, func.count().label("jobs")).group_by(jobs.c.state)).all()
        return {row.state: row.jobs for row in rows}

    def oldest(self) -> Oldest:
        """Who has waited longest."""
        with self._database.read() as connection:
            return read_oldest(connection)

    def counts_of_tenants(self, most: int) -> dict[tuple[str, str], int]:
        """Jobs that have not ended, by tenant and state; of so many tenants, those with the most jobs."""
        with self._database.read() as connection:
            return count_by_tenant(connection, most)

    # Leases.

    def acquire(
        self,
        owner: str,
        now: float,
        seconds: float,
        most: int,
        least: Priority = Priority.LOW,
        *,
        guests: bool = False,
    ) -> list[Lease]:
        """Take over up to `most` open jobs that nobody holds, of a priority not below `least`.

        Tenants get alike, each its urgent and old jobs first; `guests` are tenants of whom nobody holds a job, and get
        one each.
        """
        wanted = Wanted(most, least, guests)
        with self._database.read() as connection:  # most often there is nothing; then nothing is locked
            if most < 1 or not any_free(connection, now, wanted):
                return []
        taken: list[Lease] = []
        tried: list[str] = []
        with self._database.write() as connection:
            while len(taken) < most:
                chosen = next_jobs(connection, now, Wanted(most - len(taken), least, guests), tried)
                if not chosen:
                    break
                tried += chosen
                taken += take(connection, chosen, owner, now, seconds)
        return taken

    def renew(self, leases: Collection[Lease], now: float, seconds: float) -> dict[str, str]:
        """Prolong leases; returns the jobs still held, each with what its owner wants now."""
        if not leases:
            return {}
        wanted = {}
        with self._database.write() as connection:
            for lease in in_order(leases):
                mine = (jobs.c.id == lease.job, jobs.c.fence == lease.fence)
                if connection.execute(update(jobs).where(*mine).values(lease_until=now + seconds)).rowcount == 1:
                    wish = connection.execute(select(jobs.c.wanted).where(jobs.c.id == lease.job)).scalar()
                    wanted[lease.job] = str(wish)
        return wanted

    def release(self, leases: Collection[Lease], now: float) -> None:
        """Give jobs back, for any scheduler to take at once."""
        if not leases:
            return
        with self._database.write() as connection:
            for lease in in_order(leases):
                connection.execute(
                    update(jobs)
                    .where(jobs.c.id == lease.job, jobs.c.fence == lease.fence)
                    .values(owner=None, lease_until=0.0, updated=now)
                )

    # What a scheduler writes of a job that it holds.

    def write(
        self,
        lease: Lease,
        now: float,
        changed: Mapping[str, object] = MappingProxyType({}),
        *,
        new_batches: Iterable[BatchRow] = (),
        new_results: Iterable[ResultRow] = (),
        sent: Iterable[TaskRow] = (),
    ) -> None:
        """What happened to a job, in one piece.

        Batches are written before any of it is sent, tasks before they are sent, answers before they are acknowledged.
        `changed` are columns of the job.
        """
        with self._fenced(lease, now, **changed) as connection:
            insert_search(connection, lease.job, new_batches, new_results)
            upsert_tasks(connection, lease.job, sent, now)

    def write_blocks(
        self,
        lease: Lease,
        now: float,
        rows: Iterable[BlockRow],
        changed: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Blocks of a screen as they are now: before any is sent, before each is sent, before it is acknowledged."""
        with self._fenced(lease, now, **changed) as connection:
            upsert_blocks(connection, lease.job, rows)

    def write_screen(
        self, lease: Lease, now: float, screen: bytes, changed: Mapping[str, object] = MappingProxyType({})
    ) -> None:
        """The screen of all blocks, which are not needed any more."""
        with self._fenced(lease, now, **changed) as connection:
            replace_blocks(connection, lease.job, screen)

    def write_segments(self, lease: Lease, now: float, segments: Sequence[Segment]) -> None:
        """Trees are in the store."""
        listed = json.dumps([[segment.digest, segment.until] for segment in segments])
        with self._fenced(lease, now, segments=listed):
            pass

    def end(self, lease: Lease, now: float, state: JobState, **values: object) -> None:
        """The job has ended; what only its search needed goes."""
        with self._fenced(lease, now, state=state.value, finished=now, lease_until=0.0, **values) as connection:
            forget_search(connection, [lease.job])

    # Recovery.

    def batches(self, job: str, first: int = 0, until: int = LAST) -> Iterator[BatchRow]:
        """Batches first … until − 1 of a job in order."""
        with self._database.read() as connection:
            yield from read_batches(connection, job, first, until)

    def results(self, job: str, first: int = 0, until: int = LAST) -> Iterator[ResultRow]:
        """The answers to batches first … until − 1, in the order of their subsets."""
        with self._database.read() as connection:
            yield from read_results(connection, job, first, until)

    def tasks(self, job: str) -> list[TaskRow]:
        """Tasks as they were sent last, the newest first."""
        with self._database.read() as connection:
            return read_tasks(connection, job)

    def blocks(self, job: str) -> list[BlockRow]:
        """The blocks of a screen under way, in their order."""
        with self._database.read() as connection:
            return read_blocks(connection, job)

    def screen(self, job: str) -> bytes | None:
        """The screen of a job, once it is made."""
        with self._database.read() as connection:
            return read_screen(connection, job)

    # Callbacks and retention.

    def claim_calls(self, now: float, seconds: float, most: int = 100) -> list[JobRow]:
        """Ended jobs whose callback is due. For so many seconds nobody else is given them."""
        due = (jobs.c.finished.is_not(None), jobs.c.called.is_(None), jobs.c.call_next <= now)
        query = select(*JOB_COLUMNS).where(*due).order_by(jobs.c.call_next).limit(most)
        with self._database.read() as connection:
            if connection.execute(query.limit(1)).first() is None:
                return []
        with self._database.write() as connection:
            found = connection.execute(query.with_for_update(skip_locked=True)).mappings().all()
            ids = [row["id"] for row in found]
            connection.execute(update(jobs).where(jobs.c.id.in_(ids)).values(call_next=now + seconds))
        return readable_jobs(found)

    def note_called(self, ids: Collection[str], now: float) -> int:
        """These jobs' callbacks were called; of how many that is news."""
        called = update(jobs).where(jobs.c.id.in_(list(ids)), jobs.c.called.is_(None))
        with self._database.write() as connection:
            return connection.execute(called.values(called=now, calls=jobs.c.calls + 1)).rowcount

    def note_uncalled(self, ids: Collection[str], until: float | None) -> None:
        """These jobs' callbacks could not be called: to be tried again at a time, or never."""
        values = {"called": GIVEN_UP} if until is None else {"call_next": until}
        missed = update(jobs).where(jobs.c.id.in_(list(ids)), jobs.c.called.is_(None))
        with self._database.write() as connection:
            connection.execute(missed.values(calls=jobs.c.calls + 1, **values))

    def purge(self, before: float) -> list[str]:
        """Forget jobs that ended before a time; returns their ids."""
        with self._database.read() as connection:
            old = list(connection.execute(select(jobs.c.id).where(jobs.c.finished < before).limit(1000)).scalars())
        if old:
            with self._database.write() as connection:
                forget_jobs(connection, old)
        return old

    def artifacts(self) -> set[str]:
        """Names of everything in the store that some job refers to, and of all raw tables."""
        with self._database.read() as connection:
            rows = connection.execute(select(jobs.c.id, jobs.c.spec, jobs.c.segments)).all()
            raw = {f"tables/{digest}" for digest in connection.execute(select(datasets.c.digest)).scalars()}
        tables = {f"columns/{json.loads(row.spec)['dataset']['fingerprint']}" for row in rows}
        trees = {f"trees/{digest}" for row in rows for digest, _ in json.loads(row.segments)}
        return raw | tables | trees | {figures_name(row.id) for row in rows}

    def snapshot(self) -> AbstractContextManager[Connection]:
        """To read several tables as they were at one moment."""
        return self._database.snapshot()

    def transaction(self) -> AbstractContextManager[Connection]:
        """To write rows that were read from a ledger: all of them or none."""
        return self._database.write()

    @contextmanager
    def _fenced(self, lease: Lease, now: float, **values: object) -> Iterator[Connection]:
        """A transaction that goes through only while the lease's number is the job's."""
        with self._database.write() as connection:
            held = update(jobs).where(jobs.c.id == lease.job, jobs.c.fence == lease.fence)
            if connection.execute(held.values(updated=now, **values)).rowcount != 1:
                raise FencedError(lease.job)
            yield connection
