"""`Registry`: what belongs to tenants: tables, tokens, quotas, and jobs as their owners ask for them and see them.

A tenant finds its own rows only; where a tenant may be None, that stands for all of them.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from typing import Any, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Table,
    delete,
    func,
    insert,
    literal,
    select,
    text,
    tuple_,
    update,
)

from maabo_dist.contract.job import JobSpec, JobState
from maabo_dist.errors import InputError
from scheduler.ledger.database import Database, DuplicateError
from scheduler.ledger.jobs import JOB_COLUMNS, OPEN, JobRow, forget_jobs, new_row, read_job, readable_jobs
from scheduler.ledger.schema import datasets, jobs, keys, quotas, tokens

ATTEMPTS = 5
_WAITING = (JobState.QUEUED, JobState.PAUSED)

Row = TypeVar("Row")


class QuotaError(InputError):
    """A tenant has as much as it may have."""

    kind = "quota-exceeded"

    def __init__(self, what: str, limit: int, found: int) -> None:
        said, remedy = _QUOTA_WORDS[what]
        super().__init__(f"The quota of {limit:,} {said} is used up: {found:,} would be too many.", remedy=remedy)
        self.what, self.limit, self.found = what, limit, found


_QUOTA_WORDS = {
    "queued": ("jobs at a time", "Wait until some jobs have ended, or cancel some."),
    "bytes": ("bytes of tables", "Delete tables that are not needed any more."),
    "trees": ("trees in a job", "Ask for fewer trees."),
}


class KeyReusedError(InputError):
    """An idempotency key came again with another document."""

    kind = "key-reused"

    def __init__(self, key: str, job: str) -> None:
        super().__init__(
            f"The idempotency key {key[:80]!r} was used for another document, that of job {job}.",
            field="Idempotency-Key",
            remedy="Use another key for another job, or send the first document again.",
        )
        self.key, self.job = key, job


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """A raw table; `tables/<digest>` in the store."""

    id: str
    tenant: str
    name: str
    digest: str
    """SHA-256 of the file."""
    format: str
    size: int
    rows: int
    columns: int
    description: dict[str, Any]
    """What anyone who may see the table is told of it."""
    created: float


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token, by the SHA-256 of its secret."""

    id: str
    tenant: str
    name: str
    hash: str
    scopes: frozenset[str]
    created: float
    expires: float | None
    revoked: float | None


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """What a tenant may have; None for no limit."""

    tenant: str
    queued: int | None = None
    """Jobs that wait (those that are paused too)."""
    running: int | None = None
    """Jobs that run side by side; more of them wait."""
    bytes: int | None = None
    trees: int | None = None
    """In one job."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that was asked for: a new one, or one that was there."""

    job: str
    created: bool


