"""Task `maabo.screen`: the strongest pairs of a block of features."""

import time
from typing import Any

from maabo_dist.cluster.streams import send_screened
from maabo_dist.contract import names
from maabo_dist.contract.messages import Outcome, Screen, Screened
from maabo_dist.errors import FormatError, MaaboError
from maabo_dist.screens import BitTable, Pairs, count_pairs, pack_pairs, screen_block
from workers.task import ClusterTask, reason_of, shown, worker_name


class ScreenTask(ClusterTask):
    """Screens one block. What goes wrong is said on the stream; nothing is raised to Celery."""

    name = names.SCREEN

    def work(self, message: dict[str, Any]) -> str:
        """Returns one line for people, shown by Flower."""
        try:
            task = Screen.read(message)
            table = self._cache.bits(task.columns, task.split)
        except (MaaboError, MemoryError, OSError) as error:  # another worker, or this one later, may be able to begin
            return self._answer(message, "unavailable", reason_of(error))
        started = time.perf_counter()
        try:
            packed = pack_pairs(self.screen(table, task))
        except (MaaboError, MemoryError) as error:  # a MemoryError left to Celery ends the worker
            return self._answer(message, "failed", reason_of(error))
        seconds = time.perf_counter() - started
        self._answer(message, "done", pairs=packed, seconds=seconds)
        return f"{count_pairs(task.start, task.stop, table.features):,} pairs · {seconds * 1000:.0f} ms"

    def screen(self, table: BitTable, task: Screen) -> Pairs:
        """The work itself."""
        if not task.start < task.stop < table.features:  # the last feature is nobody's first
            raise FormatError(f"Features {task.start} to {task.stop - 1} are no block of {table.features} features.")
        return screen_block(table, task.start, task.stop, task.most)

    def report_loss(self, message: dict[str, Any], reason: str) -> None:
        """Called in the worker's main process when the one that ran the task is gone."""
        self._answer(message, "lost", reason)

    def _answer(
        self, message: dict[str, Any], kind: Outcome, reason: str = "", *, pairs: bytes = b"", **more: Any
    ) -> str:
        """Say what became of a message, even of one of another version, if it says who asked."""
        key = {name: message.get(name) for name in ("job", "start", "stop", "attempt")}
        try:
            answer = Screened.read(key | {"kind": kind, "worker": worker_name(), "reason": shown(reason)} | more)
        except FormatError:
            return f"refused: {reason}"
        self.deliver(send_screened, message, answer, pairs)
        return f"{kind}: {reason}"
