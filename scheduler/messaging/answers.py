"""`Answers`: what workers answer is read, checked and handed to the desk that asked; some answers end their job.

entry of the job's stream ─► ScreenAnswer ─► ScreenDesk ─┐
                             RulesAnswer ────► RulesDesk ──┼─► nothing, or the job's Ending
                             EvaluationAnswer ───► SearchDesk ─┘
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.store import StoreError
from maabo_dist.cluster.streams import BODY, HEADER, RULES_HEADER, SCREEN_HEADER
from maabo_dist.contract.job import JobState
from maabo_dist.contract.messages import EvaluationAnswer, RulesAnswer, ScreenAnswer
from maabo_dist.errors import FormatError
from scheduler import metrics
from scheduler.core.job import ActiveJob, ScreeningJob
from scheduler.core.machine import TaskKey
from scheduler.core.rules_handler import MOST_STRIKES, RulesDesk
from scheduler.core.screen_handler import ScreenDesk
from scheduler.core.search_handler import SearchDesk
from scheduler.messaging.status import Mirror
from scheduler.resources import Resources

logger = StructuredLogger("maabo.scheduler")

EARLY_ENDS = {"time", "patience"}


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ends; `values` are columns of it."""

    state: JobState
    values: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def failure(cls, reason: str) -> "Ending":
        """It cannot be done."""
        return cls(JobState.FAILED, {"reason": reason})


@dataclass(frozen=True, slots=True)
class Desks:
    """Who asks workers for what."""

    search: SearchDesk
    screens: ScreenDesk
    rules: RulesDesk

    def send(self, job: ActiveJob | ScreeningJob, tasks: Sequence[Any], now: float) -> None:
        """Send tasks of a job."""
        if isinstance(job, ScreeningJob):
            self.screens.send(job, tasks, now)
        else:
            self.search.send(job, tasks, now)

    def resend_silent(self, job: ActiveJob | ScreeningJob, horizon: float, now: float) -> None:
        """Send again what should have been answered. What was sent before `horizon` has been taken by a worker."""
        if isinstance(job, ScreeningJob):
            self.screens.resend_silent(job, horizon, now)
        else:
            self.search.resend_silent(job, horizon, now)
            self.rules.resend_silent(job, now)


class Answers:
    """Judges answers to jobs that this scheduler holds."""

    def __init__(self, resources: Resources, desks: Desks, mirror: Mirror) -> None:
        self._resources, self._desks, self._mirror = resources, desks, mirror
        self.horizon = 0.0
        """Whatever was sent before this time has been taken by a worker: something sent later was answered."""

    def judge(self, job: ActiveJob | ScreeningJob, fields: Mapping[bytes, bytes], now: float) -> Ending | None:
        """Take one entry of a job's stream; one that does not read is dropped with a warning."""
        try:
            return self._judged(job, fields, fields.get(BODY, b""), now)
        except FormatError as error:
            logger.warning("answer refused", **job.log_fields, reason=error)
            self._resources.metrics.count(metrics.REFUSED)
            return None

    def _judged(
        self, job: ActiveJob | ScreeningJob, fields: Mapping[bytes, bytes], body: bytes, now: float
    ) -> Ending | None:
        if SCREEN_HEADER in fields:
            return self._screened(job, ScreenAnswer.read(fields[SCREEN_HEADER]), body, now)
        if isinstance(job, ScreeningJob):
            raise FormatError("It is an answer to a search that has not begun.")
        if RULES_HEADER in fields:
            return self._mined(job, RulesAnswer.read(fields[RULES_HEADER]), body, now)
        return self._answered(job, EvaluationAnswer.read(fields.get(HEADER, b"")), body, now)

    def _answered(self, job: ActiveJob, answer: EvaluationAnswer, body: bytes, now: float) -> Ending | None:
        self._raise_horizon(job.machine.sent_at(TaskKey(answer.batch, answer.start, answer.stop)))
        self._desks.search.accept(job, answer, body, now)
        return self._made_available(job, answer.reason, now) if answer.kind == "unavailable" else None

    def _screened(self, job: ActiveJob | ScreeningJob, answer: ScreenAnswer, body: bytes, now: float) -> Ending | None:
        if isinstance(job, ActiveJob):
            logger.debug("answer dropped: the screen is made", **job.log_fields)
            self._resources.metrics.count(metrics.DROPPED, "screen")
            return None
        block = job.screening.block(answer.start, answer.stop)
        if block is not None:
            self._raise_horizon(job.screening.sent_at(block))
        reason = self._desks.screens.accepted(job, answer, body, now)
        if reason is not None:
            return Ending.failure(reason)
        return self._made_available(job, answer.reason, now) if answer.kind == "unavailable" else None

    def _mined(self, job: ActiveJob, answer: RulesAnswer, document: bytes, now: float) -> Ending | None:
        if answer.kind == "done":
            _check_document(document)
        if self._desks.rules.accepted(job, answer, now):
            self._mirror.show_document(job.lease.job, document)
            if answer.final:
                values = {"digest": answer.digest, "rules": answer.rules, "document": document.decode()}
                return Ending(JobState.DONE, values | {"reason": _early_end(job)})
        elif job.rules_strikes >= MOST_STRIKES:
            return Ending.failure(f"The rules could not be mined: {answer.reason}")
        return None

    def _made_available(self, job: ActiveJob | ScreeningJob, reason: str, now: float) -> Ending | None:
        """Put the table into the store again if it is gone; fail the job if no worker can begin for long."""
        job.stuck_since = job.stuck_since or now
        if now - job.stuck_since > self._resources.settings.stuck_seconds:
            return Ending.failure(f"No worker could begin: {reason}")
        try:
            if _restored(self._resources, job.spec.dataset.fingerprint):
                logger.warning("table missing in the store; put there again", **job.log_fields)
        except (StoreError, OSError) as error:  # other jobs must not wait for this one's table
            logger.warning("table missing in the store", **job.log_fields, reason=error)
        return None

    def _raise_horizon(self, sent_at: float | None) -> None:
        self.horizon = max(self.horizon, sent_at or 0.0)


def _restored(resources: Resources, fingerprint: str) -> bool:
    """Whether the store lacked a table, and has it again. It is mapped here, even if its file is gone."""
    name = f"columns/{fingerprint}"
    if resources.store.has(name):
        return False
    with TemporaryDirectory(prefix="maabo-") as directory:
        path = Path(directory) / "table"
        resources.cache.columns(fingerprint).save(path)
        resources.store.put(name, path)
    return True


def _check_document(document: bytes) -> None:
    try:
        json.loads(document)
    except ValueError as error:
        raise FormatError(f"A document of rules does not read: {error}.") from None


def _early_end(job: ActiveJob) -> str | None:
    reason = job.machine.run.reason
    return reason.value if reason in EARLY_ENDS else None
