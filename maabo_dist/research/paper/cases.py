"""Cases, the single runs that experiments are made of, and how they are run in this process or in several.

A case is mined by `maabo_dist.mining`, or as a job on a cluster. In both, its outcome is read from the result document
and is therefore the same.
"""

import signal
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, groupby
from multiprocessing import active_children, get_context
from threading import current_thread, main_thread
from time import process_time
from typing import Any, TypeVar

import numpy as np

from maabo_dist.contract.result import ResultDocument, StopReason
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.data.columns import Columns
from maabo_dist.data.preparation import prepare
from maabo_dist.errors import MaaboError
from maabo_dist.mining.local import mine
from maabo_dist.mining.result import MiningResult, conclude
from maabo_dist.report.document import result_document
from maabo_dist.research.paper.output import Findings
from maabo_dist.research.paper.tables import PaperTable, is_noise, with_noise
from maabo_dist.rules.publishing import TreePool
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study, split_for
from maabo_dist.trees.growth import LEAF
from maabo_dist.trees.training import TrainingTable, depth_search

MIN_PARALLEL_CASES = 40  # fewer cases are done before other processes have even started

# The parameters of the paper's first experiment, and Algorithm 1 to the letter: one subset at a time.
_METHOD = MiningSettings(preset="paper", batch=1, top_features="all", candidates="all")

Key = TypeVar("Key")
Tables = Mapping[str, PaperTable]


@dataclass(frozen=True, slots=True)
class TableKey:
    """A table of the paper as a case uses it."""

    name: str
    impute: str = "median"
    noise: int = 0  # added noise columns
    seed: int = 0  # seed of the noise


@dataclass(frozen=True, slots=True)
class Case:
    """One run of an arm."""

    arm: str
    seed: int
    table: TableKey
    settings: MiningSettings
    # For a single tree: values of `min_samples_leaf`, of which the best on the validation rows is used.
    leaf_sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TunedTree:
    """The single tree whose depth and leaf size were both chosen on the validation rows."""

    depth: int
    leaf_size: int
    features: frozenset[str]  # the columns that it splits by


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a case."""

    digest: str
    trees: int
    leaves: int
    score: float | None  # the best macro F1 on the validation rows
    seconds: float
    rules: tuple[RuleRecord, ...]
    tree: TunedTree | None = None

    @classmethod
    def from_document(cls, document: ResultDocument) -> "Outcome":
        """Read the outcome from a result document."""
        search, leaves = document.search, document.funnel.leaves
        return cls(document.digest, search.trees, leaves, search.best_score, search.seconds, document.rules)

    @property
    def noisy_rules(self) -> int:
        """The number of rules with a noise column."""
        return sum(any(map(is_noise, rule_columns(rule))) for rule in self.rules)

    @property
    def columns(self) -> int:
        """The number of columns of each rule, summed over the rules."""
        return sum(len(rule_columns(rule)) for rule in self.rules)

    @property
    def noise_columns(self) -> int:
        """The number of noise columns of each rule, summed over the rules."""
        return sum(is_noise(feature) for rule in self.rules for feature in rule_columns(rule))


Result = tuple[Case, Outcome]


@dataclass(frozen=True, slots=True)
class Experiment:
    """One of the paper's experiments."""

    name: str
    title: str
    seeds: int  # the number of seeds in the paper
    cases: Callable[[Sequence[PaperTable], int], list[Case]]
    findings: Callable[[Sequence[Result]], Findings]
    tables: tuple[str, ...] = ("titanic",)  # the tables on which the paper runs it
    jobs: bool = True  # True if its cases can be jobs of a cluster


def rule_columns(rule: RuleRecord) -> frozenset[str]:
    """The columns in the conditions of a rule."""
    return frozenset(condition.feature for condition in rule.conditions)


def method(**changes: Any) -> MiningSettings:
    """The paper's settings with some changes."""
    return _METHOD.model_copy(update=changes)


def group_outcomes(results: Sequence[Result], key: Callable[[Case, Outcome], Key]) -> dict[Key, list[Outcome]]:
    """Outcomes by a key, in the order of their first appearance."""
    groups: defaultdict[Key, list[Outcome]] = defaultdict(list)
    for case, outcome in results:
        groups[key(case, outcome)].append(outcome)
    return groups


def case_table(tables: Tables, key: TableKey) -> PaperTable:
    """The table of a case, with its noise columns and the settings that prepare it."""
    table = with_noise(tables[key.name], key.noise, key.seed)
    return replace(table, settings=table.settings.model_copy(update={"impute": key.impute}))


def run_cases(
    cases: Sequence[Case], tables: Tables, jobs: int, report_progress: Callable[[int], object]
) -> list[Result]:
    """Run all cases in `jobs` processes and return them with their outcomes, in order.

    The outcomes do not depend on the number of processes. `report_progress` gets the number of finished cases.
    """
    # Cases that follow each other and share a table and a seed are the work of one process at a time.
    groups = [list(group) for _, group in groupby(cases, key=lambda case: (case.table, case.seed))]
    finished: dict[int, list[Outcome]] = {}
    for index, outcomes in _run_groups(groups, tables, jobs if len(cases) >= MIN_PARALLEL_CASES else 1):
        finished[index] = outcomes
        report_progress(sum(map(len, finished.values())))
    in_order = chain.from_iterable(finished[index] for index in range(len(groups)))
    return list(zip(cases, in_order, strict=True))


