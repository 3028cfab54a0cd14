"""Cases become outcomes: each is mined by `mine`, in this process or in several beside each other."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from multiprocessing import active_children, get_context
from threading import current_thread, main_thread
from time import process_time

import numpy as np

from maabo_dist.contract.result import StopReason
from maabo_dist.data import Columns, prepare
from maabo_dist.errors import MaaboError
from maabo_dist.mining.local import mine
from maabo_dist.mining.result import MiningResult, conclude
from maabo_dist.report.document import result_document
from maabo_dist.research.paper.case import Case, Outcome, Result, TableKey, TunedTree, outcome_of
from maabo_dist.research.paper.tables import PaperTable, with_noise
from maabo_dist.rules.pool import TreePool
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study, split_for
from maabo_dist.trees import TrainingTable, depth_search
from maabo_dist.trees.growth import LEAF

FEW_CASES = 40
"""So few are done before other processes have even started."""

Tables = Mapping[str, PaperTable]
Watch = Callable[[int], object]
"""Told how many cases are done."""


def prepared_for(tables: Tables, key: TableKey) -> PaperTable:
    """The table of a case, with its noise, and the settings that prepare it."""
    table = with_noise(tables[key.name], key.noise, key.seed)
    return replace(table, settings=table.settings.model_copy(update={"impute": key.impute}))


def outcome(columns: Columns, case: Case) -> Outcome:
    """What comes of a case on its columns."""
    settings, found = case.settings, None
    if case.leaf_sizes:
        settings = settings.model_copy(update={"min_samples_leaf": best_leaf_size(columns, settings, case.leaf_sizes)})
    result = _mined(columns, settings, keep_trees=bool(case.leaf_sizes))
    if case.leaf_sizes:
        found = _tuned(result, columns)
    return replace(_told(result, case), tree=found)


def _mined(columns: Columns, settings: MiningSettings, *, keep_trees: bool) -> MiningResult:
    result = mine(columns, settings, keep_trees=keep_trees, clock=process_time)
    if result.search.stopped is StopReason.INTERRUPTED:  # half an arm is nothing to compare
        raise KeyboardInterrupt
    return result


def _told(result: MiningResult, case: Case) -> Outcome:
    return outcome_of(result_document(result, {"name": case.table.name}))


def best_leaf_size(columns: Columns, settings: MiningSettings, sizes: Sequence[int]) -> int:
    """The least rows of a leaf with which the single tree scores best at its best depth; the smallest of equals."""
    everything = np.arange(columns.count, dtype=np.int32)[None]
    table = TrainingTable.build(columns, split_for(columns, settings), class_weight=settings.class_weight)

    def score(size: int) -> float:
        return float(depth_search(table.with_leaves_of(size), everything, settings.max_depth).best_scores[0])

    return max(sorted(sizes), key=score)


def run_cases(cases: Sequence[Case], tables: Tables, jobs: int, watch: Watch) -> list[Result]:
    """All outcomes, in the order of the cases; the number of processes changes none of them."""
    groups = _grouped(cases)
    found: dict[int, Outcome] = {}
    for places, outcomes in _outcomes(groups, cases, tables, jobs):
        found |= dict(zip(places, outcomes, strict=True))
        watch(len(found))
    return [(case, found[place]) for place, case in enumerate(cases)]


def _grouped(cases: Sequence[Case]) -> list[list[int]]:
    """Places of cases that share a table and a seed: what one process is given at a time."""
    order = range(len(cases))
    return [list(places) for _, places in groupby(order, key=lambda place: (cases[place].table, cases[place].seed))]


def _outcomes(
    groups: list[list[int]], cases: Sequence[Case], tables: Tables, jobs: int
) -> Iterator[tuple[list[int], list[Outcome]]]:
    if min(jobs, len(groups)) < 2 or len(cases) < FEW_CASES:
        if cases:
            mine_group(tables, [cases[0]])  # as in `_begin`
        for places in groups:
            yield places, mine_group(tables, [cases[place] for place in places])
        return
    # Started anew rather than forked: a process that has threads of its own cannot be forked safely.
    processes, others = min(jobs, len(groups)), active_children()
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_begin, initargs=(dict(tables), cases[0]))
    try:
        with _deaf():
            waiting = {pool.submit(_mine_here, [cases[place] for place in places]): places for places in groups}
        for done in as_completed(waiting):
            yield waiting[done], done.result()
    except KeyboardInterrupt:
        for process in active_children():
            if process not in others:
                process.terminate()  # what it has begun would be waited for
        raise
    except BrokenProcessPool as error:
        raise MaaboError("A process was killed, perhaps for want of memory. Try again with --jobs 1.") from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _deaf() -> Iterator[None]:
    """Processes started here do not hear Ctrl-C, as the terminal sends it to all: this one does, and ends them."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


_tables: dict[str, PaperTable] = {}
"""Of a process of the pool: each gets them once, when it begins."""


def _begin(tables: dict[str, PaperTable], first: Case) -> None:
    _tables.update(tables)
    mine_group(tables, [first])  # so that no case that counts takes the time to load kernels


def _mine_here(cases: list[Case]) -> list[Outcome]:
    return mine_group(_tables, cases)


def mine_group(tables: Tables, cases: list[Case]) -> list[Outcome]:
    """The outcomes of cases that share a table."""
    table = prepared_for(tables, cases[0].table)
    columns = prepare(table.frame, table.settings).columns
    longer: dict[MiningSettings, MiningResult] = {}
    found: dict[int, Outcome] = {}
    for place in sorted(range(len(cases)), key=lambda place: -_budget(cases[place].settings)):
        found[place] = _outcome(columns, cases[place], longer)
    return [found[place] for place in range(len(cases))]


def _outcome(columns: Columns, case: Case, longer: dict[MiningSettings, MiningResult]) -> Outcome:
    """From the beginning of a longer search where there is one, which is kept for the cases that follow."""
    if case.leaf_sizes or not _budget(case.settings):
        return outcome(columns, case)
    unbounded = case.settings.model_copy(update={"trees": None})
    if unbounded not in longer:
        longer[unbounded] = _mined(columns, case.settings, keep_trees=True)
        return _told(longer[unbounded], case)
    return _told(shortened(longer[unbounded], columns, case.settings), case)


def _budget(settings: MiningSettings) -> int:
    """Trees of a search that can be the beginning of a longer one; 0 for others."""
    trees = settings.trees if isinstance(settings.trees, int) else 0
    whole = settings.in_flight == 1 and settings.batch is not None and trees % settings.batch == 0
    return trees if whole and trees >= settings.initial and settings.strategy in {"maabo", "random"} else 0


def shortened(result: MiningResult, columns: Columns, settings: MiningSettings) -> MiningResult:
    """What `mine` gives with these settings, from the trees of a search that has more of them and is else the same.

    A search does not know its end: with whole batches, one at a time, the shorter is the beginning of the longer.
    """
    if result.forest is None:
        raise ValueError("The trees were to be kept.")
    study = Study.build(columns, settings)
    pool = TreePool(study)
    pool.add(result.forest.first(study.plan.trees))
    return conclude(study, pool, StopReason.BUDGET, result.search.seconds)


def _tuned(result: MiningResult, columns: Columns) -> TunedTree:
    if result.forest is None:
        raise ValueError("The tree was to be kept.")
    tree = result.forest.tree(0)
    used = np.unique(tree.feature[tree.feature != LEAF]).tolist()
    names = frozenset(columns.features[index].column for index in used)
    return TunedTree(tree.depth, result.settings.min_samples_leaf, names)
