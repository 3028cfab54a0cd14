"""Hooks into Celery: workarounds for its faults, and the `Heartbeat` of a worker.

The workarounds are for bugs in Celery, billiard and kombu that leave a worker slow or silent. Check each of them
again when versions change (celery 5.7, billiard 4.3, kombu 5.7).
"""

from contextlib import suppress
from time import monotonic
from typing import Any

import billiard.pool  # type: ignore[import-untyped]  # ships no types
import redis
from celery import signals
from celery.concurrency.asynpool import AsynPool
from celery.worker.consumer.tasks import Tasks
from celery.worker.state import active_requests

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import open_redis
from maabo_dist.contract import names
from maabo_dist.contract.job import WorkerRecord

# A tenth of a second each.
LAST_RESULT_CHECKS = 20
POOL_CHECK_SECONDS = 0.5


def apply_workarounds() -> None:
    """Call this once, before a worker starts."""
    # A process that ends waits up to 30 s for its last result to be read, but a main process that is shutting down may
    # have stopped reading. The answer is on the stream by then; a task that is not acknowledged is only repeated.
    billiard.pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = LAST_RESULT_CHECKS
    # The pipe of a process that dies closes a moment before the process can be waited for. A check in that moment
    # finds nothing, and the next one is by default 5 s later.
    AsynPool.timers = property(lambda pool: {pool.maintain_pool: POOL_CHECK_SECONDS})
    # RabbitMQ's quorum queues refuse a prefetch limit for a whole channel, and future versions will for all queues.
    # Celery uses one unless it detects a quorum queue, which it cannot if the virtual host creates them by default.
    Tasks.qos_global = lambda _step, _consumer: False


EXPIRE_SECONDS = 15
REFRESH_SECONDS = 5.0
# Short: the heartbeat runs in the worker's main loop, which must not wait for an unreachable Redis.
TIMEOUT_SECONDS = 0.5


class Heartbeat:
    """Publishes in Redis that this process's worker is alive, how many processes it has and how many are busy.

    It follows Celery's own heartbeat. The record expires, so a worker that was killed is soon not counted any more.
    """

    def __init__(self, settings: ClusterSettings, client: Any = None) -> None:
        self._settings = settings
        self._redis = client or open_redis(settings, timeout=TIMEOUT_SECONDS, retries=0)
        self._key: str | None = None
        self._processes = 0
        self._text = ""
        self._refresh = 0.0

    def connect_signals(self) -> None:
        """Follow the worker from when it is ready until it ends."""
        signals.worker_ready.connect(
            lambda sender, **_: self.begin(sender.hostname, sender.pool.num_processes), weak=False
        )
        signals.heartbeat_sent.connect(lambda **_: self.beat(len(active_requests)), weak=False)
        signals.worker_shutdown.connect(lambda **_: self.end(), weak=False)

    def begin(self, node: str, processes: int) -> None:
        """Publish that the worker is ready."""
        self._key, self._processes = self._settings.key(f"{names.WORKERS}:{node}"), processes
        self._text = ""
        self.beat(0)

    def beat(self, busy: int) -> None:
        """Publish the number of busy processes, if it changed or the record is about to expire."""
        now = monotonic()
        text = WorkerRecord(processes=max(1, self._processes), busy=busy).model_dump_json()
        if self._key is None or (text == self._text and now < self._refresh):
            return
        try:
            self._redis.set(self._key, text, ex=EXPIRE_SECONDS)
        except (redis.RedisError, OSError):
            return
        self._text, self._refresh = text, now + REFRESH_SECONDS

    def end(self) -> None:
        """Remove the record of a worker that has stopped."""
        key, self._key = self._key, None
        if key is not None:
            with suppress(redis.RedisError, OSError):
                self._redis.delete(key)
