"""Jobs that this scheduler holds.

    ScreeningJob ──► SearchingJob ──► CertifyingJob ──► SearchingJob, whose rules are mined

The screens and the searches on shuffled labels are left out where they are not needed.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from maabo_dist._util.subset_rows import members
from maabo_dist.contract.job import JobRecord, JobSpec, JobState
from maabo_dist.contract.messages import (
    MAX_REASON,
    EvaluateMessage,
    Failure,
    ScreenMessage,
    ShuffleMessage,
    TableSplit,
    pack_subsets,
)
from maabo_dist.mining.shuffles import ShufflePlan, ShuffleResult
from maabo_dist.screens.blocks import pair_seconds, triples_seconds
from maabo_dist.screens.screen import Screen
from maabo_dist.search.plan import SearchPlan
from maabo_dist.study import Study
from scheduler.core.blocks import BlockTask, Screening, Shuffling
from scheduler.core.losses import Losses
from scheduler.core.machines import JobMachine, Task, TaskKey
from scheduler.core.outbox import Outbox, Speed
from scheduler.ledger.jobs import JobRow, Segment
from scheduler.ledger.leases import Lease
from scheduler.ledger.search import BlockRow, ResultRow, ShuffleRow

MAX_FAILURES_LISTED = 5
# Extra time for the first answer: workers have to fetch the table.
FIRST_ANSWER_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class PreparedTable:
    """A table, split and laid out for a job."""

    study: Study
    # None if the plan needs none, or if workers are to compute it.
    screen: Screen | None

    @property
    def pair_seconds(self) -> float:
        """The approximate time to screen one pair."""
        return pair_seconds(len(self.study.tree_split.train), len(self.study.columns.classes))

    @property
    def triples_seconds(self) -> float | None:
        """The approximate time to screen all triples; None if they are not screened."""
        study = self.study
        if not study.plan.triples:
            return None
        return triples_seconds(study.columns.count, len(study.tree_split.train), len(study.columns.classes))


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The final state of a job, with columns of its row."""

    state: JobState
    columns: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def failure(cls, reason: str) -> "JobEnd":
        """The end of a job that failed."""
        return cls(JobState.FAILED, {"reason": reason})


@dataclass(slots=True)
class RulesRequest:
    """A `maabo.rules` task in flight."""

    number: int
    final: bool
    trees: int
    taken_at: float | None = None


@dataclass(slots=True)
class HeldJob(ABC):
    """Base of all kinds of jobs."""

    # The kind of its tasks, a label of metrics.
    task: ClassVar[str]
    lease: Lease
    spec: JobSpec
    plan: SearchPlan
    # The job's row when it was opened.
    row: JobRow
    opened: float
    # The state machine of the job: a `JobMachine`, a `Screening` or a `Shuffling`.
    machine: Any
    state: JobState = field(default=JobState.RUNNING, kw_only=True)
    # Since when every answer has been that the worker could not begin.
    stuck_since: float | None = field(default=None, kw_only=True)
    stuck_reason: str = field(default="", kw_only=True)
    # When the last task was done.
    answered: float | None = field(default=None, kw_only=True)
    speed: Speed = field(default_factory=Speed, kw_only=True)
    # The share of the rows that is held out.
    holdout: float = field(kw_only=True)
    # The number of rows and features of the table.
    shape: tuple[int, int] = field(kw_only=True)
    # Worker processes that its tasks have ended.
    losses: Losses = field(default_factory=Losses, kw_only=True)
    # The job's span, the parent of its tasks' spans.
    trace: str | None = field(default=None, kw_only=True)

    @property
    def log_fields(self) -> dict[str, str | None]:
        """The fields that identify the job in log lines."""
        return self.lease.log_fields

    @property
    def table_text(self) -> str:
        """The table's name and size, for messages."""
        rows, features = self.shape
        return f"{self.spec.dataset.name!r} ({rows:,} rows, {features:,} features)"

    @property
    def outbox(self) -> Outbox[Any]:
        """The tasks to send and in flight."""
        outbox: Outbox[Any] = self.machine.outbox
        return outbox

    @property
    def trees(self) -> int:
        """The number of trees so far."""
        return self.row.trees

    @abstractmethod
    def next_task(self, seconds: float, now: float) -> Task | BlockTask | None:
        """Take the next task to send, of about `seconds`."""

    @abstractmethod
    def message(self, task: Any) -> EvaluateMessage | ScreenMessage | ShuffleMessage:
        """The message for a worker."""

    def message_fields(self, task: Any) -> dict[str, Any]:
        """The fields that evaluations and screens have."""
        return {
            "job": self.lease.job,
            "start": task.key.start,
            "stop": task.key.stop,
            "attempt": task.attempt,
            "columns": self.spec.dataset.fingerprint,
            "split": TableSplit.of(self.spec.settings, self.holdout),
            "correlation": self.spec.correlation,
            "trace": self.trace,
        }

    def allowance(self, size: int) -> float:
        """Seconds within which a worker that has taken a task is expected to answer.

        Half as long again as the slowest of the recent tasks took: a task that is sent again too early is repeated.
        """
        return 1.5 + 1.5 * self.speed.spread * self.speed.expected(size)

    def run_seconds(self, now: float) -> float:
        """Seconds that the job has been running, here and before."""
        return self.row.run_seconds + max(0.0, now - self.opened)

    def record(self, now: float) -> JobRecord:
        """The public record of the job."""
        return self.row.record.model_copy(
            update={
                "state": self.state,
                "started": self.row.started or self.opened,
                "seconds": self.run_seconds(now),
                "planned": self.plan.trees,
            }
        )


