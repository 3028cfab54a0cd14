"""Task `maabo.rules`: GS-MRM over the trees of a job, streamed from the store."""

import time
from dataclasses import replace
from typing import Any

from maabo_dist.cluster.kept_exhibits import keep_exhibits
from maabo_dist.cluster.logs import Journal
from maabo_dist.cluster.streams import send_mined
from maabo_dist.cluster.tables import split_of
from maabo_dist.contract import names
from maabo_dist.contract.messages import Mine, Mined, Outcome, TableSplit
from maabo_dist.data.columns import Columns
from maabo_dist.data.probes import without_probes
from maabo_dist.errors import FormatError, MaaboError
from maabo_dist.mining import MiningResult, SearchEnd, conclude
from maabo_dist.report import Exhibits, dump_document, make_exhibits, result_document
from maabo_dist.rules import TreePool
from maabo_dist.settings import SearchPlan
from maabo_dist.store import StoreError
from maabo_dist.trees.segment import read_segment
from workers.task import ClusterTask, shown, worker_name

journal = Journal("maabo.worker")


class RulesTask(ClusterTask):
    """Mines the rules of the trees that are there. What goes wrong is said on the stream."""

    name = names.RULES

    def work(self, message: dict[str, Any]) -> str:
        """Returns one line for people, shown by Flower."""
        started = time.perf_counter()
        try:
            task = Mine.read(message)
        except MaaboError as error:
            return self._answer(message, "unavailable", str(error))
        try:
            result, exhibits = self._mined(task)
            document = dump_document(result_document(result, _dataset(task)))
        except (StoreError, OSError) as error:
            return self._answer(message, "unavailable", str(error))
        except MemoryError:
            return self._answer(message, "failed", "The worker ran out of memory.")
        except MaaboError as error:
            return self._answer(message, "failed", str(error))
        if exhibits is not None:
            self._keep(task, exhibits)
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

    def _keep(self, task: Mine, exhibits: Exhibits) -> None:
        """The rules are what counts: a store that cannot be reached now costs the report its pictures."""
        try:
            keep_exhibits(self._cache.store, task.spec.id, exhibits)
        except (StoreError, OSError) as error:
            journal.warn("exhibits not kept", job=task.spec.id, correlation=task.spec.correlation, reason=error)

    def _mined(self, task: Mine) -> tuple[MiningResult, Exhibits | None]:
        """The result and, at the end of a job, what its report shows."""
        settings, fingerprint = task.spec.settings, task.spec.dataset.fingerprint
        columns = self._cache.columns(fingerprint, TableSplit.of(settings))
        table = self._cache.training(fingerprint, TableSplit.of(settings))
        plan = SearchPlan.settle(settings, columns.count)
        pool = TreePool(settings, plan.subset_size, table.weights)
        for digest in task.segments:
            for forest in read_segment(self._cache.segment_file(digest), settings.max_depth, len(columns.classes)):
                pool.add(forest)
        split = split_of(columns, TableSplit.of(settings))
        result = conclude(columns, split, table, settings, plan, pool, SearchEnd(task.stopped, task.seconds))
        exhibits = make_exhibits(result, columns, split, table) if task.final else None
        notes = (*task.spec.dataset.notes, *result.notes, *_failures(task, without_probes(columns)))
        return replace(result, notes=notes), exhibits

    def _answer(
        self, message: dict[str, Any], kind: Outcome, reason: str = "", *, document: bytes = b"", **more: Any
    ) -> str:
        """Say what became of a message, even of one of another version, if it says who asked."""
        spec = message.get("spec")
        key = {"job": spec.get("id") if isinstance(spec, dict) else None}
        key |= {name: message.get(name) for name in ("attempt", "final")}
        try:
            answer = Mined.read(key | {"kind": kind, "worker": worker_name(), "reason": shown(reason)} | more)
        except FormatError:
            return f"refused: {reason}"
        self.deliver(send_mined, message, answer, document)
        return f"{kind}: {reason}"


def _dataset(task: Mine) -> dict[str, Any]:
    reference = task.spec.dataset
    table = reference.settings
    return {"name": reference.name} | ({} if table is None else {"settings": table.model_dump(mode="json")})


def _failures(task: Mine, columns: Columns) -> list[str]:
    return [
        f"The tree on {', '.join(columns.features[index].name for index in failure.subset if index < columns.count)} "
        f"could not be had: {failure.reason}"
        for failure in task.failures
    ]
