"""`SearchHandler` sends the tasks of a search, and handles and records the answers.

`TaskHandler` is what it shares with the handlers of other tasks (`block_handlers`).
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.store import StoreError
from maabo_dist.cluster.streams import Answer, read_entry
from maabo_dist.contract.decoding import decode_json
from maabo_dist.contract.messages import (
    MAX_REASON,
    CountAnswer,
    EvaluationAnswer,
    RulesAnswer,
    ScreenAnswer,
    ShuffleAnswer,
)
from maabo_dist.contract.passes import PassPlan
from maabo_dist.contract.result import StopReason
from maabo_dist.errors import FormatError
from maabo_dist.search.plan import tree_seconds
from maabo_dist.trees.wire import unpack_forest
from scheduler import metrics
from scheduler.core.dispatch import TaskQueue
from scheduler.core.job import HeldJob, JobEnd, SearchingJob
from scheduler.core.losses import cause_of, explain
from scheduler.core.machines import Task, TaskKey
from scheduler.ledger.search import BatchRow, ResultRow, TaskRow
from scheduler.messaging.publishers import TaskPublisher
from scheduler.resources import Resources

logger = StructuredLogger("maabo.scheduler")

# Delay before a task that a worker could not begin is sent again. Random: at a fixed interval, the same worker may be
# the first in the queue each time.
RETRY_SECONDS = (0.5, 1.5)

Job = TypeVar("Job", bound=HeldJob)
BlockAnswer = EvaluationAnswer | ScreenAnswer | ShuffleAnswer | CountAnswer


class TaskHandler(ABC, Generic[Job]):
    """The base class of handlers: sends tasks, and sends them again if they are not completed."""

    def __init__(self, resources: Resources, publisher: TaskPublisher, queue: TaskQueue) -> None:
        self._resources, self._ledger, self._metrics = resources, resources.ledger, resources.metrics
        self._publisher, self._queue = publisher, queue

    def send(self, job: Job, messages: Sequence[Sequence[Any]], now: float) -> None:
        """Write the tasks of some messages to the ledger, then publish them."""
        tasks = [task for message in messages for task in message]
        self._write_sent(job, tasks, now)
        for task in tasks:  # before publishing: if the broker fails, answers will show which tasks have arrived
            job.machine.mark_sent(task.key, task.attempt, now)
        for message in messages:
            job.outbox.note_joined([task.key for task in message])
        self._queue.note_sent(len(messages))
        self._publisher.publish([job.message(message) for message in messages])
        self._metrics.count(metrics.TASKS_SENT, job.task, len(tasks))

    def resend_unanswered(self, job: Job, now: float) -> None:
        """Resend tasks whose answers are overdue."""
        job.outbox.mark_taken(self._queue.taken_before, now)
        unanswered = job.outbox.resend_unanswered(now, job.allowance)
        if unanswered:
            logger.warning("no answer; sending again", **job.log_fields, task=job.task, tasks=len(unanswered))
            self._metrics.count(metrics.RESENT, "silent", len(unanswered))

    @abstractmethod
    def _write_sent(self, job: Job, tasks: Sequence[Any], now: float) -> None:
        """Write tasks that are about to be sent."""

    def _drop(self, job: HeldJob, task: str, reason: str) -> None:
        logger.debug(f"answer dropped: {reason}", **job.log_fields, task=task)
        self._metrics.count(metrics.DROPPED, task)

    def _note_done(self, job: Job, size: int, seconds: float, now: float, part: int = 0) -> None:
        job.speed.observe(size, seconds)
        job.stuck_since, job.answered = None, now
        if not part:
            job.losses.note_done()
        self._metrics.observe(metrics.TASK_SECONDS, seconds, job.task)

    def _retry(self, job: Job, key: Any, answer: BlockAnswer, now: float) -> bool:
        """Resend a task that was not completed. True if it failed too often."""
        # The parts of a message are lost together.
        is_first = not (isinstance(answer, EvaluationAnswer) and answer.part)
        if is_first:
            facts = {"task": job.task, "start": key.start, "stop": key.stop, "worker": answer.worker}
            logger.warning(f"task {answer.kind}", **job.log_fields, **facts, reason=answer.reason)
        if answer.kind == "lost" and is_first:
            self._metrics.count(metrics.LOST, job.task)
        was_sent, given_up = job.outbox.is_sent(key, answer.attempt), False
        if answer.kind == "unavailable":
            delay = random.uniform(*RETRY_SECONDS)  # noqa: S311 - no secret  # nosec B311
            job.outbox.postpone(key, answer.attempt, now + delay)
        else:
            given_up = job.machine.fail(key, answer.attempt)
            if was_sent and is_first:
                job.losses.note_failure(answer.kind, answer.reason)
        if was_sent and not given_up:
            self._metrics.count(metrics.RESENT, answer.kind)
        return given_up

    def _check(self, job: Job, answer: BlockAnswer, now: float) -> JobEnd | None:
        """Return the end of a job that no worker can begin, or that ends too many worker processes."""
        if answer.kind == "unavailable":
            return self._check_available(job, answer.reason, now)
        return JobEnd.failure(job.losses.explain(job.table_text)) if job.losses.too_many else None

    def _check_stuck(self, job: Job, reason: str, now: float) -> JobEnd | None:
        job.stuck_since, job.stuck_reason = job.stuck_since or now, reason
        stuck = now - job.stuck_since > self._resources.settings.stuck_seconds
        return JobEnd.failure(f"No worker could begin: {reason}") if stuck else None

    def _check_available(self, job: Job, reason: str, now: float) -> JobEnd | None:
        """Put the table into the store again if it is missing; fail the job if no worker could begin for too long."""
        if (end := self._check_stuck(job, reason, now)) is not None:
            return end
        store, fingerprint = self._resources.store, job.spec.dataset.fingerprint
        name = f"columns/{fingerprint}"
        try:
            if not store.has(name):
                with TemporaryDirectory(prefix="maabo-") as directory:
                    path = Path(directory) / "table"
                    # The table is still mapped here, even if its file is gone.
                    self._resources.cache.columns(fingerprint).save(path)
                    store.put(name, path)
                logger.warning("table was missing in the store; stored again", **job.log_fields)
        except (StoreError, OSError) as error:  # other jobs must not wait for this one's table
            logger.warning("table missing in the store", **job.log_fields, reason=error)
        return None


# Tasks that are expected to take less say little about the speed of the workers.
MIN_COMPARED_SECONDS = 0.02


class SearchHandler(TaskHandler[SearchingJob]):
    """Handles `maabo.evaluate` tasks."""

    def _note_speed(self, job: SearchingJob, size: int, seconds: float) -> None:
        """Compare the time of a task with the one that is estimated for such tables."""
        expected = size * tree_seconds(job.plan, job.spec.settings, rows=job.shape[0])
        if expected >= MIN_COMPARED_SECONDS:
            self._metrics.count(metrics.SEARCH_SECONDS, "measured", seconds)
            self._metrics.count(metrics.SEARCH_SECONDS, "expected", expected)

    def handle(self, job: SearchingJob, answer: EvaluationAnswer, body: bytes, now: float) -> JobEnd | None:
        """Accept or reject an answer; `advance` writes it. Return the end of the job, if it ends."""
        key = TaskKey(answer.batch, answer.start, answer.stop)
        self._queue.note_taken(job.outbox.sent_at(key))
        if answer.kind == "done":
            if not job.machine.is_open(key):
                self._drop(job, job.task, "another one came first")
                return None
            job.machine.accept(key, unpack_forest(body, job.machine.subsets(key)))
            job.unwritten.append(ResultRow(key.batch, key.start, key.stop, body, None, answer.seconds))
            self._note_done(job, key.size, answer.seconds, now, answer.part)
            self._note_speed(job, key.size, answer.seconds)
            return None
        reason = explain_answer(answer)[:MAX_REASON]
        if self._retry(job, key, answer, now) and job.give_up(key, reason):
            self._metrics.count(metrics.FAILED_SUBSETS)
            job.unwritten.append(ResultRow(key.batch, key.start, key.stop, b"", reason))
            logger.warning("subset given up", **job.log_fields, batch=key.batch, subset=key.start, reason=reason)
        return self._check(job, answer, now)

    def drop_late(self, job: HeldJob, answer: Answer) -> None:
        """Drop an answer that came when the search was over."""
        kinds = {EvaluationAnswer: "evaluate", ScreenAnswer: "screen", RulesAnswer: "rules", ShuffleAnswer: "shuffle"}
        self._drop(job, kinds[type(answer)], "the search is over")

    def advance(self, job: SearchingJob, now: float) -> None:
        """Observe and propose batches, and write them and the accepted answers to the ledger."""
        machine, columns = job.machine, dict[str, object]()
        if job.is_over_time(now):
            job.stopping = True
            columns["stop_after"] = machine.proposed
            machine.stop(machine.proposed, StopReason.TIME)
            logger.info("time budget spent", **job.log_fields, batches=machine.proposed)
        run = machine.run
        trees_before = run.trees
        new_batches = [BatchRow(number, subsets.astype("<i4").tobytes()) for number, subsets in machine.propose()]
        if job.unwritten or new_batches or columns:
            columns |= {"trees": run.trees, "best_score": run.best_score, "failed": job.failed}
            columns["run_seconds"] = job.run_seconds(now)
            self._ledger.search.write(job.lease, now, columns, new_batches=new_batches, new_results=job.unwritten)
            job.unwritten.clear()
        self._metrics.count(metrics.TREES, number=run.trees - trees_before)  # only once they are in the ledger
        job.note_first_trees(now)

    def _write_sent(self, job: SearchingJob, tasks: Sequence[Task], now: float) -> None:
        rows = [TaskRow(task.key.batch, task.key.start, task.key.stop, task.attempt) for task in tasks]
        self._ledger.search.write(job.lease, now, sent=rows)


def explain_answer(answer: BlockAnswer) -> str:
    """Say why a task failed."""
    return explain(answer.reason, cause_of(answer.kind, answer.reason))


def read_answer(fields: Mapping[bytes, bytes]) -> tuple[Answer, bytes]:
    """Return the answer and its body: packed data or a result document. Raise FormatError if it is invalid."""
    answer, body = read_entry(fields)
    if not isinstance(answer, RulesAnswer):
        return answer, body
    if answer.counting:
        PassPlan.parse(body)
    elif answer.kind == "done" and answer.shuffles is None:
        _check_document(body)
    return answer, body


def _check_document(body: bytes) -> None:
    try:
        document = decode_json(body)
    except FormatError as error:
        raise FormatError(f"The result document is invalid: {error}") from None
    if not isinstance(document, dict):
        raise FormatError(f"The result document is not an object but {type(document).__name__}.")
