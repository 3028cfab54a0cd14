"""Rows of a screen: its blocks while it is made, and the screen itself; how they are written and read."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from scheduler.schema import blocks, screens
from scheduler.search_rows import plain, upsert


@dataclass(frozen=True, slots=True)
class BlockRow:
    """A block of a screen: pairs whose first feature is one of start … stop − 1."""

    start: int
    stop: int
    attempt: int | None = None
    """As it was sent last; None before."""
    pairs: bytes | None = None
    """The answer, packed; None before it comes."""
    seconds: float = 0.0


_UPSERT_BLOCK = upsert(blocks, "attempt", "pairs", "seconds")


def upsert_blocks(connection: Connection, job: str, rows: Iterable[BlockRow]) -> None:
    """Blocks as they are now."""
    written = [{"job": job} | plain(row) for row in rows]
    if written:
        connection.execute(_UPSERT_BLOCK[connection.dialect.name], written)


def replace_blocks(connection: Connection, job: str, screen: bytes) -> None:
    """The screen of all blocks in their place."""
    connection.execute(delete(blocks).where(blocks.c.job == job))
    connection.execute(insert(screens).values(job=job, screen=screen))


def read_blocks(connection: Connection, job: str) -> list[BlockRow]:
    """The blocks of a screen under way, in their order."""
    query = select(*(blocks.c[name] for name in BlockRow.__slots__)).where(blocks.c.job == job)
    return [_block(row) for row in connection.execute(query.order_by(blocks.c.start))]


def read_screen(connection: Connection, job: str) -> bytes | None:
    """The screen, once it is made."""
    found = connection.execute(select(screens.c.screen).where(screens.c.job == job)).scalar()
    return None if found is None else bytes(found)


def _block(row: Any) -> BlockRow:
    return BlockRow(row.start, row.stop, row.attempt, None if row.pairs is None else bytes(row.pairs), row.seconds)