@dataclass(slots=True)
class ScreeningJob(HeldJob):
    """A job whose pairs and triples workers screen before its search begins."""

    task = "screen"
    machine: Screening
    # Kept for the search.
    prepared: PreparedTable
    # Answers that are not in the ledger yet.
    unwritten: list[BlockRow] = field(default_factory=list)

    def next_task(self, seconds: float, now: float) -> BlockTask | None:  # noqa: ARG002 - blocks are cut in advance
        """Take the next block to send."""
        return self.machine.next_task(now)

    def allowance(self, size: int) -> float:
        """Seconds for an answer, with additional time for the first one."""
        return HeldJob.allowance(self, size) + (0.0 if self.machine.screened else FIRST_ANSWER_SECONDS)

    def message(self, task: BlockTask) -> ScreenMessage:
        """The message for a worker."""
        machine = self.machine
        counts = {"number": machine.number(task.key), "blocks": machine.blocks, "most": machine.most(task.key)}
        return ScreenMessage(**self.message_fields(task), **counts)

    def record(self, now: float) -> JobRecord:
        """The public record of the job."""
        record = HeldJob.record(self, now)
        if self.state is not JobState.RUNNING:
            return record
        return record.model_copy(update={"pairs_screened": self.machine.screened, "pairs": self.machine.sets})


