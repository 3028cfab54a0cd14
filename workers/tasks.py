"""The tasks of a worker: `maabo.evaluate`, `maabo.screen`, `maabo.shuffle`, `maabo.rules` and `maabo.submit`.

`workers.passes` has `maabo.count`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from math import inf
from typing import Any, NamedTuple

import numpy as np

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.store import StoreError, store_figures
from maabo_dist.cluster.streams import send_request
from maabo_dist.contract import messages, names
from maabo_dist.contract.job import JobSpec
from maabo_dist.contract.problem import problem_of
from maabo_dist.contract.result import ResultDocument
from maabo_dist.data.columns import Columns
from maabo_dist.errors import FormatError, MaaboError
from maabo_dist.findings.certificate import ShuffledSearch
from maabo_dist.findings.counted import with_class_weights
from maabo_dist.findings.findings import Evidence
from maabo_dist.findings.wire import pack_searches, unpack_searches
from maabo_dist.mining.result import MiningResult, collect_evidence, conclude, count_all_rows
from maabo_dist.mining.shuffles import ShuffleResult, plan_shuffles, run_shuffles, search_shuffled
from maabo_dist.report.coverage import with_counted_coverage, with_coverage
from maabo_dist.report.document import result_document
from maabo_dist.report.figures import FigureData, make_figures
from maabo_dist.rules.passes import CountsNeededError, PassCounter
from maabo_dist.rules.publishing import TreePool
from maabo_dist.screens.blocks import SIXTHS, TENTHS, count_sets, has_triples
from maabo_dist.screens.pairs import BitTable, Pairs, PairTable, screen_block
from maabo_dist.screens.triples import Triples, TripleTable, screen_triple_block
from maabo_dist.screens.wire import pack_pairs, pack_triples
from maabo_dist.search.space import Subsets
from maabo_dist.study import Study
from maabo_dist.trees.forest import Forest
from maabo_dist.trees.training import TrainingTable, depth_search
from maabo_dist.trees.wire import pack_forest, read_segment
from workers.base import AnsweringTask, ClusterTask, JobEndedError, TaskResult

logger = StructuredLogger("maabo.worker")


class EvaluateTask(AnsweringTask):
    """Grows the trees of some subsets."""

    name = names.EVALUATE
    answer = messages.EvaluationAnswer
    key_fields = ("batch", "start", "stop", "attempt", "part")

    def parts(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """The message as one for each of its parts."""
        more = message.get("more")
        others = more[: messages.MAX_PARTS - 1] if isinstance(more, list) else []
        parts = [message, *(part for part in others if isinstance(part, dict))]
        keys = ({name: part.get(name) for name in self.key_fields} for part in parts)
        return [message | key | {"part": number} for number, key in enumerate(keys)]

    def decode(self, message: dict[str, Any]) -> tuple[messages.EvaluateMessage, TrainingTable, list[Subsets]]:
        """Read the message, its table and the subsets of each part."""
        task = messages.EvaluateMessage.read(message)
        size = task.subset_size
        subsets = [messages.unpack_subsets(part.subsets, part.stop - part.start, size) for part in task.parts]
        return task, self._cache.training(task.columns, task.split), subsets

    def compute(self, task: tuple[messages.EvaluateMessage, TrainingTable, list[Subsets]]) -> TaskResult:
        """Grow all trees together, and pack those of each part."""
        message, table, subsets = task
        forest = self.grow(table, np.concatenate(subsets), message.max_depth, whole=message.whole)
        best = f"{forest.best_scores.max():.3f}" if len(forest) else "–"
        trees = "tree" if len(forest) == 1 else "trees"
        body, *more = [pack_forest(part) for part in forest.divide([len(part) for part in subsets])]
        shares = tuple(len(part) / len(forest) for part in subsets) if more else (1.0,)
        return TaskResult(body, f"{len(forest)} {trees} · best F1 {best}", more=tuple(more), shares=shares)

    def grow(self, table: TrainingTable, subsets: Subsets, max_depth: int, *, whole: bool) -> Forest:
        """Grow the trees."""
        return depth_search(table, subsets, max_depth, whole=whole)


class ScreenTask(AnsweringTask):
    """Screens one block of pairs or triples."""

    name = names.SCREEN
    answer = messages.ScreenAnswer
    key_fields = ("start", "stop", "attempt")

    def decode(self, message: dict[str, Any]) -> tuple[messages.ScreenMessage, list[BitTable]]:
        """Read the message and its table, at all its cuts."""
        task = messages.ScreenMessage.read(message)
        tables = [self._cache.bits(task.columns, task.split)]
        if task.fine:
            cuts = SIXTHS if has_triples(task.start, tables[0].features) else TENTHS
            tables.append(self._cache.bits(task.columns, task.split, cuts))
        return task, tables

    def compute(self, task: tuple[messages.ScreenMessage, list[BitTable]]) -> TaskResult:
        """Screen and pack the pairs or triples."""
        message, tables = task
        strongest = self.screen(tables, message)
        count = count_sets(message.start, message.stop, tables[0].features)
        if isinstance(strongest, Triples):
            return TaskResult(pack_triples(strongest), f"{count:,} triples")
        return TaskResult(pack_pairs(strongest), f"{count:,} pairs")

    def screen(self, tables: Sequence[BitTable], task: messages.ScreenMessage) -> Pairs | Triples:
        """Return the strongest pairs or triples of the block."""
        features, most = tables[0].features, task.most
        first = features if has_triples(task.start, features) else 0
        start, stop = task.start - first, task.stop - first
        if not start < stop < features:  # the last feature is the first of no pair, and the second of no triple
            raise FormatError(f"Features {start} to {stop - 1} are not a block of {features} features.")
        if first:
            triples = [screen_triple_block(TripleTable.build(table), start, stop, most) for table in tables]
            return Triples.strongest(triples, most)
        return Pairs.strongest([screen_block(PairTable.build(table), start, stop, most) for table in tables], most)


class ShuffleTask(AnsweringTask):
    """Repeats the search on shuffled labels."""

    name = names.SHUFFLE
    answer = messages.ShuffleAnswer
    key_fields = ("start", "stop", "attempt")

    def decode(self, message: dict[str, Any]) -> tuple[messages.ShuffleMessage, Study]:
        """Read the message and its table."""
        task = messages.ShuffleMessage.read(message)
        study = self._cache.study(task.spec.dataset.fingerprint, task.spec.settings)
        if task.spec.dataset.many is not None:
            from workers.row_passes import stored_counts  # noqa: PLC0415 - see CountTask

            study = with_class_weights(study, stored_counts(self._cache, task.spec.dataset.many, study))
        return task, study

    def compute(self, task: tuple[messages.ShuffleMessage, Study]) -> TaskResult:
        """Search and pack the strongest rules."""
        message, study = task
        numbers, should_stop = range(message.start, message.stop), self.end_check(message.spec.id)
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


class _Collected(NamedTuple):
    study: Study
    pool: TreePool
    evidence: Evidence | None


class RulesTask(AnsweringTask):
    """Mines the rules of the trees grown so far; at the end of a job, it also stores the figures of its report."""

    name = names.RULES
    answer = messages.RulesAnswer
    key_fields = ("attempt", "final")

    _kept: tuple[object, _Collected] | None = None

    def decode(self, message: dict[str, Any]) -> messages.RulesMessage:
        """Read the message."""
        return messages.RulesMessage.read(message)

    def compute(self, task: messages.RulesMessage) -> TaskResult:
        """Pool the trees, mine their rules and write the result document."""
        study, pool, evidence = self._collect(task)
        many = task.spec.dataset.many
        if many is None:
            return self._mine(task, study, pool, evidence, None)
        from workers.row_passes import plan_counts, read_counts  # noqa: PLC0415 - see CountTask

        try:
            return self._mine(task, study, pool, evidence, read_counts(self._cache, task, study))
        except CountsNeededError as needed:
            return plan_counts(self._cache, many, needed.request, self._settings.task_seconds)

    def _collect(self, task: messages.RulesMessage) -> "_Collected":
        """Pool the trees, and collect the evidence for their rules.

        Both are kept while passes over a dataset count rules, between which the same trees come again.
        """
        key = (task.spec.dataset.fingerprint, task.spec.settings.model_dump_json(), task.segments)
        if self._kept is not None and self._kept[0] == key:
            return self._kept[1]
        self._kept = None
        study = self._cache.study(task.spec.dataset.fingerprint, task.spec.settings)
        max_depth, classes = study.settings.max_depth, len(study.columns.classes)
        pool = TreePool(study)
        for digest in task.segments:
            for forest in read_segment(self._cache.segment_file(digest), max_depth, classes):
                pool.add(forest)
        collected = _Collected(study, pool, collect_evidence(study, pool))
        if task.spec.dataset.many is not None:
            self._kept = key, collected
        return collected

    def _mine(
        self,
        task: messages.RulesMessage,
        study: Study,
        pool: TreePool,
        evidence: Evidence | None,
        counter: PassCounter | None,
    ) -> TaskResult:
        if counter is not None and evidence is not None:
            study, evidence = count_all_rows(study, evidence, counter)
        if task.shuffled is None:
            plan = plan_shuffles(study, evidence, task.stopped)
            if plan.count and task.plan_shuffles:
                wanted = {"trees": pool.count, "shuffles": plan.count, "undecided": plan.undecided}
                return TaskResult(b"", f"{plan.count} shuffled searches needed", wanted)
            shuffled = run_shuffles(study, plan)
        else:
            shuffled = self._read_shuffles(task.shuffled)
        result = conclude(
            study,
            pool,
            task.stopped,
            task.seconds,
            evidence=evidence,
            shuffled=shuffled,
            counter=counter,
            untried_triples=task.untried_triples,
        )
        notes = (*task.spec.dataset.notes, *result.notes, *_failure_notes(task, study.table_columns))
        described = self._describe(task.spec, replace(result, notes=notes))
        if counter is None:
            described = with_coverage(described, study.prepared)
        else:
            described = with_counted_coverage(described, counter)
        if task.final:
            self._store_figures(task, make_figures(result, study))
        self._kept = None
        trees, rules = result.search.trees, len(result.rules)
        fields = {"trees": trees, "rules": rules, "digest": result.digest}
        return TaskResult(described.to_text().encode(), f"{rules} rules from {trees} trees", fields)

    def _describe(self, spec: JobSpec, result: MiningResult) -> ResultDocument:
        dataset: dict[str, Any] = {"name": spec.dataset.name}
        if spec.dataset.settings is not None:
            dataset["settings"] = spec.dataset.settings.model_dump(mode="json")
        if (many := spec.dataset.many) is not None:
            from workers.row_passes import read_sample  # noqa: PLC0415 - see CountTask

            dataset |= {"sample": many.info, "columns": read_sample(self._cache, many).sample.columns}
        return result_document(result, dataset)

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
