"""Searches on shuffled labels, which certify what the bound leaves undecided.

Each is a function of the study and of its number, so they can run anywhere and in any order: in threads of this
process, or as tasks on a cluster. `ShufflePlan` says how many may be needed, and when the known ones are enough.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass, field, replace
from threading import Event
from time import thread_time

import numpy as np

from maabo_dist.contract.result import StopReason
from maabo_dist.findings.candidates import LeafTest
from maabo_dist.findings.certificate import ShuffledSearch, count_needed
from maabo_dist.findings.findings import Evidence
from maabo_dist.mining.run import SearchRun, drive
from maabo_dist.rules.boxes import add_boxes
from maabo_dist.rules.leaves import LeafFilter, Leaves, reliable_leaves
from maabo_dist.rules.selection import distinct_leaves
from maabo_dist.screens.screen import compute_screen
from maabo_dist.study import Study
from maabo_dist.trees.forest import Forest

# Between two reports while threads search: Ctrl-C waits at most this long.
REPORT_SECONDS = 0.1

# Called with the number of complete searches; True asks to stop.
ShuffleProgress = Callable[[int], bool | None]


@dataclass(frozen=True, slots=True)
class ShufflePlan:
    """The searches that a certificate may need: numbers 0 … count − 1."""

    count: int = 0
    # The strongest statistic of the undecided rules; None if all searches are to run.
    undecided: float | None = None

    def count_needed(self, known: Mapping[int, ShuffledSearch]) -> int:
        """Return how many, from the first on, decide the certificate, as far as the known ones tell."""
        return count_needed({n: search.strongest for n, search in known.items()}, self.undecided, self.count)


@dataclass(frozen=True, slots=True)
class ShuffleResult:
    """The searches that decide a certificate, in order."""

    searches: tuple[ShuffledSearch, ...] = ()
    planned: int = 0
    # The time that they took on one core.
    seconds: float = 0.0
    # True if they were stopped; then there are none.
    stopped: bool = False


def plan_shuffles(study: Study, evidence: Evidence | None, stopped: StopReason) -> ShufflePlan:
    """Return the searches that the settings ask for, or that may decide something at a small cost."""
    if evidence is None or not len(evidence.rules) or stopped is StopReason.RUNNING or stopped.cut_short:
        return ShufflePlan()
    if study.settings.certify != "auto":  # more searches than the decision needs give finer p-values
        return ShufflePlan(study.planned_shuffles)
    undecided = evidence.undecided()
    return ShufflePlan() if undecided is None else ShufflePlan(study.planned_shuffles, undecided)


@dataclass(slots=True)
class _Known:
    plan: ShufflePlan
    searches: dict[int, ShuffledSearch] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def needed(self) -> int:
        return self.plan.count_needed(self.searches)

    @property
    def is_complete(self) -> bool:
        return all(number in self.searches for number in range(self.needed))

    def add(self, number: int, search: ShuffledSearch, seconds: float) -> None:
        self.searches[number] = search
        self.seconds += seconds


def run_shuffles(
    study: Study,
    plan: ShufflePlan,
    progress: ShuffleProgress = lambda _done: None,
    *,
    threads: Executor | None = None,
    jobs: int = 1,
) -> ShuffleResult:
    """Run the searches, `jobs` at a time on `threads` if there are any. None counts if they are stopped."""
    known = _Known(plan)
    try:
        complete = _run_in_threads(study, known, progress, threads, jobs) if threads else _run(study, known, progress)
    except KeyboardInterrupt:
        complete = False
    if not complete:
        return ShuffleResult(planned=plan.count, stopped=True)
    searches = tuple(known.searches[number] for number in range(known.needed))
    return ShuffleResult(searches, plan.count, known.seconds)


def _run(study: Study, known: _Known, progress: ShuffleProgress) -> bool:
    """Run the searches one after another. False if they were stopped."""
    while not known.is_complete:
        number = len(known.searches)
        result = search_shuffled(study, number, lambda number=number: bool(progress(number)))  # type: ignore[misc]
        if result is None:
            return False
        known.add(number, *result)
    return not (known.plan.count and progress(len(known.searches)))


def _run_in_threads(study: Study, known: _Known, progress: ShuffleProgress, threads: Executor, jobs: int) -> bool:
    """Run several searches at a time. False if they were stopped."""
    stop, begun = Event(), 0
    running: dict[Future[tuple[ShuffledSearch, float] | None], int] = {}
    try:
        while not known.is_complete:
            while begun < known.needed and len(running) < jobs:
                running[threads.submit(search_shuffled, study, begun, stop.is_set)] = begun
                begun += 1
            done, _ = wait(running, REPORT_SECONDS, FIRST_COMPLETED)
            for future in done:
                result, number = future.result(), running.pop(future)
                if result is not None:
                    known.add(number, *result)
            if progress(len(known.searches)):
                return False
        return True
    finally:
        stop.set()


def search_shuffled(
    study: Study, number: int, should_stop: Callable[[], bool] = lambda: False
) -> tuple[ShuffledSearch, float] | None:
    """Run the whole search again on labels in another order. Return its strongest rules, and the seconds it took.

    It grows all trees of the plan: with patience it would end long before a search that finds rules, and give chance
    fewer opportunities. None if `should_stop`, which is called after every batch, returned True.
    """
    started = thread_time()
    shuffled = study.with_shuffled_labels(number)
    shuffled = replace(shuffled, settings=shuffled.settings.model_copy(update={"patience": None}))
    leaf_filter, test = LeafFilter.of(shuffled), LeafTest(shuffled)
    leaves: list[Leaves] = []
    subsets, scores = [], []
    screen = None
    if shuffled.plan.screened:
        single = shuffled.table.root_scores
        screen = compute_screen(shuffled.columns, shuffled.tree_split, single, shuffled.plan.screens)

    def after_batch(forest: Forest) -> StopReason | None:
        # Most leaves of shuffled labels are forgotten at once: what chance gives is rarely promising.
        leaves.append(test.take_promising(reliable_leaves(forest, leaf_filter)))
        subsets.append(forest.subsets)
        scores.append(forest.best_scores)
        return StopReason.REQUESTED if should_stop() else None

    if drive(SearchRun(shuffled, None, screen), shuffled, after_batch).cut_short:
        return None
    distinct = distinct_leaves(Leaves.concatenate(leaves), by_bounds=shuffled.settings.by_bounds)
    distinct = add_boxes(distinct, shuffled, np.concatenate(subsets), np.concatenate(scores))
    search = Evidence.collect(distinct, shuffled).strongest()
    return search, thread_time() - started
