"""`mine`: the whole method in one process, from columns to rules."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from maabo_dist.contract.result import StopReason
from maabo_dist.data.columns import Columns
from maabo_dist.mining.result import MiningResult, collect_evidence, conclude, count_all_rows
from maabo_dist.mining.run import SearchRun, drive
from maabo_dist.mining.shuffles import plan_shuffles, run_shuffles
from maabo_dist.rules.counting import RowCounter
from maabo_dist.rules.publishing import TreePool
from maabo_dist.screens.screen import compute_screen
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
from maabo_dist.trees.forest import Forest, empty_forest

# A batch is cut finer than one piece per thread, so that no thread waits long for the last one.
PIECES_PER_THREAD = 4


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a search after a batch, or of the searches on shuffled labels that follow it.

    Attributes
    ----------
    trees : int
        Trees grown so far.
    planned : int
        Trees that the plan allows.
    best_score : float
        Best macro F1 on the validation rows so far.
    reliable : int
        Distinct reliable logic sets so far.
    seconds : float
        Time since the start.
    shuffles : int or None
        Searches on shuffled labels that are complete; None before they begin.
    planned_shuffles : int
        The most that are needed.
    """

    trees: int
    planned: int
    best_score: float
    reliable: int
    seconds: float
    shuffles: int | None = None
    planned_shuffles: int = 0


def mine(
    columns: Columns,
    settings: MiningSettings,
    *,
    jobs: int = 1,
    progress: Callable[[Progress], bool | None] | None = None,
    keep_trees: bool = False,
    keep_records: bool = False,
    clock: Callable[[], float] = monotonic,
    count_with: Callable[[Study], RowCounter] | None = None,
) -> MiningResult:
    """Mine the rules of a table.

    The result is a function of `columns` and `settings` alone, unless a time limit or a caller ends the search early.
    An interrupt (Ctrl-C) ends the search too; the result then has the rules of the trees grown so far. During the
    searches on shuffled labels it ends these, and rules are certified without them.

    Parameters
    ----------
    columns : Columns
        The prepared table, without probes. Its groups, times and weights of rows are those of `TableSettings`.
    settings : MiningSettings
        The parameters of the method.
    jobs : int, default=1
        Threads that grow trees. The rules do not depend on it.
    progress : callable, optional
        Called with a `Progress` after every batch, and several times a second while labels are shuffled. The search
        stops if it returns True.
    keep_trees : bool, default=False
        Keep all trees in `MiningResult.forest`.
    keep_records : bool, default=False
        Keep the subset, depth and score of every tree in `MiningResult.records`; figures are made from them.
    clock : callable, default=time.monotonic
        Returns the current time in seconds; used for the time limit and for `SearchInfo.seconds`.
    count_with : callable, optional
        Returns what counts the rows of rules, if `columns` are a sample of a dataset; see `mine_dataset`.

    Returns
    -------
    MiningResult
        The rules, in the order of selection, and the evidence for them.

    Examples
    --------
    >>> from maabo_dist import MiningSettings, mine
    >>> from maabo_dist.data.bundled import load_bundled
    >>> from maabo_dist.data.preparation import prepare
    >>> columns = prepare(*load_bundled("breast_cancer")).columns
    >>> result = mine(columns, MiningSettings(trees=100, seed=1))
    >>> result.search.trees
    100
    >>> result.search.stopped
    <StopReason.BUDGET: 'budget'>
    """
    started = clock()
    study = Study.build(columns, settings)
    pool = TreePool(study)
    forests = [empty_forest(study.plan.subset_size, settings.max_depth, len(columns.classes))]

    def report(seconds: float, **shuffles: int) -> bool:
        best = run.best_score or 0.0
        state = Progress(run.trees, study.plan.trees, best, pool.leaves.logic_sets, seconds, **shuffles)
        return progress is not None and bool(progress(state))

    def after_batch(forest: Forest) -> StopReason | None:
        if keep_trees:
            forests.append(forest)
        seconds = clock() - started
        if report(seconds):
            return StopReason.REQUESTED
        return StopReason.TIME if settings.time_limit is not None and seconds >= settings.time_limit else None

    with ThreadPoolExecutor(jobs) if jobs > 1 else nullcontext() as threads:
        parallel: dict[str, Any] = {"pool": threads, "pieces": jobs * PIECES_PER_THREAD if threads else 1}
        screen = None
        if study.plan.screened:
            scores = study.table.root_scores
            screen = compute_screen(study.columns, study.tree_split, scores, study.plan.screens, **parallel)
        run = SearchRun(study, pool, screen)
        stopped = drive(run, study, after_batch, **parallel)
        seconds = clock() - started
        evidence, counter = collect_evidence(study, pool), None
        if count_with is not None and evidence is not None:
            counter = count_with(study)
            study, evidence = count_all_rows(study, evidence, counter)
        plan = plan_shuffles(study, evidence, stopped)
        shuffled = run_shuffles(
            study,
            plan,
            lambda done: report(clock() - started, shuffles=done, planned_shuffles=plan.count),
            threads=threads,
            jobs=jobs,
        )
    result = conclude(
        study,
        pool,
        stopped,
        seconds,
        evidence=evidence,
        shuffled=shuffled,
        counter=counter,
        untried_triples=run.untried_triples,
    )
    return replace(
        result,
        forest=Forest.concatenate(forests) if keep_trees else None,
        records=result.records if keep_records else None,
    )
