"""`Audit`: an append-only log of who did what. The database refuses to change or delete its entries."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, insert, select

from scheduler.ledger.database import LedgerTopic
from scheduler.ledger.schema import audit

PAGE = 1000
_INSERT = insert(audit)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One action.

    `tenant` and `token` (the ID of a token) say who acted; both are None for commands on the ledger itself.
    """

    time: float
    action: str  # such as `job.submit`
    object: str  # ID of what it was done to
    tenant: str | None = None
    token: str | None = None
    address: str | None = None  # IP address of the client
    correlation: str | None = None  # ID of the request


@dataclass(frozen=True, slots=True)
class AuditRow(AuditEntry):
    """An entry of the log. Later entries have larger numbers."""

    number: int = 0


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries to return; None for all."""

    tenant: str | None = None
    token: str | None = None
    action: str | None = None
    object: str | None = None
    since: float | None = None
    until: float | None = None

    def apply(self, query: Select[Any]) -> Select[Any]:
        """Restrict a query."""
        for name in ("tenant", "token", "action", "object"):
            value = getattr(self, name)
            if value is not None:
                query = query.where(audit.c[name] == value)
        if self.since is not None:
            query = query.where(audit.c.time >= self.since)
        return query if self.until is None else query.where(audit.c.time < self.until)


class Audit(LedgerTopic):
    """Adds and reads entries."""

    def add(self, entry: AuditEntry) -> None:
        """Append an entry."""
        with self._database.write() as connection:
            append_entries(connection, entry)

    def page(self, chosen: AuditFilter, *, before: int | None = None, limit: int = PAGE) -> list[AuditRow]:
        """Return entries, newest first, starting before the one with this number."""
        query = chosen.apply(select(audit)).order_by(audit.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(audit.c.number < before)
        return [AuditRow(**row) for row in self._database.rows(query)]

    def export(self, chosen: AuditFilter) -> Iterator[AuditRow]:
        """Yield all entries, oldest first, a few at a time."""
        last = 0
        while True:
            query = chosen.apply(select(audit)).where(audit.c.number > last).order_by(audit.c.number).limit(PAGE)
            rows = [AuditRow(**row) for row in self._database.rows(query)]
            yield from rows
            if len(rows) < PAGE:
                return
            last = rows[-1].number


def append_entries(connection: Connection, *entries: AuditEntry | None) -> None:
    """Append entries in the transaction of the actions that they describe."""
    names = AuditEntry.__slots__
    values = [{name: getattr(entry, name) for name in names} for entry in entries if entry is not None]
    if values:
        connection.execute(_INSERT, values)
