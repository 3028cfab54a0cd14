"""The base classes of tasks.

AnsweringTask: decode the message ─► compute (one library call) ─► encode the answer onto the job's stream
"""

import json
import os
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar

import redis
from celery import Task

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.store import StoreError
from maabo_dist.cluster.streams import add_refused, open_redis, send_answers
from maabo_dist.cluster.table_cache import TableCache
from maabo_dist.cluster.tracing import Tracing
from maabo_dist.contract import messages, names
from maabo_dist.contract.problem import Problem, problem_of
from maabo_dist.errors import FormatError, MaaboError

logger = StructuredLogger("maabo.worker")

# Characters of a value in a log line; no valid value is longer.
MAX_FIELD = 200
# A worker that could not begin a task takes no other for this time, so that workers that can get it.
REST_SECONDS = 1.0
# The interval at which a long task checks that its job has not ended.
CHECK_SECONDS = 1.0
# How long a worker tries to send an answer while Redis cannot be reached, and how often.
ANSWER_SECONDS, RETRY_SECONDS = 30.0, 0.25


class JobEndedError(MaaboError):
    """The job of a task has ended."""


class ClusterTask(Task):  # type: ignore[misc]  # Celery ships no types
    """A task with settings, tables and a Redis connection of its own."""

    abstract = True
    ignore_result = True
    acks_late = True

    def __init__(self, settings: ClusterSettings, cache: TableCache, tracing: Tracing) -> None:
        self._settings, self._cache, self._tracing = settings, cache, tracing
        self._connections: dict[int, Any] = {}

    @property
    def redis(self) -> Any:
        """A connection of the current process: connections do not survive a fork."""
        process = os.getpid()
        if process not in self._connections:
            self._connections = {process: open_redis(self._settings)}
        return self._connections[process]

    def refuse(self, message: dict[str, Any], error: MaaboError) -> Problem:
        """Keep a message that this task cannot handle, with the reason."""
        logger.warning("message refused", task=self.name, **log_fields(message), reason=error)
        problem = problem_of(error)
        with suppress(redis.RedisError):  # then only the log has the reason
            data = json.dumps(message, default=repr).encode()
            add_refused(self.redis, self._settings, f"task {self.name}", data, problem)
        return problem

    def report_loss(self, message: dict[str, Any], reason: str) -> None:
        """Called in the worker's main process when the process that ran the task has died."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The body and fields of an answer, and a human-readable summary, shown by Flower."""

    body: bytes
    summary: str
    fields: dict[str, Any] = field(default_factory=dict)
    # If the message has several parts: the bodies of the others, and the share of each in the work.
    more: tuple[bytes, ...] = ()
    shares: tuple[float, ...] = (1.0,)


