"""`Ledger`: the truth about jobs. What is not in it did not happen.

A scheduler holds a job by a lease with a fencing number. Every write to the job names that number; a scheduler that was
frozen and whose job went to another finds its number outdated, and nothing it wanted to write is written.

SQLite (in WAL mode) or PostgreSQL, by URL.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from maabo_dist.contract.job import JobSpec, JobState
from maabo_dist.errors import MaaboError, SettingsError
from scheduler import schema
from scheduler.schema import batches, jobs, meta, results, tasks

OPEN = (JobState.QUEUED, JobState.RUNNING, JobState.MINING)


class FencedError(MaaboError):
    """Another scheduler holds the job now; whoever gets this must drop it."""

    def __init__(self, job: str) -> None:
        super().__init__(f"Job {job} is held by another scheduler now.")
        self.job = job


class LedgerError(MaaboError):
    """The ledger cannot be read or written: unreachable, full, damaged."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A scheduler's hold on a job."""

    job: str
    fence: int


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as the ledger has it."""

    id: str
    tenant: str
    priority: str
    state: JobState
    wanted: str
    spec: JobSpec
    created: float
    started: float | None
    finished: float | None
    trees: int
    planned: int | None
    best_score: float | None
    reason: str | None
    digest: str | None
    fence: int


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The trees of subsets start … stop − 1 of a batch, or why the one subset failed."""

    batch: int
    start: int
    stop: int
    trees: bytes
    reason: str | None


