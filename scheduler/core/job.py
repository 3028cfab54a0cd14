"""Jobs that this scheduler holds.

    ScreeningJob ──► SearchingJob ──► CertifyingJob ──► SearchingJob, whose rules are mined

The screens and the searches on shuffled labels are left out where they are not needed. `passes.PassJob` draws the
sample of a dataset before the first of these, and counts rules on all of its rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from maabo_dist._util.subset_rows import members
from maabo_dist.contract.job import JobRecord, JobSpec, JobState
from maabo_dist.contract.messages import (
    MAX_PARTS,
    MAX_REASON,
    CountMessage,
    EvaluateMessage,
    EvaluatePart,
    Failure,
    ScreenMessage,
    ShuffleMessage,
    TableSplit,
    pack_subsets,
)
from maabo_dist.contract.passes import PassPlan, StoredPass
from maabo_dist.mining.shuffles import ShufflePlan, ShuffleResult
from maabo_dist.screens.blocks import has_triples, pair_seconds, triples_seconds
from maabo_dist.screens.conjunctions import Sets
from maabo_dist.screens.screen import Screen
from maabo_dist.search.plan import SearchPlan
from maabo_dist.study import Study
from scheduler.core.blocks import Block, BlockMachine, BlockTask, Screening, Shuffling
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
    # Then these belong to it: see `Screen.conjunctions`.
    conjunctions: Mapping[int, Sets] = field(default_factory=dict)

    @property
    def pair_seconds(self) -> float:
        """The approximate time to screen one pair."""
        seconds = pair_seconds(len(self.study.tree_split.train), len(self.study.columns.classes))
        return seconds * (2 if self.study.plan.tenths else 1)

    @property
    def triples_seconds(self) -> float | None:
        """The approximate time to screen all triples; None if they are not screened."""
        study = self.study
        if not study.plan.triples:
            return None
        seconds = triples_seconds(study.columns.count, len(study.tree_split.train), len(study.columns.classes))
        return seconds * (2 if study.plan.sixths else 1)


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
    # None while there is no table yet that it could be made for.
    plan: SearchPlan | None
    # The job's row when it was opened.
    row: JobRow
    opened: float
    # The state machine of the job: a `JobMachine`, a `Screening`, a `Shuffling` or a `Passing`.
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

    @property
    def is_searched(self) -> bool:
        """True if its search is over or under way."""
        return True

    @property
    def planned(self) -> int | None:
        """The number of trees that the plan allows."""
        return None if self.plan is None else self.plan.trees

    @property
    def worker_spec(self) -> JobSpec:
        """The job without fields that workers do not need; the spans of its tasks are children of the job's."""
        return self.spec.model_copy(update={"callback": None, "dataset_id": None, "trace": self.trace})

    @abstractmethod
    def next_tasks(self, seconds: float, now: float) -> Sequence[Any]:
        """Take the next tasks to send in one message, of about `seconds` together."""

    @abstractmethod
    def message(self, tasks: Any) -> EvaluateMessage | ScreenMessage | ShuffleMessage | CountMessage:
        """The message of these tasks for a worker."""

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
                "planned": self.planned,
            }
        )


@dataclass(slots=True)
class BlockJob(HeldJob):
    """A job whose work is cut into blocks in advance, each of which is a task."""

    machine: BlockMachine
    # Answers that are not in the ledger yet.
    unwritten: list[Any] = field(default_factory=list, kw_only=True)

    @abstractmethod
    def describe(self, block: Block) -> str:
        """Say what could not be done if a block is given up."""

    def next_tasks(self, seconds: float, now: float) -> Sequence[BlockTask]:  # noqa: ARG002 - blocks have their length
        """Take the next block to send."""
        task = self.machine.next_task(now)
        return [] if task is None else [task]

    def allowance(self, size: int) -> float:
        """Seconds for an answer, with additional time for the first one."""
        return HeldJob.allowance(self, size) + (0.0 if self.machine.any_answered else FIRST_ANSWER_SECONDS)


