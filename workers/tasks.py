"""The tasks of a worker: `maabo.evaluate`, `maabo.screen`, `maabo.shuffle`, `maabo.rules` and `maabo.submit`."""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from math import inf
from typing import Any

import redis

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.store import StoreError, store_figures
from maabo_dist.cluster.streams import send_request
from maabo_dist.contract import messages, names
from maabo_dist.contract.job import JobSpec
from maabo_dist.contract.problem import problem_of
from maabo_dist.data.columns import Columns
from maabo_dist.errors import FormatError, MaaboError
from maabo_dist.findings.certificate import ShuffledSearch
from maabo_dist.findings.wire import pack_searches, unpack_searches
from maabo_dist.mining.result import collect_evidence, conclude
from maabo_dist.mining.shuffles import ShuffleResult, plan_shuffles, run_shuffles, search_shuffled
from maabo_dist.report.coverage import with_coverage
from maabo_dist.report.document import result_document
from maabo_dist.report.figures import FigureData, make_figures
from maabo_dist.rules.publishing import TreePool
from maabo_dist.screens.blocks import count_sets, has_triples
from maabo_dist.screens.pairs import BitTable, Pairs, screen_block
from maabo_dist.screens.triples import Triples, TripleTable, screen_triple_block
from maabo_dist.screens.wire import pack_pairs, pack_triples
from maabo_dist.search.space import Subsets
from maabo_dist.study import Study
from maabo_dist.trees.forest import Forest
from maabo_dist.trees.training import TrainingTable, depth_search
from maabo_dist.trees.wire import pack_forest, read_segment
from workers.base import AnsweringTask, ClusterTask, JobEndedError, TaskResult

logger = StructuredLogger("maabo.worker")

# The interval at which a long task checks that its job has not ended.
CHECK_SECONDS = 1.0


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
    """Screens one block of pairs or triples."""

    name = names.SCREEN
    answer = messages.ScreenAnswer
    key_fields = ("start", "stop", "attempt")

    def decode(self, message: dict[str, Any]) -> tuple[messages.ScreenMessage, BitTable]:
        """Read the message and its table."""
        task = messages.ScreenMessage.read(message)
        return task, self._cache.bits(task.columns, task.split)

    def compute(self, task: tuple[messages.ScreenMessage, BitTable]) -> TaskResult:
        """Screen and pack the pairs or triples."""
        message, table = task
        strongest, count = self.screen(table, message), count_sets(message.start, message.stop, table.features)
        if isinstance(strongest, Triples):
            return TaskResult(pack_triples(strongest), f"{count:,} triples")
        return TaskResult(pack_pairs(strongest), f"{count:,} pairs")

    def screen(self, table: BitTable, task: messages.ScreenMessage) -> Pairs | Triples:
        """Return the strongest pairs or triples of the block."""
        first = table.features if has_triples(task.start, table.features) else 0
        start, stop = task.start - first, task.stop - first
        if not start < stop < table.features:  # the last feature is the first of no pair, and the second of no triple
            raise FormatError(f"Features {start} to {stop - 1} are not a block of {table.features} features.")
        if first:
            return screen_triple_block(TripleTable.build(table), start, stop, task.most)
        return screen_block(table, start, stop, task.most)


class ShuffleTask(AnsweringTask):
    """Repeats the search on shuffled labels."""

    name = names.SHUFFLE
    answer = messages.ShuffleAnswer
    key_fields = ("start", "stop", "attempt")

    def decode(self, message: dict[str, Any]) -> tuple[messages.ShuffleMessage, Study]:
        """Read the message and its table."""
        task = messages.ShuffleMessage.read(message)
        return task, self._cache.study(task.spec.dataset.fingerprint, task.spec.settings)

    def compute(self, task: tuple[messages.ShuffleMessage, Study]) -> TaskResult:
        """Search and pack the strongest rules."""
        message, study = task
        numbers, should_stop = range(message.start, message.stop), self._end_check(message.spec.id)
        searches = [self.search(study, number, message, should_stop) for number in numbers]
        strongest = min((search.strongest for search in searches), default=inf)
        best = "no rule" if strongest == inf else f"strongest statistic {strongest:.1f}"
        count = f"{len(searches)} shuffled search{'' if len(searches) == 1 else 'es'}"
        return TaskResult(pack_searches(searches), f"{count} · {best}")

    def search(
        self, study: Study, number: int, task: messages.ShuffleMessage, should_stop: Callable[[], bool]
    ) -> ShuffledSearch:
        """Run one search, unless the job ends."""
        result = search_shuffled(study, number, should_stop)
        if result is None:
            raise JobEndedError(f"Job {task.spec.id} has ended.")
        return result[0]

    def _end_check(self, job: str) -> Callable[[], bool]:
        """Return a function that tells whether a job has ended, and asks Redis only from time to time."""
        due, key = time.monotonic() + CHECK_SECONDS, self._settings.key(f"{names.JOB_ENDED}:{job}")
        ended = False

        def has_ended() -> bool:
            nonlocal due, ended
            if not ended and time.monotonic() >= due:
                due = time.monotonic() + CHECK_SECONDS
                with suppress(redis.RedisError):  # then the task is finished, perhaps in vain
                    ended = bool(self.redis.exists(key))
            return ended

        return has_ended


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
        evidence = collect_evidence(study, pool)
        if task.shuffled is None:
            plan = plan_shuffles(study, evidence, task.stopped)
            if plan.count and task.plan_shuffles:
                wanted = {"trees": pool.count, "shuffles": plan.count, "undecided": plan.undecided}
                return TaskResult(b"", f"{plan.count} shuffled searches needed", wanted)
            shuffled = run_shuffles(study, plan)
        else:
            shuffled = self._read_shuffles(task.shuffled)
        result = conclude(study, pool, task.stopped, task.seconds, evidence=evidence, shuffled=shuffled)
        if task.final:
            self._store_figures(task, make_figures(result, study))
        notes = (*task.spec.dataset.notes, *result.notes, *_failure_notes(task, study.table_columns))
        result = replace(result, notes=notes)
        dataset: dict[str, Any] = {"name": task.spec.dataset.name}
        if task.spec.dataset.settings is not None:
            dataset["settings"] = task.spec.dataset.settings.model_dump(mode="json")
        document = with_coverage(result_document(result, dataset), study.prepared).to_text().encode()
        trees, rules = result.search.trees, len(result.rules)
        fields = {"trees": trees, "rules": rules, "digest": result.digest}
        return TaskResult(document, f"{rules} rules from {trees} trees", fields)

    def _read_shuffles(self, stored: messages.StoredShuffles) -> ShuffleResult:
        searches = unpack_searches(self._cache.shuffles_file(stored.digest).read_bytes(), stored.count)
        return ShuffleResult(searches, stored.planned, stored.seconds)

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
        try:
            return self._pass_on(document)
        except ValueError as error:  # text that is not Unicode, or values that are not JSON
            return self.refuse(document, FormatError(f"The document is not valid JSON: {error}")).to_json()

    def _pass_on(self, document: dict[str, Any]) -> str | dict[str, Any]:
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
