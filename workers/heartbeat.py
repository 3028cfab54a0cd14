"""`Heartbeat`: a worker publishes in Redis that it is alive, how many processes it has and how many are busy.

It follows Celery's own heartbeat. The record expires, so a worker that was killed is soon not counted any more.
"""

from contextlib import suppress
from time import monotonic
from typing import Any

import redis
from celery import signals
from celery.worker.state import active_requests

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import open_redis
from maabo_dist.contract import names
from maabo_dist.contract.job import WorkerRecord

EXPIRE_SECONDS = 15
REFRESH_SECONDS = 5.0
# Short: the heartbeat runs in the worker's main loop, which must not wait for a Redis that is gone.
TIMEOUT_SECONDS = 0.5


class Heartbeat:
    """The heartbeat of this process's worker."""

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
