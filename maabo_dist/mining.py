"""From columns to rules in one process: the whole method. `mine` is what every front end calls."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic

import numpy as np

from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split, split_rows
from maabo_dist.rules import (
    LeafFilter,
    LeafPool,
    Rule,
    TreeRecords,
    choose,
    literal_width,
    publish,
    reliable_leaves,
    rules_digest,
)
from maabo_dist.search import SubsetProposer, Subsets, batch_schedule
from maabo_dist.settings import MiningSettings, SearchPlan
from maabo_dist.trees import Forest, TrainingTable, depth_search
from maabo_dist.trees.forest import empty_forest

PIECES_PER_THREAD = 4
"""A batch is cut finer than one piece per thread, so that no thread waits long for the last one."""


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
    rules: int
    """… of these, dissimilar."""


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
class SearchSummary:
    """What the search did."""

    trees: int
    leaves: int
    best_score: float | None
    seconds: float
    stopped: str
    """Why it ended: `budget`, `exhausted`, `patience`, `time`, `asked` (by the progress callback) or `interrupted`."""


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


def mine(
    columns: Columns,
    settings: MiningSettings,
    *,
    jobs: int = 1,
    progress: Callable[[Progress], bool | None] | None = None,
    keep_trees: bool = False,
    clock: Callable[[], float] = monotonic,
) -> MiningResult:
    """Mine the rules of a table. The result is a function of `columns` and `settings` alone, a time limit aside.

    `jobs` threads grow trees. `progress` is called after every batch and may return True to stop the search; an
    interrupt (Ctrl-C) stops it too. Either way the rules found so far are returned.
    """
    plan = SearchPlan.settle(settings, columns.count)
    split = split_rows(
        columns.labels,
        test_size=settings.test_size,
        seed=settings.seed if settings.split_seed is None else settings.split_seed,
        holdout=settings.holdout,
        stratify=settings.stratify,
        classes=columns.classes,
    )
    search = _Search(columns, split, settings, plan, clock, keep_trees=keep_trees)
    with ExitStack() as stack:
        search.pool = stack.enter_context(ThreadPoolExecutor(jobs)) if jobs > 1 else None
        search.pieces = jobs * PIECES_PER_THREAD
        stopped = search.run(progress)
    return search.result(stopped)


class _Search:
    """One run of the loop: propose, grow, observe."""

    def __init__(
        self,
        columns: Columns,
        split: Split,
        settings: MiningSettings,
        plan: SearchPlan,
        clock: Callable[[], float],
        *,
        keep_trees: bool,
    ) -> None:
        self.columns, self.split, self.settings, self.plan = columns, split, settings, plan
        self.clock, self.started = clock, clock()
        self.pool: ThreadPoolExecutor | None = None
        self.pieces = 1
        self.table = TrainingTable.build(
            columns, split, class_weight=settings.class_weight, min_samples_leaf=settings.min_samples_leaf
        )
        self.proposer = SubsetProposer(settings, plan)
        classes = len(columns.classes)
        self.filter = LeafFilter(settings.min_samples, settings.gini * (1 - 1 / classes), self.table.weights)
        self.leaves = LeafPool(
            literal_width(plan.subset_size, settings.max_depth), classes, by_bounds=settings.similarity_by == "rows"
        )
        self.forests = [empty_forest(plan.subset_size, settings.max_depth, classes)] if keep_trees else None
        self.depths: list[np.ndarray] = []
        self.grown = self.seen = self.large = 0
        self.best_score: float | None = None
        self.known_rules: set[bytes] = set()
        self.last_new_rule = 0

    def run(self, progress: Callable[[Progress], bool | None] | None) -> str:
        """Search to an end; returns why it ended."""
        waiting: deque[Subsets] = deque()
        observed = 0
        try:
            for batch in batch_schedule(self.plan, guided=self.settings.strategy == "maabo"):
                while observed < batch.needs:
                    self._evaluate(waiting.popleft())
                    observed += 1
                    if reason := self._reason_to_stop(progress):
                        return self._finish(waiting, reason)
                subsets = self.proposer.suggest(batch.size)
                if not len(subsets):
                    return self._finish(waiting, "exhausted")
                waiting.append(subsets)
            while waiting:
                self._evaluate(waiting.popleft())
                if (reason := self._reason_to_stop(progress)) and reason != "patience":
                    return reason
        except KeyboardInterrupt:
            return "interrupted"
        return "exhausted" if self.grown == self.plan.space_size else "budget"

    def _finish(self, waiting: deque[Subsets], reason: str) -> str:
        """Grow what was proposed before the search knew it would end, so that the end is the same anywhere."""
        while waiting and reason in {"patience", "exhausted"}:
            self._evaluate(waiting.popleft())
        return reason

    def _evaluate(self, subsets: Subsets) -> None:
        forest = depth_search(self.table, subsets, self.settings.max_depth, pool=self.pool, pieces=self.pieces)
        scores = forest.best_scores
        leaves = reliable_leaves(forest, self.filter, first_tree=self.grown)
        # All is computed; only now the state changes, so that an interrupt finds whole batches.
        self.proposer.observe(subsets, scores)
        self.seen, self.large = self.seen + leaves.seen, self.large + leaves.large
        self.grown += len(forest)
        self.best_score = max(float(scores.max()), self.best_score or 0.0)
        self.depths.append(forest.depths)
        if self.forests is not None:
            self.forests.append(forest)
        if self.leaves.add(leaves) and self.settings.patience is not None:
            self._look_for_new_rules()

    def _look_for_new_rules(self) -> None:
        leaves = self.leaves.distinct()
        chosen = choose(leaves, self.columns, self.split, self.settings).chosen
        rules = {row.tobytes() for row in leaves.logic[chosen]}
        if not rules <= self.known_rules:
            self.known_rules |= rules
            self.last_new_rule = self.grown

    def _reason_to_stop(self, progress: Callable[[Progress], bool | None] | None) -> str | None:
        seconds = self.clock() - self.started
        report = Progress(self.grown, self.plan.trees, self.best_score or 0.0, self.leaves.logic_sets, seconds)
        if progress is not None and progress(report):
            return "asked"
        if self.settings.time_limit is not None and seconds >= self.settings.time_limit:
            return "time"
        if self.settings.patience is not None and self.grown - self.last_new_rule >= self.settings.patience:
            return "patience"
        return None

    def result(self, stopped: str) -> MiningResult:
        """Select, publish and sum up."""
        leaves = self.leaves.distinct()
        selection = choose(leaves, self.columns, self.split, self.settings)
        depths = np.concatenate([*self.depths, np.empty(0, np.int32)])
        records = TreeRecords(self.proposer.state().subsets, depths)
        rules = publish(leaves, selection, self.columns, self.split, self.table.shares, records)
        return MiningResult(
            rules=rules,
            digest=rules_digest(rules, self.columns.classes),
            settings=self.settings,
            plan=self.plan,
            search=SearchSummary(self.grown, self.seen, self.best_score, self.clock() - self.started, stopped),
            funnel=Funnel(self.seen, self.large, self.leaves.pure, len(leaves), len(rules)),
            classes=self.columns.classes,
            target=self.columns.target,
            rows={
                "train": len(self.split.train),
                "validation": len(self.split.validation),
                "holdout": len(self.split.holdout),
            },
            base_rates=tuple((self.table.totals / self.table.totals.sum()).tolist()),
            fingerprint=self.columns.fingerprint,
            notes=(*self.plan.notes, *_notes(stopped, self.plan, self.grown)),
            forest=None if self.forests is None else Forest.joined(self.forests),
        )


def _notes(stopped: str, plan: SearchPlan, grown: int) -> tuple[str, ...]:
    share = f"after {grown:,} of {plan.trees:,} trees"
    match stopped:
        case "time":
            return (f"The time limit ended the search {share}; on a faster machine it would have gone further.",)
        case "interrupted" | "asked":
            return (f"The search was stopped {share}; these are the rules found so far.",)
        case "patience":
            return (f"The search ended {share}: no new rule had come for a while (--patience).",)
        case _:
            return ()
