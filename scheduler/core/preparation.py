"""Prepares jobs: `Preparations` fetches their tables in a thread, then `open_job` restores them from the ledger.

open_job ──► ScreeningJob ──its screen is in the ledger──► open_job ──► SearchingJob
    └────── no screen needed, or it is small or in the ledger ────────────┘

A search that is over becomes a CertifyingJob if its searches on shuffled labels have begun, and a PassJob while its
rules are counted. A job whose sample is not drawn yet is a PassJob first.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial

from maabo_dist.cluster.store import MissingArtifactError
from maabo_dist.cluster.table_cache import TableCache
from maabo_dist.contract.job import JobSpec
from maabo_dist.contract.messages import TableSplit
from maabo_dist.contract.result import StopReason
from maabo_dist.data.split import held_out_share
from maabo_dist.errors import FormatError
from maabo_dist.findings.wire import unpack_searches
from maabo_dist.mining.run import SearchRun
from maabo_dist.mining.shuffles import ShufflePlan
from maabo_dist.rules.publishing import TreePool
from maabo_dist.screens.blocks import TENTHS, THIRDS, count_pairs
from maabo_dist.screens.conjunctions import grow_conjunctions
from maabo_dist.screens.screen import MAX_PAIRS, Screen, compute_screen
from maabo_dist.screens.wire import unpack_screen
from maabo_dist.search.plan import repeat_seconds
from maabo_dist.study import Study
from maabo_dist.trees.wire import unpack_forest
from scheduler.background import BackgroundThread
from scheduler.core.blocks import Screening, cut_blocks
from scheduler.core.job import (
    CertifyingJob,
    HeldJob,
    PreparedTable,
    ScreeningJob,
    SearchingJob,
    certifying_job,
)
from scheduler.core.machines import JobMachine, TaskKey
from scheduler.core.passes import open_sampling, restore_counts
from scheduler.core.rebuilding import rebuild_columns
from scheduler.core.task_lengths import TaskLengths
from scheduler.ledger import Ledger
from scheduler.ledger.jobs import JobRow
from scheduler.ledger.leases import Lease
from scheduler.ledger.search import BatchRow, BlockRow
from scheduler.ledger.tenants import QuotaError

# Seconds to wait for the tables of new jobs. Most are small; the loop checks the others later.
SHORT_WAIT = 0.25


def prepare(spec: JobSpec, cache: TableCache, screen_seconds: float) -> PreparedTable:
    """Fetch and lay out a table; compute its screen if that takes less than `screen_seconds`."""
    study = cache.study(spec.dataset.fingerprint, spec.settings)
    prepared = PreparedTable(study, None)
    plan, features = study.plan, study.columns.count
    if not plan.screened:
        return prepared
    seconds = count_pairs(0, features, features) * prepared.pair_seconds + (prepared.triples_seconds or 0.0)
    if seconds < screen_seconds:
        scores = study.table.root_scores
        return PreparedTable(study, compute_screen(study.columns, study.tree_split, scores, plan.screens))
    if not plan.screens.grown:
        return prepared
    # Growing conjunctions takes a small part of the time of all pairs; workers compute the rest.
    split = TableSplit.of(spec.settings)
    cuts = (THIRDS, TENTHS) if plan.tenths else (THIRDS,)
    tables = [cache.bits(spec.dataset.fingerprint, split, each) for each in cuts]
    return PreparedTable(study, None, grow_conjunctions(tables, plan.screens.grown))


def prepare_job(ledger: Ledger, cache: TableCache, screen_seconds: float, lease: Lease) -> PreparedTable | None:
    """Prepare the table of a job, from the uploaded file if the store has lost its columns.

    Raise an error if the search is larger than the tenant's quota. None if a sample has to be drawn first.
    """
    row = _read_row(ledger, lease)
    if row.spec.dataset.needs_sample:
        return None
    try:
        prepared = prepare(row.spec, cache, screen_seconds)
    except MissingArtifactError:
        if not rebuild_columns(ledger, cache.store, row.spec):
            raise
        prepared = prepare(row.spec, cache, screen_seconds)
    limit = ledger.quotas.get(row.spec.tenant).trees
    if limit is not None and prepared.study.plan.trees > limit:
        raise QuotaError("trees", limit, prepared.study.plan.trees)
    return prepared


def _read_row(ledger: Ledger, lease: Lease) -> JobRow:
    row = ledger.jobs.get(lease.job)
    if row is None:
        raise FormatError(f"The ledger has no job {lease.job}.")
    return row


class Preparations:
    """Jobs whose tables are being prepared, by their leases."""

    def __init__(self, prepare: Callable[[Lease], PreparedTable | None]) -> None:
        self._prepare = prepare
        self._thread: BackgroundThread[PreparedTable | None] = BackgroundThread()
        self._pending: dict[str, tuple[Lease, Future[PreparedTable | None]]] = {}

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def leases(self) -> list[Lease]:
        """The leases of these jobs."""
        return [lease for lease, _ in self._pending.values()]

    def begin(self, leases: Sequence[Lease]) -> None:
        """Start preparing tables, and wait briefly for them."""
        for lease in leases:
            self._pending[lease.job] = lease, self._thread.submit(partial(self._prepare, lease))
        wait([self._pending[lease.job][1] for lease in leases], SHORT_WAIT)

    def take_done(self) -> Iterator[tuple[Lease, "Future[PreparedTable | None]"]]:
        """Remove and return the jobs whose preparation succeeded or failed."""
        for lease, future in list(self._pending.values()):
            if future.done():
                del self._pending[lease.job]
                yield lease, future

    def cancel(self, job: str) -> None:
        """Forget a job that is no longer held."""
        if job in self._pending:
            self._pending.pop(job)[1].cancel()

    def close(self) -> None:
        """End the thread."""
        self._thread.close()


ONE_SECOND = TaskLengths(1.0)


def open_job(
    ledger: Ledger,
    lease: Lease,
    prepared: PreparedTable | None,
    now: float,
    tick: Callable[[], None],
    lengths: TaskLengths = ONE_SECOND,
) -> HeldJob:
    """Restore a job. `tick` is called repeatedly while it runs; a new screen is cut into blocks of these lengths."""
    row = _read_row(ledger, lease)
    if prepared is None:
        return open_sampling(ledger, lease, row, now)
    screen = prepared.screen
    if prepared.study.plan.screened and screen is None:
        stored = ledger.screens.screen(lease.job)
        if stored is None:
            return _open_screening(ledger, lease, row, prepared, now, lengths)
        screen = unpack_screen(stored, prepared.study.columns.count)
        screen = replace(screen, conjunctions=prepared.conjunctions)
    job = _start_search(lease, row, prepared.study, screen, now)
    _replay(job, ledger, now, tick)
    return _open_finished(job, ledger, now) if job.machine.finished else job


def _open_screening(
    ledger: Ledger, lease: Lease, row: JobRow, prepared: PreparedTable, now: float, lengths: TaskLengths
) -> ScreeningJob:
    """Restore the blocks in the ledger, or cut and write new ones."""
    features, pair_seconds = prepared.study.columns.count, prepared.pair_seconds
    rows = ledger.screens.blocks(lease.job)
    if not rows:
        seconds = pair_seconds * (features * (features - 1) // 2)
        blocks = cut_blocks(features, seconds, lengths, prepared.triples_seconds)
        rows = [BlockRow(start, stop) for start, stop in blocks]
        ledger.screens.write_blocks(lease, now, rows)
    classes = len(prepared.study.columns.classes)
    screening = Screening(features, [(block.start, block.stop) for block in rows], MAX_PAIRS, classes=classes)
    holdout = held_out_share(row.spec.settings.holdout, prepared.study.columns.rows)
    shape = (prepared.study.columns.rows, features)
    job = ScreeningJob(
        lease, row.spec, prepared.study.plan, row, now, screening, prepared, holdout=holdout, shape=shape
    )
    job.speed.seconds = pair_seconds
    for written in rows:
        block = screening.block(written.start, written.stop)
        if block is not None and written.pairs is not None:
            screening.accept(block, screening.unpack(block, written.pairs))
            job.speed.observe(block.size, written.seconds)
        elif block is not None and written.attempt is not None:
            screening.adopt(block, written.attempt, now)
    return job


def _start_search(lease: Lease, row: JobRow, study: Study, screen: Screen | None, now: float) -> SearchingJob:
    # Workers pool the trees; here they only serve to detect that no new rules are found.
    pool = TreePool(study) if study.settings.patience is not None else None
    machine = JobMachine(SearchRun(study, pool, screen), study.settings.max_depth, len(study.columns.classes))
    rows, classes = study.columns.rows, len(study.columns.classes)
    seconds = repeat_seconds(study.plan, study.settings, rows=rows, classes=classes)
    holdout = held_out_share(study.settings.holdout, rows)
    shape = (rows, study.columns.count)
    job = SearchingJob(lease, row.spec, study.plan, row, now, machine, seconds, holdout=holdout, shape=shape)
    job.speed.estimate = seconds / max(1, study.plan.trees)
    job.rules, job.segments = row.rules, list(row.segments)
    if row.stop_after is not None:
        job.stopping = True
        machine.stop(row.stop_after, StopReason.TIME)
    return job


def _replay(job: SearchingJob, ledger: Ledger, now: float, tick: Callable[[], None]) -> None:
    """Propose the batches of a search again, with the answers in the ledger."""
    machine = job.machine
    written = {row.number: row.subsets for row in ledger.search.batches(job.lease.job)}
    unwritten = _new_batches(machine, written)
    for row in ledger.search.results(job.lease.job):
        key = TaskKey(row.batch, row.start, row.stop)
        if row.reason is not None:
            job.give_up(key, row.reason)
        elif machine.is_open(key):
            machine.accept(key, unpack_forest(row.trees, machine.subsets(key)))
            job.speed.observe(key.size, row.seconds)
        unwritten += _new_batches(machine, written)
        tick()
    for sent in ledger.search.tasks(job.lease.job):
        machine.adopt(TaskKey(sent.batch, sent.start, sent.stop), sent.attempt, now)
    if unwritten:
        ledger.search.write(job.lease, now, new_batches=unwritten)


def _open_finished(search: SearchingJob, ledger: Ledger, now: float) -> HeldJob:
    """Restore what a search that is over is followed by, as far as it has begun."""
    job = _open_shuffling(search, ledger, now)
    counting = restore_counts(search, ledger, now)
    if counting is None:
        return job
    if isinstance(job, CertifyingJob):
        search.shuffled = job.machine.result()
    return counting


def _open_shuffling(search: SearchingJob, ledger: Ledger, now: float) -> SearchingJob | CertifyingJob:
    """Restore the searches on shuffled labels, if they have begun."""
    plan = ledger.shuffles.plan(search.lease.job)
    if plan is None:
        return search
    rows = ledger.shuffles.rows(search.lease.job)
    ranges = [(row.start, row.stop) for row in rows]
    job = certifying_job(search, ShufflePlan(plan.count, plan.undecided), ranges)
    for row in rows:
        block = job.machine.block(row.start, row.stop)
        if block is not None and row.searches is not None:
            job.machine.accept(block, unpack_searches(row.searches, block.size), row.seconds)
            job.speed.observe(block.size, row.seconds)
        elif block is not None and row.attempt is not None:
            job.machine.adopt(block, row.attempt, now)
    return job


def _new_batches(machine: JobMachine, written: dict[int, bytes]) -> list[BatchRow]:
    """Propose batches, check those that are in the ledger, and return the others."""
    batches = [BatchRow(number, subsets.astype("<i4").tobytes()) for number, subsets in machine.propose()]
    for batch in batches:
        if written.get(batch.number, batch.subsets) != batch.subsets:
            raise FormatError(
                f"Batch {batch.number} in the ledger is not what this version proposes. Submit the job again."
            )
    return [batch for batch in batches if batch.number not in written]
