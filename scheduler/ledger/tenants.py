"""`Quotas`, `Tokens` and `Datasets`: the limits of tenants, their access tokens and their uploaded tables.

Tokens look like `maabo_<id>_<secret>`. The ledger stores the SHA-256 of the whole token. The secret is long and random,
so a hash without salt reveals nothing about it.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from secrets import token_hex, token_urlsafe
from time import monotonic
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Select, bindparam, delete, func, insert, literal, select, update

from maabo_dist._util.text import format_names
from maabo_dist.contract.api import DIRECTORY
from maabo_dist.errors import InputError, SettingsError
from scheduler.ledger.audit import AuditEntry, append_entries
from scheduler.ledger.database import Database, LedgerTopic, lock, of_tenant
from scheduler.ledger.schema import datasets, jobs, prepared_columns, quotas, tokens


class QuotaError(InputError):
    """A tenant's quota is used up."""

    kind = "quota-exceeded"

    def __init__(self, what: str, limit: int, number: int) -> None:
        unit, remedy = _UNITS[what]
        super().__init__(f"The quota of {limit:,} {unit} is used up: {number:,} would be too many.", remedy=remedy)
        self.what, self.limit, self.number = what, limit, number


_UNITS = {
    "queued": ("jobs at a time", "Wait until some jobs have ended, or cancel some."),
    "bytes": ("bytes of tables", "Delete tables that are not needed; the columns prepared from them count too."),
    "trees": ("trees in a job", "Ask for fewer trees."),
}


# The limits of this tenant apply to all tenants without limits of their own.
EVERYONE = "*"


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """A tenant's limits; None for no limit."""

    tenant: str
    # Jobs that wait, paused ones included.
    queued: int | None = None
    # Jobs that run at the same time; others wait.
    running: int | None = None
    bytes: int | None = None
    # In one job.
    trees: int | None = None


class Quotas(LedgerTopic):
    """Reads and writes limits."""

    def get(self, tenant: str) -> QuotaRow:
        """Return a tenant's limits, or the default ones."""
        with self._database.read() as connection:
            return read_quota(connection, tenant)

    def set(self, row: QuotaRow) -> None:
        """Replace a tenant's limits; existing jobs and tables stay."""
        with self._database.write() as connection:
            lock(connection, f"tenant {row.tenant}")
            connection.execute(delete(quotas).where(quotas.c.tenant == row.tenant))
            connection.execute(insert(quotas).values(asdict(row)))


# Built once: to build a statement takes longer than to execute it.
_SELECT_QUOTAS = select(quotas).where(quotas.c.tenant.in_([bindparam("tenant"), bindparam("everyone")]))


def read_quota(connection: Connection, tenant: str) -> QuotaRow:
    """Return a tenant's limits within a transaction: its own, or those of EVERYONE, or none."""
    selected = connection.execute(_SELECT_QUOTAS, {"tenant": tenant, "everyone": EVERYONE}).mappings()
    return apply_defaults({row["tenant"]: QuotaRow(**row) for row in selected}, [tenant])[tenant]


def apply_defaults(rows: Mapping[str, QuotaRow], tenants: Collection[str]) -> dict[str, QuotaRow]:
    """Return the limits of tenants: their own, or those of EVERYONE, or none."""
    default = rows.get(EVERYONE, QuotaRow(EVERYONE))
    return {tenant: rows.get(tenant) or replace(default, tenant=tenant) for tenant in tenants}


