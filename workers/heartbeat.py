"""`Pulse`: a worker says in Redis that it lives, how much it can do at a time and how much it does.

Celery's own heartbeat is the beat. What is said expires, so that a worker that was killed is not counted for long.
"""

from time import monotonic
from typing import Any

import redis
from celery import signals
from celery.worker.state import active_requests

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import open_redis
from maabo_dist.contract import names
from maabo_dist.contract.record import WorkerRecord

KEPT = 15
REFRESH_EVERY = 5.0
PATIENCE = 0.5
"""Seconds, all of them. The beat is in the worker's main loop: nobody there must wait for a Redis that is gone."""


class Pulse:
    """Of the one worker of this process."""

    def __init__(self, settings: ClusterSettings, client: Any = None) -> None:
        self._settings = settings
        self._redis = client or open_redis(settings, timeout=PATIENCE, retries=0)
        self._key: str | None = None
        self._processes = 0
        self._said = ""
        self._refresh = 0.0

    def follow(self) -> None:
        """Beat with the worker, from when it is ready until it ends."""
        signals.worker_ready.connect(self._ready, weak=False)
        signals.heartbeat_sent.connect(lambda **_: self.beat(len(active_requests)), weak=False)
        signals.worker_shutdown.connect(lambda **_: self.end(), weak=False)

    def begin(self, node: str, processes: int) -> None:
        """The worker is ready."""
        self._key, self._processes = self._settings.key(f"{names.WORKERS}:{node}"), processes
        self._said = ""
        self.beat(0)

    def beat(self, busy: int) -> None:
        """Say how busy it is, if that is news or what was said is about to expire."""
        now = monotonic()
        text = WorkerRecord(processes=max(1, self._processes), busy=busy).model_dump_json()
        if self._key is None or (text == self._said and now < self._refresh):
            return
        try:
            self._redis.set(self._key, text, ex=KEPT)
        except (redis.RedisError, OSError):
            return
        self._said, self._refresh = text, now + REFRESH_EVERY

    def end(self) -> None:
        """The worker has stopped, and says so."""
        key, self._key = self._key, None
        try:
            if key is not None:
                self._redis.delete(key)
        except (redis.RedisError, OSError):
            return

    def _ready(self, sender: Any, **_: Any) -> None:
        self.begin(sender.hostname, sender.pool.num_processes)