class AnsweringTask(ClusterTask):
    """A task that answers on the job's stream, even when it fails; no expected error is raised to Celery."""

    abstract = True
    answer: ClassVar[type[Any]]
    # Fields of the message that are copied to the answer.
    key_fields: ClassVar[tuple[str, ...]]

    def decode(self, message: dict[str, Any]) -> Any:
        """Read the message and fetch what the task needs."""
        raise NotImplementedError

    def compute(self, task: Any) -> TaskResult:
        """Do the work."""
        raise NotImplementedError

    def failure_fields(self, message: dict[str, Any], error: BaseException) -> dict[str, Any]:  # noqa: ARG002
        """Return more fields of an answer that the work failed."""
        return {}

    def parts(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """The parts of a message that have an answer each, even if it is invalid."""
        return [message]

    def run(self, **message: Any) -> str:
        """Return one human-readable line, shown by Flower."""
        trace = _source(message).get("trace")
        parent = trace if isinstance(trace, str) else None
        with self._tracing.span(self.name, parent, "consumer", **log_fields(message)) as span:
            line = self.work(message)
            span.annotate(outcome=line)
        return line

    def work(self, message: dict[str, Any]) -> str:
        """Decode, compute, answer."""
        try:
            task = self.decode(message)
        except (MaaboError, MemoryError, OSError) as error:  # another worker, or this one later, may be able to begin
            return self._reply(message, "unavailable", _reason(error))
        started = time.perf_counter()
        try:
            result = self.compute(task)
        except JobEndedError:  # nobody waits for an answer
            return "stopped: the job has ended"
        except (StoreError, OSError) as error:
            return self._reply(message, "unavailable", _reason(error))
        except (MaaboError, MemoryError) as error:  # Celery would end the worker on a MemoryError, again and again
            return self._reply(
                message,
                "failed",
                _reason(error),
                results=[(b"", self.failure_fields(message, error))] * len(self.parts(message)),
            )
        seconds = time.perf_counter() - started
        bodies = zip((result.body, *result.more), result.shares, strict=True)
        self._reply(message, "done", results=[(body, result.fields | {"seconds": seconds * x}) for body, x in bodies])
        return f"{result.summary} · {seconds * 1000:.0f} ms"

    def end_check(self, job: str) -> Callable[[], bool]:
        """Return a function that tells whether a job has ended, and asks Redis only from time to time."""
        due, key = time.monotonic() + CHECK_SECONDS, self._settings.key(f"{names.JOB_ENDED}:{job}")
        ended = False

        def has_ended() -> bool:
            nonlocal due, ended
            if not ended and time.monotonic() >= due:
                due = time.monotonic() + CHECK_SECONDS
                with suppress(redis.RedisError):  # then the task is finished, perhaps in vain
                    ended = bool(self.redis.exists(key))
            return ended

        return has_ended

    def report_loss(self, message: dict[str, Any], reason: str) -> None:
        """Answer that the task was lost."""
        self._reply(message, "lost", reason)

    def _reply(
        self,
        message: dict[str, Any],
        kind: messages.Outcome,
        reason: str = "",
        *,
        results: Sequence[tuple[bytes, dict[str, Any]]] = (),
    ) -> str:
        """Answer a message, even of another version, if it names the job. Return a human-readable line.

        `results` are the body and the fields of the answer to each part.
        """
        parts = self.parts(message)
        try:
            answers = [
                (self._answer(part, kind, reason, fields), body)
                for part, (body, fields) in zip(parts, results or [(b"", {})] * len(parts), strict=True)
            ]
        except FormatError as error:  # the message does not even say which task of which job it is
            self.refuse(message, FormatError(f"{reason} No answer is possible: {error}"))
            return f"refused: {reason}"
        if kind != "lost":  # that is logged by the main process
            facts = log_fields(message) | {"seconds": sum(answer.seconds for answer, _ in answers)}
            logger.info(f"task {kind}", task=self.name, **facts, reason=reason or None)
        self._send(answers)
        if kind == "unavailable":
            time.sleep(REST_SECONDS)
        return f"{kind}: {reason}"

    def _answer(self, part: dict[str, Any], kind: messages.Outcome, reason: str, fields: dict[str, Any]) -> Any:
        values = {"job": _job(part), "kind": kind, "worker": f"{socket.gethostname()}:{os.getpid()}"}
        values |= {name: part.get(name) for name in self.key_fields} | {"reason": reason[: messages.MAX_REASON]}
        answer = self.answer.read(values | fields)
        if isinstance(version := part.get("version"), int):  # refusals are the same in all contract versions
            answer = answer.model_copy(update={"version": version})
        return answer

    def _send(self, answers: Sequence[tuple[Any, bytes]]) -> None:
        """Send answers. They are not given up at once in an outage: the task would have to be computed again."""
        end, first = time.monotonic() + ANSWER_SECONDS, answers[0][0]
        while True:
            try:
                send_answers(self.redis, self._settings, answers)
            except (redis.ConnectionError, redis.TimeoutError) as error:
                if time.monotonic() < end and first.kind != "lost":  # those are sent by the worker's main loop
                    time.sleep(RETRY_SECONDS)
                    continue
                logger.warning("answer not sent", task=self.name, job=first.job, reason=error)
            except redis.RedisError as error:  # without an answer, the scheduler sends the task again
                logger.warning("answer not sent", task=self.name, job=first.job, reason=error)
            return


def log_fields(message: dict[str, Any]) -> dict[str, object]:
    """The fields of a message for log lines, even if it is invalid."""
    values = {"job": _job(message)} | {name: message.get(name) for name in ("batch", "start", "stop", "final")}
    values["correlation"] = _source(message).get("correlation")
    return {name: _log_value(value) for name, value in values.items()}


def _source(message: dict[str, Any]) -> dict[str, Any]:
    """The part of a message that describes the job: the job's document if there is one."""
    spec = message.get("spec")
    return spec if isinstance(spec, dict) else message


def _job(message: dict[str, Any]) -> object:
    source = _source(message)
    return source.get("job") if source is message else source.get("id")


def _log_value(value: object) -> str | int | None:
    return value[:MAX_FIELD] if isinstance(value, str) else value if isinstance(value, int) else None


def _reason(error: BaseException) -> str:
    return "The worker ran out of memory." if isinstance(error, MemoryError) else str(error) or repr(error)
