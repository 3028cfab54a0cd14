"""The tasks of a worker: `maabo.evaluate`, `maabo.screen`, `maabo.rules` and `maabo.submit`, and their base classes.

AnsweringTask: decode the message ─► compute (one library call) ─► encode the answer onto the job's stream
"""

import os
import re
import socket
import time
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, ClassVar

import redis
from celery import Task

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.store import StoreError, store_figures
from maabo_dist.cluster.streams import open_redis, send_answer, send_request
from maabo_dist.cluster.table_cache import TableCache
from maabo_dist.cluster.tracing import Tracing
from maabo_dist.contract import messages, names
from maabo_dist.contract.job import JobSpec
from maabo_dist.contract.problem import problem_of
from maabo_dist.data.columns import Columns
from maabo_dist.errors import FormatError, MaaboError
from maabo_dist.mining.result import conclude
from maabo_dist.report.document import result_document
from maabo_dist.report.figures import FigureData, make_figures
from maabo_dist.rules.publishing import TreePool
from maabo_dist.screens.blocks import count_pairs
from maabo_dist.screens.pairs import BitTable, Pairs, screen_block
from maabo_dist.screens.wire import pack_pairs
from maabo_dist.search.space import Subsets
from maabo_dist.trees.forest import Forest
from maabo_dist.trees.training import TrainingTable, depth_search
from maabo_dist.trees.wire import pack_forest, read_segment

logger = StructuredLogger("maabo.worker")

# Characters of a value in a log line; no valid value is longer.
MAX_FIELD = 200
# A worker that could not begin a task takes no other for this time, so that workers that can get it.
REST_SECONDS = 1.0


class ClusterTask(Task):  # type: ignore[misc]  # Celery ships no types
    """A task with settings, tables and a Redis connection of its own."""

    abstract = True
    ignore_result = True
    acks_late = True

    def __init__(self, settings: ClusterSettings, cache: TableCache, tracing: Tracing) -> None:
        self._settings, self._cache, self._tracing = settings, cache, tracing
        self._connections: dict[int, Any] = {}

    @property
    def redis(self) -> Any:
        """A connection of the current process: connections do not survive a fork."""
        process = os.getpid()
        if process not in self._connections:
            self._connections = {process: open_redis(self._settings)}
        return self._connections[process]

    def report_loss(self, message: dict[str, Any], reason: str) -> None:
        """Called in the worker's main process when the process that ran the task has died."""


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The body and fields of an answer, and a human-readable summary, shown by Flower."""

    body: bytes
    summary: str
    fields: dict[str, Any] = field(default_factory=dict)


class AnsweringTask(ClusterTask):
    """A task that answers on the job's stream, even when it fails; no expected error is raised to Celery."""

    abstract = True
    answer: ClassVar[type[Any]]
    # Fields of the message that are copied to the answer.
    key_fields: ClassVar[tuple[str, ...]]

    def decode(self, message: dict[str, Any]) -> Any:
        """Read the message and fetch what the task needs."""
        raise NotImplementedError

    def compute(self, task: Any) -> TaskResult:
        """Do the work."""
        raise NotImplementedError

    def run(self, **message: Any) -> str:
        """Return one human-readable line, shown by Flower."""
        trace = _source(message).get("trace")
        parent = trace if isinstance(trace, str) else None
        with self._tracing.span(self.name, parent, "consumer", **log_fields(message)) as span:
            line = self.work(message)
            span.annotate(outcome=line)
        return line

    def work(self, message: dict[str, Any]) -> str:
        """Decode, compute, answer."""
        try:
            task = self.decode(message)
        except (MaaboError, MemoryError, OSError) as error:  # another worker, or this one later, may be able to begin
            return self._reply(message, "unavailable", _reason(error))
        started = time.perf_counter()
        try:
            result = self.compute(task)
        except (StoreError, OSError) as error:
            return self._reply(message, "unavailable", _reason(error))
        except (MaaboError, MemoryError) as error:  # Celery would end the worker on a MemoryError, again and again
            return self._reply(message, "failed", _reason(error))
        seconds = time.perf_counter() - started
        self._reply(message, "done", body=result.body, seconds=seconds, **result.fields)
        return f"{result.summary} · {seconds * 1000:.0f} ms"

    def report_loss(self, message: dict[str, Any], reason: str) -> None:
        """Answer that the task was lost."""
        self._reply(message, "lost", reason)

    def _reply(
        self, message: dict[str, Any], kind: messages.Outcome, reason: str = "", *, body: bytes = b"", **fields: Any
    ) -> str:
        """Answer a message, even of another version, if it names the job. Return a human-readable line."""
        values = {"job": _job(message), "kind": kind, "worker": f"{socket.gethostname()}:{os.getpid()}"}
        values |= {name: message.get(name) for name in self.key_fields} | {"reason": reason[: messages.MAX_REASON]}
        try:
            answer = self.answer.read(values | fields)
        except FormatError:
            return f"refused: {reason}"
        if isinstance(version := message.get("version"), int):  # refusals are the same in all contract versions
            answer = answer.model_copy(update={"version": version})
        if kind != "lost":  # that is logged by the main process
            facts = log_fields(message) | {"seconds": answer.seconds, "reason": reason or None}
            logger.info(f"task {kind}", task=self.name, **facts)
        try:
            send_answer(self.redis, self._settings, answer, body)
        except redis.RedisError as error:  # without an answer, the scheduler sends the task again
            logger.warning("answer not sent", task=self.name, job=answer.job, reason=error)
        if kind == "unavailable":
            time.sleep(REST_SECONDS)
        return f"{kind}: {reason}"


