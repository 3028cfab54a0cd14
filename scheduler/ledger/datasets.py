"""`Datasets`: the uploaded tables of tenants; their files are in the store."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, literal, select

from scheduler.ledger.database import LedgerTopic, lock, of_tenant
from scheduler.ledger.schema import datasets
from scheduler.ledger.tenants import QuotaError, read_quota


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
                return _read(existing)
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

    def get(self, tenant: str | None, dataset: str) -> DatasetRow | None:
        """Return one table, or None."""
        rows = self._database.rows(select(datasets).where(datasets.c.id == dataset, *of_tenant(datasets, tenant)))
        return _read(rows[0]) if rows else None

    def find_by_digest(self, tenant: str, digest: str) -> DatasetRow | None:
        """Return the tenant's table of this content, or None."""
        rows = self._database.rows(_select_by_digest(tenant, digest))
        return _read(rows[0]) if rows else None

    def page(self, tenant: str | None, after: str | None = None, limit: int = 100) -> list[DatasetRow]:
        """Return tables ordered by id, starting after this id; without their descriptions, which are long."""
        short = [column for column in datasets.c if column.name != "description"]
        query = select(*short, literal("{}").label("description"))
        query = query.where(*of_tenant(datasets, tenant), *([] if after is None else [datasets.c.id > after]))
        return [_read(row) for row in self._database.rows(query.order_by(datasets.c.id).limit(limit))]

    def delete(self, tenant: str | None, dataset: str) -> bool:
        """Delete a table. Jobs on it go on; the file is removed from the store when no other row refers to it."""
        one = delete(datasets).where(datasets.c.id == dataset, *of_tenant(datasets, tenant))
        with self._database.write() as connection:
            return bool(connection.execute(one).rowcount)

    def bytes_stored(self, tenant: str) -> int:
        """The total size of a tenant's tables."""
        with self._database.read() as connection:
            return _sum_sizes(connection, tenant)


def _select_by_digest(tenant: str, digest: str) -> Select[Any]:
    same = select(datasets).where(datasets.c.tenant == tenant, datasets.c.digest == digest)
    return same.order_by(datasets.c.id).limit(1)


def _insert(connection: Connection, row: DatasetRow) -> None:
    limit = read_quota(connection, row.tenant).bytes
    size = _sum_sizes(connection, row.tenant) + row.size
    if limit is not None and size > limit:
        raise QuotaError("bytes", limit, size)
    values = asdict(row) | {"description": json.dumps(row.description)}
    connection.execute(insert(datasets).values(values))


def _sum_sizes(connection: Connection, tenant: str) -> int:
    total = select(func.coalesce(func.sum(datasets.c.size), 0)).where(datasets.c.tenant == tenant)
    return int(connection.execute(total).scalar_one())


def _read(row: Any) -> DatasetRow:
    return DatasetRow(**{**row, "description": json.loads(row["description"])})