@dataclass(slots=True)
class ScreeningJob(BlockJob):
    """A job whose pairs and triples workers screen before its search begins."""

    task = "screen"
    machine: Screening
    plan: SearchPlan
    # Kept for the search.
    prepared: PreparedTable
    unwritten: list[BlockRow] = field(default_factory=list, kw_only=True)

    @property
    def is_searched(self) -> bool:
        """False: its search has not begun."""
        return False

    def message(self, tasks: Sequence[BlockTask]) -> ScreenMessage:
        """The message of a block."""
        (task,), machine = tasks, self.machine
        counts = {"number": machine.number(task.key), "blocks": machine.blocks, "most": machine.most(task.key)}
        plan = self.prepared.study.plan
        fine = plan.sixths if has_triples(task.key.start, plan.features) else plan.tenths
        return ScreenMessage(**self.message_fields(task), **counts, fine=fine)

    def describe(self, block: Block) -> str:
        """Say what could not be done if a block is given up."""
        return f"{self.machine.describe(block)} could not be screened"

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
    plan: SearchPlan
    # The time that a repetition of the whole search is expected to take on one core.
    repeat_seconds: float
    failed: int = 0
    # The first failed subsets, in the order of the search.
    failures: dict[TaskKey, Failure] = field(default_factory=dict)
    # Answers that the machine has and the ledger has not yet: an outage may come between the two.
    unwritten: list[ResultRow] = field(default_factory=list)
    rules: int | None = None
    # The first trees that were observed here, and the running time until then.
    first_trees: int | None = None
    first_seconds: float | None = None
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
    # The pass over the rows of a dataset that the final rules need next, once a worker has answered which.
    count_plan: PassPlan | None = None
    # Passes that have counted rules, in order.
    counted: list[StoredPass] = field(default_factory=list)

    @property
    def trees(self) -> int:
        """The number of trees observed."""
        return self.machine.run.trees

    def next_tasks(self, seconds: float, now: float) -> Sequence[Task]:
        """Take the next tasks to send in one message: one, or several small ones that have not failed.

        If workers cannot begin, it is one: workers of earlier releases refuse messages of several parts.
        """
        room, tasks = self.speed.task_size(seconds), list[Task]()
        max_parts = MAX_PARTS if self.stuck_since is None else 1
        while len(tasks) < max_parts and (task := self.machine.next_task(room, now)) is not None:
            tasks.append(task)
            room -= task.key.size
            following = self.outbox.unsent[0] if self.outbox.unsent else None
            if task.attempt or following is None or following[1] or following[0].size > room:
                break
        return tasks

    def allowance(self, size: int) -> float:
        """Seconds for an answer, with time for the first one, and for rules that the worker may be busy with."""
        first = FIRST_ANSWER_SECONDS if self.speed.seconds is None else 0.0
        return HeldJob.allowance(self, size) + 2 * self.rules_seconds + first

    def is_over_time(self, now: float) -> bool:
        """True if the time budget is spent and the search was not stopped yet."""
        limit, may_propose = self.spec.settings.time_limit, self.machine.run.may_propose
        return limit is not None and not self.stopping and may_propose and self.run_seconds(now) >= limit

    def note_first_trees(self, now: float) -> None:
        """Remember when the search had its first trees: the time left is estimated from what follows."""
        if self.first_trees is None and self.trees:
            self.first_trees, self.first_seconds = self.trees, self.run_seconds(now)

    def give_up(self, key: TaskKey, reason: str) -> bool:
        """Continue without a subset; False if it was answered in the meantime."""
        if not self.machine.is_open(key):
            return False
        subset = members(self.machine.subsets(key)[0])
        self.failures[key] = Failure(subset=subset, reason=reason[:MAX_REASON])
        self.failures = dict(sorted(self.failures.items())[:MAX_FAILURES_LISTED])
        self.failed += 1
        return self.machine.give_up(key)

    def message(self, tasks: Sequence[Task]) -> EvaluateMessage:
        """The message of tasks; each becomes a part."""
        task, *others = tasks
        return EvaluateMessage(
            **self.message_fields(task),
            batch=task.key.batch,
            max_depth=self.spec.settings.max_depth,
            whole=self.spec.settings.whole_trees,
            subset_size=self.plan.subset_size,
            subsets=pack_subsets(task.subsets),
            more=tuple(
                EvaluatePart(**asdict(other.key), attempt=other.attempt, subsets=pack_subsets(other.subsets))
                for other in others
            ),
            smallest_size=self.plan.sizes[0],
        )

    def record(self, now: float) -> JobRecord:
        """The public record of the job."""
        run = self.machine.run
        progress = {"trees": run.trees, "failed": self.failed, "best_score": run.best_score, "rules": self.rules}
        first = {"first_trees": self.first_trees, "first_seconds": self.first_seconds}
        return HeldJob.record(self, now).model_copy(update=progress | first)


@dataclass(slots=True)
class CertifyingJob(BlockJob):
    """A job whose search is over, and is repeated on shuffled labels."""

    task = "shuffle"
    machine: Shuffling
    plan: SearchPlan
    # Continues when the searches are complete.
    search: SearchingJob
    unwritten: list[ShuffleRow] = field(default_factory=list, kw_only=True)

    @property
    def trees(self) -> int:
        """The number of trees of the search."""
        return self.search.trees

    def message(self, tasks: Sequence[BlockTask]) -> ShuffleMessage:
        """The message of some searches."""
        (task,) = tasks
        return ShuffleMessage(
            spec=self.search.worker_spec,
            start=task.key.start,
            stop=task.key.stop,
            planned=self.machine.plan.count,
            attempt=task.attempt,
            expected=self.speed.expected(task.key.size),
        )

    def describe(self, block: Block) -> str:
        """Say what could not be done if a block is given up."""
        return f"Searches {block.start + 1} to {block.stop} on shuffled labels could not be run"

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
