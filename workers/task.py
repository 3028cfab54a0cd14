"""What the tasks have in common: decode, one library call, encode; every outcome is said on the job's stream."""

import os
import socket
from typing import Any

from celery import Task

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import open_redis
from maabo_dist.cluster.tables import TableCache
from maabo_dist.contract.messages import MAX_REASON


class ClusterTask(Task):  # type: ignore[misc]  # Celery ships no types
    """A task with settings, tables and a connection of its own."""

    abstract = True
    ignore_result = True
    acks_late = True

    def __init__(self, settings: ClusterSettings, cache: TableCache) -> None:
        self._settings, self._cache = settings, cache
        self._connections: dict[int, Any] = {}

    @property
    def redis(self) -> Any:
        """Made in the process that needs it: connections do not survive a fork."""
        process = os.getpid()
        if process not in self._connections:
            self._connections = {process: open_redis(self._settings)}
        return self._connections[process]

    def report_loss(self, message: dict[str, Any], reason: str) -> None:
        """Called in the worker's main process when the one that ran the task is gone."""
        raise NotImplementedError


def worker_name() -> str:
    """Who answers."""
    return f"{socket.gethostname()}:{os.getpid()}"


def shown(reason: object) -> str:
    """A reason that fits into an answer."""
    return str(reason)[:MAX_REASON]
