"""`SearchHandler`, `ScreenHandler` and `RulesHandler` send the tasks of a job, and handle and record the answers."""

import json
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

import numpy as np

from maabo_dist._util.network import backoff_delay
from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.store import StoreError
from maabo_dist.cluster.streams import BODY, HEADER, RULES_HEADER, SCREEN_HEADER, Answer
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.contract.messages import EvaluationAnswer, RulesAnswer, RulesMessage, ScreenAnswer
from maabo_dist.contract.result import StopReason
from maabo_dist.errors import FormatError
from maabo_dist.screens.pairs import Screen
from maabo_dist.screens.wire import pack_screen, unpack_pairs
from maabo_dist.trees.wire import Frame, unpack_forest, write_segment
from scheduler import metrics
from scheduler.core.dispatch import TaskQueue
from scheduler.core.job import HeldJob, JobEnd, RulesRequest, ScreeningJob, SearchingJob
from scheduler.core.machines import BlockTask, Task, TaskKey
from scheduler.core.outbox import MAX_PATIENCE
from scheduler.ledger.jobs import Segment
from scheduler.ledger.search import BatchRow, BlockRow, ResultRow, TaskRow
from scheduler.messaging.publishers import StatusPublisher, TaskPublisher
from scheduler.resources import Resources

logger, rules_logger = StructuredLogger("maabo.scheduler"), StructuredLogger("maabo.scheduler.rules")

# Delay before a task that a worker could not begin is sent again. Random: at a fixed interval, the same worker may be
# the first in the queue each time.
RETRY_SECONDS = (0.5, 1.5)

# Failures of the final rules after which a job has failed.
MAX_RULES_FAILURES = 4
# A generous estimate for mining, to detect overdue answers.
SECONDS_PER_TREE = 5e-5
# Rules so far are mined again after this multiple of the time that it took.
REST_FACTOR = 10
COMPLETE_SEARCH = {StopReason.BUDGET, StopReason.EXHAUSTED}

AnyJob = TypeVar("AnyJob", bound=HeldJob)


class TaskHandler(ABC, Generic[AnyJob]):
    """The base class of what searches and screens share: sending tasks and handling answers."""

    def __init__(self, resources: Resources, publisher: TaskPublisher, queue: TaskQueue) -> None:
        self._resources, self._ledger, self._metrics = resources, resources.ledger, resources.metrics
        self._publisher, self._queue = publisher, queue

    def send(self, job: AnyJob, tasks: Sequence[Any], now: float) -> None:
        """Write tasks to the ledger, then publish them."""
        self._write_sent(job, tasks, now)
        for task in tasks:  # before publishing: if the broker fails, answers will show which tasks have arrived
            job.machine.mark_sent(task.key, task.attempt, now)
        self._queue.note_sent(len(tasks))
        self._publisher.publish([job.message(task) for task in tasks])
        self._metrics.count(metrics.TASKS_SENT, job.task, len(tasks))

    def resend_unanswered(self, job: AnyJob, now: float) -> None:
        """Resend tasks whose answers are overdue."""
        job.outbox.mark_taken(self._queue.taken_before, now)
        unanswered = job.outbox.resend_unanswered(now, lambda key: job.allowance(key.size))
        if unanswered:
            logger.warning("no answer; sending again", **job.log_fields, task=job.task, tasks=len(unanswered))
            self._metrics.count(metrics.RESENT, "silent", len(unanswered))

    @abstractmethod
    def _write_sent(self, job: AnyJob, tasks: Sequence[Any], now: float) -> None:
        """Write tasks that are about to be sent."""

    def _drop(self, job: HeldJob, task: str, reason: str) -> None:
        logger.debug(f"answer dropped: {reason}", **job.log_fields, task=task)
        self._metrics.count(metrics.DROPPED, task)

    def _note_done(self, job: AnyJob, size: int, seconds: float) -> None:
        job.speed.observe(size, seconds)
        job.stuck_since = None
        self._metrics.observe(metrics.TASK_SECONDS, seconds, job.task)

    def _retry(self, job: AnyJob, key: Any, answer: EvaluationAnswer | ScreenAnswer, now: float) -> bool:
        """Resend a task that was not completed. True if it failed too often."""
        facts = {"task": job.task, "start": key.start, "stop": key.stop, "worker": answer.worker}
        logger.warning(f"task {answer.kind}", **job.log_fields, **facts, reason=answer.reason)
        if answer.kind == "lost":
            self._metrics.count(metrics.LOST, job.task)
        was_sent, given_up = job.outbox.is_sent(key, answer.attempt), False
        if answer.kind == "unavailable":
            delay = random.uniform(*RETRY_SECONDS)  # noqa: S311 - no secret
            job.outbox.postpone(key, answer.attempt, now + delay)
        else:
            given_up = job.machine.fail(key, answer.attempt)
        if was_sent and not given_up:
            self._metrics.count(metrics.RESENT, answer.kind)
        return given_up

    def _check_available(self, job: AnyJob, reason: str, now: float) -> JobEnd | None:
        """Put the table into the store again if it is missing; fail the job if no worker could begin for too long."""
        job.stuck_since = job.stuck_since or now
        if now - job.stuck_since > self._resources.settings.stuck_seconds:
            return JobEnd.failure(f"No worker could begin: {reason}")
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


