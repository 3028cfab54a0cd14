"""`ActiveJob`: a job that this scheduler holds, brought to where the ledger has it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from maabo_dist.cluster.tables import TableCache, split_of
from maabo_dist.contract.job import JobSpec, JobState
from maabo_dist.contract.messages import MAX_REASON, Evaluate, Failure, TableSplit, pack_subsets
from maabo_dist.contract.record import JobRecord
from maabo_dist.errors import FormatError
from maabo_dist.rules import TreePool
from maabo_dist.run import SearchRun
from maabo_dist.screens import screen
from maabo_dist.settings import SearchPlan
from maabo_dist.subset_rows import members
from maabo_dist.trees.wire import unpack_forest
from scheduler.ledger import BatchRow, JobRow, Lease, Ledger, ResultRow, Segment
from scheduler.machine import JobMachine, Task, TaskKey

FIRST_TASK = 32
"""Subsets of a task while nobody knows how long one takes."""
LARGEST_TASK = 16_384
FAILURES_NAMED = 5


@dataclass(slots=True)
class Speed:
    """How long a subset takes, measured and forgotten slowly."""

    seconds: float | None = None

    def learn(self, subsets: int, seconds: float) -> None:
        """An answer came."""
        found = seconds / max(1, subsets)
        self.seconds = found if self.seconds is None else self.seconds + 0.3 * (found - self.seconds)

    def subsets_in(self, seconds: float) -> int:
        """How many subsets a task of so many seconds has."""
        if self.seconds is None:
            return FIRST_TASK
        return max(1, min(LARGEST_TASK, int(seconds / max(self.seconds, 1e-7))))

    def expected(self, subsets: int) -> float:
        """Seconds that so many subsets take."""
        return subsets * (self.seconds or 0.001)


@dataclass(slots=True)
class RulesRequest:
    """A `maabo.rules` task under way."""

    number: int
    final: bool
    trees: int
    at: float
    taken: float | None = None


@dataclass(slots=True)
class ActiveJob:
    """The job, its books, and what is known of its pace."""

    lease: Lease
    spec: JobSpec
    plan: SearchPlan
    machine: JobMachine
    row: JobRow
    """As the ledger had it when the job was opened."""
    opened: float
    state: JobState = JobState.RUNNING
    failed: int = 0
    failures: dict[TaskKey, Failure] = field(default_factory=dict)
    """The first of them, in the order of the search."""
    unwritten: list[ResultRow] = field(default_factory=list)
    """What the machine knows and the ledger does not yet: an outage may come between the two."""
    rules: int | None = None
    segments: list[Segment] = field(default_factory=list)
    speed: Speed = field(default_factory=Speed)
    stopping: bool = False
    request: RulesRequest | None = None
    requests: int = 0
    rules_strikes: int = 0
    rules_silences: int = 0
    rules_seconds: float = 0.0
    """How long the rules took last."""
    next_partial: float = 0.0
    stuck_since: float | None = None
    """Since when workers have only said that they cannot begin."""
    shown: float = 0.0

    def ran(self, now: float) -> float:
        """Seconds that the job has been running, here and before."""
        return self.row.ran + max(0.0, now - self.opened)

    def overtime(self, now: float) -> bool:
        """Whether the time budget is spent and the search does not know yet."""
        limit = self.spec.settings.time_limit
        return limit is not None and not self.stopping and self.machine.run.goes_on and self.ran(now) >= limit

    def give_up(self, key: TaskKey, reason: str) -> bool:
        """Go on without a subset; False if its tree came after all."""
        if not self.machine.is_open(key):
            return False
        subset = members(self.machine.subsets(key)[0])
        self.failures[key] = Failure(subset=subset, reason=reason[:MAX_REASON])
        self.failures = dict(sorted(self.failures.items())[:FAILURES_NAMED])
        self.failed += 1
        return self.machine.give_up(key)

    def message(self, task: Task) -> Evaluate:
        """What a worker is told."""
        return Evaluate(
            job=self.lease.job,
            batch=task.key.batch,
            start=task.key.start,
            stop=task.key.stop,
            attempt=task.attempt,
            columns=self.spec.dataset.fingerprint,
            split=TableSplit.of(self.spec.settings),
            max_depth=self.spec.settings.max_depth,
            subset_size=self.plan.subset_size,
            subsets=pack_subsets(task.subsets),
            smallest_size=self.plan.sizes[0],
        )

    def record(self, now: float) -> JobRecord:
        """What anyone may know."""
        run = self.machine.run
        return record_of(self.row).model_copy(
            update={
                "state": self.state,
                "started": self.row.started or self.opened,
                "seconds": self.ran(now),
                "trees": run.grown,
                "planned": self.plan.trees,
                "failed": self.failed,
                "best_score": run.best_score,
                "rules": self.rules,
            }
        )


def open_job(ledger: Ledger, lease: Lease, cache: TableCache, now: float, tick: Callable[[], None]) -> ActiveJob:
    """Replay: propose as the search does, and answer from the ledger. `tick` is called now and then on the way."""
    row = ledger.job(lease.job)
    if row is None:
        raise FormatError(f"The ledger has no job {lease.job}.")
    settings, fingerprint = row.spec.settings, row.spec.dataset.fingerprint
    columns = cache.columns(fingerprint, TableSplit.of(settings))
    plan = SearchPlan.settle(settings, columns.count)
    table = cache.training(fingerprint, TableSplit.of(settings))
    # Workers pool the trees; here they are needed only to see whether new rules still come.
    pool = TreePool(settings, plan.subset_size, table.weights) if settings.patience is not None else None
    split = split_of(columns, TableSplit.of(settings))
    found = screen(columns, split, table.root_scores) if plan.screened else None
    run = SearchRun(columns, split, settings, plan, pool, found)
    machine = JobMachine(run, settings.max_depth, len(columns.classes))
    job = ActiveJob(lease, row.spec, plan, machine, row, now, rules=row.rules, segments=list(row.segments))
    if row.stop_after is not None:
        job.stopping = True
        machine.stop(row.stop_after, "time")
    _replay(job, ledger, now, tick)
    return job


def _replay(job: ActiveJob, ledger: Ledger, now: float, tick: Callable[[], None]) -> None:
    machine = job.machine
    known = {row.number: row.subsets for row in ledger.batches(job.lease.job)}
    unwritten = _new_batches(machine, known)
    for row in ledger.results(job.lease.job):
        _answer(job, row)
        unwritten += _new_batches(machine, known)
        tick()
    for sent in ledger.tasks(job.lease.job):
        machine.adopt(TaskKey(sent.batch, sent.start, sent.stop), sent.attempt, now)
    if unwritten:
        ledger.write(job.lease, now, new_batches=unwritten)


def _answer(job: ActiveJob, row: ResultRow) -> None:
    key = TaskKey(row.batch, row.start, row.stop)
    if row.reason is not None:
        job.give_up(key, row.reason)
    elif job.machine.is_open(key):
        job.machine.answer(key, unpack_forest(row.trees, job.machine.subsets(key)))
        job.speed.learn(key.size, row.seconds)


def _new_batches(machine: JobMachine, known: dict[int, bytes]) -> list[BatchRow]:
    """Batches that the ledger has must be those that the search proposes; returns those that it has not."""
    fresh = [BatchRow(number, subsets.astype("<i4").tobytes()) for number, subsets in machine.propose()]
    for batch in fresh:
        if known.get(batch.number, batch.subsets) != batch.subsets:
            raise FormatError(
                f"Batch {batch.number} in the ledger is not what this version proposes. Submit the job anew."
            )
    return [batch for batch in fresh if batch.number not in known]


def record_of(row: JobRow) -> JobRecord:
    """What anyone may know of a job that nobody need hold."""
    return JobRecord(
        id=row.id,
        state=row.state,
        name=row.spec.dataset.name,
        tenant=row.spec.tenant,
        priority=row.spec.priority,
        created=row.created,
        started=row.started,
        finished=row.finished,
        seconds=row.ran,
        trees=row.trees,
        planned=row.planned,
        failed=row.failed,
        best_score=row.best_score,
        rules=row.rules,
        digest=row.digest,
        reason=row.reason,
    )