class Ledger:
    """All reads and writes; each method is one transaction."""

    def __init__(self, url: str) -> None:
        self._engine = _engine(url)
        with _translated():
            schema.metadata.create_all(self._engine)
        with self._write() as connection:
            _check_version(connection)

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()

    # Jobs, as their owners see them.

    def add(self, spec: JobSpec, now: float) -> bool:
        """Queue a job; False if one of that id is there already."""
        row = {
            "id": spec.id,
            "tenant": spec.tenant,
            "priority": spec.priority.value,
            "state": JobState.QUEUED.value,
            "wanted": "run",
            "spec": spec.model_dump_json(),
            "created": now,
            "updated": now,
            "trees": 0,
            "fence": 0,
            "lease_until": 0.0,
        }
        try:
            with self._write() as connection:
                connection.execute(insert(jobs).values(**row))
        except IntegrityError:
            return False
        return True

    def ask(self, job: str, wanted: str, now: float) -> bool:
        """Note what a job's owner wants (run, pause, cancel); False if there is no such job or it has ended."""
        still_open = jobs.c.state.in_([*OPEN, JobState.PAUSED])
        with self._write() as connection:
            done = connection.execute(
                update(jobs).where(jobs.c.id == job, still_open).values(wanted=wanted, updated=now)
            )
            return done.rowcount == 1

    def job(self, job: str) -> JobRow | None:
        """One job."""
        with self._read() as connection:
            row = connection.execute(select(*_JOB_COLUMNS).where(jobs.c.id == job)).mappings().first()
        return None if row is None else _job(row)

    def document(self, job: str) -> str | None:
        """The result of a job that is done."""
        with self._read() as connection:
            found: str | None = connection.execute(select(jobs.c.document).where(jobs.c.id == job)).scalar()
        return found

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        with self._read() as connection:
            rows = connection.execute(select(jobs.c.state, func.count().label("jobs")).group_by(jobs.c.state)).all()
        return {row.state: row.jobs for row in rows}

    # Leases.

    def acquire(self, owner: str, now: float, seconds: float, most: int) -> list[Lease]:
        """Take over up to `most` open jobs that nobody holds, oldest first within a priority."""
        order = {"high": 0, "normal": 1, "low": 2}
        with self._write() as connection:
            free = connection.execute(
                select(jobs.c.id, jobs.c.fence, jobs.c.priority, jobs.c.created)
                .where(jobs.c.state.in_(OPEN), jobs.c.lease_until < now)
                .order_by(jobs.c.created)
                .limit(max(most, 1) * 4)
            ).all()
            chosen = sorted(free, key=lambda row: (order[row.priority], row.created, row.id))[:most]
            taken = []
            for row in chosen:
                done = connection.execute(
                    update(jobs)
                    .where(jobs.c.id == row.id, jobs.c.fence == row.fence)
                    .values(owner=owner, fence=row.fence + 1, lease_until=now + seconds)
                )
                if done.rowcount == 1:
                    taken.append(Lease(row.id, row.fence + 1))
        return taken

    def renew(self, leases: Iterable[Lease], now: float, seconds: float) -> tuple[list[Lease], dict[str, str]]:
        """Prolong leases; returns those still held, and what the jobs' owners want now."""
        held, wanted = [], {}
        with self._write() as connection:
            for lease in leases:
                done = connection.execute(
                    update(jobs)
                    .where(jobs.c.id == lease.job, jobs.c.fence == lease.fence)
                    .values(lease_until=now + seconds)
                )
                if done.rowcount == 1:
                    held.append(lease)
                    wanted[lease.job] = str(
                        connection.execute(select(jobs.c.wanted).where(jobs.c.id == lease.job)).scalar()
                    )
        return held, wanted

    def release(self, leases: Iterable[Lease], now: float) -> None:
        """Give jobs back, for any scheduler to take at once."""
        with self._write() as connection:
            for lease in leases:
                connection.execute(
                    update(jobs)
                    .where(jobs.c.id == lease.job, jobs.c.fence == lease.fence)
                    .values(owner=None, lease_until=0.0, updated=now)
                )

    # What a scheduler writes of a job that it holds.

    def write_state(self, lease: Lease, now: float, state: JobState, **values: object) -> None:
        """A change of state, with whatever else changes with it."""
        with self._fenced(lease, now, state=state.value, **values):
            pass

    def write_batch(self, lease: Lease, now: float, number: int, subsets: bytes) -> None:
        """A batch, before any of it is sent."""
        with self._fenced(lease, now) as connection:
            connection.execute(insert(batches).values(job=lease.job, number=number, subsets=subsets))

    def write_tasks(self, lease: Lease, now: float, issued: Iterable[tuple[int, int, int, int]]) -> None:
        """Tasks (batch, start, stop, attempt), before they are sent."""
        with self._fenced(lease, now) as connection:
            for batch, start, stop, attempt in issued:
                key = {"job": lease.job, "batch": batch, "start": start, "stop": stop}
                known = update(tasks).where(*(tasks.c[name] == value for name, value in key.items()))
                if connection.execute(known.values(attempt=attempt, issued=now)).rowcount == 0:
                    connection.execute(insert(tasks).values(**key, attempt=attempt, issued=now))

    def write_results(
        self, lease: Lease, now: float, rows: Iterable[tuple[ResultRow, float]], trees: int, best_score: float | None
    ) -> None:
        """Answers (with their seconds), before they are acknowledged; and where the job stands."""
        with self._fenced(lease, now, trees=trees, best_score=best_score) as connection:
            for row, seconds in rows:
                connection.execute(
                    insert(results).values(
                        job=lease.job,
                        batch=row.batch,
                        start=row.start,
                        stop=row.stop,
                        seconds=seconds,
                        trees=row.trees,
                        reason=row.reason,
                    )
                )

    # Recovery.

    def batches(self, job: str) -> Iterator[tuple[int, bytes]]:
        """All batches of a job in order."""
        query = select(batches.c.number, batches.c.subsets).where(batches.c.job == job).order_by(batches.c.number)
        with self._read() as connection:
            for number, subsets in connection.execute(query):
                yield number, bytes(subsets)

    def results(self, job: str) -> Iterator[ResultRow]:
        """All answers to a job, in the order of its subsets."""
        query = (
            select(results.c.batch, results.c.start, results.c.stop, results.c.trees, results.c.reason)
            .where(results.c.job == job)
            .order_by(results.c.batch, results.c.start)
        )
        with self._read() as connection:
            for batch, start, stop, trees, reason in connection.execute(query):
                yield ResultRow(batch, start, stop, bytes(trees), reason)

    def attempts(self, job: str) -> dict[tuple[int, int, int], int]:
        """(batch, start, stop) → the last attempt that was sent."""
        query = select(tasks.c.batch, tasks.c.start, tasks.c.stop, tasks.c.attempt).where(tasks.c.job == job)
        with self._read() as connection:
            return {(batch, start, stop): attempt for batch, start, stop, attempt in connection.execute(query)}

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with _translated(), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        with _translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _fenced(self, lease: Lease, now: float, **values: object) -> Iterator[Connection]:
        """A transaction that goes through only while the lease's number is the job's."""
        with self._write() as connection:
            held = update(jobs).where(jobs.c.id == lease.job, jobs.c.fence == lease.fence)
            if connection.execute(held.values(updated=now, **values)).rowcount != 1:
                raise FencedError(lease.job)
            yield connection


_JOB_COLUMNS = [
    jobs.c[name]
    for name in (
        *("id", "tenant", "priority", "state", "wanted", "spec", "created", "started", "finished"),
        *("trees", "planned", "best_score", "reason", "digest", "fence"),
    )
]


def _job(row: Any) -> JobRow:
    values = dict(row)
    return JobRow(**(values | {"state": JobState(row["state"]), "spec": JobSpec.model_validate_json(row["spec"])}))


def _engine(url: str) -> Engine:
    try:
        engine = create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
    except Exception as error:
        raise SettingsError(f"The ledger {url!r} cannot be used: {error}.") from error
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
    cursor = connection.cursor()
    for pragma in ("busy_timeout=10000", "journal_mode=WAL", "synchronous=NORMAL"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _check_version(connection: Connection) -> None:
    found = connection.execute(select(meta.c.value).where(meta.c.key == "schema")).scalar()
    if found is None:
        connection.execute(insert(meta).values(key="schema", value=str(schema.VERSION)))
    elif int(found) > schema.VERSION:
        raise SettingsError(
            f"The ledger has schema version {found}; this scheduler knows {schema.VERSION}. Use a newer scheduler."
        )


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except IntegrityError:  # the caller's to judge: something is there already
        raise
    except DBAPIError as error:
        raise LedgerError(f"The ledger failed: {error.orig}.") from error