class Registry:
    """Each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    # Tables.

    def add_dataset(self, row: DatasetRow) -> None:
        """Note a table that is in the store, if its tenant has room for it."""
        with self._database.write() as connection:
            _one_at_a_time(connection, f"tenant {row.tenant}")
            _add_dataset(connection, row)

    def keep_dataset(self, row: DatasetRow) -> DatasetRow:
        """The same, unless the tenant has a table of the same content: then that is the one."""
        with self._database.write() as connection:
            _one_at_a_time(connection, f"tenant {row.tenant}")
            _one_at_a_time(connection, f"table {row.digest}")
            found = connection.execute(_same_file(row.tenant, row.digest)).mappings().first()
            if found is not None:
                return _dataset(found)
            _add_dataset(connection, row)
        return row

    def remove_unnamed(self, digest: str, remove: Callable[[], None]) -> bool:
        """Call `remove` if no row names the file, while none can be added that does."""
        named = select(datasets.c.id).where(datasets.c.digest == digest).limit(1)
        with self._database.write() as connection:
            _one_at_a_time(connection, f"table {digest}")
            if connection.execute(named).first() is not None:
                return False
            remove()
        return True

    def dataset(self, tenant: str | None, dataset: str) -> DatasetRow | None:
        """One table."""
        found = self._rows(select(datasets).where(datasets.c.id == dataset, *_of(datasets, tenant)))
        return _dataset(found[0]) if found else None

    def dataset_of(self, tenant: str, digest: str) -> DatasetRow | None:
        """The tenant's table of this content."""
        found = self._rows(_same_file(tenant, digest))
        return _dataset(found[0]) if found else None

    def datasets(self, tenant: str | None, after: str | None = None, most: int = 100) -> list[DatasetRow]:
        """Tables in the order of their ids, from the one after this id on; without descriptions, which are long."""
        short = [column for column in datasets.c if column.name != "description"]
        query = select(*short, literal("{}").label("description"))
        query = query.where(*_of(datasets, tenant), *([] if after is None else [datasets.c.id > after]))
        return [_dataset(row) for row in self._rows(query.order_by(datasets.c.id).limit(most))]

    def delete_dataset(self, tenant: str | None, dataset: str) -> bool:
        """Forget a table; jobs on it go on, and the file goes from the store when no other row names it."""
        gone = delete(datasets).where(datasets.c.id == dataset, *_of(datasets, tenant))
        with self._database.write() as connection:
            return bool(connection.execute(gone).rowcount)

    def bytes_stored(self, tenant: str) -> int:
        """The size of all tables of a tenant."""
        with self._database.read() as connection:
            return _bytes(connection, tenant)

    # Tokens.

    def add_token(self, row: TokenRow) -> None:
        """Note a token; its secret stays with whoever made it."""
        with self._database.write() as connection:
            connection.execute(insert(tokens).values(asdict(row) | {"scopes": " ".join(sorted(row.scopes))}))

    def token_by_hash(self, digest: str) -> TokenRow | None:
        """The token of this hash, be it valid or not."""
        found = self._rows(select(tokens).where(tokens.c.hash == digest))
        return _token(found[0]) if found else None

    def tokens(self, tenant: str | None) -> list[TokenRow]:
        """All of a tenant's, oldest first."""
        query = select(tokens).where(*_of(tokens, tenant)).order_by(tokens.c.created, tokens.c.id)
        return [_token(row) for row in self._rows(query)]

    def revoke(self, token: str, now: float, tenant: str | None = None) -> bool:
        """From now on the token is of no use; False if there is none that was."""
        valid = update(tokens).where(tokens.c.id == token, tokens.c.revoked.is_(None), *_of(tokens, tenant))
        with self._database.write() as connection:
            return bool(connection.execute(valid.values(revoked=now)).rowcount)

    def any_token(self) -> bool:
        """Whether a token was ever made."""
        return bool(self._rows(select(tokens.c.id).limit(1)))

    # Quotas.

    def quota(self, tenant: str) -> QuotaRow:
        """What a tenant may have; without limits unless some were set."""
        with self._database.read() as connection:
            return _quota(connection, tenant)

    def set_quota(self, row: QuotaRow) -> None:
        """From now on; what is there already stays."""
        with self._database.write() as connection:
            _one_at_a_time(connection, f"tenant {row.tenant}")
            connection.execute(delete(quotas).where(quotas.c.tenant == row.tenant))
            connection.execute(insert(quotas).values(asdict(row)))

    # Jobs.

    def submit(
        self,
        spec: JobSpec,
        now: float,
        *,
        key: str | None = None,
        body: str = "",
        same: str | None = None,
        fresh: bool = False,
        trees: int | None = None,
    ) -> Submitted:
        """Queue a job, or find the one that was asked for before.

        `key` is an idempotency key and `body` the SHA-256 of what came with it: again with the same body it stands for
        the same job, with another one it is refused. `same` tells jobs of equal results (`spec.work` if it is not
        given): one that has not failed and was not cancelled is found again unless the job is to be `fresh`. Where
        `trees` is given, it is what the job would grow, for the quota.
        """
        for _ in range(ATTEMPTS - 1):
            with suppress(DuplicateError):  # the same at the same moment, through another process
                return self._submit(spec, now, key, body, same or spec.work, fresh=fresh, trees=trees)
        return self._submit(spec, now, key, body, same or spec.work, fresh=fresh, trees=trees)

    def _submit(
        self,
        spec: JobSpec,
        now: float,
        key: str | None,
        body: str,
        same: str,
        *,
        fresh: bool,
        trees: int | None,
    ) -> Submitted:
        with self._database.write() as connection:
            _one_at_a_time(connection, f"tenant {spec.tenant}")
            if key is not None and (job := _job_of_key(connection, spec.tenant, key, body)) is not None:
                return Submitted(job, created=False)
            job = _known(connection, spec, None if fresh else same)
            if job is None:
                _check_quota(connection, spec.tenant, trees)
                connection.execute(insert(jobs).values(new_row(spec, now) | {"same": same}))
            if key is not None:
                connection.execute(insert(keys).values(tenant=spec.tenant, key=key, body=body, job=job or spec.id))
        return Submitted(job or spec.id, created=job is None)

    def job_of_key(self, tenant: str, key: str, body: str) -> str | None:
        """The job that this idempotency key stands for, if it came before."""
        with self._database.read() as connection:
            return _job_of_key(connection, tenant, key, body)

    def job(self, tenant: str | None, job: str) -> JobRow | None:
        """One job."""
        found = self._rows(select(*JOB_COLUMNS).where(jobs.c.id == job, *_of(jobs, tenant)))
        return read_job(found[0]) if found else None

    def list_jobs(
        self,
        tenant: str | None,
        *,
        state: JobState | None = None,
        dataset: str | None = None,
        after: tuple[float, str] | None = None,
        most: int = 100,
    ) -> list[JobRow]:
        """Newest first, from the one after (created, id) on."""
        query = select(*JOB_COLUMNS).where(*_of(jobs, tenant))
        if state is not None:
            query = query.where(jobs.c.state == state.value)
        if dataset is not None:
            query = query.where(jobs.c.dataset == dataset)
        if after is not None:
            query = query.where(tuple_(jobs.c.created, jobs.c.id) < tuple_(*after))
        return readable_jobs(self._rows(query.order_by(jobs.c.created.desc(), jobs.c.id.desc()).limit(most)))

    def delete_job(self, tenant: str | None, job: str) -> bool:
        """Forget a job that has ended, with its result and its idempotency keys; False if there is no such job."""
        ended = select(jobs.c.id).where(jobs.c.id == job, jobs.c.finished.is_not(None), *_of(jobs, tenant))
        with self._database.write() as connection:
            found = list(connection.execute(ended.with_for_update()).scalars())
            if found:
                forget_jobs(connection, found)
        return bool(found)

    def _rows(self, query: Select[Any]) -> Sequence[Any]:
        with self._database.read() as connection:
            return connection.execute(query).mappings().all()


