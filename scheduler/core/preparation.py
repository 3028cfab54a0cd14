"""`Preparations`: tables of jobs are fetched and laid out in a thread, before the jobs are opened."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial

from maabo_dist.cluster.table_cache import TableCache
from maabo_dist.contract.job import JobSpec
from maabo_dist.errors import FormatError
from maabo_dist.screens.blocks import count_pairs, pair_seconds
from maabo_dist.screens.pairs import Screen, compute_screen
from maabo_dist.study import Study
from scheduler.background import BackgroundThread
from scheduler.ledger.leases import Lease
from scheduler.ledger.ledger import Ledger
from scheduler.ledger.quotas import QuotaError

# Seconds to wait for the tables of new jobs. Most are small; the loop checks the others later.
SHORT_WAIT = 0.25


@dataclass(frozen=True, slots=True)
class PreparedTable:
    """A table, split and laid out for a job."""

    study: Study
    # None if the plan needs none, or if workers are to compute it.
    screen: Screen | None

    @property
    def pair_seconds(self) -> float:
        """The approximate time to screen one pair."""
        return pair_seconds(len(self.study.split.train), len(self.study.columns.classes))


def prepare(spec: JobSpec, cache: TableCache, screen_seconds: float) -> PreparedTable:
    """Fetch and lay out a table; compute its screen if that takes less than `screen_seconds`."""
    prepared = PreparedTable(cache.study(spec.dataset.fingerprint, spec.settings), None)
    study, features = prepared.study, prepared.study.columns.count
    if study.plan.screened and count_pairs(0, features, features) * prepared.pair_seconds < screen_seconds:
        return PreparedTable(study, compute_screen(study.columns, study.split, study.table.root_scores))
    return prepared


def prepare_job(ledger: Ledger, cache: TableCache, screen_seconds: float, lease: Lease) -> PreparedTable:
    """Prepare the table of a job; raise an error if the search is larger than the tenant's quota."""
    row = ledger.jobs.get(lease.job)
    if row is None:
        raise FormatError(f"The ledger has no job {lease.job}.")
    prepared = prepare(row.spec, cache, screen_seconds)
    limit = ledger.quotas.get(row.spec.tenant).trees
    if limit is not None and prepared.study.plan.trees is not None and prepared.study.plan.trees > limit:
        raise QuotaError("trees", limit, prepared.study.plan.trees)
    return prepared


class Preparations:
    """Jobs whose tables are being prepared, by their leases."""

    def __init__(self, prepare: Callable[[Lease], PreparedTable]) -> None:
        self._prepare = prepare
        self._thread: BackgroundThread[PreparedTable] = BackgroundThread()
        self._pending: dict[str, tuple[Lease, Future[PreparedTable]]] = {}

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

    def take_done(self) -> Iterator[tuple[Lease, "Future[PreparedTable]"]]:
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
