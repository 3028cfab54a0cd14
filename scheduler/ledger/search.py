"""`SearchState`, `Screens` and `Shuffles`: what running jobs have proposed, sent and answered; and the end of jobs."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Table, delete, insert, select

from maabo_dist.contract.job import JobState
from scheduler.ledger.database import Database, LedgerTopic, upsert
from scheduler.ledger.jobs import Segment, delete_search
from scheduler.ledger.leases import Lease, fenced
from scheduler.ledger.schema import batches, blocks, results, screens, shuffle_plans, shuffles, tasks

END = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task as it was last sent."""

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


@dataclass(frozen=True, slots=True)
class BlockRow:
    """A block of a screen: pairs, or triples, as `screen_blocks` numbers them."""

    start: int
    stop: int
    # The last attempt sent; None before the first.
    attempt: int | None = None
    # The answer, packed; None before it arrives.
    pairs: bytes | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ShuffleRow:
    """Searches start … stop − 1 on shuffled labels."""

    start: int
    stop: int
    # The last attempt sent; None before the first.
    attempt: int | None = None
    # The answer, packed; None before it arrives.
    searches: bytes | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ShufflePlanRow:
    """The searches on shuffled labels that a job may need."""

    count: int
    undecided: float | None


Row = TypeVar("Row", TaskRow, ResultRow, BatchRow, BlockRow, ShuffleRow, ShufflePlanRow)


def _stream(
    database: Database, row: type[Row], table: Table, job: str, *conditions: ColumnElement[bool], order: list[Any]
) -> Iterator[Row]:
    """The rows of a job, a few at a time: they may not all fit into memory."""
    query = select(*(table.c[name] for name in row.__slots__)).where(table.c.job == job, *conditions).order_by(*order)
    with database.snapshot() as connection:
        for values in connection.execute(query, execution_options={"yield_per": 50}):
            yield row(*values)


_UPSERT_TASK = upsert(tasks, "attempt", "issued")


class SearchState(LedgerTopic):
    """Reads and writes searches."""

    def write(
        self,
        lease: Lease,
        now: float,
        columns: Mapping[str, object] = MappingProxyType({}),
        *,
        new_batches: Iterable[BatchRow] = (),
        new_results: Iterable[ResultRow] = (),
        sent: Iterable[TaskRow] = (),
    ) -> None:
        """Write the progress of a job, with some columns of the job itself.

        Batches and tasks are written before they are sent, answers before they are acknowledged.
        """
        with fenced(self._database, lease, now, **columns) as connection:
            for table, rows in ((batches, new_batches), (results, new_results)):
                values = [{"job": lease.job} | asdict(row) for row in rows]
                if values:
                    connection.execute(insert(table), values)
            issued = [{"job": lease.job, "issued": now} | asdict(row) for row in sent]
            if issued:
                connection.execute(_UPSERT_TASK[connection.dialect.name], issued)

    def write_segments(self, lease: Lease, now: float, segments: Sequence[Segment]) -> None:
        """Record which tree segments are in the store."""
        listed = json.dumps([[segment.digest, segment.until] for segment in segments])
        self.write(lease, now, {"segments": listed})

    def end_job(self, lease: Lease, now: float, state: JobState, **columns: object) -> None:
        """Record the end of a job, and delete what only its search needed."""
        columns |= {"state": state.value, "finished": now, "lease_until": 0.0}
        with fenced(self._database, lease, now, **columns) as connection:
            delete_search(connection, [lease.job])

    def batches(self, job: str, first: int = 0, until: int = END) -> Iterator[BatchRow]:
        """Batches first … until − 1 of a job, in order."""
        numbers = (batches.c.number >= first, batches.c.number < until)
        return _stream(self._database, BatchRow, batches, job, *numbers, order=[batches.c.number])

    def results(self, job: str, first: int = 0, until: int = END) -> Iterator[ResultRow]:
        """The answers to batches first … until − 1, in the order of their subsets."""
        numbers = (results.c.batch >= first, results.c.batch < until)
        return _stream(self._database, ResultRow, results, job, *numbers, order=[results.c.batch, results.c.start])

    def tasks(self, job: str) -> list[TaskRow]:
        """Tasks as they were last sent, the newest first."""
        newest_first = [tasks.c.issued.desc(), tasks.c.batch, tasks.c.start]
        return list(_stream(self._database, TaskRow, tasks, job, order=newest_first))


_UPSERT_BLOCK = upsert(blocks, "attempt", "pairs", "seconds")


class Screens(LedgerTopic):
    """Reads and writes screens."""

    def write_blocks(
        self, lease: Lease, now: float, rows: Iterable[BlockRow], columns: Mapping[str, object] = MappingProxyType({})
    ) -> None:
        """Write blocks: before the first is sent, before each is sent, and before an answer is acknowledged."""
        values = [{"job": lease.job} | asdict(row) for row in rows]
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
        return list(_stream(self._database, BlockRow, blocks, job, order=[blocks.c.start]))

    def screen(self, job: str) -> bytes | None:
        """The complete screen, or None."""
        with self._database.read() as connection:
            screen: bytes | None = connection.execute(select(screens.c.screen).where(screens.c.job == job)).scalar()
        return screen


_UPSERT_SHUFFLES = upsert(shuffles, "attempt", "searches", "seconds")


class Shuffles(LedgerTopic):
    """Reads and writes searches on shuffled labels."""

    def write_plan(self, lease: Lease, now: float, plan: ShufflePlanRow, rows: Iterable[ShuffleRow]) -> None:
        """Write the plan and its tasks, before the first is sent."""
        with fenced(self._database, lease, now) as connection:
            connection.execute(insert(shuffle_plans).values(job=lease.job, **asdict(plan)))
            connection.execute(insert(shuffles), [{"job": lease.job} | asdict(row) for row in rows])

    def write(
        self, lease: Lease, now: float, rows: Iterable[ShuffleRow], columns: Mapping[str, object] = MappingProxyType({})
    ) -> None:
        """Write tasks before they are sent, and answers before they are acknowledged."""
        values = [{"job": lease.job} | asdict(row) for row in rows]
        with fenced(self._database, lease, now, **columns) as connection:
            if values:
                connection.execute(_UPSERT_SHUFFLES[connection.dialect.name], values)

    def plan(self, job: str) -> ShufflePlanRow | None:
        """The plan of a job, or None."""
        rows = list(_stream(self._database, ShufflePlanRow, shuffle_plans, job, order=[shuffle_plans.c.job]))
        return rows[0] if rows else None

    def rows(self, job: str) -> list[ShuffleRow]:
        """The tasks of a job, in order."""
        return list(_stream(self._database, ShuffleRow, shuffles, job, order=[shuffles.c.start]))
