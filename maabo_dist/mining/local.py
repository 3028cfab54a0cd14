"""From columns to rules in one process: the whole method. `mine` is what every front end calls."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from time import monotonic

from maabo_dist.data.columns import Columns
from maabo_dist.data.probes import probe_mask, with_probes, without_probes
from maabo_dist.data.split import Split, split_rows
from maabo_dist.mining.run import SearchRun
from maabo_dist.rules import (
    NoiseEstimate,
    Pruned,
    Reasons,
    Rule,
    TreePool,
    TreeRecords,
    best_of_each,
    choose,
    estimate_noise,
    probe_free,
    prune,
    publish,
    reasons,
    refit,
    rules_digest,
)
from maabo_dist.rules.rule import conditions_of
from maabo_dist.screens import Screen, screen
from maabo_dist.search import Subsets
from maabo_dist.settings import MiningSettings, SearchPlan
from maabo_dist.trees import Forest, TrainingTable, depth_search
from maabo_dist.trees.forest import empty_forest

PIECES_PER_THREAD = 4
"""A batch is cut finer than one piece per thread, so that no thread waits long for the last one."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a search has done so far."""

    trees: int
    planned: int
    best_score: float
    reliable: int
    """Distinct reliable logic sets so far."""
    seconds: float


@dataclass(frozen=True, slots=True)
class Funnel:
    """How many leaves passed each sieve."""

    leaves: int
    large: int
    """… with at least β training rows."""
    pure: int
    """… of these, with a Gini index below γ of the greatest."""
    distinct: int
    """… of these, distinct logic sets."""
    supported: int
    """… of these, distinct and still reliable without the conditions that the rows do not support."""
    rules: int
    """… of these, dissimilar, and free of probes."""


@dataclass(frozen=True, slots=True)
class Dropping:
    """What became of conditions that the rows do not support."""

    conditions: int
    """Conditions dropped from leaves that are reliable without them."""
    leaves: int
    """Leaves dropped, as they are not."""


@dataclass(frozen=True, slots=True)
class SearchSummary:
    """What the search did."""

    trees: int
    leaves: int
    best_score: float | None
    seconds: float
    stopped: str
    """Why it ended: `budget`, `exhausted`, `patience`, `time`, `asked` (by the progress callback) or `interrupted`;
    `running` where these are the rules so far of a search that goes on."""


@dataclass(frozen=True, slots=True)
class MiningResult:
    """The rules and everything that is said of them."""

    rules: tuple[Rule, ...]
    digest: str
    settings: MiningSettings
    plan: SearchPlan
    search: SearchSummary
    funnel: Funnel
    classes: tuple[str, ...]
    target: str
    rows: dict[str, int]
    """Rows of the parts: `train`, `validation`, `holdout`."""
    base_rates: tuple[float, ...]
    """Share of each class among the training rows."""
    fingerprint: str
    """Of the columns."""
    notes: tuple[str, ...]
    """Sentences a reader should know: of the plan, the table and the end of the search."""
    forest: Forest | None
    """All trees, if they were to be kept."""
    records: TreeRecords | None = None
    """What each tree was and scored, if that was to be kept: what pictures of the search are made from."""
    dropping: Dropping | None = None
    """What had no support; None where all conditions stay, as in the paper."""
    noise: NoiseEstimate | None = None
    """What the probes say of the rules; None without probes."""


def mine(
    columns: Columns,
    settings: MiningSettings,
    *,
    jobs: int = 1,
    progress: Callable[[Progress], bool | None] | None = None,
    keep_trees: bool = False,
    keep_records: bool = False,
    clock: Callable[[], float] = monotonic,
) -> MiningResult:
    """Mine the rules of a table. The result is a function of `columns` and `settings` alone, a time limit aside.

    `jobs` threads grow trees. `progress` is called after every batch and may return True to stop the search; an
    interrupt (Ctrl-C) stops it too. Either way the rules found so far are returned.
    """
    started = clock()
    columns = with_probes(columns, settings.probes, settings.seed)
    plan = SearchPlan.settle(settings, columns.count)
    split = split_for(columns, settings)
    table = TrainingTable.build(
        columns, split, class_weight=settings.class_weight, min_samples_leaf=settings.min_samples_leaf
    )
    pool = TreePool(settings, plan.subset_size, table.weights)
    found = _screened(columns, split, table, jobs) if plan.screened else None
    run = SearchRun(columns, split, settings, plan, pool, found)
    forests = [empty_forest(plan.subset_size, settings.max_depth, len(columns.classes))]

    def watch(forest: Forest) -> str | None:
        if keep_trees:
            forests.append(forest)
        seconds = clock() - started
        report = Progress(run.grown, plan.trees, run.best_score or 0.0, pool.leaves.logic_sets, seconds)
        if progress is not None and progress(report):
            return "asked"
        return "time" if settings.time_limit is not None and seconds >= settings.time_limit else None

    stopped = _drive(run, table, settings, jobs, watch)
    result = conclude(columns, split, table, settings, plan, pool, SearchEnd(stopped, clock() - started))
    return replace(
        result,
        forest=Forest.joined(forests) if keep_trees else None,
        records=result.records if keep_records else None,
    )


