"""`Submissions`: jobs submitted over HTTP, with idempotency keys, reuse of equal jobs and quotas."""

from contextlib import suppress
from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select

from maabo_dist.contract.job import JobSpec, JobState
from maabo_dist.errors import InputError
from scheduler.ledger.audit import AuditEntry, append_entries
from scheduler.ledger.database import DuplicateError, LedgerTopic, lock
from scheduler.ledger.jobs import OPEN, UNENDED, new_row
from scheduler.ledger.schema import jobs, keys
from scheduler.ledger.tenants import QuotaError, read_quota

ATTEMPTS = 5
_WAITING = (JobState.QUEUED, JobState.PAUSED)


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


class Submissions(LedgerTopic):
    """Queues jobs for tenants."""

    def submit(
        self,
        spec: JobSpec,
        now: float,
        *,
        key: str | None = None,
        body: str = "",
        fresh: bool = False,
        trees: int | None = None,
        entry: AuditEntry | None = None,
    ) -> Submission:
        """Queue a job, or find the one that was submitted before.

        `key` is an idempotency key and `body` the SHA-256 of the request: the same key and body return the same job,
        the same key with another body is refused. A job of equal work that has not failed and was not cancelled is
        reused unless `fresh`. `trees` is the number of trees that the job would grow, for the quota. `entry` is added
        to the audit log if the job is new.
        """
        for _ in range(ATTEMPTS - 1):
            with suppress(DuplicateError):  # the same request at the same moment, through another process
                return self._submit(spec, now, key, body, entry, fresh=fresh, trees=trees)
        return self._submit(spec, now, key, body, entry, fresh=fresh, trees=trees)

    def _submit(
        self,
        spec: JobSpec,
        now: float,
        key: str | None,
        body: str,
        entry: AuditEntry | None,
        *,
        fresh: bool,
        trees: int | None,
    ) -> Submission:
        with self._database.write() as connection:
            lock(connection, f"tenant {spec.tenant}")
            if key is not None and (job := _find_by_key(connection, spec.tenant, key, body)) is not None:
                return Submission(job, created=False)
            job = _find_equal(connection, spec, fresh=fresh)
            if job is None:
                _check_quota(connection, spec.tenant, trees)
                connection.execute(insert(jobs).values(new_row(spec, now)))
                append_entries(connection, entry)
            if key is not None:
                connection.execute(insert(keys).values(tenant=spec.tenant, key=key, body=body, job=job or spec.id))
        return Submission(job or spec.id, created=job is None)

    def find_by_key(self, tenant: str, key: str, body: str) -> str | None:
        """The job that was submitted with this idempotency key, if any."""
        with self._database.read() as connection:
            return _find_by_key(connection, tenant, key, body)


def _find_by_key(connection: Connection, tenant: str, key: str, body: str) -> str | None:
    query = select(keys.c.body, keys.c.job).where(keys.c.tenant == tenant, keys.c.key == key)
    row = connection.execute(query).first()
    if row is not None and row.body != body:
        raise KeyReusedError(key, row.job)
    return None if row is None else str(row.job)


def _find_equal(connection: Connection, spec: JobSpec, *, fresh: bool) -> str | None:
    """The job of the same id or, unless `fresh`, a usable one of the same work."""
    of_tenant = select(jobs.c.id).where(jobs.c.tenant == spec.tenant)
    job = connection.execute(of_tenant.where(jobs.c.id == spec.id)).scalar()
    if job is None and not fresh:
        usable = jobs.c.state.not_in([JobState.FAILED, JobState.CANCELLED]) & (jobs.c.command != "cancel")
        newest = of_tenant.where(jobs.c.work == spec.work, usable).order_by(jobs.c.created.desc(), jobs.c.id.desc())
        job = connection.execute(newest.limit(1)).scalar()
    return None if job is None else str(job)


def _check_quota(connection: Connection, tenant: str, trees: int | None) -> None:
    """Jobs that may run do not count as waiting, even if they have not started yet."""
    quota = read_quota(connection, tenant)
    if quota.trees is not None and trees is not None and trees > quota.trees:
        raise QuotaError("trees", quota.trees, trees)
    if quota.queued is None:
        return
    states = _WAITING if quota.running is None else {*_WAITING, *OPEN}
    query = select(func.count()).where(jobs.c.tenant == tenant, UNENDED, jobs.c.state.in_(states))
    limit, number = quota.queued + (quota.running or 0), connection.execute(query).scalar_one() + 1
    if number > limit:
        raise QuotaError("queued", limit, number)
