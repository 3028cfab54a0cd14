"""Passes over the rows of a dataset, as tasks.

`Passing` is the state of a pass, `PassJob` a job that runs one, and `PassHandler` sends its tasks and handles and
records the answers.

    PassJob (plan ──► draw ──► plan) ──► … SearchingJob … ──► PassJob (count) ──► SearchingJob, whose rules are mined

What a pass counts or draws does not depend on how it is cut into blocks, on the worker, or on the order of the answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.contract.job import JobRecord, JobSpec, JobState, ManyRows
from maabo_dist.contract.messages import CountAnswer, CountMessage
from maabo_dist.contract.passes import (
    SECONDS_PER_CELL,
    DrawnSample,
    PassPlan,
    PlanAnswer,
    StoredPass,
    dump_blocks,
    parse_blocks,
)
from maabo_dist.errors import FormatError
from maabo_dist.rules.passes import add_counts, no_counts, pack_counts, unpack_counts
from maabo_dist.search.plan import SearchPlan
from scheduler.core.block_handlers import BlockHandler
from scheduler.core.blocks import Block, BlockMachine, BlockTask
from scheduler.core.job import BlockJob, HeldJob, JobEnd, SearchingJob
from scheduler.ledger import Ledger
from scheduler.ledger.jobs import JobRow
from scheduler.ledger.leases import Lease
from scheduler.ledger.passes import PassBlockRow, PassRow

logger = StructuredLogger("maabo.scheduler")

# Seconds that a cell of the target takes on one core, and one of the sample until it is prepared: rather too many.
SECONDS_PER_TARGET, SECONDS_PER_SAMPLED_CELL = 5e-8, 2e-6
# Seconds that a row takes to count: rather too many.
SECONDS_PER_COUNTED_ROW = 3e-7


def first_pass(many: ManyRows) -> PassPlan:
    """Return the pass that every sample begins with."""
    return PassPlan(kind="plan", blocks=((0, 1, many.rows),))


class Passing(BlockMachine):
    """The in-flight state of one pass."""

    def __init__(self, number: int, plan: PassPlan, blocks: Sequence[tuple[int, int, int]]) -> None:
        super().__init__(Block(*block) for block in blocks)
        self.pass_number, self.plan = number, plan
        self.rows = sum(rows for *_, rows in blocks)
        # Rows of the answered blocks.
        self.done = 0
        self._drawn: dict[Block, bytes] = {}
        self._counts = None if plan.shape is None else no_counts(plan.shape)
        # The answer to a plan.
        self.planned: PlanAnswer | None = None

    def accept(self, block: Block, body: bytes) -> bool:
        """Accept the answer to a block; False if it is no longer needed. Raise FormatError if it is invalid."""
        if not self.is_open(block):
            return False
        if self.plan.kind == "plan":
            self.planned = PlanAnswer.parse(body)
        elif self.plan.kind == "draw":
            if len(parse_blocks(body)) != block.stop - block.start:
                raise FormatError(f"The answer must describe {block.stop - block.start} blocks.")
            self._drawn[block] = body
        elif self.plan.shape is not None and self._counts is not None:
            self._counts = add_counts(self._counts, unpack_counts(body, self.plan.shape))
        self._close(block)
        self.done += block.size
        return True

    def results(self) -> tuple[bytes, list[str]]:
        """What the pass has counted or drawn, and the names of the objects in the store that it refers to."""
        if self._counts is not None:
            return pack_counts(self._counts), []
        if self.planned is not None:
            sample = self.planned.sample
            return self.planned.to_bytes(), [] if sample is None else [f"samples/{sample.sample}"]
        drawn = [each for block in sorted(self._drawn) for each in parse_blocks(self._drawn[block])]
        return dump_blocks(drawn), [name for each in drawn for name in (f"cells/{each.cells}", f"drawn/{each.drawn}")]


@dataclass(slots=True)
class PassJob(BlockJob):
    """A job that reads the rows of its dataset: before its search to draw a sample, after it to count rules."""

    task = "count"
    machine: Passing
    plan: SearchPlan | None
    # Continues when rules are counted; None while the sample is drawn.
    search: SearchingJob | None = None
    unwritten: list[PassBlockRow] = field(default_factory=list, kw_only=True)

    @property
    def is_searched(self) -> bool:
        """False while the sample is drawn."""
        return self.search is not None

    @property
    def trees(self) -> int:
        """The number of trees of the search."""
        return 0 if self.search is None else self.search.trees

    def message(self, tasks: Sequence[BlockTask]) -> CountMessage:
        """The message of some blocks."""
        (task,) = tasks
        plan = self.machine.plan
        return CountMessage(
            spec=self.worker_spec,
            number=self.machine.pass_number,
            kind=plan.kind,
            request=plan.request,
            results=plan.results,
            start=task.key.start,
            stop=task.key.stop,
            blocks=self.machine.blocks,
            attempt=task.attempt,
            expected=self.speed.expected(task.key.size),
        )

    def describe(self, block: Block) -> str:
        """Say what could not be done if a block is given up."""
        if self.machine.plan.kind == "plan":
            return "The sample could not be planned"
        done = "drawn from" if self.machine.plan.kind == "draw" else "counted"
        return f"Rows of {self.spec.dataset.name!r} (blocks {block.start + 1} to {block.stop}) could not be {done}"

    def record(self, now: float) -> JobRecord:
        """The public record of the job."""
        base = HeldJob.record(self, now) if self.search is None else self.search.record(now)
        record = base.model_copy(update={"state": self.state})
        if self.state not in {JobState.RUNNING, JobState.MINING}:
            return record
        return record.model_copy(update={"rows_read": self.machine.done, "rows": self.machine.rows})


def sampling_job(lease: Lease, row: JobRow, machine: Passing, now: float) -> PassJob:
    """Return a job whose sample is drawn."""
    many = _many(row.spec)
    job = PassJob(lease, row.spec, None, row, now, machine, holdout=0.0, shape=(many.rows, many.columns))
    job.speed.seconds = _row_seconds(machine.plan, many)
    return job


def counting_job(search: SearchingJob, machine: Passing) -> PassJob:
    """Return a job whose search is over, and whose rules are counted."""
    job = PassJob(
        *(search.lease, search.spec, search.plan, search.row, search.opened),
        machine,
        search,
        holdout=search.holdout,
        shape=search.shape,
        losses=search.losses,
        answered=search.answered,
        state=JobState.MINING,
        trace=search.trace,
    )
    job.speed.seconds = SECONDS_PER_COUNTED_ROW
    return job


def _many(spec: JobSpec) -> ManyRows:
    if spec.dataset.many is None:
        raise FormatError(f"Job {spec.id} has no dataset of many files.")
    return spec.dataset.many


def _row_seconds(plan: PassPlan, many: ManyRows) -> float:
    if plan.kind == "draw":
        return 2 * SECONDS_PER_CELL * many.columns
    sample = min(many.sample, many.rows) * many.columns * SECONDS_PER_SAMPLED_CELL
    return SECONDS_PER_TARGET + (sample + 1.0) / many.rows


class PassHandler(BlockHandler[PassJob, CountAnswer]):
    """Handles `maabo.count` tasks."""

    job_type = PassJob

    def begin(self, search: SearchingJob, plan: PassPlan, now: float) -> PassJob:
        """Write a pass that counts rules to the ledger, before its first task is sent."""
        number = len(self._ledger.passes.rows(search.lease.job))
        self._ledger.passes.begin(search.lease, now, number, plan)
        return counting_job(search, Passing(number, plan, plan.blocks))

    def complete(self, job: PassJob, now: float) -> PassJob | SearchingJob | None:
        """Store the results of a pass, and return the job as it goes on; None if its sample is drawn."""
        machine = job.machine
        data, artifacts = machine.results()
        results = self._resources.cache.put_pass_document("results", data)
        sample = None if machine.planned is None else machine.planned.sample
        following, columns = self._next_pass(machine, results), dict[str, object](run_seconds=job.run_seconds(now))
        if sample is not None:
            columns["spec"] = _with_sample(job.spec, sample).to_text()
        logger.info("pass over the rows complete", **job.log_fields, kind=machine.plan.kind, rows=machine.rows)
        self._ledger.passes.complete(job.lease, now, machine.pass_number, results, artifacts, following, columns)
        if job.search is not None and machine.plan.request is not None:
            job.search.counted.append(StoredPass(request=machine.plan.request, results=results))
            return job.search
        if following is None:
            return None
        continued = sampling_job(job.lease, job.row, Passing(machine.pass_number + 1, following, following.blocks), now)
        return replace(continued, opened=job.opened, trace=job.trace, losses=job.losses, answered=job.answered)

    @staticmethod
    def _next_pass(machine: Passing, results: str) -> PassPlan | None:
        """A pass that draws is followed by a plan, and a plan by what it says."""
        if machine.planned is not None:
            return machine.planned.following
        if machine.plan.kind != "draw":
            return None
        return PassPlan(kind="plan", request=machine.plan.request, results=results, blocks=((0, 1, machine.rows),))

    def _check_available(self, job: PassJob, reason: str, now: float) -> JobEnd | None:
        """Fail a job that no worker could begin for too long. Its sample has no other copy."""
        return self._check_stuck(job, reason, now) if job.search is None else super()._check_available(job, reason, now)

    def _is_awaited(self, job: HeldJob, answer: CountAnswer) -> TypeGuard[PassJob]:
        return isinstance(job, PassJob) and answer.number == job.machine.pass_number

    def _accept(self, job: PassJob, block: Block, answer: CountAnswer, body: bytes) -> None:
        job.machine.accept(block, body)
        job.unwritten.append(PassBlockRow(answer.number, *_range(block), answer.attempt, body, answer.seconds))

    def _write_answers(self, job: PassJob, now: float, columns: Mapping[str, object]) -> None:
        self._ledger.passes.write(job.lease, now, job.unwritten, columns)

    def _write_sent(self, job: PassJob, tasks: Sequence[BlockTask], now: float) -> None:
        number = job.machine.pass_number
        rows = [PassBlockRow(number, *_range(task.key), task.attempt) for task in tasks]
        self._ledger.passes.write(job.lease, now, rows)


def _range(block: Block) -> tuple[int, int, int]:
    return block.start, block.stop, block.size


def _with_sample(spec: JobSpec, sample: DrawnSample) -> JobSpec:
    """The job with the sample that is searched as its table."""
    many = _many(spec).model_copy(update={"drawn": sample.sample, "info": sample.info})
    update = {"fingerprint": sample.columns, "notes": sample.notes, "many": many}
    return spec.model_copy(update={"dataset": spec.dataset.model_copy(update=update)})


# Restoring passes from the ledger.


def open_sampling(ledger: Ledger, lease: Lease, row: JobRow, now: float) -> PassJob:
    """Restore a job whose sample is not drawn yet, or begin it."""
    rows = ledger.passes.rows(lease.job)
    if not rows:
        ledger.passes.begin(lease, now, 0, first_pass(_many(row.spec)))
        rows = ledger.passes.rows(lease.job)
    return _restore_blocks(sampling_job(lease, row, _restore(ledger, lease, rows[-1]), now), ledger, now)


def restore_counts(search: SearchingJob, ledger: Ledger, now: float) -> PassJob | None:
    """Restore the passes that have counted rules; return a job if one has begun and is not complete."""
    rows = ledger.passes.rows(search.lease.job) if search.spec.dataset.many is not None else []
    for row in rows:
        if row.plan.kind == "count" and row.plan.request is not None and row.results is not None:
            search.counted.append(StoredPass(request=row.plan.request, results=row.results))
    if not rows or rows[-1].results is not None:
        return None
    return _restore_blocks(counting_job(search, _restore(ledger, search.lease, rows[-1])), ledger, now)


def _restore(ledger: Ledger, lease: Lease, row: PassRow) -> Passing:
    blocks = ledger.passes.blocks(lease.job, row.number)
    return Passing(row.number, row.plan, [(block.start, block.stop, block.size) for block in blocks])


def _restore_blocks(job: PassJob, ledger: Ledger, now: float) -> PassJob:
    for row in ledger.passes.blocks(job.lease.job, job.machine.pass_number):
        block = job.machine.block(row.start, row.stop)
        if block is not None and row.answer is not None:
            job.machine.accept(block, row.answer)
            job.speed.observe(block.size, row.seconds)
        elif block is not None and row.attempt is not None:
            job.machine.adopt(block, row.attempt, now)
    return job