def _screened(columns: Columns, split: Split, table: TrainingTable, jobs: int) -> Screen:
    if jobs == 1:
        return screen(columns, split, table.root_scores)
    with ThreadPoolExecutor(jobs) as threads:
        return screen(columns, split, table.root_scores, pool=threads, pieces=jobs * PIECES_PER_THREAD)


def split_for(columns: Columns, settings: MiningSettings) -> Split:
    """The rows of each part, as the settings have it."""
    return split_rows(
        columns.labels,
        test_size=settings.test_size,
        seed=settings.seed if settings.split_seed is None else settings.split_seed,
        holdout=settings.holdout,
        stratify=settings.stratify,
        classes=columns.classes,
    )


def _drive(
    run: SearchRun, table: TrainingTable, settings: MiningSettings, jobs: int, watch: Callable[[Forest], str | None]
) -> str:
    """Grow what the run proposes until it is finished or `watch` gives a reason to leave it; returns why it ended."""
    waiting: deque[Subsets] = deque()
    threads = ThreadPoolExecutor(jobs) if jobs > 1 else nullcontext()
    with threads as pool:
        try:
            while not run.finished:
                subsets = run.propose()
                if subsets is not None:
                    waiting.append(subsets)
                elif waiting:
                    forest = _grow(table, waiting.popleft(), settings, pool, jobs)
                    run.observe(forest)
                    if reason := watch(forest):
                        return reason
        except KeyboardInterrupt:
            return "interrupted"
    return run.reason


def _grow(table: TrainingTable, subsets: Subsets, settings: MiningSettings, pool: Executor | None, jobs: int) -> Forest:
    pieces = jobs * PIECES_PER_THREAD if pool else 1
    return depth_search(table, subsets, settings.max_depth, whole=settings.whole_trees, pool=pool, pieces=pieces)


@dataclass(frozen=True, slots=True)
class SearchEnd:
    """How a search ended."""

    stopped: str
    seconds: float


def conclude(
    columns: Columns,
    split: Split,
    table: TrainingTable,
    settings: MiningSettings,
    plan: SearchPlan,
    pool: TreePool,
    end: SearchEnd,
) -> MiningResult:
    """GS-MRM over the leaves of all trees, and the evidence for the rules it keeps. `columns` are with their probes."""
    leaves, own, probes = pool.leaves, without_probes(columns), probe_mask(columns)
    records = pool.records
    search = SearchSummary(pool.count, leaves.seen, pool.best_score, end.seconds, end.stopped)
    distinct = leaves.distinct()
    pruned = None
    if settings.prunes:
        pruned = prune(distinct, columns, split, pool.wanted, table.shares, settings.significance)
        pruned = replace(pruned, leaves=refit(pruned.leaves, columns, split, pool.wanted, table.shares))
    supported = distinct if pruned is None else best_of_each(pruned.leaves, by_bounds=settings.similarity_by == "rows")
    published = probe_free(supported, probes)
    selection = choose(published, columns, split, settings)
    rules = publish(published, selection, own, split, table.shares, records)
    kept = published.take(selection.chosen)
    if pruned is not None:
        found = reasons(pruned, distinct, kept, [rule.label for rule in rules], columns, split)
        rules = tuple(_reasoned(rule, why, own) for rule, why in zip(rules, found, strict=True))
    noise = None
    if probes.any():
        noise = estimate_noise(supported.take(choose(supported, columns, split, settings).chosen), kept, probes)
    return MiningResult(
        rules=rules,
        digest=rules_digest(rules, columns.classes),
        settings=settings,
        plan=plan,
        search=search,
        funnel=Funnel(leaves.seen, leaves.large, leaves.pure, len(distinct), len(supported), len(rules)),
        classes=columns.classes,
        target=columns.target,
        rows={"train": len(split.train), "validation": len(split.validation), "holdout": len(split.holdout)},
        base_rates=tuple((table.totals / table.totals.sum()).tolist()),
        fingerprint=own.fingerprint,
        notes=(*plan.notes, *_notes(search, plan)),
        forest=None,
        records=records,
        dropping=_dropping(pruned),
        noise=noise,
    )


def _reasoned(rule: Rule, why: Reasons, own: Columns) -> Rule:
    """The rule with its reasons; that its leaf was on a probe as well is not told."""
    told = [place for place, (literal, _) in enumerate(why.dropped) if literal // 2 < own.count]
    literals, bounds = [why.dropped[place][0] for place in told], [why.dropped[place][1] for place in told]
    return replace(
        rule,
        dropped=conditions_of(own.features, literals, bounds),
        tests=why.tests,
        dropped_tests=tuple(why.dropped_tests[place] for place in told),
    )


def _dropping(pruned: Pruned | None) -> Dropping | None:
    return None if pruned is None else Dropping(pruned.dropped, pruned.lost)


def _notes(search: SearchSummary, plan: SearchPlan) -> tuple[str, ...]:
    share = f"after {search.trees:,} of {plan.trees:,} trees"
    match search.stopped:
        case "time":
            return (f"The time limit ended the search {share}; on a faster machine it would have gone further.",)
        case "interrupted" | "asked":
            return (f"The search was stopped {share}; these are the rules found so far.",)
        case "running":
            return (f"The search is under way, {share}; these are the rules found so far.",)
        case "patience":
            return (f"The search ended {share}: no new rule had come for a while (--patience).",)
        case _:
            return ()
