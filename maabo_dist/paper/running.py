"""Cases become outcomes: each is mined by `mine`, in this process or in several beside each other."""

import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from multiprocessing import get_context
from threading import current_thread, main_thread
from time import process_time

import numpy as np

from maabo_dist.data import Columns, prepare
from maabo_dist.errors import MaaboError
from maabo_dist.mining import MiningResult, mine, split_for
from maabo_dist.paper.case import Case, Outcome, Result, TableKey, TunedTree, outcome_of
from maabo_dist.paper.tables import PaperTable, with_noise
from maabo_dist.report.document import result_document
from maabo_dist.settings import MiningSettings
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
    result = mine(columns, settings, keep_trees=bool(case.leaf_sizes), clock=process_time)
    if result.search.stopped == "interrupted":
        raise KeyboardInterrupt
    if case.leaf_sizes:
        found = _tuned(result, columns)
    return replace(outcome_of(result_document(result, {"name": case.table.name})), tree=found)


def best_leaf_size(columns: Columns, settings: MiningSettings, sizes: Sequence[int]) -> int:
    """The least rows of a leaf with which the single tree scores best at its best depth; the smallest of equals."""
    split, everything = split_for(columns, settings), np.arange(columns.count, dtype=np.int32)[None]

    def score(size: int) -> float:
        table = TrainingTable.build(columns, split, class_weight=settings.class_weight, min_samples_leaf=size)
        return float(depth_search(table, everything, settings.max_depth).best_scores[0])

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
    processes = min(jobs, len(groups))
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=_begin, initargs=(dict(tables), cases[0]))
    try:
        with _deaf():
            waiting = {pool.submit(_mine_here, [cases[place] for place in places]): places for places in groups}
        for done in as_completed(waiting):
            yield waiting[done], done.result()
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
    return [outcome(columns, case) for case in cases]


def _tuned(result: MiningResult, columns: Columns) -> TunedTree:
    if result.forest is None:
        raise ValueError("The tree was to be kept.")
    tree = result.forest.tree(0)
    used = np.unique(tree.feature[tree.feature != LEAF]).tolist()
    names = frozenset(columns.features[index].column for index in used)
    return TunedTree(tree.depth, result.settings.min_samples_leaf, names)