def log_fields(message: dict[str, Any]) -> dict[str, object]:
    """The fields of a message for log lines, even if it is invalid."""
    values = {"job": _job(message)} | {name: message.get(name) for name in ("batch", "start", "stop", "final")}
    values["correlation"] = _source(message).get("correlation")
    return {name: _log_value(value) for name, value in values.items()}


def _source(message: dict[str, Any]) -> dict[str, Any]:
    """The part of a message that describes the job: the job's document if there is one."""
    spec = message.get("spec")
    return spec if isinstance(spec, dict) else message


def _job(message: dict[str, Any]) -> object:
    source = _source(message)
    return source.get("job") if source is message else source.get("id")


def _log_value(value: object) -> str | int | None:
    return value[:MAX_FIELD] if isinstance(value, str) else value if isinstance(value, int) else None


def _reason(error: BaseException) -> str:
    return "The worker ran out of memory." if isinstance(error, MemoryError) else str(error) or repr(error)


class EvaluateTask(AnsweringTask):
    """Grows the trees of some subsets."""

    name = names.EVALUATE
    answer = messages.EvaluationAnswer
    key_fields = ("batch", "start", "stop", "attempt")

    def decode(self, message: dict[str, Any]) -> tuple[messages.EvaluateMessage, TrainingTable, Subsets]:
        """Read the message, its table and its subsets."""
        task = messages.EvaluateMessage.read(message)
        table = self._cache.training(task.columns, task.split)
        return task, table, messages.unpack_subsets(task.subsets, task.stop - task.start, task.subset_size)

    def compute(self, task: tuple[messages.EvaluateMessage, TrainingTable, Subsets]) -> TaskResult:
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
    answer = messages.ScreenAnswer
    key_fields = ("start", "stop", "attempt")

    def decode(self, message: dict[str, Any]) -> tuple[messages.ScreenMessage, BitTable]:
        """Read the message and its table."""
        task = messages.ScreenMessage.read(message)
        return task, self._cache.bits(task.columns, task.split)

    def compute(self, task: tuple[messages.ScreenMessage, BitTable]) -> TaskResult:
        """Screen and pack the pairs."""
        message, table = task
        pairs = self.screen(table, message)
        return TaskResult(pack_pairs(pairs), f"{count_pairs(message.start, message.stop, table.features):,} pairs")

    def screen(self, table: BitTable, task: messages.ScreenMessage) -> Pairs:
        """Return the strongest pairs of the block."""
        if not task.start < task.stop < table.features:  # the last feature is the first of no pair
            raise FormatError(f"Features {task.start} to {task.stop - 1} are not a block of {table.features} features.")
        return screen_block(table, task.start, task.stop, task.most)


class RulesTask(AnsweringTask):
    """Mines the rules of the trees grown so far; at the end of a job, it also stores the figures of its report."""

    name = names.RULES
    answer = messages.RulesAnswer
    key_fields = ("attempt", "final")

    def decode(self, message: dict[str, Any]) -> messages.RulesMessage:
        """Read the message."""
        return messages.RulesMessage.read(message)

    def compute(self, task: messages.RulesMessage) -> TaskResult:
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
        dataset: dict[str, Any] = {"name": task.spec.dataset.name}
        if task.spec.dataset.settings is not None:
            dataset["settings"] = task.spec.dataset.settings.model_dump(mode="json")
        document = result_document(result, dataset).to_text().encode()
        trees, rules = result.search.trees, len(result.rules)
        fields = {"trees": trees, "rules": rules, "digest": result.digest}
        return TaskResult(document, f"{rules} rules from {trees} trees", fields)

    def _store_figures(self, task: messages.RulesMessage, figures: FigureData) -> None:
        """If the store cannot be reached, the report has no figures; the rules are more important."""
        try:
            store_figures(self._cache.store, task.spec.id, figures)
        except (StoreError, OSError) as error:
            logger.warning("figures not stored", job=task.spec.id, correlation=task.spec.correlation, reason=error)


def _failure_notes(task: messages.RulesMessage, columns: Columns) -> list[str]:
    return [
        "No tree could be grown on "
        f"{', '.join(columns.features[k].name for k in failure.subset if k < columns.count)}: {failure.reason}"
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
        name, tenant = str(self.request.id), document.get("tenant")
        if tenant is not None and tenant != "default":  # tasks of the same name of two tenants are different jobs
            name = f"{tenant}\0{name}"
        own = sha256(name.encode()).hexdigest()[:32]
        document["id"] = document.get("id") or own
        is_id = isinstance(document["id"], str) and re.fullmatch(r"[0-9a-f]{32}", document["id"])
        job = document["id"] if is_id else own
        request = messages.Request(kind="submit", job=job, document=document)
        send_request(self.redis, self._settings, request)
        try:
            return JobSpec.parse(document).id
        except MaaboError as error:
            return problem_of(error, request.correlation).to_json()
