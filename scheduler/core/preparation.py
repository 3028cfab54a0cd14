"""What a job's table is made into before the job is opened, in a thread of its own: the loop goes on meanwhile."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from maabo_dist.cluster.table_cache import TableCache
from maabo_dist.contract.job import JobSpec
from maabo_dist.errors import FormatError
from maabo_dist.screens.blocks import count_pairs, pair_seconds
from maabo_dist.screens.pairs import Screen, screen
from maabo_dist.study import Study
from scheduler.ledger.leases import Lease
from scheduler.ledger.ledger import Ledger
from scheduler.ledger.quotas import QuotaError

Found = TypeVar("Found")

A_MOMENT = 0.25
"""Seconds to wait for the tables of new jobs; those that take longer are looked for between other things."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A table as a job needs it."""

    study: Study
    screen: Screen | None
    """None where the plan asks for none, and where it is the workers' to make."""

    @property
    def pair_seconds(self) -> float:
        """About how long a pair takes to screen."""
        return pair_seconds(len(self.study.split.train), len(self.study.columns.classes))


def prepare(spec: JobSpec, cache: TableCache, screen_seconds: float) -> Prepared:
    """Fetch and lay out the table. A screen that should take less than `screen_seconds` is made here and now."""
    prepared = Prepared(cache.study(spec.dataset.fingerprint, spec.settings), None)
    study, features = prepared.study, prepared.study.columns.count
    if study.plan.screened and count_pairs(0, features, features) * prepared.pair_seconds < screen_seconds:
        return Prepared(study, screen(study.columns, study.split, study.table.root_scores))
    return prepared


def prepare_held(ledger: Ledger, cache: TableCache, screen_seconds: float, lease: Lease) -> Prepared:
    """The table of a job that the ledger has; refused if the search would be larger than its tenant may have."""
    row = ledger.jobs.get(lease.job)
    if row is None:
        raise FormatError(f"The ledger has no job {lease.job}.")
    prepared = prepare(row.spec, cache, screen_seconds)
    limit = ledger.quotas.get(row.spec.tenant).trees
    if limit is not None and prepared.study.plan.trees is not None and prepared.study.plan.trees > limit:
        raise QuotaError("trees", limit, prepared.study.plan.trees)
    return prepared


class Preparations:
    """Jobs whose tables are being made ready, each by its lease."""

    def __init__(self, make: Callable[[Lease], Prepared]) -> None:
        self._make = make
        self._workshop: Workshop[Prepared] = Workshop()
        self._orders: dict[str, tuple[Lease, Future[Prepared]]] = {}

    def __len__(self) -> int:
        return len(self._orders)

    @property
    def leases(self) -> list[Lease]:
        """Of all of them."""
        return [lease for lease, _ in self._orders.values()]

    def begin(self, leases: Sequence[Lease]) -> None:
        """Order them, and wait a moment: most tables are small."""
        for lease in leases:
            self._orders[lease.job] = lease, self._workshop.order(partial(self._make, lease))
        wait([self._orders[lease.job][1] for lease in leases], A_MOMENT)

    def ready(self) -> Iterator[tuple[Lease, "Future[Prepared]"]]:
        """Those that are done, or failed; each once."""
        for lease, made in list(self._orders.values()):
            if made.done():
                del self._orders[lease.job]
                yield lease, made

    def drop(self, job: str) -> None:
        """The job is not ours any more."""
        if job in self._orders:
            self._orders.pop(job)[1].cancel()

    def close(self) -> None:
        """Nothing more will be prepared."""
        self._workshop.close()


class Workshop(Generic[Found]):
    """Does what is ordered, one after the other, in a thread that nobody waits for when the process ends."""

    def __init__(self) -> None:
        self._orders: SimpleQueue[tuple[Callable[[], Found], Future[Found]] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def order(self, work: Callable[[], Found]) -> Future[Found]:
        """What `work` returns or raises, in time. An order that is cancelled before its turn is passed over."""
        if self._thread is None:
            self._thread = Thread(target=self._work, name="workshop", daemon=True)
            self._thread.start()
        future: Future[Found] = Future()
        self._orders.put((work, future))
        return future

    def close(self) -> None:
        """Nothing more will be ordered."""
        if self._thread is not None:
            self._orders.put(None)
            self._thread = None

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            work, future = order
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - whoever ordered it is told
                future.set_exception(error)