@dataclass(slots=True)
class SearchingJob(HeldJob):
    """A job that searches or mines rules."""

    task = "evaluate"
    machine: JobMachine
    # The time that a repetition of the whole search is expected to take on one core.
    repeat_seconds: float
    failed: int = 0
    # The first failed subsets, in the order of the search.
    failures: dict[TaskKey, Failure] = field(default_factory=dict)
    # Answers that the machine has and the ledger has not yet: an outage may come between the two.
    unwritten: list[ResultRow] = field(default_factory=list)
    rules: int | None = None
    segments: list[Segment] = field(default_factory=list)
    stopping: bool = False
    request: RulesRequest | None = None
    requests: int = 0
    rules_failures: int = 0
    # Failures of rules so far, one after the other.
    partial_failures: int = 0
    rules_timeouts: int = 0
    # The duration of the last rules task.
    rules_seconds: float = 0.0
    # When rules of the trees so far are due.
    next_partial: float = 0.0
    # The searches on shuffled labels that the final rules need, once a worker has answered how many.
    shuffle_plan: ShufflePlan | None = None
    # Their results.
    shuffled: ShuffleResult | None = None

    @property
    def worker_spec(self) -> JobSpec:
        """The job without fields that workers do not need; the spans of its tasks are children of the job's."""
        return self.spec.model_copy(update={"callback": None, "dataset_id": None, "trace": self.trace})

    @property
    def trees(self) -> int:
        """The number of trees observed."""
        return self.machine.run.trees

    def next_task(self, seconds: float, now: float) -> Task | None:
        """Take the next task to send, of about `seconds`."""
        return self.machine.next_task(self.speed.task_size(seconds), now)

    def allowance(self, size: int) -> float:
        """Seconds for an answer, with time for the first one, and for rules that the worker may be busy with."""
        first = FIRST_ANSWER_SECONDS if self.speed.seconds is None else 0.0
        return HeldJob.allowance(self, size) + 2 * self.rules_seconds + first

    def is_over_time(self, now: float) -> bool:
        """True if the time budget is spent and the search was not stopped yet."""
        limit, may_propose = self.spec.settings.time_limit, self.machine.run.may_propose
        return limit is not None and not self.stopping and may_propose and self.run_seconds(now) >= limit

    def give_up(self, key: TaskKey, reason: str) -> bool:
        """Continue without a subset; False if it was answered in the meantime."""
        if not self.machine.is_open(key):
            return False
        subset = members(self.machine.subsets(key)[0])
        self.failures[key] = Failure(subset=subset, reason=reason[:MAX_REASON])
        self.failures = dict(sorted(self.failures.items())[:MAX_FAILURES_LISTED])
        self.failed += 1
        return self.machine.give_up(key)

    def message(self, task: Task) -> EvaluateMessage:
        """The message for a worker."""
        return EvaluateMessage(
            **self.message_fields(task),
            batch=task.key.batch,
            max_depth=self.spec.settings.max_depth,
            whole=self.spec.settings.whole_trees,
            subset_size=self.plan.subset_size,
            subsets=pack_subsets(task.subsets),
            smallest_size=self.plan.sizes[0],
        )

    def record(self, now: float) -> JobRecord:
        """The public record of the job."""
        run = self.machine.run
        progress = {"trees": run.trees, "failed": self.failed, "best_score": run.best_score, "rules": self.rules}
        return HeldJob.record(self, now).model_copy(update=progress)


@dataclass(slots=True)
class CertifyingJob(HeldJob):
    """A job whose search is over, and is repeated on shuffled labels."""

    task = "shuffle"
    machine: Shuffling
    # Continues when the searches are complete.
    search: SearchingJob
    # Answers that are not in the ledger yet.
    unwritten: list[ShuffleRow] = field(default_factory=list)

    @property
    def trees(self) -> int:
        """The number of trees of the search."""
        return self.search.trees

    def next_task(self, seconds: float, now: float) -> BlockTask | None:  # noqa: ARG002 - blocks are cut in advance
        """Take the next searches to send."""
        return self.machine.next_task(now)

    def allowance(self, size: int) -> float:
        """Seconds for an answer, with additional time for the first one."""
        return HeldJob.allowance(self, size) + (0.0 if self.machine.done else FIRST_ANSWER_SECONDS)

    def message(self, task: BlockTask) -> ShuffleMessage:
        """The message for a worker."""
        return ShuffleMessage(
            spec=self.search.worker_spec,
            start=task.key.start,
            stop=task.key.stop,
            planned=self.machine.plan.count,
            attempt=task.attempt,
            expected=self.speed.expected(task.key.size),
        )

    def record(self, now: float) -> JobRecord:
        """The public record of the job."""
        record = self.search.record(now).model_copy(update={"state": self.state})
        if self.state is not JobState.MINING:
            return record
        return record.model_copy(update={"shuffles_done": self.machine.done, "shuffles": self.machine.plan.count})


def certifying_job(search: SearchingJob, plan: ShufflePlan, ranges: Sequence[tuple[int, int]]) -> CertifyingJob:
    """Return a job whose search is over, with searches on shuffled labels cut into these ranges."""
    job = CertifyingJob(
        *(search.lease, search.spec, search.plan, search.row, search.opened),
        Shuffling(plan, ranges),
        search,
        holdout=search.holdout,
        shape=search.shape,
        losses=search.losses,
        answered=search.answered,
        state=JobState.MINING,
    )
    job.speed.seconds = search.repeat_seconds
    return job


AnyJob = SearchingJob | ScreeningJob | CertifyingJob
