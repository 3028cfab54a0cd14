"""`Jobs`: the jobs of the ledger, as their owners submit, see and control them."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, delete, func, insert, or_, select, tuple_, update

from maabo_dist.cluster.settings import MAX_LEASE_SECONDS
from maabo_dist.contract.job import JobRecord, JobSpec, JobState, Priority, paused_obstacle
from maabo_dist.errors import FormatError
from scheduler.ledger.database import DuplicateError, LedgerTopic, Moment, of_tenant
from scheduler.ledger.schema import (
    batches,
    blocks,
    jobs,
    keys,
    pass_blocks,
    passes,
    prepared_columns,
    results,
    screens,
    shuffle_plans,
    shuffles,
    tasks,
)

OPEN = (JobState.QUEUED, JobState.RUNNING, JobState.MINING)
UNENDED = jobs.c.finished.is_(None)
# What the ledger stores of the commands of owners.
COMMANDS = {"pause": "pause", "resume": "run", "cancel": "cancel"}
# Lower runs first.
RANKS = {Priority.HIGH: 0, Priority.NORMAL: 1, Priority.LOW: 2}
# Ids in one query.
MAX_IDS = 500


@dataclass(frozen=True, slots=True)
class Segment:
    """Trees in the store: those of all batches before `until` that earlier segments do not hold."""

    digest: str
    until: int


@dataclass(frozen=True, slots=True)
class JobRow:
    """A row of the table jobs."""

    id: str
    state: JobState
    # The owner's last command: run, pause or cancel.
    command: str
    spec: JobSpec
    created: float
    started: float | None = None
    finished: float | None = None
    run_seconds: float = 0.0
    trees: int = 0
    planned: int | None = None
    failed: int = 0
    best_score: float | None = None
    rules: int | None = None
    stop_after: int | None = None
    segments: tuple[Segment, ...] = ()
    reason: str | None = None
    digest: str | None = None
    fence: int = 0
    # When the callback was called; 0 if the job has none, −1 if it was given up, None before.
    called_back: float | None = None
    callback_attempts: int = 0
    # The owner's name for the job, and a note.
    title: str | None = None
    note: str | None = None
    # The scheduler that holds it, if any; not a part of the job itself.
    owner: str | None = field(default=None, compare=False)

    @property
    def record(self) -> JobRecord:
        """The public record of the job."""
        spec = self.spec
        columns = {name: getattr(self, name) for name in JobRecord.model_fields.keys() & self.__slots__}
        names = {"name": spec.dataset.name, "tenant": spec.tenant, "priority": spec.priority}
        obstacle = paused_obstacle(self.id) if self.state is JobState.PAUSED else None
        return JobRecord(seconds=self.run_seconds, obstacle=obstacle, **names, **columns)


JOB_COLUMNS = [jobs.c[name] for name in JobRow.__slots__]
# Built once: to build a statement takes longer than to execute it.
_SELECT_BY_ID = select(*JOB_COLUMNS).where(jobs.c.id.in_(bindparam("ids", expanding=True)))


@cache
def _select_page(given: frozenset[str]) -> Select[Any]:
    """Select jobs, newest first. `given` are the values to compare with; `created` and `id` are the start of a page."""
    query = select(*JOB_COLUMNS).order_by(jobs.c.created.desc(), jobs.c.id.desc()).limit(bindparam("limit"))
    for name in given & {"tenant", "state", "dataset"}:
        query = query.where(jobs.c[name] == bindparam(name))
    if "created" in given:
        query = query.where(tuple_(jobs.c.created, jobs.c.id) < tuple_(bindparam("created"), bindparam("id")))
    return query


@dataclass(frozen=True, slots=True)
class OldestJobs:
    """Extremes among the jobs that have not ended; None where there is no such job."""

    # The earliest submission time of a queued job.
    queued: float | None
    # The time until a lease expires, the shortest; negative if no scheduler has taken the job over.
    lease_seconds: float | None
    # The largest number of times any job was acquired.
    max_takeovers: int = 0


class Jobs(LedgerTopic):
    """Reads and writes jobs. A `tenant` of None stands for all tenants."""

    def add(self, specs: Sequence[JobSpec], now: float) -> None:
        """Queue jobs; one whose id exists already stays as it is."""
        if not specs:
            return
        try:
            with self._database.write() as connection:
                ids = [spec.id for spec in specs]
                existing = set(connection.execute(select(jobs.c.id).where(jobs.c.id.in_(ids))).scalars())
                rows = {spec.id: new_row(spec, now) for spec in specs if spec.id not in existing}
                if rows:
                    connection.execute(insert(jobs), [rows[job] for job in sorted(rows)])
        except DuplicateError:  # another scheduler added one of them at the same moment
            if len(specs) > 1:
                for spec in specs:
                    self.add([spec], now)

    def set_command(self, job: str, command: str, now: Moment) -> None:
        """Record the owner's command: run, pause or cancel. It takes effect immediately if no scheduler holds the job.

        A scheduler that held the job and was frozen is fenced off then.
        """
        unheld = or_(is_expired(now), jobs.c.state == JobState.PAUSED)
        effects: dict[str, dict[str, Any]] = {
            "run": {"state": JobState.QUEUED.value},
            "pause": {"state": JobState.PAUSED.value},
            "cancel": {"state": JobState.CANCELLED.value, "finished": now},
        }
        states = [JobState.PAUSED] if command == "run" else [*OPEN, JobState.PAUSED]
        with self._database.write() as connection:
            not_ended = jobs.c.state.in_([*OPEN, JobState.PAUSED])
            connection.execute(update(jobs).where(jobs.c.id == job, not_ended).values(command=command, updated=now))
            applied = update(jobs).where(jobs.c.id == job, jobs.c.state.in_(states), unheld)
            applied = applied.values(fence=jobs.c.fence + 1, **effects[command])
            if connection.execute(applied).rowcount and command == "cancel":
                delete_search(connection, [job])

    def set_labels(self, job: str, labels: Mapping[str, str | None]) -> None:
        """Set the `title` and the `note` of a job, or one of them; None removes it."""
        if labels:
            with self._database.write() as connection:
                connection.execute(update(jobs).where(jobs.c.id == job).values(**labels))

    def get(self, job: str, *, tenant: str | None = None) -> JobRow | None:
        """Return one job, or None."""
        query = select(*JOB_COLUMNS).where(jobs.c.id == job, *of_tenant(jobs, tenant))
        with self._database.read() as connection:
            row = connection.execute(query).first()
        return None if row is None else read_job(row)

    def get_many(self, ids: Collection[str]) -> list[JobRow]:
        """Return those of these jobs that exist."""
        all_ids, rows = list(ids), list[JobRow]()
        with self._database.read() as connection:
            for start in range(0, len(all_ids), MAX_IDS):
                some = {"ids": all_ids[start : start + MAX_IDS]}
                rows += readable_jobs(connection.execute(_SELECT_BY_ID, some))
        return rows

    def page(
        self,
        tenant: str | None,
        *,
        state: JobState | None = None,
        dataset: str | None = None,
        after: tuple[float, str] | None = None,
        limit: int = 100,
    ) -> list[JobRow]:
        """Return jobs, newest first, starting after the one with this (created, id)."""
        values: dict[str, Any] = {"tenant": tenant, "state": state and state.value, "dataset": dataset}
        if after is not None:
            values |= {"created": after[0], "id": after[1]}
        given = {name: value for name, value in values.items() if value is not None}
        with self._database.read() as connection:
            return readable_jobs(connection.execute(_select_page(frozenset(given)), given | {"limit": limit}))

    def document(self, job: str) -> str | None:
        """The result document of a finished job."""
        with self._database.read() as connection:
            document: str | None = connection.execute(select(jobs.c.document).where(jobs.c.id == job)).scalar()
        return document

    def count_by_state(self) -> dict[str, int]:
        """The number of jobs in each state."""
        rows = self._database.rows(select(jobs.c.state, func.count().label("jobs")).group_by(jobs.c.state))
        return {row["state"]: row["jobs"] for row in rows}

    def count_by_tenant(self, max_tenants: int) -> dict[tuple[str, str], int]:
        """Unfinished jobs by tenant and state, for the tenants with the most of them."""
        number = func.count()
        largest = select(jobs.c.tenant).where(UNENDED).group_by(jobs.c.tenant).order_by(number.desc(), jobs.c.tenant)
        query = select(jobs.c.tenant, jobs.c.state, number.label("jobs")).group_by(jobs.c.tenant, jobs.c.state)
        with self._database.read() as connection:
            names = list(connection.execute(largest.limit(max_tenants)).scalars())
            rows = connection.execute(query.where(UNENDED, jobs.c.tenant.in_(names))).all()
        return {(row.tenant, row.state): row.jobs for row in rows}

    def oldest(self) -> OldestJobs:
        """The longest waits among unfinished jobs."""
        queued = select(func.min(jobs.c.created)).where(UNENDED, jobs.c.state == JobState.QUEUED)
        held = select(func.min(jobs.c.lease_until) - self._database.now).where(
            UNENDED, jobs.c.state.in_(OPEN), jobs.c.lease_until > 0
        )
        fence = select(func.max(jobs.c.fence)).where(UNENDED)
        with self._database.read() as connection:
            queued_at, lease_seconds, takeovers = (
                connection.execute(query).scalar() for query in (queued, held, fence)
            )
        return OldestJobs(queued_at, lease_seconds, takeovers or 0)

    def waiting(self, limit: int) -> tuple[list[JobRow], int]:
        """The first queued jobs that no scheduler holds, in their order, and the number of jobs that are held."""
        now, order = self._database.now, (jobs.c.rank, jobs.c.created, jobs.c.id)
        queued = select(*JOB_COLUMNS).where(UNENDED, jobs.c.state == JobState.QUEUED, is_expired(now))
        held = select(func.count()).where(UNENDED, jobs.c.lease_until.between(now, now + MAX_LEASE_SECONDS))
        with self._database.read() as connection:
            rows = connection.execute(queued.order_by(*order).limit(limit)).all()
            number = connection.execute(held).scalar_one() if rows else 0
        return readable_jobs(rows), number

    def delete(self, tenant: str | None, job: str) -> bool:
        """Delete a job that has ended, with its result and its idempotency keys; False if there is no such job."""
        ended = select(jobs.c.id).where(jobs.c.id == job, jobs.c.finished.is_not(None), *of_tenant(jobs, tenant))
        with self._database.write() as connection:
            ids = list(connection.execute(ended.with_for_update()).scalars())
            if ids:
                _delete_jobs(connection, ids)
        return bool(ids)

    def purge(self, before: float) -> list[str]:
        """Delete up to 1,000 jobs that ended before a time; return their ids."""
        with self._database.read() as connection:
            old = list(connection.execute(select(jobs.c.id).where(jobs.c.finished < before).limit(1000)).scalars())
        if old:
            with self._database.write() as connection:
                _delete_jobs(connection, old)
        return old


def is_expired(now: Moment) -> ColumnElement[bool]:
    """True for jobs without a lease, or whose lease has expired.

    A lease that ends later than any can was written before the database's clock was set back.
    """
    return or_(jobs.c.lease_until < now, jobs.c.lease_until > now + MAX_LEASE_SECONDS)


def new_row(spec: JobSpec, now: float, work: str | None = None) -> dict[str, Any]:
    """The columns of a queued job. `work` is that of the specification, if the caller has it."""
    return {
        "id": spec.id,
        "tenant": spec.tenant,
        "priority": spec.priority.value,
        "rank": RANKS[spec.priority],
        "state": JobState.QUEUED.value,
        "command": "run",
        "spec": spec.to_text(),
        "work": work or spec.work,
        "dataset": spec.dataset_id,
        "correlation": spec.correlation,
        "created": now,
        "updated": now,
        "trees": 0,
        "called_back": None if spec.callback else 0.0,
        "fence": 0,
        "lease_until": 0.0,
    }


def queued_job(spec: JobSpec, now: float) -> JobRow:
    """The row of a job that has just been added."""
    return JobRow(
        id=spec.id,
        state=JobState.QUEUED,
        command="run",
        spec=spec,
        created=now,
        called_back=None if spec.callback else 0.0,
    )


def readable_jobs(rows: Iterable[Any]) -> list[JobRow]:
    """Skip jobs written by another version, which this one cannot read."""
    readable = []
    for row in rows:
        with suppress(FormatError):
            readable.append(read_job(row))
    return readable


def read_job(row: Any) -> JobRow:
    """Read a job from its JOB_COLUMNS. Equal rows give the same object, as long as it is remembered."""
    return _read_job(*row)


@lru_cache(maxsize=2000)
def _read_job(*row: Any) -> JobRow:
    values = dict(zip(JobRow.__slots__, row, strict=True))
    try:
        values["state"] = JobState(values["state"])
        values["spec"] = _parse_spec(values["spec"])
    except ValueError as error:
        raise FormatError(f"Job {values['id']} was written by another version: {error}") from error
    values["segments"] = tuple(Segment(digest, until) for digest, until in json.loads(values["segments"]))
    return JobRow(**values)


@lru_cache(maxsize=2000)
def _parse_spec(text: str) -> JobSpec:
    """The specification of a job rarely changes, and parsing it takes longer than everything else about a row."""
    return JobSpec.model_validate_json(text)


def delete_search(connection: Connection, ids: list[str]) -> None:
    """Delete the rows that only the search of these jobs needed."""
    for table in (batches, tasks, results, blocks, screens, shuffle_plans, shuffles, passes, pass_blocks):
        connection.execute(delete(table).where(table.c.job.in_(ids)))


def _delete_jobs(connection: Connection, ids: list[str]) -> None:
    delete_search(connection, ids)
    connection.execute(delete(keys).where(keys.c.job.in_(ids)))
    of_jobs = select(jobs.c.dataset).where(jobs.c.id.in_(ids), jobs.c.dataset.is_not(None))
    tables = set(connection.execute(of_jobs).scalars())
    connection.execute(delete(jobs).where(jobs.c.id.in_(ids)))
    if tables:
        # Columns that no job uses any more do not count; the garbage collection of the store removes them.
        used = select(jobs.c.id).where(jobs.c.dataset == prepared_columns.c.dataset).exists()
        connection.execute(delete(prepared_columns).where(prepared_columns.c.dataset.in_(tables), ~used))
