"""`ActiveJob`: a job that this scheduler holds, brought to where the ledger has it."""

from dataclasses import dataclass

from maabo_dist.cluster.tables import TableCache, split_of
from maabo_dist.contract.job import JobSpec
from maabo_dist.contract.messages import Evaluate, TableSplit, pack_subsets
from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.errors import FormatError
from maabo_dist.mining import MiningResult, SearchSummary, conclude
from maabo_dist.run import SearchRun
from maabo_dist.search import Subsets
from maabo_dist.settings import SearchPlan
from maabo_dist.trees import TrainingTable
from maabo_dist.trees.wire import unpack_forest
from scheduler.ledger import Lease, Ledger
from scheduler.machine import JobMachine, TaskKey


@dataclass(slots=True)
class ActiveJob:
    """The job, its table and its books."""

    lease: Lease
    spec: JobSpec
    plan: SearchPlan
    columns: Columns
    split: Split
    table: TrainingTable
    machine: JobMachine
    started: float
    seconds_a_subset: float = 0.001
    """Measured, and forgotten slowly."""

    @classmethod
    def opened(cls, ledger: Ledger, lease: Lease, cache: TableCache, now: float) -> "ActiveJob":
        """Replay: propose as the search does, and answer from the ledger."""
        row = ledger.job(lease.job)
        if row is None:
            raise FormatError(f"The ledger has no job {lease.job}.")
        settings = row.spec.settings
        columns = cache.columns(row.spec.dataset.fingerprint)
        plan = SearchPlan.settle(settings, columns.count)
        table = cache.training(row.spec.dataset.fingerprint, table_split(row.spec))
        split = split_of(columns, table_split(row.spec))
        run = SearchRun(columns, split, table.weights, settings, plan)
        machine = JobMachine(run, settings.max_depth, len(columns.classes))
        started = row.started or now
        job = cls(lease, row.spec, plan, columns, split, table, machine, started)
        job._replay(ledger, now)
        return job

    def _replay(self, ledger: Ledger, now: float) -> None:
        known = dict(ledger.batches(self.lease.job))
        answers = iter(ledger.results(self.lease.job))
        self._note_batches(ledger, known, now)
        for row in answers:
            key = TaskKey(row.batch, row.start, row.stop)
            if row.reason is not None:
                self.machine.give_up(key)
            else:
                self.machine.answer(key, unpack_forest(row.trees, self.machine.subsets(key)))
            self._note_batches(ledger, known, now)

    def _note_batches(self, ledger: Ledger, known: dict[int, bytes], now: float) -> None:
        """Batches that the ledger has must be those that the search proposes; others are written."""
        for number, subsets in self.machine.propose():
            packed = subsets.astype("<i4").tobytes()
            if number not in known:
                ledger.write_batch(self.lease, now, number, packed)
            elif known[number] != packed:
                raise FormatError(
                    f"Batch {number} in the ledger is not what this version proposes. Submit the job anew."
                )

    def message(self, key: TaskKey, attempt: int, subsets: Subsets) -> Evaluate:
        """What a worker is told."""
        return Evaluate(
            job=self.lease.job,
            batch=key.batch,
            start=key.start,
            stop=key.stop,
            attempt=attempt,
            columns=self.spec.dataset.fingerprint,
            split=table_split(self.spec),
            max_depth=self.spec.settings.max_depth,
            subset_size=self.plan.subset_size,
            subsets=pack_subsets(subsets),
        )

    def learn_speed(self, subsets: int, seconds: float) -> None:
        """An answer came: how long a subset takes."""
        self.seconds_a_subset += 0.3 * (seconds / max(1, subsets) - self.seconds_a_subset)

    def result(self, now: float) -> MiningResult:
        """GS-MRM over all trees."""
        run = self.machine.run
        summary = SearchSummary(run.grown, run.leaves.seen, run.best_score, now - self.started, run.reason)
        return conclude(
            self.columns,
            self.split,
            self.table,
            settings=self.spec.settings,
            plan=self.plan,
            search=summary,
            leaves=run.leaves,
            records=run.records,
        )


def table_split(spec: JobSpec) -> TableSplit:
    """The part of the settings that lays out the training table."""
    settings = spec.settings
    return TableSplit(
        test_size=settings.test_size,
        holdout=settings.holdout,
        seed=settings.seed if settings.split_seed is None else settings.split_seed,
        stratify=settings.stratify,
        class_weight=settings.class_weight,
        min_samples_leaf=settings.min_samples_leaf,
    )
