"""`PassRunner`: passes over the rows of a dataset. It draws a sample of blocks of rows, or counts rules on them.

This module loads pandas and pyarrow, which workers need for such tasks only.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.table_cache import TableCache
from maabo_dist.cluster.table_directory import check_files, open_directory
from maabo_dist.contract import messages
from maabo_dist.contract.job import MAX_NOTE, MAX_NOTES, JobSpec, ManyRows
from maabo_dist.contract.passes import (
    SECONDS_PER_CELL,
    DrawnBlock,
    DrawnSample,
    PassPlan,
    PlanAnswer,
    dump_blocks,
    parse_blocks,
)
from maabo_dist.data.dataset_sources import Piece
from maabo_dist.data.datasets import Dataset
from maabo_dist.data.encoder import TableEncoder
from maabo_dist.errors import FormatError
from maabo_dist.mining.sampling import (
    DrawRequest,
    PreparedSample,
    StoredSample,
    begin_sample,
    continue_sample,
    divide_pieces,
    draw_block,
)
from maabo_dist.rules.all_rows import count_pieces
from maabo_dist.rules.passes import (
    CountRequest,
    StoredCounts,
    add_counts,
    no_counts,
    pack_counts,
    pack_request,
    unpack_counts,
    unpack_request,
)
from maabo_dist.settings import TableSettings
from maabo_dist.study import Study
from workers.base import JobEndedError, TaskResult

# Measured on one core, with Parquet files: testing the conditions on a column, and a rule.
SECONDS_PER_CONDITION_CELL, SECONDS_PER_RULE_ROW = 1.5e-8, 1e-10


class PassRunner:
    """Reads some blocks of the rows of a dataset; `end_check` returns a function that tells whether a job has ended."""

    def __init__(
        self, settings: ClusterSettings, cache: TableCache, end_check: Callable[[str], Callable[[], bool]]
    ) -> None:
        self._settings, self._cache, self._end_check = settings, cache, end_check

    def decode(self, message: dict[str, Any]) -> Callable[[], TaskResult]:
        """Read the message and fetch what the pass needs; return what is to be done."""
        task = messages.CountMessage.read(message)
        many, table = _read_spec(task.spec)
        request = None if task.request is None else self._cache.pass_file("passes", task.request).read_bytes()
        if task.kind == "count" and request is not None:
            return self._decode_count(task, many, table, unpack_request(request))
        if task.kind == "draw" and request is not None:
            return lambda: self._draw(task, DrawRequest.parse(request))
        if task.kind == "plan" and request is not None and task.results is not None:
            drawn = parse_blocks(self._cache.pass_file("results", task.results).read_bytes())
            return lambda: self._continue(DrawRequest.parse(request), drawn, table)
        if task.kind == "plan" and request is None:
            # The worker may have no table directory, or another one.
            dataset = open_directory(self._settings.tables_url, many.path, na_values=table.na_values)
            return lambda: self._begin(dataset, task.spec, many, table)
        raise FormatError(f"CountMessage is invalid: a pass of kind {task.kind} has no request or no results.")

    # The sample.

    def _begin(self, dataset: Dataset, spec: JobSpec, many: ManyRows, table: TableSettings) -> TaskResult:
        block_rows = self._settings.task_seconds / (SECONDS_PER_CELL * max(1, len(dataset.names)))
        request = begin_sample(dataset, table, spec.settings, many.sample, int(block_rows))
        return self._answer_pass(request, f"{dataset.rows:,} rows in {len(request.blocks)} blocks")

    def _continue(self, request: DrawRequest, drawn: list[DrawnBlock], table: TableSettings) -> TaskResult:
        self._check_files(request.dataset.open(), _all_pieces(request))
        following = continue_sample(
            request,
            drawn,
            lambda digest: self._cache.pass_file("drawn", digest),
            lambda path: self._cache.put_pass_file("numbers", path),
            table,
        )
        if isinstance(following, DrawRequest):
            return self._answer_pass(following, f"identical rows in {len(following.wanted)} blocks")
        return self._store_sample(following)

    def _answer_pass(self, request: DrawRequest, summary: str) -> TaskResult:
        blocks = tuple((k, k + 1, request.blocks[block][2]) for k, block in enumerate(request.wanted))
        plan = PassPlan(
            kind="draw",
            request=self._cache.put_pass_document("passes", request.to_bytes()),
            blocks=blocks,
            artifacts=tuple(f"numbers/{digest}" for digest in request.numbers.values()),
        )
        return TaskResult(PlanAnswer(following=plan).to_bytes(), summary)

    def _store_sample(self, made: PreparedSample) -> TaskResult:
        columns = made.table.columns
        with TemporaryDirectory(prefix="maabo-") as folder:
            path = Path(folder) / "columns"
            columns.save(path)
            self._cache.store.put(f"columns/{columns.fingerprint}", path)
        sample = DrawnSample(
            columns=columns.fingerprint,
            sample=self._cache.put_pass_document("samples", made.stored.to_bytes()),
            info=made.info,
            notes=tuple(note[:MAX_NOTE] for note in made.notes[:MAX_NOTES]),
        )
        return TaskResult(PlanAnswer(sample=sample).to_bytes(), f"a sample of {made.info.rows:,} rows")

    def _draw(self, task: messages.CountMessage, request: DrawRequest) -> TaskResult:
        has_ended, blocks = self._end_check(task.spec.id), []
        for position in range(task.start, task.stop):
            if has_ended():
                raise JobEndedError(f"Job {task.spec.id} has ended.")
            if position >= len(request.wanted):
                raise FormatError(f"The pass has {len(request.wanted)} blocks and not {position + 1}.")
            blocks.append(self._draw_block(request, request.wanted[position]))
        return TaskResult(dump_blocks(blocks), f"{len(blocks)} blocks drawn")

    def _draw_block(self, request: DrawRequest, block: int) -> DrawnBlock:
        """Draw from one block, and store the result."""
        self._check_files(request.dataset.open(), request.pieces(block))
        numbers = self._cache.pass_file("numbers", request.numbers[block]) if block in request.numbers else None
        with TemporaryDirectory(prefix="maabo-") as folder:
            cells, drawn = Path(folder) / "cells", Path(folder) / "drawn"
            draw_block(request, block, numbers, cells, drawn)
            return DrawnBlock(
                cells=self._cache.put_pass_file("cells", cells), drawn=self._cache.put_pass_file("drawn", drawn)
            )

    def _check_files(self, dataset: Dataset, pieces: Iterable[Piece]) -> None:
        check_files(self._settings.tables_url, (dataset.files[each].path for each in {piece.file for piece in pieces}))

    # Counts.

    def _decode_count(
        self, task: messages.CountMessage, many: ManyRows, table: TableSettings, request: CountRequest
    ) -> Callable[[], TaskResult]:
        stored = read_sample(self._cache, many)
        if task.stop > len(stored.sample.blocks):
            raise FormatError(f"The dataset has {len(stored.sample.blocks)} blocks and not {task.stop}.")
        encoder = TableEncoder(self._cache.columns(task.spec.dataset.fingerprint).features)
        cells = {
            block: self._cache.pass_file("cells", stored.sample.cells[block]) for block in range(task.start, task.stop)
        }
        return lambda: self._count(task, stored, encoder, request, cells, table.na_values)

    def _count(
        self,
        task: messages.CountMessage,
        stored: "OpenSample",
        encoder: TableEncoder,
        request: CountRequest,
        cells: dict[int, Path],
        na_values: tuple[str, ...],
    ) -> TaskResult:
        has_ended = self._end_check(task.spec.id)
        total = no_counts(request.shape(len(stored.sample.classes)))
        for block, path in cells.items():
            if has_ended():
                raise JobEndedError(f"Job {task.spec.id} has ended.")
            pieces = stored.sample.pieces(block)
            self._check_files(stored.dataset, pieces)
            rows = stored.sample.rows_of(block, path, stored.dataset, encoder, na_values)
            files = [stored.dataset.files[each] for each in {piece.file for piece in pieces}]
            for file in files:
                file.check_unchanged()
            total = add_counts(total, count_pieces(rows, request, pieces))
            for file in files:
                file.check_unchanged()
        return TaskResult(pack_counts(total), f"{len(request.premises)} rules counted")


@dataclass(frozen=True)
class OpenSample:
    """A sample that is drawn, and the dataset that it was drawn from."""

    sample: StoredSample
    dataset: Dataset


def read_sample(cache: TableCache, many: ManyRows) -> OpenSample:
    """Return the sample of a job."""
    if many.drawn is None:
        raise FormatError("The job's sample is not drawn yet.")
    return _open_sample(cache.pass_file("samples", many.drawn), many.drawn)


@lru_cache(maxsize=4)
def _open_sample(path: Path, digest: str) -> OpenSample:  # noqa: ARG001 - the digest identifies it
    sample = StoredSample.parse(path.read_bytes())
    return OpenSample(sample, sample.dataset.open())


def read_counts(cache: TableCache, task: messages.RulesMessage, study: Study) -> StoredCounts | None:
    """Return the counts of the passes that were run for a job; None if all of its rows are in the store."""
    many = task.spec.dataset.many
    if many is None:
        return None
    counter = stored_counts(cache, many, study)
    for each in task.counted:
        request = unpack_request(cache.pass_file("passes", each.request).read_bytes())
        counts = cache.pass_file("results", each.results).read_bytes()
        counter.keep(request, unpack_counts(counts, request.shape(len(counter.classes))))
    return counter


def stored_counts(cache: TableCache, many: ManyRows, study: Study) -> StoredCounts:
    """Return a counter that has no counts yet."""
    sample = read_sample(cache, many).sample
    return StoredCounts(sample.classes, sample.totals_array, study.table_columns.features)


def plan_counts(cache: TableCache, many: ManyRows, request: CountRequest, task_seconds: float) -> TaskResult:
    """Store a request for counts, and answer with the plan of the pass."""
    sample = read_sample(cache, many).sample
    columns = len({condition.feature for premise in request.premises for condition in premise})
    row_seconds = SECONDS_PER_CONDITION_CELL * columns + SECONDS_PER_RULE_ROW * len(request.premises)
    blocks = divide_pieces([rows for *_, rows in sample.blocks], int(task_seconds / row_seconds))
    plan = PassPlan(
        kind="count",
        request=cache.put_pass_document("passes", pack_request(request)),
        shape=request.shape(len(sample.classes)),
        blocks=blocks,
    )
    return TaskResult(plan.to_bytes(), f"{len(request.premises)} rules to count", {"counting": True})


def _read_spec(spec: JobSpec) -> tuple[ManyRows, TableSettings]:
    if spec.dataset.many is None or spec.dataset.settings is None:
        raise FormatError("CountMessage is invalid: its job has no dataset of many files.")
    return spec.dataset.many, spec.dataset.settings


def _all_pieces(request: DrawRequest) -> list[Piece]:
    return [piece for block in range(len(request.blocks)) for piece in request.pieces(block)]
