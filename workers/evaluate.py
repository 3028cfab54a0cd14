"""Task `maabo.evaluate`: grow the trees of some subsets."""

import time
from typing import Any

from maabo_dist.cluster.streams import send_answer
from maabo_dist.contract import names
from maabo_dist.contract.messages import Answer, Evaluate, Outcome, unpack_subsets
from maabo_dist.errors import FormatError, MaaboError
from maabo_dist.trees import Forest, TrainingTable, depth_search
from maabo_dist.trees.wire import pack_forest
from workers.task import ClusterTask, reason_of, shown, worker_name


class EvaluateTask(ClusterTask):
    """Grows the trees of one message. What goes wrong is said on the stream; nothing is raised to Celery."""

    name = names.EVALUATE

    def work(self, message: dict[str, Any]) -> str:
        """Returns one line for people, shown by Flower."""
        try:
            task = Evaluate.read(message)
            table = self._cache.training(task.columns, task.split)
            subsets = unpack_subsets(task.subsets, task.stop - task.start, task.subset_size)
        except (MaaboError, MemoryError, OSError) as error:  # another worker, or this one later, may be able to begin
            return self._answer(message, "unavailable", reason_of(error))
        started = time.perf_counter()
        try:
            forest = self.grow(table, subsets, task.max_depth, whole=task.whole)
            packed = pack_forest(forest)
        except (
            MaaboError,
            MemoryError,
        ) as error:  # a MemoryError left to Celery ends the worker and comes back for ever
            return self._answer(message, "failed", reason_of(error))
        seconds = time.perf_counter() - started
        self._answer(message, "done", trees=packed, seconds=seconds)
        best = f"{forest.best_scores.max():.3f}" if len(forest) else "–"
        trees = "tree" if len(forest) == 1 else "trees"
        return f"{len(forest)} {trees} · best F1 {best} · {seconds * 1000:.0f} ms"

    def grow(self, table: TrainingTable, subsets: Any, max_depth: int, *, whole: bool) -> Forest:
        """The work itself."""
        return depth_search(table, subsets, max_depth, whole=whole)

    def report_loss(self, message: dict[str, Any], reason: str) -> None:
        """Called in the worker's main process when the one that ran the task is gone."""
        self._answer(message, "lost", reason)

    def _answer(
        self, message: dict[str, Any], kind: Outcome, reason: str = "", *, trees: bytes = b"", **more: Any
    ) -> str:
        """Say what became of a message, even of one of another version, if it says who asked."""
        key = {name: message.get(name) for name in ("job", "batch", "start", "stop", "attempt")}
        try:
            answer = Answer.read(key | {"kind": kind, "worker": worker_name(), "reason": shown(reason)} | more)
        except FormatError:
            return f"refused: {reason}"
        self.deliver(send_answer, message, answer, trees)
        return f"{kind}: {reason}"
