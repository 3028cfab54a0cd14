"""`SearchRun`: the state of a search. Its caller grows the trees, in this process or on a cluster.

    while not run.finished:
        subsets = run.propose()
        if subsets is None:            nothing more may be proposed until the oldest batch is observed
            run.observe(trees of the oldest batch)

Batches are proposed and observed in the order of the schedule; trees that arrive early wait. A search is therefore the
same wherever its trees are grown.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np

from maabo_dist.contract.result import StopReason
from maabo_dist.errors import SearchError
from maabo_dist.findings.findings import Evidence, choose
from maabo_dist.rules.boxes import add_boxes
from maabo_dist.rules.noise import leaves_without_probes
from maabo_dist.rules.publishing import TreePool, max_score, select_leaves
from maabo_dist.screens.screen import Screen
from maabo_dist.search.proposer import SubsetProposer
from maabo_dist.search.schedule import batch_schedule
from maabo_dist.search.space import Subsets
from maabo_dist.study import Study
from maabo_dist.trees.forest import Forest
from maabo_dist.trees.training import depth_search

# How often, at most, a search with patience looks for new rules while its patience lasts.
LOOKS_PER_PATIENCE = 8
# Batches of initial subsets that are proposed before the first of them is observed, at most.
INITIAL_AHEAD = 64


class SearchRun:
    """Proposes batches of subsets, observes their trees, collects reliable leaves, and decides when to end."""

    def __init__(self, study: Study, pool: TreePool | None, screen: Screen | None = None) -> None:
        """Observed trees go into `pool`; None if they are pooled elsewhere, which `patience` does not allow."""
        if pool is None and study.settings.patience is not None:
            raise SearchError("A search with patience needs a pool, to notice new rules.")
        self._study, self._screen = study, screen
        self.proposer = SubsetProposer(study.settings, study.plan, screen)
        self._schedule = batch_schedule(study.plan, guided=study.settings.strategy == "maabo")
        self._next = next(self._schedule, None)
        self._waiting: deque[Subsets] = deque()
        self._observed_batches = 0
        self.pool = pool
        # Trees observed.
        self.trees = 0
        self.best_score: float | None = None
        self._known_rules: set[tuple[int, ...]] = set()
        # The initial subsets of a screened search try one idea after another; patience begins after them.
        self._last_new_rule = study.plan.initial if study.plan.screened else 0
        self._next_look = 0
        self._has_new_leaves = False
        self._reason: StopReason | None = None

    @property
    def finished(self) -> bool:
        """True if every batch was proposed and observed."""
        return self._next is None and not self._waiting

    @property
    def may_propose(self) -> bool:
        """True if more batches may follow."""
        return self._next is not None

    @property
    def reason(self) -> StopReason:
        """The reason why the search ended, or would end now."""
        if self._reason is not None:
            return self._reason
        return StopReason.EXHAUSTED if self.trees == self._study.plan.space_size else StopReason.BUDGET

    @property
    def untried_triples(self) -> tuple[float, ...] | None:
        """For each class, a strength that no triple without a tree exceeds; None if that is not known."""
        screen = self._screen
        if screen is None or not screen.untried or self._study.plan.subset_size != screen.triples.shape[1]:
            return None
        if self._waiting:  # these subsets have no trees yet
            return None
        return screen.untried if self.proposer.proposed.contains(screen.triples).all() else None

    def propose(self) -> Subsets | None:
        """Return the next batch; None if the oldest batch must be observed first, or there is no more."""
        if self._next is None or not (self._observed_batches >= self._next.needs or self._is_independent):
            return None
        subsets = self.proposer.suggest(self._next.size)
        if not len(subsets):
            self.stop(StopReason.EXHAUSTED)
            return None
        self._waiting.append(subsets)
        self._next = next(self._schedule, None)
        return subsets

    @property
    def _is_independent(self) -> bool:
        """True if no score has an effect on the next batch: it is of initial subsets, and nothing can end them early.

        To wait for scores would cost a cluster a round trip for each batch.
        """
        proposed = self.trees + sum(map(len, self._waiting))
        return (
            self._study.settings.patience is None
            and proposed < self._study.plan.initial
            and len(self._waiting) < INITIAL_AHEAD
        )

    def observe(self, forest: Forest) -> None:
        """Take the trees of the oldest batch that was not observed yet. A tree that failed has no score (NaN)."""
        if not self._waiting or not np.array_equal(forest.subsets, self._waiting[0]):
            raise SearchError("The trees observed are not those of the oldest batch.")
        scores = forest.best_scores
        reliable = self.pool.add(forest) if self.pool is not None else 0
        self.proposer.observe(self._waiting.popleft(), scores)
        self._observed_batches += 1
        self.trees += len(forest)
        self.best_score = max_score(self.best_score, scores)
        if self._study.settings.patience is not None and self._next is not None:
            self._check_patience(self._study.settings.patience, new_leaves=reliable > 0)

    def stop(self, reason: StopReason) -> None:
        """Propose nothing more. Batches already proposed are still observed, or results would depend on timing."""
        if self._next is not None:  # else it has ended for another reason
            self._next, self._reason = None, reason

    def _check_patience(self, patience: int, *, new_leaves: bool) -> None:
        self._has_new_leaves |= new_leaves
        is_due = self.trees >= self._next_look or self.trees - self._last_new_rule >= patience
        if self._has_new_leaves and self.pool is not None and is_due:
            self._has_new_leaves = False
            if self._study.settings.publishes_findings:  # to collect all evidence takes longer than to grow a batch
                self._next_look = self.trees + patience // LOOKS_PER_PATIENCE
            rules = _logic_of_rules(self.pool, self._study)
            if not rules <= self._known_rules:
                self._known_rules |= rules
                self._last_new_rule = self.trees
        if self.trees - self._last_new_rule >= patience:
            self.stop(StopReason.PATIENCE)


def _logic_of_rules(pool: TreePool, study: Study) -> set[tuple[int, ...]]:
    """The logic of the rules that would be published now, without searches on shuffled labels."""
    leaves = pool.leaves.distinct()
    if study.settings.publishes_findings:
        records = pool.records
        evidence = Evidence.collect(add_boxes(leaves, study, records.subsets, records.scores), study)
        logic = evidence.logic
        return {logic[group.head] for group in choose(evidence, [], study).groups}
    leaves = leaves_without_probes(leaves, study.probe_mask)
    return {tuple(row.tolist()) for row in leaves.logic[select_leaves(leaves, study).chosen]}


def drive(
    run: SearchRun,
    study: Study,
    after_batch: Callable[[Forest], StopReason | None] = lambda _forest: None,
    *,
    pool: Executor | None = None,
    pieces: int = 1,
) -> StopReason:
    """Grow what the run proposes until it has finished or `after_batch` returns a reason to stop."""
    waiting: deque[Subsets] = deque()
    max_depth, whole = study.settings.max_depth, study.settings.whole_trees
    try:
        while not run.finished:
            subsets = run.propose()
            if subsets is not None:
                waiting.append(subsets)
            elif waiting:
                forest = depth_search(study.table, waiting.popleft(), max_depth, whole=whole, pool=pool, pieces=pieces)
                run.observe(forest)
                if reason := after_batch(forest):
                    return reason
    except KeyboardInterrupt:
        return StopReason.INTERRUPTED
    return run.reason