def _of(table: Table, tenant: str | None) -> list[ColumnElement[bool]]:
    return [] if tenant is None else [table.c.tenant == tenant]


def _one_at_a_time(connection: Connection, what: str) -> None:
    """What a tenant has must not change between look and write. SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        number = int.from_bytes(sha256(what.encode()).digest()[:8], "big", signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


def _same_file(tenant: str, digest: str) -> Select[Any]:
    same = select(datasets).where(datasets.c.tenant == tenant, datasets.c.digest == digest)
    return same.order_by(datasets.c.id).limit(1)


def _add_dataset(connection: Connection, row: DatasetRow) -> None:
    limit = _quota(connection, row.tenant).bytes
    size = _bytes(connection, row.tenant) + row.size
    if limit is not None and size > limit:
        raise QuotaError("bytes", limit, size)
    values = asdict(row) | {"description": json.dumps(row.description)}
    connection.execute(insert(datasets).values(values))


def _job_of_key(connection: Connection, tenant: str, key: str, body: str) -> str | None:
    query = select(keys.c.body, keys.c.job).where(keys.c.tenant == tenant, keys.c.key == key)
    found = connection.execute(query).first()
    if found is not None and found.body != body:
        raise KeyReusedError(key, found.job)
    return None if found is None else str(found.job)


def _known(connection: Connection, spec: JobSpec, same: str | None) -> str | None:
    """The job of this id, or one that does the same."""
    mine = select(jobs.c.id).where(jobs.c.tenant == spec.tenant)
    found = connection.execute(mine.where(jobs.c.id == spec.id)).scalar()
    if found is None and same is not None:
        of_use = jobs.c.state.not_in([JobState.FAILED, JobState.CANCELLED]) & (jobs.c.wanted != "cancel")
        newest = mine.where(jobs.c.same == same, of_use).order_by(jobs.c.created.desc(), jobs.c.id.desc()).limit(1)
        found = connection.execute(newest).scalar()
    return None if found is None else str(found)


def _check_quota(connection: Connection, tenant: str, trees: int | None) -> None:
    """Jobs that may run do not count as waiting, even if they have not begun yet."""
    quota = _quota(connection, tenant)
    if quota.trees is not None and trees is not None and trees > quota.trees:
        raise QuotaError("trees", quota.trees, trees)
    if quota.queued is None:
        return
    states = _WAITING if quota.running is None else {*_WAITING, *OPEN}
    counted = select(func.count()).where(jobs.c.tenant == tenant, jobs.c.finished.is_(None), jobs.c.state.in_(states))
    limit, found = quota.queued + (quota.running or 0), connection.execute(counted).scalar_one() + 1
    if found > limit:
        raise QuotaError("queued", limit, found)


def _quota(connection: Connection, tenant: str) -> QuotaRow:
    found = connection.execute(select(quotas).where(quotas.c.tenant == tenant)).mappings().first()
    return QuotaRow(tenant) if found is None else _row(QuotaRow, found)


def _bytes(connection: Connection, tenant: str) -> int:
    total = select(func.coalesce(func.sum(datasets.c.size), 0)).where(datasets.c.tenant == tenant)
    return int(connection.execute(total).scalar_one())


def _dataset(row: Any) -> DatasetRow:
    return _row(DatasetRow, row, description=json.loads(row["description"]))


def _token(row: Any) -> TokenRow:
    return _row(TokenRow, row, scopes=frozenset(row["scopes"].split()))


def _row(kind: type[Row], row: Any, **changed: object) -> Row:
    values = {field.name: row[field.name] for field in fields(kind)}  # type: ignore[arg-type]  # rows are dataclasses
    return kind(**values | changed)
