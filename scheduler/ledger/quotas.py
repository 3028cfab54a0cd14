"""`Quotas`: limits per tenant."""

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, insert, select

from maabo_dist.errors import InputError
from scheduler.ledger.database import LedgerTopic, lock, read_row
from scheduler.ledger.schema import quotas


class QuotaError(InputError):
    """A tenant's quota is used up."""

    kind = "quota-exceeded"

    def __init__(self, what: str, limit: int, number: int) -> None:
        unit, remedy = _UNITS[what]
        super().__init__(f"The quota of {limit:,} {unit} is used up: {number:,} would be too many.", remedy=remedy)
        self.what, self.limit, self.number = what, limit, number


_UNITS = {
    "queued": ("jobs at a time", "Wait until some jobs have ended, or cancel some."),
    "bytes": ("bytes of tables", "Delete tables that are not needed any more."),
    "trees": ("trees in a job", "Ask for fewer trees."),
}


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
        """Return a tenant's limits; none unless they were set."""
        with self._database.read() as connection:
            return read_quota(connection, tenant)

    def set(self, row: QuotaRow) -> None:
        """Replace a tenant's limits; existing jobs and tables stay."""
        with self._database.write() as connection:
            lock(connection, f"tenant {row.tenant}")
            connection.execute(delete(quotas).where(quotas.c.tenant == row.tenant))
            connection.execute(insert(quotas).values(asdict(row)))


def read_quota(connection: Connection, tenant: str) -> QuotaRow:
    """Return a tenant's limits within a transaction."""
    row = connection.execute(select(quotas).where(quotas.c.tenant == tenant)).mappings().first()
    return QuotaRow(tenant) if row is None else read_row(QuotaRow, row)
