"""`ScreenDesk`: blocks of a screen to the workers, their answers into the ledger, and the screen out of them."""

import random
from collections.abc import Sequence

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.contract.messages import ScreenAnswer
from maabo_dist.errors import FormatError
from maabo_dist.screens.pairs import Screen
from maabo_dist.screens.wire import pack_screen, unpack_pairs
from scheduler import metrics
from scheduler.core.job import ScreeningJob
from scheduler.core.screening import Block, BlockTask
from scheduler.ledger.screens import BlockRow
from scheduler.messaging.publisher import POSTPONED, Post
from scheduler.resources import Resources

logger = StructuredLogger("maabo.scheduler.screen")

FIRST_TIME = 20.0
"""Seconds that the first answer may take longer than the others: workers have the table to fetch and to lay out."""


class ScreenDesk:
    """Sends blocks and judges the answers."""

    def __init__(self, resources: Resources, post: Post) -> None:
        self._ledger, self._post, self._metrics = resources.ledger, post, resources.metrics

    def send(self, job: ScreeningJob, tasks: Sequence[BlockTask], now: float) -> None:
        """Into the ledger, then to the broker."""
        rows = [BlockRow(task.key.start, task.key.stop, task.attempt) for task in tasks]
        self._ledger.screens.write_blocks(job.lease, now, rows)
        for task in tasks:  # before they are sent: what becomes of them in an outage shows by their answers
            job.screening.sent(task.key, task.attempt, now)
        self._post.screen([job.message(task) for task in tasks])
        self._metrics.count(metrics.TASKS_SENT, "screen", len(tasks))

    def accepted(self, job: ScreeningJob, answer: ScreenAnswer, body: bytes, now: float) -> str | None:
        """Take an answer; the reason if there can be no screen."""
        block = job.screening.block(answer.start, answer.stop)
        if block is None:
            raise FormatError(f"Features {answer.start} to {answer.stop - 1} are no block of this screen.")
        if answer.kind == "done":
            self._done(job, block, answer, body)
            return None
        facts = job.log_fields | {"block": job.screening.number(block), "worker": answer.worker}
        logger.warning(f"block {answer.kind}", **facts, reason=answer.reason)
        if answer.kind == "lost":
            self._metrics.count(metrics.LOST, "screen")
        if job.screening.is_sent(block, answer.attempt):
            self._metrics.count(metrics.RESENT, answer.kind)
        if answer.kind == "unavailable":
            job.screening.postpone(block, answer.attempt, now + random.uniform(*POSTPONED))  # noqa: S311 - no secret
        elif job.screening.strike(block, answer.attempt):
            return f"The pairs of features {block.start} to {block.stop - 1} could not be screened: {answer.reason}"
        return None

    def resend_silent(self, job: ScreeningJob, horizon: float, now: float) -> None:
        """Send again what should have been answered."""
        job.screening.taken(horizon, now)
        silent = job.screening.resend_silent(now, lambda block: _allowance(job, block))
        if silent:
            logger.warning("nothing heard; sent again", **job.log_fields, blocks=len(silent))
            self._metrics.count(metrics.RESENT, "silent", len(silent))

    def finished(self, job: ScreeningJob, now: float) -> bool:
        """Write all that happened; whether the screen is made and in the ledger."""
        if job.unwritten:
            self._ledger.screens.write_blocks(job.lease, now, job.unwritten, {"run_seconds": job.run_seconds(now)})
            job.unwritten.clear()
        if not job.screening.finished:
            return False
        table, columns = job.prepared.study.table, job.prepared.study.columns
        screen = Screen.of(table.root_scores, job.screening.best, len(columns.classes))
        self._ledger.screens.write_screen(job.lease, now, pack_screen(screen), {"run_seconds": job.run_seconds(now)})
        facts = {"pairs": job.screening.pairs, "kept": len(screen.pairs), "seconds": job.run_seconds(now)}
        logger.info("pairs screened", **job.log_fields, **facts)
        return True

    def _done(self, job: ScreeningJob, block: Block, answer: ScreenAnswer, body: bytes) -> None:
        screening = job.screening
        if not screening.is_open(block):
            logger.debug("answer dropped: another one came first", **job.log_fields, block=screening.number(block))
            self._metrics.count(metrics.DROPPED, "screen")
            return
        screening.answer(block, unpack_pairs(body, block.start, block.stop, screening.features, screening.most))
        job.unwritten.append(BlockRow(block.start, block.stop, answer.attempt, body, answer.seconds))
        job.speed.learn(block.size, answer.seconds)
        job.stuck_since = None
        self._metrics.observe(metrics.TASK_SECONDS, answer.seconds, "screen")


def _allowance(job: ScreeningJob, block: Block) -> float:
    """Seconds that a worker may be silent."""
    return 3.0 + 8 * job.speed.expected(block.size) + (0.0 if job.screening.screened else FIRST_TIME)
