"""`Passes`: the passes of running jobs over the rows of their datasets, and what their blocks have answered."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType

from sqlalchemy import Connection, delete, insert, select, update

from maabo_dist.contract.passes import PassPlan
from scheduler.ledger.database import LedgerTopic, upsert
from scheduler.ledger.leases import Lease, fenced
from scheduler.ledger.schema import pass_blocks, passes

_NO_COLUMNS: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PassRow:
    """A pass; its blocks are in the plan as long as it is not complete."""

    number: int
    plan: PassPlan
    # In the store; None until the pass is complete.
    results: str | None


@dataclass(frozen=True, slots=True)
class PassBlockRow:
    """Blocks start … stop − 1 of a pass, with so many rows."""

    number: int
    start: int
    stop: int
    size: int
    # The last attempt sent; None before the first.
    attempt: int | None = None
    # The answer; None before it arrives.
    answer: bytes | None = None
    seconds: float = 0.0


_UPSERT = upsert(pass_blocks, "attempt", "answer", "seconds")


class Passes(LedgerTopic):
    """Reads and writes passes."""

    def begin(
        self, lease: Lease, now: float, number: int, plan: PassPlan, columns: Mapping[str, object] = _NO_COLUMNS
    ) -> None:
        """Write a pass and its blocks, before the first is sent."""
        with fenced(self._database, lease, now, **columns) as connection:
            _insert(connection, lease.job, number, plan)

    def write(
        self, lease: Lease, now: float, rows: Iterable[PassBlockRow], columns: Mapping[str, object] = _NO_COLUMNS
    ) -> None:
        """Write blocks before they are sent, and answers before they are acknowledged."""
        values = [{"job": lease.job} | asdict(row) for row in rows]
        with fenced(self._database, lease, now, **columns) as connection:
            if values:
                connection.execute(_UPSERT[connection.dialect.name], values)

    def complete(
        self,
        lease: Lease,
        now: float,
        number: int,
        results: str,
        artifacts: Sequence[str] = (),
        following: PassPlan | None = None,
        columns: Mapping[str, object] = _NO_COLUMNS,
    ) -> None:
        """Write the results of a pass in place of its blocks, and the pass that follows it, if one does."""
        of_pass = (passes.c.job == lease.job, passes.c.number == number)
        with fenced(self._database, lease, now, **columns) as connection:
            known = json.loads(connection.execute(select(passes.c.artifacts).where(*of_pass)).scalar_one())
            values = {"results": results, "artifacts": json.dumps([*known, *artifacts])}
            connection.execute(update(passes).where(*of_pass).values(**values))
            done = (pass_blocks.c.job == lease.job, pass_blocks.c.number == number)
            connection.execute(delete(pass_blocks).where(*done))
            if following is not None:
                _insert(connection, lease.job, number + 1, following)

    def rows(self, job: str) -> list[PassRow]:
        """The passes of a job, in order."""
        query = select(passes.c.number, passes.c.plan, passes.c.results)
        with self._database.read() as connection:
            rows = connection.execute(query.where(passes.c.job == job).order_by(passes.c.number)).all()
        return [PassRow(row.number, _read_plan(row.plan), row.results) for row in rows]

    def blocks(self, job: str, number: int) -> list[PassBlockRow]:
        """The blocks of a pass that is not complete, in order."""
        query = select(*(pass_blocks.c[name] for name in PassBlockRow.__slots__))
        query = query.where(pass_blocks.c.job == job, pass_blocks.c.number == number).order_by(pass_blocks.c.start)
        with self._database.read() as connection:
            return [PassBlockRow(*row) for row in connection.execute(query)]


def _insert(connection: Connection, job: str, number: int, plan: PassPlan) -> None:
    names = [*plan.artifacts, *(f"passes/{digest}" for digest in (plan.request,) if digest is not None)]
    # The blocks are in a table of their own; a plan has at least one.
    text = plan.model_copy(update={"blocks": plan.blocks[:1]}).model_dump_json()
    values = {"job": job, "number": number, "plan": text, "artifacts": json.dumps(names)}
    connection.execute(insert(passes).values(**values))
    blocks = [PassBlockRow(number, *block) for block in plan.blocks]
    connection.execute(insert(pass_blocks), [{"job": job} | asdict(block) for block in blocks])


def _read_plan(text: str) -> PassPlan:
    return PassPlan.parse(text)


def pass_artifacts(connection: Connection, ids: Sequence[str] | None = None) -> set[str]:
    """The names of the objects in the store that the passes of these jobs need; by default, of all jobs."""
    query = select(passes.c.results, passes.c.artifacts)
    rows = connection.execute(query if ids is None else query.where(passes.c.job.in_(ids))).all()
    listed = {name for row in rows for name in json.loads(row.artifacts)}
    return listed | {f"results/{row.results}" for row in rows if row.results is not None}
