"""`Screens`: the pairwise screens of jobs, in blocks while they are computed and whole afterwards."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sqlalchemy import delete, insert, select

from scheduler.ledger.database import LedgerTopic, row_values, upsert
from scheduler.ledger.leases import Lease, fenced
from scheduler.ledger.schema import blocks, screens


@dataclass(frozen=True, slots=True)
class BlockRow:
    """A block of a screen: pairs whose first feature is one of start … stop − 1."""

    start: int
    stop: int
    # The last attempt sent; None before the first.
    attempt: int | None = None
    # The answer, packed; None before it arrives.
    pairs: bytes | None = None
    seconds: float = 0.0


_UPSERT_BLOCK = upsert(blocks, "attempt", "pairs", "seconds")


class Screens(LedgerTopic):
    """Reads and writes screens."""

    def write_blocks(
        self, lease: Lease, now: float, rows: Iterable[BlockRow], columns: Mapping[str, object] = MappingProxyType({})
    ) -> None:
        """Write blocks: before the first is sent, before each is sent, and before an answer is acknowledged."""
        values = [{"job": lease.job} | row_values(row) for row in rows]
        with fenced(self._database, lease, now, **columns) as connection:
            if values:
                connection.execute(_UPSERT_BLOCK[connection.dialect.name], values)

    def write_screen(
        self, lease: Lease, now: float, screen: bytes, columns: Mapping[str, object] = MappingProxyType({})
    ) -> None:
        """Write the complete screen in place of its blocks."""
        with fenced(self._database, lease, now, **columns) as connection:
            connection.execute(delete(blocks).where(blocks.c.job == lease.job))
            connection.execute(insert(screens).values(job=lease.job, screen=screen))

    def blocks(self, job: str) -> list[BlockRow]:
        """The blocks of an unfinished screen, in order."""
        query = select(*(blocks.c[name] for name in BlockRow.__slots__)).where(blocks.c.job == job)
        with self._database.read() as connection:
            return [
                BlockRow(start, stop, attempt, None if pairs is None else bytes(pairs), seconds)
                for start, stop, attempt, pairs, seconds in connection.execute(query.order_by(blocks.c.start))
            ]

    def screen(self, job: str) -> bytes | None:
        """The complete screen, or None."""
        with self._database.read() as connection:
            screen = connection.execute(select(screens.c.screen).where(screens.c.job == job)).scalar()
        return None if screen is None else bytes(screen)