def _run_groups(groups: Sequence[list[Case]], tables: Tables, jobs: int) -> Iterator[tuple[int, list[Outcome]]]:
    """Run groups of cases; return their indices with their outcomes as they finish."""
    # The first case is run in addition: it loads the kernels, so that no measured case includes that time.
    processes = min(jobs, len(groups))
    if processes < 2:
        for index, group in enumerate(groups):
            if index == 0:
                run_group(tables, group[:1])
            yield index, run_group(tables, group)
        return
    others = active_children()
    # Spawned rather than forked: a process that has threads cannot be forked safely.
    pool = ProcessPoolExecutor(processes, get_context("spawn"), initializer=run_group, initargs=(tables, groups[0][:1]))
    try:
        with _ignored_interrupts():
            futures = {pool.submit(run_group, tables, group): index for index, group in enumerate(groups)}
        for future in as_completed(futures):
            yield futures[future], future.result()
    except KeyboardInterrupt:
        for process in active_children():
            if process not in others:
                process.terminate()  # the shutdown would wait for its running group
        raise
    except BrokenProcessPool as error:
        raise MaaboError("A process was killed, perhaps for lack of memory. Try again with --jobs 1.") from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _ignored_interrupts() -> Iterator[None]:
    """Start child processes that ignore Ctrl-C, which a terminal sends to all of them: the parent ends them."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run_group(tables: Tables, cases: Sequence[Case]) -> list[Outcome]:
    """Run cases that share a table and return their outcomes."""
    table = case_table(tables, cases[0].table)
    columns = prepare(table.frame, table.settings).columns
    longest: dict[MiningSettings, MiningResult] = {}
    by_length = sorted(range(len(cases)), key=lambda index: -_prefix_trees(cases[index].settings))
    outcomes = {index: _run_case(columns, cases[index], longest) for index in by_length}
    return [outcomes[index] for index in range(len(cases))]


def _run_case(columns: Columns, case: Case, longest: dict[MiningSettings, MiningResult]) -> Outcome:
    """Run a case, or take it from the beginning of a longer search; add its search to `longest` for later cases."""
    settings, tree = case.settings, None
    if case.leaf_sizes:
        size = best_leaf_size(columns, settings, case.leaf_sizes)
        result = _mine(columns, settings.model_copy(update={"min_samples_leaf": size}), keep_trees=True)
        tree = _tuned_tree(result, columns)
    elif not _prefix_trees(settings):
        result = _mine(columns, settings, keep_trees=False)
    elif (unbounded := settings.model_copy(update={"trees": None})) in longest:
        result = _truncate(longest[unbounded], columns, settings)
    else:
        result = longest[unbounded] = _mine(columns, settings, keep_trees=True)
    return replace(Outcome.from_document(result_document(result, {"name": case.table.name})), tree=tree)


def _mine(columns: Columns, settings: MiningSettings, *, keep_trees: bool) -> MiningResult:
    result = mine(columns, settings, keep_trees=keep_trees, clock=process_time)
    if result.search.stopped is StopReason.INTERRUPTED:  # an incomplete case cannot be compared
        raise KeyboardInterrupt
    return result


def best_leaf_size(columns: Columns, settings: MiningSettings, sizes: Sequence[int]) -> int:
    """Return the `min_samples_leaf` whose single tree scores best at its best depth; ties go to the smallest."""
    everything = np.arange(columns.count, dtype=np.int32)[None]
    table = TrainingTable.build(columns, split_for(columns, settings), class_weight=settings.class_weight)

    def score(size: int) -> float:
        return float(depth_search(table.with_min_samples_leaf(size), everything, settings.max_depth).best_scores[0])

    return max(sorted(sizes), key=score)


def _prefix_trees(settings: MiningSettings) -> int:
    """The trees of a search that can be the beginning of a longer one; 0 for other searches."""
    trees = settings.trees if isinstance(settings.trees, int) else 0
    whole = settings.in_flight == 1 and settings.batch is not None and trees % settings.batch == 0
    return trees if whole and trees >= settings.initial and settings.strategy in {"maabo", "random"} else 0


def _truncate(result: MiningResult, columns: Columns, settings: MiningSettings) -> MiningResult:
    """Return what `mine` returns with these settings, from a search with more trees and otherwise equal settings.

    A search does not depend on its budget: with whole batches, one at a time, the shorter is the beginning of the
    longer.
    """
    if result.forest is None:
        raise ValueError("The trees were not kept.")
    study = Study.build(columns, settings)
    pool = TreePool(study)
    pool.add(result.forest.first(study.plan.trees))
    return conclude(study, pool, StopReason.BUDGET, result.search.seconds)


def _tuned_tree(result: MiningResult, columns: Columns) -> TunedTree:
    if result.forest is None:
        raise ValueError("The tree was not kept.")
    tree = result.forest.tree(0)
    used = np.unique(tree.feature[tree.feature != LEAF]).tolist()
    names = frozenset(columns.features[index].column for index in used)
    return TunedTree(tree.depth, result.settings.min_samples_leaf, names)