class SearchHandler(TaskHandler[SearchingJob]):
    """Handles `maabo.evaluate` tasks."""

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
            self._note_done(job, key.size, answer.seconds)
            return None
        if self._retry(job, key, answer, now) and job.give_up(key, answer.reason):
            self._metrics.count(metrics.FAILED_SUBSETS)
            job.unwritten.append(ResultRow(key.batch, key.start, key.stop, b"", answer.reason))
            logger.warning("subset given up", **job.log_fields, batch=key.batch, subset=key.start, reason=answer.reason)
        return self._check_available(job, answer.reason, now) if answer.kind == "unavailable" else None

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

    def _write_sent(self, job: SearchingJob, tasks: Sequence[Task], now: float) -> None:
        rows = [TaskRow(task.key.batch, task.key.start, task.key.stop, task.attempt) for task in tasks]
        self._ledger.search.write(job.lease, now, sent=rows)


class ScreenHandler(TaskHandler[ScreeningJob]):
    """Handles `maabo.screen` tasks."""

    def handle(self, job: SearchingJob | ScreeningJob, answer: ScreenAnswer, body: bytes, now: float) -> JobEnd | None:
        """Accept or reject an answer; `commit_screen` writes it. Return the end of the job, if it ends."""
        if isinstance(job, SearchingJob):
            self._drop(job, "screen", "the screen is complete")
            return None
        screening = job.machine
        block = screening.block(answer.start, answer.stop)
        if block is None:
            raise FormatError(f"Features {answer.start} to {answer.stop - 1} are not a block of this screen.")
        self._queue.note_taken(job.outbox.sent_at(block))
        if answer.kind == "done":
            if not screening.is_open(block):
                self._drop(job, job.task, "another one came first")
                return None
            pairs = unpack_pairs(body, block.start, block.stop, screening.features, screening.max_pairs)
            screening.accept(block, pairs)
            job.unwritten.append(BlockRow(block.start, block.stop, answer.attempt, body, answer.seconds))
            self._note_done(job, block.size, answer.seconds)
            return None
        if self._retry(job, block, answer, now):
            features = f"The pairs of features {block.start} to {block.stop - 1}"
            return JobEnd.failure(f"{features} could not be screened: {answer.reason}")
        return self._check_available(job, answer.reason, now) if answer.kind == "unavailable" else None

    def commit_screen(self, job: ScreeningJob, now: float) -> bool:
        """Write the accepted answers to the ledger, and the screen once it is complete. True if it is."""
        columns = {"run_seconds": job.run_seconds(now)}
        if job.unwritten:
            self._ledger.screens.write_blocks(job.lease, now, job.unwritten, columns)
            job.unwritten.clear()
        if not job.machine.finished:
            return False
        study = job.prepared.study
        screen = Screen.from_scores(study.table.root_scores, job.machine.best, len(study.columns.classes))
        self._ledger.screens.write_screen(job.lease, now, pack_screen(screen), columns)
        facts = {"pairs": job.machine.pairs, "kept": len(screen.pairs), "seconds": job.run_seconds(now)}
        logger.info("pairs screened", **job.log_fields, **facts)
        return True

    def _write_sent(self, job: ScreeningJob, tasks: Sequence[BlockTask], now: float) -> None:
        rows = [BlockRow(task.key.start, task.key.stop, task.attempt) for task in tasks]
        self._ledger.screens.write_blocks(job.lease, now, rows)


def read_answer(fields: Mapping[bytes, bytes]) -> tuple[Answer, bytes]:
    """Return the answer and its body: trees, pairs or a result document. Raise FormatError if it is invalid."""
    body = fields.get(BODY, b"")
    if SCREEN_HEADER in fields:
        return ScreenAnswer.read(fields[SCREEN_HEADER]), body
    if RULES_HEADER not in fields:
        return EvaluationAnswer.read(fields.get(HEADER, b"")), body
    answer = RulesAnswer.read(fields[RULES_HEADER])
    if answer.kind == "done":
        try:
            json.loads(body)
        except ValueError as error:
            raise FormatError(f"The result document is invalid: {error}.") from None
    return answer, body


