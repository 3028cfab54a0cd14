"""Task `maabo.evaluate`: decode, grow the trees, answer on the results stream."""

import os
import socket
import time
from typing import Any

from celery import Task

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import open_redis, send_answer
from maabo_dist.cluster.tables import TableCache
from maabo_dist.contract import names
from maabo_dist.contract.messages import Answer, Evaluate, unpack_subsets
from maabo_dist.errors import FormatError, InputError, MaaboError
from maabo_dist.store import StoreError
from maabo_dist.trees import Forest, depth_search
from maabo_dist.trees.wire import pack_forest


class EvaluateTask(Task):  # type: ignore[misc]  # Celery ships no types
    """Grows the trees of one message. Whatever goes wrong is said on the stream; nothing is raised to Celery."""

    name = names.EVALUATE
    ignore_result = True
    acks_late = True

    def __init__(self, settings: ClusterSettings, cache: TableCache) -> None:
        self._settings, self._cache = settings, cache
        self._redis: Any = None

    def run(self, **message: Any) -> str:
        """Returns one line for people, shown by Flower."""
        started = time.monotonic()
        try:
            task = Evaluate.read(message)
            forest = self._grow(task)
        except MemoryError:  # left to Celery, it would end the worker's main process and come back for ever
            return self._fail(message, "The worker ran out of memory.", retryable=True)
        except StoreError as error:
            return self._fail(message, str(error), retryable=True)
        except (InputError, MaaboError) as error:
            return self._fail(message, str(error), retryable=False)
        seconds = time.monotonic() - started
        self._answer(task, "done", pack_forest(forest), seconds=seconds)
        best = f"{forest.best_scores.max():.3f}" if len(forest) else "–"
        return f"{len(forest)} trees · best F1 {best} · {seconds * 1000:.0f} ms"

    def report_loss(self, message: dict[str, Any], reason: str) -> None:
        """Called in the worker's main process when the one that ran the task is gone."""
        self._fail(message, f"lost: {reason}", retryable=True, kind="lost")

    def _grow(self, task: Evaluate) -> Forest:
        table = self._cache.training(task.columns, task.split)
        subsets = unpack_subsets(task.subsets, task.stop - task.start, task.subset_size)
        return depth_search(table, subsets, task.max_depth)

    def _fail(self, message: dict[str, Any], reason: str, *, retryable: bool, kind: str = "failed") -> str:
        try:
            task = Evaluate.read(message)
        except FormatError:
            return f"refused: {reason}"  # nobody to answer to: the message does not say who asked
        self._answer(task, kind, reason=reason[:4000], retryable=retryable)
        return f"{kind}: {reason}"

    def _answer(self, task: Evaluate, kind: str, trees: bytes = b"", **more: Any) -> None:
        if self._redis is None:  # in the process that needs it: connections do not survive a fork
            self._redis = open_redis(self._settings)
        key = {name: getattr(task, name) for name in ("job", "batch", "start", "stop", "attempt")}
        worker = f"{socket.gethostname()}:{os.getpid()}"
        send_answer(self._redis, self._settings, Answer.read({"kind": kind, "worker": worker} | key | more), trees)
