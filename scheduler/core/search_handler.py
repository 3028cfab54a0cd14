"""`SearchDesk`: tasks of a search to the workers, their answers into the books, and both into the ledger."""

import random
from collections.abc import Sequence

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.contract.messages import EvaluationAnswer
from maabo_dist.contract.result import StopReason
from maabo_dist.trees.wire import unpack_forest
from scheduler import metrics
from scheduler.core.job import ActiveJob
from scheduler.core.machine import MOST_STRIKES, Task, TaskKey
from scheduler.ledger.search import BatchRow, ResultRow, TaskRow
from scheduler.messaging.publisher import POSTPONED, Post
from scheduler.resources import Resources

logger = StructuredLogger("maabo.scheduler")

FIRST_TIME = 20.0
"""Seconds that the first answer may take longer than the others: workers have the table to fetch."""


class SearchDesk:
    """Sends tasks, judges the answers and takes the search further."""

    def __init__(self, resources: Resources, post: Post) -> None:
        self._ledger, self._post, self._metrics = resources.ledger, post, resources.metrics

    def send(self, job: ActiveJob, tasks: Sequence[Task], now: float) -> None:
        """Into the ledger, then to the broker."""
        rows = [TaskRow(task.key.batch, task.key.start, task.key.stop, task.attempt) for task in tasks]
        self._ledger.search.write(job.lease, now, sent=rows)
        for task in tasks:  # before they are sent: what becomes of them in an outage shows by their answers
            job.machine.sent(task.key, task.attempt, now)
        self._post.evaluate([job.message(task) for task in tasks])
        self._metrics.count(metrics.TASKS_SENT, "evaluate", len(tasks))

    def accept(self, job: ActiveJob, answer: EvaluationAnswer, body: bytes, now: float) -> None:
        """Take an answer; the ledger has it after `advance`."""
        key = TaskKey(answer.batch, answer.start, answer.stop)
        if answer.kind == "done":
            self._done(job, key, answer, body)
        else:
            self._not_done(job, key, answer, now)

    def advance(self, job: ActiveJob, now: float) -> None:
        """Propose what can be proposed, and write all that happened."""
        machine, values = job.machine, dict[str, object]()
        if job.overtime(now):
            job.stopping = True
            values["stop_after"] = machine.proposed
            machine.stop(machine.proposed, StopReason.TIME)
            logger.info("time budget spent", **job.log_fields, batches=machine.proposed)
        before = machine.run.grown
        fresh = [BatchRow(number, subsets.astype("<i4").tobytes()) for number, subsets in machine.propose()]
        if job.unwritten or fresh or values:
            run = machine.run
            values |= {
                "trees": run.grown,
                "best_score": run.best_score,
                "failed": job.failed,
                "run_seconds": job.run_seconds(now),
            }
            self._ledger.search.write(job.lease, now, values, new_batches=fresh, new_results=job.unwritten)
            job.unwritten.clear()
        self._metrics.count(metrics.TREES, number=machine.run.grown - before)  # not before the ledger has them

    def resend_silent(self, job: ActiveJob, horizon: float, now: float) -> None:
        """Send again what should have been answered. What was sent before `horizon` has been taken by a worker."""
        job.machine.taken(horizon, now)
        silent = job.machine.resend_silent(now, lambda key: _allowance(job, key))
        if silent:
            logger.warning("nothing heard; sent again", **job.log_fields, tasks=len(silent))
            self._metrics.count(metrics.RESENT, "silent", len(silent))

    def _done(self, job: ActiveJob, key: TaskKey, answer: EvaluationAnswer, body: bytes) -> None:
        if not job.machine.is_open(key):
            logger.debug("answer dropped: another one came first", **job.log_fields, batch=key.batch)
            self._metrics.count(metrics.DROPPED, "evaluate")
            return
        job.machine.answer(key, unpack_forest(body, job.machine.subsets(key)))
        job.unwritten.append(ResultRow(key.batch, key.start, key.stop, body, None, answer.seconds))
        job.speed.learn(key.size, answer.seconds)
        job.stuck_since = None
        self._metrics.observe(metrics.TASK_SECONDS, answer.seconds, "evaluate")

    def _not_done(self, job: ActiveJob, key: TaskKey, answer: EvaluationAnswer, now: float) -> None:
        facts = job.log_fields | {"batch": key.batch, "subsets": key.size, "worker": answer.worker}
        logger.warning(f"task {answer.kind}", **facts, reason=answer.reason)
        self._count(job, key, answer)
        if answer.kind == "unavailable":
            job.machine.postpone(key, answer.attempt, now + random.uniform(*POSTPONED))  # noqa: S311 - no secret
            return
        given_up = job.machine.strike(key, answer.attempt)
        if given_up is not None and job.give_up(given_up, answer.reason):
            self._metrics.count(metrics.FAILED_SUBSETS)
            job.unwritten.append(ResultRow(given_up.batch, given_up.start, given_up.stop, b"", answer.reason))
            logger.warning("subset given up", **job.log_fields, batch=key.batch, subset=key.start, reason=answer.reason)

    def _count(self, job: ActiveJob, key: TaskKey, answer: EvaluationAnswer) -> None:
        if answer.kind == "lost":
            self._metrics.count(metrics.LOST, "evaluate")
        given_up = answer.kind != "unavailable" and key.size == 1 and answer.attempt + 1 >= MOST_STRIKES
        if job.machine.is_sent(key, answer.attempt) and not given_up:
            self._metrics.count(metrics.RESENT, answer.kind)


def _allowance(job: ActiveJob, key: TaskKey) -> float:
    """Seconds that a worker may be silent. It may be busy with rules, and the first time has the table to fetch."""
    first = FIRST_TIME if job.speed.seconds is None else 0.0
    return 3.0 + 8 * job.speed.expected(key.size) + 2 * job.rules_seconds + first
