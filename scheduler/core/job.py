"""Jobs that this scheduler holds: what is known of each, what its workers are told, and what anyone may know."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from maabo_dist._util.subset_rows import members
from maabo_dist.cluster.tracing import Span, Tracing
from maabo_dist.contract.job import JobSpec, JobState
from maabo_dist.contract.messages import MAX_REASON, EvaluateMessage, Failure, ScreenMessage, TableSplit, pack_subsets
from maabo_dist.contract.record import JobRecord
from maabo_dist.search.plan import SearchPlan
from scheduler.core.machine import JobMachine, Task, TaskKey
from scheduler.core.preparation import Prepared
from scheduler.core.screening import BlockTask, Screening
from scheduler.ledger.jobs import JobRow, Segment
from scheduler.ledger.leases import Lease
from scheduler.ledger.screens import BlockRow
from scheduler.ledger.search import ResultRow

FIRST_TASK = 32
"""Subsets of a task while nobody knows how long one takes."""
LARGEST_TASK = 16_384
FAILURES_NAMED = 5


@dataclass(slots=True)
class Speed:
    """How long a subset takes, or a pair: measured and forgotten slowly."""

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
class HeldJob(ABC):
    """What is known of a job whatever it does."""

    lease: Lease
    spec: JobSpec
    plan: SearchPlan
    row: JobRow
    """As the ledger had it when the job was opened."""
    opened: float
    state: JobState = field(default=JobState.RUNNING, kw_only=True)
    stuck_since: float | None = field(default=None, kw_only=True)
    """Since when workers have only said that they cannot begin."""
    speed: Speed = field(default_factory=Speed, kw_only=True)
    trace: str | None = field(default=None, kw_only=True)
    """The span of this hold on the job, under which its tasks belong."""

    @property
    def log_fields(self) -> dict[str, str | None]:
        """What log lines about the job call it."""
        return self.lease.log_fields

    @property
    @abstractmethod
    def under_way(self) -> float:
        """Seconds of work that were sent and not answered."""

    @property
    @abstractmethod
    def tasks_under_way(self) -> dict[str, int]:
        """Tasks that were sent and not answered, by kind."""

    @abstractmethod
    def tasks_to_come(self, seconds: float) -> dict[str, int]:
        """Tasks of about so many seconds that could be sent now, by kind."""

    @property
    def batches_under_way(self) -> int:
        """Batches that were proposed and not observed."""
        return 0

    @property
    def trees(self) -> int:
        """Trees so far."""
        return self.row.trees

    @abstractmethod
    def next_task(self, seconds: float, now: float) -> Task | BlockTask | None:
        """The next task to send, of about so many seconds."""

    @abstractmethod
    def put_back(self, task: Any) -> None:
        """A task from `next_task` could not be sent after all."""

    def run_seconds(self, now: float) -> float:
        """Seconds that the job has been running, here and before."""
        return self.row.run_seconds + max(0.0, now - self.opened)

    def record(self, now: float) -> JobRecord:
        """What anyone may know."""
        return record_of(self.row).model_copy(
            update={
                "state": self.state,
                "started": self.row.started or self.opened,
                "seconds": self.run_seconds(now),
                "planned": self.plan.trees,
            }
        )


@dataclass(slots=True)
class ScreeningJob(HeldJob):
    """A job whose pairs are screened by the workers before its search begins."""

    screening: Screening
    prepared: Prepared
    """Kept for the search."""
    unwritten: list[BlockRow] = field(default_factory=list)
    """What the screening knows and the ledger does not yet."""

    @property
    def under_way(self) -> float:
        """Seconds of work that were sent and not answered."""
        return self.speed.expected(self.screening.in_flight)

    @property
    def tasks_under_way(self) -> dict[str, int]:
        """Tasks that were sent and not answered, by kind."""
        return {"screen": self.screening.tasks_in_flight}

    def tasks_to_come(self, seconds: float) -> dict[str, int]:  # noqa: ARG002 - blocks are cut in advance
        """Tasks that could be sent now, by kind."""
        return {"screen": self.screening.tasks_to_send}

    def next_task(self, seconds: float, now: float) -> BlockTask | None:  # noqa: ARG002 - blocks are cut in advance
        """The next block to send."""
        return self.screening.next_task(now)

    def put_back(self, task: BlockTask) -> None:
        """A block from `next_task` could not be sent after all."""
        self.screening.unsent(task.key, task.attempt)

    def message(self, task: BlockTask) -> ScreenMessage:
        """What a worker is told."""
        return ScreenMessage(
            job=self.lease.job,
            number=self.screening.number(task.key),
            blocks=self.screening.blocks,
            start=task.key.start,
            stop=task.key.stop,
            attempt=task.attempt,
            columns=self.spec.dataset.fingerprint,
            split=TableSplit.of(self.spec.settings),
            most=self.screening.most,
            correlation=self.spec.correlation,
            trace=self.trace,
        )

    def record(self, now: float) -> JobRecord:
        """What anyone may know."""
        record = HeldJob.record(self, now)
        if self.state is not JobState.RUNNING:
            return record
        return record.model_copy(update={"pairs_screened": self.screening.screened, "pairs": self.screening.pairs})


@dataclass(slots=True)
class ActiveJob(HeldJob):
    """A job that searches or mines: its books, and what is known of its pace."""

    machine: JobMachine
    failed: int = 0
    failures: dict[TaskKey, Failure] = field(default_factory=dict)
    """The first of them, in the order of the search."""
    unwritten: list[ResultRow] = field(default_factory=list)
    """What the machine knows and the ledger does not yet: an outage may come between the two."""
    rules: int | None = None
    segments: list[Segment] = field(default_factory=list)
    stopping: bool = False
    request: RulesRequest | None = None
    requests: int = 0
    rules_strikes: int = 0
    rules_silences: int = 0
    rules_seconds: float = 0.0
    """How long the rules took last."""
    next_partial: float = 0.0

    @property
    def under_way(self) -> float:
        """Seconds of work that were sent and not answered."""
        return self.speed.expected(self.machine.in_flight)

    @property
    def tasks_under_way(self) -> dict[str, int]:
        """Tasks that were sent and not answered, by kind."""
        return {"evaluate": self.machine.tasks_in_flight, "rules": int(self.request is not None)}

    def tasks_to_come(self, seconds: float) -> dict[str, int]:
        """Tasks of about so many seconds that could be sent now, by kind."""
        return {"evaluate": self.machine.tasks_to_send(self.speed.subsets_in(seconds))}

    @property
    def batches_under_way(self) -> int:
        """Batches that were proposed and not observed."""
        return self.machine.proposed - self.machine.observed

    @property
    def trees(self) -> int:
        """Trees observed."""
        return self.machine.run.grown

    def next_task(self, seconds: float, now: float) -> Task | None:
        """The next task to send, of about so many seconds."""
        return self.machine.next_task(self.speed.subsets_in(seconds), now)

    def put_back(self, task: Task) -> None:
        """A task from `next_task` could not be sent after all."""
        self.machine.unsent(task.key, task.attempt)

    def overtime(self, now: float) -> bool:
        """Whether the time budget is spent and the search does not know yet."""
        limit = self.spec.settings.time_limit
        return limit is not None and not self.stopping and self.machine.run.goes_on and self.run_seconds(now) >= limit

    def give_up(self, key: TaskKey, reason: str) -> bool:
        """Go on without a subset; False if its tree came after all."""
        if not self.machine.is_open(key):
            return False
        subset = members(self.machine.subsets(key)[0])
        self.failures[key] = Failure(subset=subset, reason=reason[:MAX_REASON])
        self.failures = dict(sorted(self.failures.items())[:FAILURES_NAMED])
        self.failed += 1
        return self.machine.give_up(key)

    def message(self, task: Task) -> EvaluateMessage:
        """What a worker is told."""
        return EvaluateMessage(
            job=self.lease.job,
            batch=task.key.batch,
            start=task.key.start,
            stop=task.key.stop,
            attempt=task.attempt,
            columns=self.spec.dataset.fingerprint,
            split=TableSplit.of(self.spec.settings),
            max_depth=self.spec.settings.max_depth,
            whole=self.spec.settings.whole_trees,
            subset_size=self.plan.subset_size,
            subsets=pack_subsets(task.subsets),
            smallest_size=self.plan.sizes[0],
            correlation=self.spec.correlation,
            trace=self.trace,
        )

    def record(self, now: float) -> JobRecord:
        """What anyone may know."""
        run = self.machine.run
        progress = {"trees": run.grown, "failed": self.failed, "best_score": run.best_score, "rules": self.rules}
        return HeldJob.record(self, now).model_copy(update=progress)


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
        seconds=row.run_seconds,
        trees=row.trees,
        planned=row.planned,
        failed=row.failed,
        best_score=row.best_score,
        rules=row.rules,
        digest=row.digest,
        reason=row.reason,
    )


class JobSpans:
    """Under the span of whoever asked for the job, where there is one; the job's tasks belong under it."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing
        self._open: dict[str, Span] = {}

    def begin(self, job: HeldJob) -> None:
        """The job is held. A search goes on with the span of its screen."""
        name = job.lease.job
        if name not in self._open:
            correlation, tenant = job.spec.correlation, job.spec.tenant
            self._open[name] = self._tracing.span(
                "job", job.spec.trace, job=name, correlation=correlation, tenant=tenant
            )
        job.trace = self._open[name].traceparent

    def end(self, job: HeldJob) -> None:
        """The job has ended."""
        span = self._open.pop(job.lease.job, None)
        if span is not None:
            span.annotate(state=job.state.value, trees=job.trees)
            span.end()

    def settle(self, held: Collection[str]) -> None:
        """Whatever is not held any more went elsewhere, was paused, or could not be run."""
        for name in [name for name in self._open if name not in held]:
            self._open.pop(name).end()
