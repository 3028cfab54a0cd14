"""`SearchState`: what the ledger stores of a running search: batches, sent tasks, answers, and the job's end."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from sqlalchemy import insert, select

from maabo_dist.contract.job import JobState
from scheduler.ledger.database import LedgerTopic, row_values, upsert
from scheduler.ledger.jobs import Segment, delete_search
from scheduler.ledger.leases import Lease, fenced
from scheduler.ledger.schema import batches, results, tasks

END = 2**31 - 1
# For queries whose rows may not all fit into memory.
_STREAMED = {"yield_per": 50}


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
                values = [{"job": lease.job} | row_values(row) for row in rows]
                if values:
                    connection.execute(insert(table), values)
            issued = [{"job": lease.job, "issued": now} | row_values(row) for row in sent]
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
        query = (
            select(batches.c.number, batches.c.subsets)
            .where(batches.c.job == job, batches.c.number >= first, batches.c.number < until)
            .order_by(batches.c.number)
        )
        with self._database.read() as connection:
            for number, subsets in connection.execute(query, execution_options=_STREAMED):
                yield BatchRow(number, bytes(subsets))

    def results(self, job: str, first: int = 0, until: int = END) -> Iterator[ResultRow]:
        """The answers to batches first … until − 1, in the order of their subsets."""
        query = (
            select(*(results.c[name] for name in ResultRow.__slots__))
            .where(results.c.job == job, results.c.batch >= first, results.c.batch < until)
            .order_by(results.c.batch, results.c.start)
        )
        with self._database.read() as connection:
            for batch, start, stop, trees, reason, seconds in connection.execute(query, execution_options=_STREAMED):
                yield ResultRow(batch, start, stop, bytes(trees), reason, seconds)

    def tasks(self, job: str) -> list[TaskRow]:
        """Tasks as they were last sent, the newest first."""
        query = select(*(tasks.c[name] for name in TaskRow.__slots__)).where(tasks.c.job == job)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(tasks.c.issued.desc(), tasks.c.batch, tasks.c.start))
            return [TaskRow(*row) for row in rows]
