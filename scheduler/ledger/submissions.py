"""`Submissions`: jobs submitted over HTTP, with idempotency keys, reuse of equal jobs and quotas."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Integer,
    String,
    bindparam,
    func,
    insert,
    literal_column,
    null,
    select,
    union_all,
)

from maabo_dist.contract.job import JobSpec, JobState
from maabo_dist.errors import InputError
from scheduler.ledger.audit import AuditEntry, append_entries
from scheduler.ledger.database import DuplicateError, LedgerTopic, deferred, lock
from scheduler.ledger.jobs import OPEN, UNENDED, new_row
from scheduler.ledger.schema import jobs, keys, quotas
from scheduler.ledger.tenants import EVERYONE, QuotaError, QuotaRow, apply_defaults

ATTEMPTS = 5
MAX_PARTS = 64  # of a compound statement; SQLite accepts 500
_WAITING = (JobState.QUEUED, JobState.PAUSED)
# Built once: to build a statement takes longer than to execute it.
_SELECT_KEYS = select(keys).where(
    keys.c.tenant.in_(bindparam("tenants", expanding=True)), keys.c.key.in_(bindparam("names", expanding=True))
)
# The kinds of rows of `_select_state`.
_LIMITS, _SAME_ID, _SAME_WORK = range(3)
_LIMIT_COLUMNS = [quotas.c[name] for name in QuotaRow.__slots__ if name != "tenant"]
_INSERT_JOBS, _INSERT_KEYS = insert(jobs), insert(keys)


class KeyReusedError(InputError):
    """An idempotency key was sent again with another document."""

    kind = "key-reused"

    def __init__(self, key: str, job: str) -> None:
        super().__init__(
            f"The idempotency key {key[:80]!r} was used for another document, that of job {job}.",
            field="Idempotency-Key",
            remedy="Use another key for another job, or send the first document again.",
        )
        self.key, self.job = key, job


@dataclass(frozen=True, slots=True)
class Submission:
    """The job for a request: a new one, or one that existed before."""

    job: str
    created: bool


@dataclass(frozen=True, slots=True)
class SubmissionRequest:
    """A job to queue.

    `key` is an idempotency key and `body` the SHA-256 of the request: the same key and body return the same job, the
    same key with another body is refused. A job of equal work that has not failed and was not cancelled is reused
    unless `fresh`. `trees` is the number of trees that the job would grow, for the quota. `entry` is added to the audit
    log if the job is new.
    """

    spec: JobSpec
    now: float
    key: str | None = None
    body: str = ""
    fresh: bool = False
    trees: int | None = None
    entry: AuditEntry | None = None


class Submissions(LedgerTopic):
    """Queues jobs for tenants."""

    def submit(self, spec: JobSpec, now: float, **options: Any) -> Submission:
        """Queue a job, or find the one that was submitted before; for the options see `SubmissionRequest`."""
        (outcome,) = self.submit_many([SubmissionRequest(spec, now, **options)])
        if isinstance(outcome, InputError):
            raise outcome
        return outcome

    def submit_many(self, requests: Sequence[SubmissionRequest]) -> list[Submission | InputError]:
        """Do the same for several requests in one transaction; one that is refused has no effect on the others."""
        for _ in range(ATTEMPTS - 1):
            with suppress(DuplicateError):  # the same request at the same moment, through another process
                return self._submit_many(requests)
        return self._submit_many(requests)

    def _submit_many(self, requests: Sequence[SubmissionRequest]) -> list[Submission | InputError]:
        with self._database.write() as connection:
            for tenant in sorted({request.spec.tenant for request in requests}):
                lock(connection, f"tenant {tenant}")
            batch = _Batch(connection, requests)
            outcomes = [batch.submit(request) for request in requests]
            batch.write(connection)
        return outcomes

    def find_by_key(self, tenant: str, key: str, body: str) -> str | None:
        """The job that was submitted with this idempotency key, if any."""
        with self._database.read() as connection:
            row = _find_keys(connection, [tenant], [key]).get((tenant, key))
        return None if row is None else _check_body(key, row, body)


class _Batch:
    """Decides about requests in order, with what the ledger had before them, and writes the new rows together."""

    def __init__(self, connection: Connection, requests: Sequence[SubmissionRequest]) -> None:
        self._connection = connection
        specs = {request.spec.id: request.spec for request in requests}
        tenants = {spec.tenant for spec in specs.values()}
        self._waiting: dict[str, int] = {}  # jobs that count as waiting, by tenant
        self._keys = _find_keys(connection, tenants, [each.key for each in requests if each.key is not None])
        self._work = {spec.id: spec.work for spec in specs.values()}
        reusing = [request.spec for request in requests if not request.fresh]
        works = {(spec.tenant, self._work[spec.id]) for spec in reusing}
        state = _read_state(connection, sorted(tenants), list(specs), sorted(works))
        self._quotas, self._ids, self._jobs_of_work = state
        self._new_jobs: list[dict[str, Any]] = []
        self._new_keys: list[dict[str, Any]] = []
        self._entries: list[AuditEntry | None] = []

    def submit(self, request: SubmissionRequest) -> Submission | InputError:
        """Return what becomes of a request."""
        spec, tenant = request.spec, request.spec.tenant
        try:
            if request.key is not None and (row := self._keys.get((tenant, request.key))) is not None:
                return Submission(_check_body(request.key, row, request.body), created=False)
            job = self._find_equal(request)
            if job is None:
                self._check_quota(tenant, request.trees)
                self._add(request)
        except InputError as error:
            return error
        if request.key is not None:
            self._keys[tenant, request.key] = request.body, job or spec.id
            self._new_keys.append({"tenant": tenant, "key": request.key, "body": request.body, "job": job or spec.id})
        return Submission(job or spec.id, created=job is None)

    def write(self, connection: Connection) -> None:
        """Write the new jobs and keys, and their entries of the audit log."""
        with deferred(connection):
            for statement, rows in ((_INSERT_JOBS, self._new_jobs), (_INSERT_KEYS, self._new_keys)):
                if rows:
                    connection.execute(statement, rows)
            append_entries(connection, *self._entries)

    def _find_equal(self, request: SubmissionRequest) -> str | None:
        """The job of the same id or, unless `fresh`, a usable one of the same work."""
        spec = request.spec
        if (spec.tenant, spec.id) in self._ids:
            return spec.id
        return None if request.fresh else self._jobs_of_work.get((spec.tenant, self._work[spec.id]))

    def _add(self, request: SubmissionRequest) -> None:
        spec, work = request.spec, self._work[request.spec.id]
        self._new_jobs.append(new_row(spec, request.now, work))
        self._entries.append(request.entry)
        self._ids.add((spec.tenant, spec.id))
        self._jobs_of_work[spec.tenant, work] = spec.id
        if spec.tenant in self._waiting:
            self._waiting[spec.tenant] += 1

    def _check_quota(self, tenant: str, trees: int | None) -> None:
        """Jobs that may run do not count as waiting, even if they have not started yet."""
        quota = self._quotas[tenant]
        if quota.trees is not None and trees is not None and trees > quota.trees:
            raise QuotaError("trees", quota.trees, trees)
        if quota.queued is None:
            return
        if tenant not in self._waiting:
            states = _WAITING if quota.running is None else {*_WAITING, *OPEN}
            query = select(func.count()).where(jobs.c.tenant == tenant, UNENDED, jobs.c.state.in_(states))
            self._waiting[tenant] = self._connection.execute(query).scalar_one()
        limit, number = quota.queued + (quota.running or 0), self._waiting[tenant] + 1
        if number > limit:
            raise QuotaError("queued", limit, number)


def _find_keys(
    connection: Connection, tenants: Collection[str], names: Collection[str]
) -> dict[tuple[str, str], tuple[str, str]]:
    """The body and the job of each idempotency key, by tenant and key."""
    if not names:
        return {}
    rows = connection.execute(_SELECT_KEYS, {"tenants": list(tenants), "names": list(names)})
    return {(row.tenant, row.key): (row.body, row.job) for row in rows}


def _check_body(key: str, row: tuple[str, str], body: str) -> str:
    """Return the job of a key, if it was submitted with this body."""
    first_body, job = row
    if first_body != body:
        raise KeyReusedError(key, job)
    return job


def _read_state(
    connection: Connection, tenants: list[str], ids: list[str], works: list[tuple[str, str]]
) -> tuple[dict[str, QuotaRow], set[tuple[str, str]], dict[tuple[str, str], str]]:
    """The limits of the tenants, the tenant and id of the jobs that exist, and the newest usable job of each work.

    A work is that of a tenant.
    """
    limits: dict[str, QuotaRow] = {}
    existing: set[tuple[str, str]] = set()
    newest: dict[tuple[str, str], str] = {}
    for start in range(0, max(len(tenants), len(ids), len(works)), MAX_PARTS):
        some = slice(start, start + MAX_PARTS)
        some_tenants, some_ids, some_works = tenants[some], ids[some], works[some]
        # One statement for all of them; each part reads one row of an index. Few lengths, so few statements.
        parts = 1 << (max(len(some_tenants), len(some_ids), len(some_works)) - 1).bit_length()
        values = _number("name", some_tenants, parts) | _number("id", some_ids, parts)
        values |= _number("tenant", [tenant for tenant, _ in some_works], parts)
        values |= _number("work", [work for _, work in some_works], parts)
        for kind, tenant, work, job, *numbers in connection.execute(_select_state(parts), values):
            if kind == _LIMITS:
                limits[tenant] = QuotaRow(tenant, *numbers)
            elif kind == _SAME_ID:
                existing.add((tenant, job))
            else:
                newest[tenant, work] = job
    return apply_defaults(limits, tenants), existing, newest


def _number(name: str, values: list[str], count: int) -> dict[str, str]:
    """Parameters of a statement; those that are not needed are empty."""
    padded = values + [""] * (count - len(values))
    return {f"{name}_{number}": value for number, value in enumerate(padded)}


@cache
def _select_state(parts: int) -> Executable:
    """Select the limits of tenants, the jobs of several ids, and the newest usable job of each of several works."""
    numbers = range(parts)
    none = [null().cast(column.type).label(column.name) for column in _LIMIT_COLUMNS]
    # Not expanding parameters: to expand them takes longer than to execute the statement.
    names: list[ColumnElement[str]] = [_constant(EVERYONE), *(bindparam(f"name_{n}") for n in numbers)]
    ids: list[ColumnElement[str]] = [bindparam(f"id_{n}") for n in numbers]
    no_job = (_constant("").label("work"), _constant("").label("id"))
    limits = select(_kind(_LIMITS), quotas.c.tenant, *no_job, *_LIMIT_COLUMNS)
    columns = (jobs.c.tenant, jobs.c.work, jobs.c.id, *none)
    same_id = select(_kind(_SAME_ID), *columns).where(jobs.c.id.in_(ids))
    unusable = [_constant(state.value) for state in (JobState.FAILED, JobState.CANCELLED)]
    usable = jobs.c.state.not_in(unusable) & (jobs.c.command != _constant("cancel"))
    newest = select(_kind(_SAME_WORK), *columns).order_by(jobs.c.created.desc(), jobs.c.id.desc()).limit(1)
    conditions = [(jobs.c.tenant == bindparam(f"tenant_{n}"), jobs.c.work == bindparam(f"work_{n}")) for n in numbers]
    of_works = (select(newest.where(*each, usable).subquery()) for each in conditions)
    return union_all(limits.where(quotas.c.tenant.in_(names)), same_id, *of_works)


def _kind(number: int) -> ColumnElement[int]:
    return literal_column(str(number), Integer).label("kind")


def _constant(value: str) -> ColumnElement[str]:
    """A text that is part of the statement. SQLAlchemy has a parameter for each value, which takes time each time."""
    return literal_column(f"'{value}'", String)
