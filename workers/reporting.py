"""What the tasks have in common: decode, one library call, encode; every outcome is said on the job's stream."""

import os
import socket
import time
from collections.abc import Callable
from typing import Any

import redis
from celery import Task

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import open_redis
from maabo_dist.cluster.table_cache import TableCache
from maabo_dist.cluster.tracing import Tracing
from maabo_dist.contract.messages import MAX_REASON

logger = StructuredLogger("maabo.worker")

MOST_SAID = 200
"""Characters of a value in a log line; nothing that reads has more."""
REST = 1.0
"""Seconds that a worker that could not begin a task takes no other, so that those that can get it."""


class ClusterTask(Task):  # type: ignore[misc]  # Celery ships no types
    """A task with settings, tables and a connection of its own."""

    abstract = True
    ignore_result = True
    acks_late = True

    def __init__(self, settings: ClusterSettings, cache: TableCache, tracing: Tracing) -> None:
        self._settings, self._cache, self._tracing = settings, cache, tracing
        self._connections: dict[int, Any] = {}

    def run(self, **message: Any) -> str:
        """Returns one line for people, shown by Flower."""
        with self._tracing.span(self.name, trace_of(message), "consumer", **facts_of(message)) as span:
            line = self.work(message)
            span.annotate(outcome=line)
        return line

    def work(self, message: dict[str, Any]) -> str:
        """What the task is about."""
        raise NotImplementedError

    @property
    def redis(self) -> Any:
        """Made in the process that needs it: connections do not survive a fork."""
        process = os.getpid()
        if process not in self._connections:
            self._connections = {process: open_redis(self._settings)}
        return self._connections[process]

    def deliver(self, send: Callable[..., None], message: dict[str, Any], answer: Any, body: bytes) -> None:
        """Put an answer on the stream, in the contract version of who asked: a refusal reads the same in all of them.

        A Redis that cannot be reached does not speak against the work: the scheduler hears nothing, and asks again.
        """
        version = message.get("version")
        if isinstance(version, int):
            answer = answer.model_copy(update={"version": version})
        if answer.kind != "lost":  # that one is told of by whoever noticed it
            self._tell(message, answer)
        try:
            send(self.redis, self._settings, answer, body)
        except redis.RedisError as error:
            logger.warning("answer not sent", task=self.name, job=answer.job, reason=error)
        if answer.kind == "unavailable":
            time.sleep(REST)

    def _tell(self, message: dict[str, Any], answer: Any) -> None:
        facts = facts_of(message) | {"seconds": answer.seconds, "reason": answer.reason or None}
        logger.info(f"task {answer.kind}", task=self.name, **facts)

    def report_loss(self, message: dict[str, Any], reason: str) -> None:
        """Called in the worker's main process when the one that ran the task is gone; by default nobody is told."""


def facts_of(message: dict[str, Any]) -> dict[str, object]:
    """What log lines say of a message, even of one that does not read."""
    spec = message.get("spec")
    job = {"job": spec.get("id"), "correlation": spec.get("correlation")} if isinstance(spec, dict) else {}
    found = {name: message.get(name) for name in ("job", "batch", "start", "stop", "final", "correlation")} | job
    return {name: _said(value) for name, value in found.items()}


def _said(value: object) -> str | int | None:
    return value[:MOST_SAID] if isinstance(value, str) else value if isinstance(value, int) else None


def trace_of(message: dict[str, Any]) -> str | None:
    """The span that a message belongs under, even of one that does not read."""
    spec = message.get("spec")
    found = (spec if isinstance(spec, dict) else message).get("trace")
    return found if isinstance(found, str) else None


def worker_name() -> str:
    """Who answers."""
    return f"{socket.gethostname()}:{os.getpid()}"


def shown(reason: object) -> str:
    """A reason that fits into an answer."""
    return str(reason)[:MAX_REASON]


def reason_of(error: BaseException) -> str:
    """What to say of an error."""
    return "The worker ran out of memory." if isinstance(error, MemoryError) else str(error) or repr(error)