class RulesHandler:
    """Handles `maabo.rules` tasks."""

    def __init__(self, resources: Resources, publisher: TaskPublisher, status: StatusPublisher) -> None:
        self._resources, self._publisher, self._status = resources, publisher, status
        self._ledger, self._metrics = resources.ledger, resources.metrics

    def send_if_due(self, job: SearchingJob, now: float) -> None:
        """Request the rules of a search that is over, or rules so far if they are due."""
        if job.machine.finished:
            if job.request is None or not job.request.final:
                job.state = JobState.MINING
                self._ledger.search.write(job.lease, now, {"state": job.state.value})
                self._send(job, now, final=True)
            return
        job.next_partial = job.next_partial or now + self._resources.settings.partial_seconds
        exported = job.segments[-1].until if job.segments else 0
        if job.request is None and now >= job.next_partial and job.machine.observed > exported:
            job.next_partial = now + self._resources.settings.partial_seconds
            self._send(job, now, final=False)

    def resend_unanswered(self, job: SearchingJob, now: float) -> None:
        """Drop a request whose answer is overdue; `send_if_due` sends it again."""
        request = job.request
        if request is None:
            return
        allowance = 5 + request.trees * SECONDS_PER_TREE
        if request.taken_at is None:
            waiting = self._resources.broker.waiting([names.RULES_QUEUE])[0]
            request.taken_at = now if waiting == 0 else None
        elif now - request.taken_at > backoff_delay(allowance, job.rules_timeouts, MAX_PATIENCE * allowance):
            rules_logger.warning("no answer; sending again", **job.log_fields, task="rules", final=request.final)
            self._metrics.count(metrics.RESENT, "silent")
            job.rules_timeouts += 1
            job.request = None

    def handle(self, job: SearchingJob, answer: RulesAnswer, document: bytes, now: float) -> JobEnd | None:
        """Publish the rules, or note that they are to be mined again. Return the end of the job, if it ends."""
        if answer.kind != "done":
            self._note_failure(job, answer, now)
            failed = job.rules_failures >= MAX_RULES_FAILURES
            return JobEnd.failure(f"The rules could not be mined: {answer.reason}") if failed else None
        if answer.final != job.machine.finished:  # the search was not over then, or is not now
            self._metrics.count(metrics.DROPPED, "rules")
            return None
        if job.request is not None and answer.attempt == job.request.number:
            job.request = None
        if not answer.final:
            job.next_partial = now + max(self._resources.settings.partial_seconds, REST_FACTOR * answer.seconds)
        self._metrics.observe(metrics.TASK_SECONDS, answer.seconds, "rules")
        job.rules, job.rules_timeouts, job.rules_seconds = answer.rules, 0, answer.seconds
        self._status.publish_document(job.lease.job, document)
        if not answer.final:
            return None
        reason = job.machine.run.reason
        columns = {"digest": answer.digest, "rules": answer.rules, "document": document.decode()}
        return JobEnd(JobState.DONE, columns | {"reason": None if reason in COMPLETE_SEARCH else reason.explanation})

    def _note_failure(self, job: SearchingJob, answer: RulesAnswer, now: float) -> None:
        if answer.kind == "lost":
            self._metrics.count(metrics.LOST, "rules")
        if job.request is None or answer.attempt != job.request.number:
            return
        job.request = None
        job.next_partial = now + self._resources.settings.partial_seconds
        rules_logger.warning(f"task {answer.kind}", **job.log_fields, task="rules", reason=answer.reason)
        self._metrics.count(metrics.RESENT, answer.kind)
        if answer.kind == "unavailable":
            # If the store has lost trees, all of them are stored again with the next request: the ledger has them.
            if not all(self._resources.store.has(f"trees/{segment.digest}") for segment in job.segments):
                rules_logger.warning("trees missing in the store; storing them again", **job.log_fields)
                job.segments.clear()
        elif answer.final:
            job.rules_failures += 1

    def _send(self, job: SearchingJob, now: float, *, final: bool) -> None:
        self._store_trees(job, now)
        job.requests += 1
        run = job.machine.run
        # Omit fields that workers do not need; its span is a child of the job's.
        spec = job.spec.model_copy(update={"callback": None, "dataset_id": None, "trace": job.trace})
        message = RulesMessage(
            spec=spec,
            attempt=job.requests,
            final=final,
            segments=tuple(segment.digest for segment in job.segments),
            seconds=job.run_seconds(now),
            stopped=run.reason if final else StopReason.RUNNING,
            failures=tuple(job.failures.values()),
        )
        self._publisher.publish([message])
        self._metrics.count(metrics.TASKS_SENT, "rules")
        job.request = RulesRequest(job.requests, final, run.trees)

    def _store_trees(self, job: SearchingJob, now: float) -> None:
        """Store the trees of all batches observed since the last segment as one more segment."""
        first, until = (job.segments[-1].until if job.segments else 0), job.machine.observed
        if until == first:
            return
        scratch = Path(self._resources.settings.cache_dir)
        scratch.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=scratch, prefix=".segment-") as directory:
            path = Path(directory) / "segment"
            digest = write_segment(path, self._frames(job, first, until))
            self._resources.store.put(f"trees/{digest}", path)
        job.segments.append(Segment(digest, until))
        self._ledger.search.write_segments(job.lease, now, job.segments)
        rules_logger.debug("trees stored", **job.log_fields, segment=digest[:12], batches=until)

    def _frames(self, job: SearchingJob, first: int, until: int) -> Iterator[Frame]:
        subsets = {row.number: row.subsets for row in self._ledger.search.batches(job.lease.job, first, until)}
        for row in self._ledger.search.results(job.lease.job, first, until):
            batch = np.frombuffer(subsets[row.batch], "<i4").reshape(-1, job.plan.subset_size)
            yield batch[row.start : row.stop], row.trees
