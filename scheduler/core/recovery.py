"""`open_job`: a job brought to where the ledger has it.

open_job ──► ScreeningJob ──its screen is in the ledger──► open_job ──► ActiveJob
    └────── no screen is wanted, a small one, or one that is made ────────┘
"""

from collections.abc import Callable

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.contract.result import StopReason
from maabo_dist.errors import FormatError
from maabo_dist.mining.run import SearchRun
from maabo_dist.rules.pool import TreePool
from maabo_dist.screens.pairs import MOST_PAIRS, Screen
from maabo_dist.screens.wire import unpack_pairs, unpack_screen
from maabo_dist.study import Study
from maabo_dist.trees.wire import unpack_forest
from scheduler.core.job import ActiveJob, ScreeningJob, Speed
from scheduler.core.machine import JobMachine, TaskKey
from scheduler.core.preparation import Prepared
from scheduler.core.screening import Screening, cut_blocks
from scheduler.ledger.jobs import JobRow
from scheduler.ledger.leases import Lease
from scheduler.ledger.ledger import Ledger
from scheduler.ledger.screens import BlockRow
from scheduler.ledger.search import BatchRow, ResultRow

logger = StructuredLogger("maabo.scheduler")


def open_job(
    ledger: Ledger,
    lease: Lease,
    prepared: Prepared,
    now: float,
    tick: Callable[[], None],
    task_seconds: float = 1.0,
) -> ActiveJob | ScreeningJob:
    """Where the ledger has the job. `tick` is called now and then on the way; a screen is cut by `task_seconds`."""
    row = ledger.jobs.get(lease.job)
    if row is None:
        raise FormatError(f"The ledger has no job {lease.job}.")
    found = prepared.screen
    if prepared.study.plan.screened and found is None:
        stored = ledger.screens.screen(lease.job)
        if stored is None:
            return _open_screening(ledger, lease, row, prepared, now, task_seconds)
        found = unpack_screen(stored, prepared.study.columns.count)
    return _open_search(ledger, lease, row, prepared.study, found, now, tick)


def _open_screening(
    ledger: Ledger, lease: Lease, row: JobRow, prepared: Prepared, now: float, task_seconds: float
) -> ScreeningJob:
    """The blocks that the ledger has, or new ones; a cut once written stays."""
    features, pair_seconds = prepared.study.columns.count, prepared.pair_seconds
    rows = ledger.screens.blocks(lease.job)
    if not rows:
        seconds = pair_seconds * (features * (features - 1) // 2)
        rows = [BlockRow(start, stop) for start, stop in cut_blocks(features, seconds, task_seconds)]
        ledger.screens.write_blocks(lease, now, rows)
    screening = Screening(features, [(block.start, block.stop) for block in rows], MOST_PAIRS)
    job = ScreeningJob(
        lease, row.spec, prepared.study.plan, row, now, screening, prepared, speed=Speed(seconds=pair_seconds)
    )
    for written in rows:
        block = screening.block(written.start, written.stop)
        if block is not None and written.pairs is not None:
            screening.answer(block, unpack_pairs(written.pairs, block.start, block.stop, features, MOST_PAIRS))
            job.speed.learn(block.size, written.seconds)
        elif block is not None and written.attempt is not None:
            screening.adopt(block, written.attempt, now)
    return job


def _open_search(
    ledger: Ledger,
    lease: Lease,
    row: JobRow,
    study: Study,
    screen: Screen | None,
    now: float,
    tick: Callable[[], None],
) -> ActiveJob:
    """Replay: propose as the search does, and answer from the ledger."""
    # Workers pool the trees; here they are needed only to see whether new rules still come.
    pool = TreePool(study) if study.settings.patience is not None else None
    machine = JobMachine(SearchRun(study, pool, screen), study.settings.max_depth, len(study.columns.classes))
    job = ActiveJob(lease, row.spec, study.plan, row, now, machine, rules=row.rules, segments=list(row.segments))
    if row.stop_after is not None:
        job.stopping = True
        machine.stop(row.stop_after, StopReason.TIME)
    _replay(job, ledger, now, tick)
    return job


def _replay(job: ActiveJob, ledger: Ledger, now: float, tick: Callable[[], None]) -> None:
    machine = job.machine
    known = {row.number: row.subsets for row in ledger.search.batches(job.lease.job)}
    unwritten = _new_batches(machine, known)
    for row in ledger.search.results(job.lease.job):
        _answer(job, row)
        unwritten += _new_batches(machine, known)
        tick()
    for sent in ledger.search.tasks(job.lease.job):
        machine.adopt(TaskKey(sent.batch, sent.start, sent.stop), sent.attempt, now)
    if unwritten:
        ledger.search.write(job.lease, now, new_batches=unwritten)


def _answer(job: ActiveJob, row: ResultRow) -> None:
    key = TaskKey(row.batch, row.start, row.stop)
    if row.reason is not None:
        job.give_up(key, row.reason)
    elif job.machine.is_open(key):
        job.machine.answer(key, unpack_forest(row.trees, job.machine.subsets(key)))
        job.speed.learn(key.size, row.seconds)


def _new_batches(machine: JobMachine, known: dict[int, bytes]) -> list[BatchRow]:
    """Batches that the ledger has must be those that the search proposes; returns those that it has not."""
    fresh = [BatchRow(number, subsets.astype("<i4").tobytes()) for number, subsets in machine.propose()]
    for batch in fresh:
        if known.get(batch.number, batch.subsets) != batch.subsets:
            raise FormatError(
                f"Batch {batch.number} in the ledger is not what this version proposes. Submit the job anew."
            )
    return [batch for batch in fresh if batch.number not in known]


def tell_beginning(job: ActiveJob | ScreeningJob) -> None:
    """Say in the log where the job is."""
    if isinstance(job, ScreeningJob):
        facts = {"screened": job.screening.screened, "of": job.screening.pairs, "blocks": job.screening.blocks}
        logger.info("job screens pairs", **job.log_fields, **facts)
    else:
        facts = {"trees": job.trees, "of": job.plan.trees}
        logger.info("job resumed" if job.trees else "job started", **job.log_fields, **facts)
