"""`SearchRun`: a search as it goes, without the growing of trees. Whoever grows them drives it, here or on a cluster.

    while not run.finished:
        subsets = run.propose()
        if subsets is None:            nothing more may be proposed until the oldest batch is observed
            run.observe(trees of the oldest batch)

Driven so, a run is the same whoever drives it: batches are proposed and observed in the order of the schedule, and what
arrives early waits.
"""

from collections import deque

import numpy as np
import numpy.typing as npt

from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.errors import SearchError
from maabo_dist.rules import LeafFilter, LeafPool, TreeRecords, choose, literal_width, reliable_leaves
from maabo_dist.search import SubsetProposer, Subsets, batch_schedule
from maabo_dist.settings import MiningSettings, SearchPlan
from maabo_dist.trees import Forest


class SearchRun:
    """Proposes batches of subsets, observes their trees, collects reliable leaves, and knows when to end."""

    def __init__(
        self,
        columns: Columns,
        split: Split,
        weights: npt.NDArray[np.float64],
        settings: MiningSettings,
        plan: SearchPlan,
    ) -> None:
        self._columns, self._split, self._settings, self._plan = columns, split, settings, plan
        self._proposer = SubsetProposer(settings, plan)
        self._schedule = batch_schedule(plan, guided=settings.strategy == "maabo")
        self._next = next(self._schedule, None)
        self._waiting: deque[Subsets] = deque()
        self._observed_batches = 0
        self._filter = LeafFilter(settings.min_samples, settings.gini * (1 - 1 / len(columns.classes)), weights)
        width = literal_width(plan.subset_size, settings.max_depth)
        self.leaves = LeafPool(width, len(columns.classes), by_bounds=settings.similarity_by == "rows")
        self._depths: list[npt.NDArray[np.int32]] = []
        self.grown = 0
        """Trees observed."""
        self.best_score: float | None = None
        self._known_rules: set[bytes] = set()
        self._last_new_rule = 0
        self._reason: str | None = None

    @property
    def finished(self) -> bool:
        """Whether nothing is to be proposed any more and nothing is waiting to be observed."""
        return self._next is None and not self._waiting

    @property
    def reason(self) -> str:
        """Why the search ended, or would end now."""
        if self._reason is not None:
            return self._reason
        return "exhausted" if self.grown == self._plan.space_size else "budget"

    @property
    def records(self) -> TreeRecords:
        """Subset and depth of every tree observed."""
        return TreeRecords(self._proposer.state().subsets, np.concatenate([*self._depths, np.empty(0, np.int32)]))

    def propose(self) -> Subsets | None:
        """The next batch; None if the oldest batch must be observed first, or there is no more."""
        if self._next is None or self._observed_batches < self._next.needs:
            return None
        subsets = self._proposer.suggest(self._next.size)
        if not len(subsets):
            self.stop("exhausted")
            return None
        self._waiting.append(subsets)
        self._next = next(self._schedule, None)
        return subsets

    def observe(self, forest: Forest) -> None:
        """The trees of the oldest batch that was not observed yet. A tree without a score (NaN) could not be had."""
        if not self._waiting or not np.array_equal(forest.subsets, self._waiting[0]):
            raise SearchError("The trees observed are not those of the oldest batch.")
        scores = forest.best_scores
        leaves = reliable_leaves(forest, self._filter, first_tree=self.grown)
        # All is computed; only now the state changes, so that an interrupt finds whole batches.
        self._proposer.observe(self._waiting.popleft(), scores)
        self._observed_batches += 1
        self._depths.append(forest.depths)
        self.grown += len(forest)
        known = scores[~np.isnan(scores)]
        self.best_score = max([*known.tolist(), *([] if self.best_score is None else [self.best_score])], default=None)
        self.leaves.add(leaves)
        if self._settings.patience is not None and self._next is not None:
            self._watch_for_new_rules(self._settings.patience, look=len(leaves) > 0)

    def stop(self, reason: str) -> None:
        """Propose nothing more. What was proposed is still to be observed, so that the end is the same anywhere."""
        self._next, self._reason = None, reason

    def _watch_for_new_rules(self, patience: int, *, look: bool) -> None:
        if look:
            leaves = self.leaves.distinct()
            chosen = choose(leaves, self._columns, self._split, self._settings).chosen
            rules = {row.tobytes() for row in leaves.logic[chosen]}
            if not rules <= self._known_rules:
                self._known_rules |= rules
                self._last_new_rule = self.grown
        if self.grown - self._last_new_rule >= patience:
            self.stop("patience")
