"""Rows of a search: its batches, the tasks that were sent, and the answers; how they are written and read."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, delete, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from scheduler.ledger.schema import batches, blocks, results, screens, tasks

_IN_PIECES = {"yield_per": 50}
"""Rows read at once where all of them are too many for memory."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task as it was sent last."""

    batch: int
    start: int
    stop: int
    attempt: int


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The trees of subsets start … stop − 1 of a batch, or why the one subset failed."""

    batch: int
    start: int
    stop: int
    trees: bytes
    reason: str | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A batch of subsets, packed."""

    number: int
    subsets: bytes


def upsert(table: Table, *changing: str) -> dict[str, Any]:
    """By dialect. A task or block that is sent again has its row already."""
    found: dict[str, Any] = {}
    for name, insert_into in (("sqlite", sqlite.insert), ("postgresql", postgresql.insert)):
        statement = insert_into(table)
        fresh = {column: statement.excluded[column] for column in changing}
        found[name] = statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=fresh)
    return found


def plain(row: Any) -> dict[str, Any]:
    """A row's values by the names of their columns."""
    return {name: getattr(row, name) for name in row.__slots__}


_UPSERT_TASK = upsert(tasks, "attempt", "issued")


def insert_search(
    connection: Connection, job: str, new_batches: Iterable[BatchRow], new_results: Iterable[ResultRow]
) -> None:
    """What was proposed, and what was answered."""
    rows = {batches: new_batches, results: new_results}
    for table, fresh in rows.items():
        written = [{"job": job} | plain(row) for row in fresh]
        if written:
            connection.execute(insert(table), written)


def upsert_tasks(connection: Connection, job: str, sent: Iterable[TaskRow], now: float) -> None:
    """What is about to be sent."""
    issued = [{"job": job, "issued": now} | plain(row) for row in sent]
    if issued:
        connection.execute(_UPSERT_TASK[connection.dialect.name], issued)


def read_batches(connection: Connection, job: str, first: int, until: int) -> Iterator[BatchRow]:
    """Batches first … until − 1 in order."""
    query = (
        select(batches.c.number, batches.c.subsets)
        .where(batches.c.job == job, batches.c.number >= first, batches.c.number < until)
        .order_by(batches.c.number)
    )
    for number, subsets in connection.execute(query, execution_options=_IN_PIECES):
        yield BatchRow(number, bytes(subsets))


def read_results(connection: Connection, job: str, first: int, until: int) -> Iterator[ResultRow]:
    """The answers to batches first … until − 1, in the order of their subsets."""
    query = (
        select(*(results.c[name] for name in ("batch", "start", "stop", "trees", "reason", "seconds")))
        .where(results.c.job == job, results.c.batch >= first, results.c.batch < until)
        .order_by(results.c.batch, results.c.start)
    )
    for batch, start, stop, trees, reason, seconds in connection.execute(query, execution_options=_IN_PIECES):
        yield ResultRow(batch, start, stop, bytes(trees), reason, seconds)


def read_tasks(connection: Connection, job: str) -> list[TaskRow]:
    """Tasks as they were sent last, the newest first."""
    query = select(tasks.c.batch, tasks.c.start, tasks.c.stop, tasks.c.attempt).where(tasks.c.job == job)
    found = connection.execute(query.order_by(tasks.c.issued.desc(), tasks.c.batch, tasks.c.start))
    return [TaskRow(*row) for row in found]


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
