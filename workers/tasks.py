"""Task `maabo.evaluate`: grow the trees of some subsets."""

import re
import time
from dataclasses import replace
from hashlib import sha256
from typing import Any

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.store import StoreError, store_figures
from maabo_dist.cluster.streams import send_evaluation_answer, send_request, send_rules_answer, send_screen_answer
from maabo_dist.contract import names
from maabo_dist.contract.job import JobSpec
from maabo_dist.contract.messages import (
    EvaluateMessage,
    EvaluationAnswer,
    Outcome,
    Request,
    RulesAnswer,
    RulesMessage,
    ScreenAnswer,
    ScreenMessage,
    unpack_subsets,
)
from maabo_dist.contract.problem import problem_of
from maabo_dist.data.columns import Columns
from maabo_dist.errors import FormatError, MaaboError
from maabo_dist.mining.result import MiningResult, conclude
from maabo_dist.report import FigureData, make_figures, result_document
from maabo_dist.rules.pool import TreePool
from maabo_dist.screens.bits import BitTable
from maabo_dist.screens.blocks import count_pairs
from maabo_dist.screens.pairs import Pairs, screen_block
from maabo_dist.screens.wire import pack_pairs
from maabo_dist.trees.depth_search import depth_search
from maabo_dist.trees.forest import Forest
from maabo_dist.trees.training import TrainingTable
from maabo_dist.trees.wire import pack_forest, read_segment
from workers.reporting import ClusterTask, reason_of, shown, worker_name


class EvaluateTask(ClusterTask):
    """Grows the trees of one message. What goes wrong is said on the stream; nothing is raised to Celery."""

    name = names.EVALUATE

    def work(self, message: dict[str, Any]) -> str:
        """Returns one line for people, shown by Flower."""
        try:
            task = EvaluateMessage.read(message)
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
            answer = EvaluationAnswer.read(
                key | {"kind": kind, "worker": worker_name(), "reason": shown(reason)} | more
            )
        except FormatError:
            return f"refused: {reason}"
        self.deliver(send_evaluation_answer, message, answer, trees)
        return f"{kind}: {reason}"


class ScreenTask(ClusterTask):
    """Screens one block. What goes wrong is said on the stream; nothing is raised to Celery."""

    name = names.SCREEN

    def work(self, message: dict[str, Any]) -> str:
        """Returns one line for people, shown by Flower."""
        try:
            task = ScreenMessage.read(message)
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

    def screen(self, table: BitTable, task: ScreenMessage) -> Pairs:
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
            answer = ScreenAnswer.read(key | {"kind": kind, "worker": worker_name(), "reason": shown(reason)} | more)
        except FormatError:
            return f"refused: {reason}"
        self.deliver(send_screen_answer, message, answer, pairs)
        return f"{kind}: {reason}"


logger = StructuredLogger("maabo.worker")


class RulesTask(ClusterTask):
    """Mines the rules of the trees that are there. What goes wrong is said on the stream."""

    name = names.RULES

    def work(self, message: dict[str, Any]) -> str:
        """Returns one line for people, shown by Flower."""
        started = time.perf_counter()
        try:
            task = RulesMessage.read(message)
        except MaaboError as error:
            return self._answer(message, "unavailable", str(error))
        try:
            result, figures = self._mined(task)
            document = result_document(result, _dataset(task)).to_text()
        except (StoreError, OSError) as error:
            return self._answer(message, "unavailable", str(error))
        except MemoryError:
            return self._answer(message, "failed", "The worker ran out of memory.")
        except MaaboError as error:
            return self._answer(message, "failed", str(error))
        if figures is not None:
            self._keep(task, figures)
        seconds = time.perf_counter() - started
        said: dict[str, Any] = {
            "trees": result.search.trees,
            "rules": len(result.rules),
            "digest": result.digest,
            "seconds": seconds,
        }
        self._answer(message, "done", document=document.encode(), **said)
        return f"{len(result.rules)} rules from {result.search.trees} trees · {seconds * 1000:.0f} ms"

    def report_loss(self, message: dict[str, Any], reason: str) -> None:
        """Called in the worker's main process when the one that ran the task is gone."""
        self._answer(message, "lost", reason)

    def _keep(self, task: RulesMessage, figures: FigureData) -> None:
        """The rules are what counts: a store that cannot be reached now costs the report its pictures."""
        try:
            store_figures(self._cache.store, task.spec.id, figures)
        except (StoreError, OSError) as error:
            logger.warning("figures not kept", job=task.spec.id, correlation=task.spec.correlation, reason=error)

    def _mined(self, task: RulesMessage) -> tuple[MiningResult, FigureData | None]:
        """The result and, at the end of a job, what its report shows."""
        study = self._cache.study(task.spec.dataset.fingerprint, task.spec.settings)
        max_depth, classes = study.settings.max_depth, len(study.columns.classes)
        pool = TreePool(study)
        for digest in task.segments:
            for forest in read_segment(self._cache.segment_file(digest), max_depth, classes):
                pool.add(forest)
        result = conclude(study, pool, task.stopped, task.seconds)
        figures = make_figures(result, study) if task.final else None
        notes = (*task.spec.dataset.notes, *result.notes, *_failures(task, study.table_columns))
        return replace(result, notes=notes), figures

    def _answer(
        self, message: dict[str, Any], kind: Outcome, reason: str = "", *, document: bytes = b"", **more: Any
    ) -> str:
        """Say what became of a message, even of one of another version, if it says who asked."""
        spec = message.get("spec")
        key = {"job": spec.get("id") if isinstance(spec, dict) else None}
        key |= {name: message.get(name) for name in ("attempt", "final")}
        try:
            answer = RulesAnswer.read(key | {"kind": kind, "worker": worker_name(), "reason": shown(reason)} | more)
        except FormatError:
            return f"refused: {reason}"
        self.deliver(send_rules_answer, message, answer, document)
        return f"{kind}: {reason}"


def _dataset(task: RulesMessage) -> dict[str, Any]:
    reference = task.spec.dataset
    table = reference.settings
    return {"name": reference.name} | ({} if table is None else {"settings": table.model_dump(mode="json")})


def _failures(task: RulesMessage, columns: Columns) -> list[str]:
    return [
        f"The tree on {', '.join(columns.features[index].name for index in failure.subset if index < columns.count)} "
        f"could not be had: {failure.reason}"
        for failure in task.failures
    ]


class SubmitTask(ClusterTask):
    """Passes a document on. A document without an id gets one made of the task's: sent twice, it is one job."""

    name = names.SUBMIT
    ignore_result = False

    def run(self, **document: Any) -> str | dict[str, Any]:  # type: ignore[override]  # for another service, not for people
        """Returns the job's id, or the problem of a document that cannot be one.

        The schedulers get such a document too: they keep it among the refused, and call its callback.
        """
        own = _id(str(self.request.id), document.get("tenant"))
        document["id"] = document.get("id") or own
        job = document["id"] if _is_id(document["id"]) else own
        request = Request(kind="submit", job=job, document=document)
        send_request(self.redis, self._settings, request)
        try:
            return JobSpec.parse(document).id
        except MaaboError as error:
            return problem_of(error, request.correlation).to_json()


def _id(task: str, tenant: object) -> str:
    """Tenants who call their tasks alike do not meet in one job."""
    said = task if tenant is None or tenant == "default" else f"{tenant}\0{task}"
    return sha256(said.encode()).hexdigest()[:32]


def _is_id(given: object) -> bool:
    return isinstance(given, str) and re.fullmatch(r"[0-9a-f]{32}", given) is not None
