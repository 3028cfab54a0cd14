"""The tasks of a worker: `maabo.evaluate`, `maabo.screen`, `maabo.rules` and `maabo.submit`."""

import re
from dataclasses import replace
from hashlib import sha256
from typing import Any

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.store import StoreError, store_figures
from maabo_dist.cluster.streams import send_request
from maabo_dist.contract import names
from maabo_dist.contract.job import JobSpec
from maabo_dist.contract.messages import (
    EvaluateMessage,
    EvaluationAnswer,
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
from maabo_dist.mining.result import conclude
from maabo_dist.report.document import result_document
from maabo_dist.report.figures import FigureData, make_figures
from maabo_dist.rules.pool import TreePool
from maabo_dist.screens.blocks import count_pairs
from maabo_dist.screens.pairs import BitTable, Pairs, screen_block
from maabo_dist.screens.wire import pack_pairs
from maabo_dist.search.space import Subsets
from maabo_dist.trees.depth_search import depth_search
from maabo_dist.trees.forest import Forest
from maabo_dist.trees.training import TrainingTable
from maabo_dist.trees.wire import pack_forest, read_segment
from workers.reporting import AnsweringTask, ClusterTask, TaskResult

logger = StructuredLogger("maabo.worker")


class EvaluateTask(AnsweringTask):
    """Grows the trees of some subsets."""

    name = names.EVALUATE
    answer = EvaluationAnswer
    key_fields = ("batch", "start", "stop", "attempt")

    def decode(self, message: dict[str, Any]) -> tuple[EvaluateMessage, TrainingTable, Subsets]:
        """Read the message, its table and its subsets."""
        task = EvaluateMessage.read(message)
        table = self._cache.training(task.columns, task.split)
        return task, table, unpack_subsets(task.subsets, task.stop - task.start, task.subset_size)

    def compute(self, task: tuple[EvaluateMessage, TrainingTable, Subsets]) -> TaskResult:
        """Grow and pack the trees."""
        message, table, subsets = task
        forest = self.grow(table, subsets, message.max_depth, whole=message.whole)
        best = f"{forest.best_scores.max():.3f}" if len(forest) else "–"
        trees = "tree" if len(forest) == 1 else "trees"
        return TaskResult(pack_forest(forest), f"{len(forest)} {trees} · best F1 {best}")

    def grow(self, table: TrainingTable, subsets: Subsets, max_depth: int, *, whole: bool) -> Forest:
        """Grow the trees."""
        return depth_search(table, subsets, max_depth, whole=whole)


class ScreenTask(AnsweringTask):
    """Screens one block of pairs."""

    name = names.SCREEN
    answer = ScreenAnswer
    key_fields = ("start", "stop", "attempt")

    def decode(self, message: dict[str, Any]) -> tuple[ScreenMessage, BitTable]:
        """Read the message and its table."""
        task = ScreenMessage.read(message)
        return task, self._cache.bits(task.columns, task.split)

    def compute(self, task: tuple[ScreenMessage, BitTable]) -> TaskResult:
        """Screen and pack the pairs."""
        message, table = task
        pairs = self.screen(table, message)
        return TaskResult(pack_pairs(pairs), f"{count_pairs(message.start, message.stop, table.features):,} pairs")

    def screen(self, table: BitTable, task: ScreenMessage) -> Pairs:
        """Return the strongest pairs of the block."""
        if not task.start < task.stop < table.features:  # the last feature is the first of no pair
            raise FormatError(f"Features {task.start} to {task.stop - 1} are no block of {table.features} features.")
        return screen_block(table, task.start, task.stop, task.most)


class RulesTask(AnsweringTask):
    """Mines the rules of the trees grown so far; at the end of a job, it also stores the figures of its report."""

    name = names.RULES
    answer = RulesAnswer
    key_fields = ("attempt", "final")

    def decode(self, message: dict[str, Any]) -> RulesMessage:
        """Read the message."""
        return RulesMessage.read(message)

    def compute(self, task: RulesMessage) -> TaskResult:
        """Pool the trees, mine their rules and write the result document."""
        study = self._cache.study(task.spec.dataset.fingerprint, task.spec.settings)
        max_depth, classes = study.settings.max_depth, len(study.columns.classes)
        pool = TreePool(study)
        for digest in task.segments:
            for forest in read_segment(self._cache.segment_file(digest), max_depth, classes):
                pool.add(forest)
        result = conclude(study, pool, task.stopped, task.seconds)
        if task.final:
            self._store_figures(task, make_figures(result, study))
        notes = (*task.spec.dataset.notes, *result.notes, *_failure_notes(task, study.table_columns))
        result = replace(result, notes=notes)
        document = result_document(result, _dataset(task)).to_text().encode()
        trees, rules = result.search.trees, len(result.rules)
        fields = {"trees": trees, "rules": rules, "digest": result.digest}
        return TaskResult(document, f"{rules} rules from {trees} trees", fields)

    def _store_figures(self, task: RulesMessage, figures: FigureData) -> None:
        """If the store cannot be reached, the report has no figures; the rules are more important."""
        try:
            store_figures(self._cache.store, task.spec.id, figures)
        except (StoreError, OSError) as error:
            logger.warning("figures not stored", job=task.spec.id, correlation=task.spec.correlation, reason=error)


def _dataset(task: RulesMessage) -> dict[str, Any]:
    reference = task.spec.dataset
    table = reference.settings
    return {"name": reference.name} | ({} if table is None else {"settings": table.model_dump(mode="json")})


def _failure_notes(task: RulesMessage, columns: Columns) -> list[str]:
    return [
        f"The tree on {', '.join(columns.features[index].name for index in failure.subset if index < columns.count)} "
        f"could not be had: {failure.reason}"
        for failure in task.failures
    ]


class SubmitTask(ClusterTask):
    """Passes a document to the schedulers. A missing id is made from the task's: a repetition is the same job."""

    name = names.SUBMIT
    ignore_result = False

    def run(self, **document: Any) -> str | dict[str, Any]:
        """Return the job's id, or the problem of an invalid document.

        The schedulers get an invalid document too: they keep it among the refused requests, and call its callback.
        """
        own = _make_id(str(self.request.id), document.get("tenant"))
        document["id"] = document.get("id") or own
        job = document["id"] if _is_id(document["id"]) else own
        request = Request(kind="submit", job=job, document=document)
        send_request(self.redis, self._settings, request)
        try:
            return JobSpec.parse(document).id
        except MaaboError as error:
            return problem_of(error, request.correlation).to_json()


def _make_id(task: str, tenant: object) -> str:
    """Tasks of the same name of two tenants get different ids."""
    name = task if tenant is None or tenant == "default" else f"{tenant}\0{task}"
    return sha256(name.encode()).hexdigest()[:32]


def _is_id(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{32}", value) is not None