# `submit` includes `read`; `admin` covers tokens and quotas only.
SCOPES = ("read", "submit", "admin")
_TOKEN = re.compile(r"maabo_[0-9a-f]{12}_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token, identified by the SHA-256 of its text."""

    id: str
    tenant: str
    name: str
    hash: str
    scopes: frozenset[str]
    created: float
    expires: float | None
    revoked: float | None

    def is_valid(self, now: float) -> bool:
        """True unless the token was revoked or has expired."""
        return self.revoked is None and (self.expires is None or now < self.expires)

    @property
    def public_fields(self) -> dict[str, Any]:
        """All fields but the hash."""
        fields = asdict(self) | {"scopes": sorted(self.scopes, key=SCOPES.index)}
        del fields["hash"]
        return fields


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token when it is created, the only moment at which its text is available."""

    text: str
    row: TokenRow


def make_token(tenant: str, scopes: frozenset[str], now: float, *, name: str, seconds: float | None) -> NewToken:
    """Make a token that expires after this many seconds, or never."""
    unknown = sorted(scopes - set(SCOPES))
    if unknown or not scopes:
        problem = f"Unknown scope {format_names(unknown)}." if unknown else "At least one scope is required."
        raise SettingsError(problem, field="scopes", remedy=f"Use {', '.join(SCOPES)}.")
    number = token_hex(6)
    text = f"maabo_{number}_{token_urlsafe(32)}"
    expires = None if seconds is None else now + seconds
    return NewToken(text, TokenRow(number, tenant, name, _hash(text), scopes, now, expires, None))


# A token or a table that was read this many seconds ago need not be read again.
RECENT_SECONDS, MAX_RECENT = 1.0, 10_000
Row = TypeVar("Row")


class RecentRows(Generic[Row]):
    """Rows that were read within the last second, by key."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[float, Row]] = {}

    def find(self, key: str) -> Row | None:
        """Return a row, unless it was read too long ago."""
        read, row = self._rows.get(key, (0.0, None))
        return row if monotonic() - read < RECENT_SECONDS else None

    def add(self, rows: Mapping[str, Row], read: float) -> None:
        """Add rows. `read` is the monotonic time before they were read."""
        if len(self._rows) >= MAX_RECENT:
            self._rows.clear()
        self._rows |= {key: (read, row) for key, row in rows.items()}


_SELECT_TOKENS = select(tokens).where(tokens.c.hash.in_(bindparam("hashes", expanding=True)))


class Tokens(LedgerTopic):
    """Reads and writes tokens. A `tenant` of None stands for all tenants."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        # By hash; replaced by a new one whenever a token is revoked.
        self._recent = RecentRows[TokenRow]()

    def add(self, row: TokenRow, entry: AuditEntry | None = None) -> None:
        """Store a token; its text is not stored."""
        with self._database.write() as connection:
            connection.execute(insert(tokens).values(asdict(row) | {"scopes": " ".join(sorted(row.scopes))}))
            append_entries(connection, entry)

    def find(self, text: str) -> TokenRow | None:
        """Return the token of this text, valid or not, or None."""
        return self.find_many([text]).get(text)

    def find_recent(self, text: str) -> TokenRow | None:
        """Return the token of this text if it was read within the last second, and none was revoked here since."""
        return self._recent.find(_hash(text))

    def find_many(self, texts: Sequence[str]) -> dict[str, TokenRow]:
        """Return the tokens of these texts, valid or not."""
        recent, now = self._recent, monotonic()
        digests = {text: _hash(text) for text in texts if _TOKEN.fullmatch(text.strip())}
        if not digests:
            return {}
        hashes = {"hashes": list(set(digests.values()))}
        with self._database.read() as connection:
            rows = {row["hash"]: _read_token(row) for row in connection.execute(_SELECT_TOKENS, hashes).mappings()}
        recent.add(rows, now)
        return {text: rows[digest] for text, digest in digests.items() if digest in rows}

    def of_tenant(self, tenant: str | None) -> list[TokenRow]:
        """Return the tokens of a tenant, oldest first."""
        query = select(tokens).where(*of_tenant(tokens, tenant)).order_by(tokens.c.created, tokens.c.id)
        return [_read_token(row) for row in self._database.rows(query)]

    def revoke(self, token: str, now: float, tenant: str | None = None, *, entry: AuditEntry | None = None) -> bool:
        """Revoke a token; False if there is none that is not revoked yet."""
        valid = update(tokens).where(tokens.c.id == token, tokens.c.revoked.is_(None), *of_tenant(tokens, tenant))
        with self._database.write() as connection:
            revoked = bool(connection.execute(valid.values(revoked=now)).rowcount)
            append_entries(connection, entry if revoked else None)
        self._recent = RecentRows()  # a reader that is under way fills the former one
        return revoked

    def any_exist(self) -> bool:
        """True if a token was ever made."""
        return bool(self._database.rows(select(tokens.c.id).limit(1)))


def _hash(text: str) -> str:
    return sha256(text.strip().encode()).hexdigest()


def _read_token(row: Any) -> TokenRow:
    return TokenRow(**{**row, "scopes": frozenset(row["scopes"].split())})


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """An uploaded table; `tables/<digest>` in the store."""

    id: str
    tenant: str
    name: str
    # SHA-256 of the file.
    digest: str
    format: str
    size: int
    rows: int
    columns: int
    # The description shown to users.
    description: dict[str, Any]
    created: float


class Datasets(LedgerTopic):
    """Reads and writes tables. A `tenant` of None stands for all tenants."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        # By id, without descriptions; replaced by a new one whenever a table is deleted. Nothing else changes tables.
        self._recent = RecentRows[DatasetRow]()

    def add(self, row: DatasetRow) -> None:
        """Add a table whose file is in the store, if the tenant's quota allows."""
        with self._database.write() as connection:
            lock(connection, f"tenant {row.tenant}")
            _insert(connection, row)

    def find_or_add(self, row: DatasetRow) -> DatasetRow:
        """Return the tenant's table of the same content, or add this one."""
        with self._database.write() as connection:
            lock(connection, f"tenant {row.tenant}")
            lock(connection, f"table {row.digest}")
            existing = connection.execute(_select_by_digest(row.tenant, row.digest)).mappings().first()
            if existing is not None:
                return _read_datasets(existing)
            _insert(connection, row)
        return row

    def remove_unused_file(self, digest: str, remove: Callable[[], None]) -> bool:
        """Call `remove` if no row refers to the file, while no such row can be added."""
        uses = select(datasets.c.id).where(datasets.c.digest == digest).limit(1)
        with self._database.write() as connection:
            lock(connection, f"table {digest}")
            if connection.execute(uses).first() is not None:
                return False
            remove()
        return True

    def add_columns(self, row: DatasetRow, fingerprint: str, size: int) -> bool:
        """Record columns of a table before they are stored, if the quota allows; return False if the table is gone."""
        columns = prepared_columns.c
        exists = select(datasets.c.id).where(datasets.c.id == row.id)
        known = select(columns.size).where(columns.dataset == row.id, columns.fingerprint == fingerprint)
        with self._database.write() as connection:
            lock(connection, f"tenant {row.tenant}")
            lock(connection, f"columns {fingerprint}")
            if connection.execute(exists).first() is None:
                return False
            if connection.execute(known).first() is None:
                _check_bytes(connection, row.tenant, size)
                values = {"dataset": row.id, "fingerprint": fingerprint, "tenant": row.tenant, "size": size}
                connection.execute(insert(prepared_columns).values(values))
        return True

    def columns_of(self, dataset: str) -> list[str]:
        """Return the fingerprints of the columns that were prepared from a table."""
        query = select(prepared_columns.c.fingerprint).where(prepared_columns.c.dataset == dataset)
        return [row["fingerprint"] for row in self._database.rows(query)]

    def remove_unused_columns(self, fingerprint: str, remove: Callable[[], None]) -> bool:
        """Call `remove` if no table and no unfinished job refers to the columns, while none can be added."""
        by_table = select(prepared_columns.c.dataset).where(prepared_columns.c.fingerprint == fingerprint)
        by_job = select(jobs.c.id).where(jobs.c.finished.is_(None), jobs.c.spec.contains(fingerprint))
        with self._database.write() as connection:
            lock(connection, f"columns {fingerprint}")
            if any(connection.execute(uses.limit(1)).first() is not None for uses in (by_table, by_job)):
                return False
            remove()
        return True

    def get(self, tenant: str | None, dataset: str) -> DatasetRow | None:
        """Return one table, or None."""
        rows = self._database.rows(select(datasets).where(datasets.c.id == dataset, *of_tenant(datasets, tenant)))
        return _read_datasets(rows[0]) if rows else None

    def get_many(self, ids: Collection[str]) -> dict[str, DatasetRow]:
        """Return those of these tables that exist, without their descriptions, which are long.

        A table that another process has deleted within the last second may be among them.
        """
        recent, now = self._recent, monotonic()
        tables = {each: row for each in ids if (row := recent.find(each)) is not None}
        missing = [each for each in ids if each not in tables]
        if missing:
            with self._database.read() as connection:
                rows = connection.execute(_SELECT_SHORT, {"ids": missing}).mappings()
                new = {row["id"]: _read_datasets(row) for row in rows}
            recent.add(new, now)
            tables |= new
        return tables

    def find_by_digest(self, tenant: str, digest: str) -> DatasetRow | None:
        """Return the tenant's table of this content, or None."""
        rows = self._database.rows(_select_by_digest(tenant, digest))
        return _read_datasets(rows[0]) if rows else None

    def page(self, tenant: str | None, after: str | None = None, limit: int = 100) -> list[DatasetRow]:
        """Return tables ordered by id, starting after this id; without their descriptions, which are long."""
        query = _select_short().where(*of_tenant(datasets, tenant), *([] if after is None else [datasets.c.id > after]))
        return [_read_datasets(row) for row in self._database.rows(query.order_by(datasets.c.id).limit(limit))]

    def delete(self, tenant: str | None, dataset: str) -> bool:
        """Delete a table. Jobs on it go on; the caller removes its files from the store."""
        one = delete(datasets).where(datasets.c.id == dataset, *of_tenant(datasets, tenant))
        with self._database.write() as connection:
            if not connection.execute(one).rowcount:
                return False
            connection.execute(delete(prepared_columns).where(prepared_columns.c.dataset == dataset))
        self._recent = RecentRows()  # a reader that is under way fills the former one
        return True

    def bytes_stored(self, tenant: str) -> int:
        """The total size of a tenant's tables and of the columns prepared from them."""
        with self._database.read() as connection:
            return _sum_sizes(connection, tenant)


def _select_short() -> Select[Any]:
    short = [column for column in datasets.c if column.name != "description"]
    return select(*short, literal("{}").label("description"))


_SELECT_SHORT = _select_short().where(datasets.c.id.in_(bindparam("ids", expanding=True)))


def _select_by_digest(tenant: str, digest: str) -> Select[Any]:
    same = select(datasets).where(datasets.c.tenant == tenant, datasets.c.digest == digest)
    return same.order_by(datasets.c.id).limit(1)


def _check_bytes(connection: Connection, tenant: str, more: int) -> None:
    limit = read_quota(connection, tenant).bytes
    if limit is not None and (size := _sum_sizes(connection, tenant) + more) > limit:
        raise QuotaError("bytes", limit, size)


def _insert(connection: Connection, row: DatasetRow) -> None:
    if row.format != DIRECTORY:
        _check_bytes(connection, row.tenant, row.size)
    values = asdict(row) | {"description": json.dumps(row.description)}
    connection.execute(insert(datasets).values(values))


def _sum_sizes(connection: Connection, tenant: str) -> int:
    total = 0
    for table in (datasets, prepared_columns):
        size = select(func.coalesce(func.sum(table.c.size), 0)).where(table.c.tenant == tenant)
        if table is datasets:  # directories are the operator's
            size = size.where(table.c.format != DIRECTORY)
        total += int(connection.execute(size).scalar_one())
    return total


def _read_datasets(row: Any) -> DatasetRow:
    return DatasetRow(**{**row, "description": json.loads(row["description"])})
