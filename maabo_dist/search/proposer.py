"""`SubsetProposer` (the paper's MAABO-MT): chooses the subsets to grow trees on next.

It has no side effects. Its suggestions depend on the plan, the seed, the scores observed so far and the number of
suggestions made; two proposers with the same history suggest the same subsets.
`suggest(1)` and `observe` in turn is Algorithm 1 to the letter.
"""

from collections.abc import Iterable
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from maabo_dist._util import draws
from maabo_dist.errors import SearchError
from maabo_dist.screens.screen import Screen
from maabo_dist.search.candidates import CandidateSampler
from maabo_dist.search.guide import ScoreGuide
from maabo_dist.search.hints import HintSampler
from maabo_dist.search.plan import SearchPlan
from maabo_dist.search.space import ProposedSubsets, Subsets, SubsetSpace, distinct
from maabo_dist.settings import MiningSettings

# For each subset of a batch of several, at least this many candidates are compared, even if N_E is smaller.
CANDIDATES_EACH = 4


class Purpose(IntEnum):
    """The purposes of a step's random streams."""

    SUBSETS = 0
    TOP_FEATURES = 1
    CANDIDATES = 2
    TIES = 3
    SEEDS = 4
    NEIGHBOURS = 5
    COMPLETIONS = 6


class SubsetProposer:
    """Suggests subsets and observes their scores."""

    def __init__(self, settings: MiningSettings, plan: SearchPlan, screen: Screen | None = None) -> None:
        """A screened plan needs its screen."""
        if plan.screened != (screen is not None):
            raise SearchError("Pass a screen if and only if the plan is screened.")
        self._settings = settings
        self._plan = plan
        self._all_features = np.arange(plan.features, dtype=np.int32)
        self._space = SubsetSpace(plan.features, plan.sizes, plan.limits)
        self.proposed = ProposedSubsets(plan.sizes)
        self._steps = 0
        self._whole_space = CandidateSampler(self._space, plan.features)
        self._near_top = (
            CandidateSampler(self._space, plan.top_features) if plan.top_features < plan.features else self._whole_space
        )
        self._hints = HintSampler(self._space, screen) if screen is not None else None
        guided = settings.strategy == "maabo"
        self.guide = ScoreGuide(self._space, settings.alpha, settings.h, settings.b) if guided else None

    @property
    def observed(self) -> int:
        """The number of suggested subsets with a score, failed ones included."""
        return len(self.proposed) - len(self.proposed.pending)

    def suggest(self, count: int) -> Subsets:
        """Return up to `count` subsets, none of them suggested before; fewer, or none, when the space is used up."""
        start = len(self.proposed)
        if self._settings.strategy == "single":
            self._append(self._all_features[None][start:])
        elif self._settings.strategy == "exhaustive":
            self._append(self._space.block(start, count))
        elif self.guide is None or start < self._plan.initial or not len(self.guide):
            self._append(self._draw_seeds(count))
            left = count - len(self.proposed) + start
            stream = self._stream(Purpose.SUBSETS)
            self._append(np.concatenate([*self._whole_space.blocks(left, self._all_features, self.proposed, stream)]))
        else:
            self._propose_promising(self.guide, count)
        self._steps += 1
        return self.proposed.rows[start:].copy()

    def observe(self, subsets: Subsets, scores: npt.NDArray[np.float64]) -> None:
        """Record the scores of pending subsets. NaN marks a failed evaluation: verified, but neither high nor low."""
        if subsets.ndim != 2 or subsets.shape[1] != self._plan.subset_size:
            raise SearchError(
                f"Subsets of {self._plan.subset_size} features were suggested, not of shape {subsets.shape}."
            )
        positions = self.proposed.positions(subsets)
        observed = set(positions.tolist())
        if len(observed) < len(positions) or not observed <= self.proposed.pending:
            raise SearchError("A score was observed for a subset that is not pending.")
        self.proposed.pending -= observed
        if self.guide is not None:
            self.guide.learn(self.proposed, positions, scores)

    def _append(self, subsets: Subsets) -> None:
        """Add the subsets to the list, as pending."""
        start = len(self.proposed)
        self.proposed.add(subsets)
        if self.guide is not None:
            self.guide.expect(self.proposed.rows[start:])

    def _draw_seeds(self, count: int) -> Subsets:
        """Return initial subsets that the screens choose."""
        size = round(self._settings.seeded * count)
        if self._hints is None or not size:
            return np.empty((0, self._plan.subset_size), np.int32)
        before = int(self._settings.seeded * len(self.proposed))  # the others were random
        return self._new_subsets(self._hints.seeds(4 * size, before, self._stream(Purpose.SEEDS)))[:size]

    def _new_subsets(self, subsets: Subsets) -> Subsets:
        """Return those that were not proposed, each once, in order."""
        return distinct(subsets[~self.proposed.contains(subsets)])

    def _propose_promising(self, guide: ScoreGuide, count: int) -> None:
        """Propose the candidates of greatest acquisition in H; if H has too few, further ones of the whole space."""
        candidates = self._plan.candidates
        if candidates is not None and count > 1:
            candidates = max(candidates, CANDIDATES_EACH * count)
        stream = self._stream(Purpose.CANDIDATES)
        hinted = self._draw_hints(self._hints, guide, candidates) if self._hints and candidates is not None else []
        size = None if candidates is None else max(1, candidates - sum(map(len, hinted)))
        near_top = self._near_top.blocks(size, self._feature_order(guide), self.proposed, stream)
        if hinted:
            near_top = iter([self._new_subsets(np.concatenate([*hinted, *near_top]))])
        chosen = self._select_best(guide, near_top, count)
        self._append(chosen)
        if len(chosen) < count and self._near_top is not self._whole_space:
            anywhere = self._whole_space.blocks(candidates, self._all_features, self.proposed, stream)
            self._append(self._select_best(guide, anywhere, count - len(chosen)))

    def _draw_hints(self, hints: HintSampler, guide: ScoreGuide, candidates: int) -> list[Subsets]:
        """Return candidates that the screens and the high-scoring subsets suggest, in their shares of all."""
        near, completed = round(self._settings.neighbours * candidates), round(self._settings.completions * candidates)
        return [
            hints.neighbours(guide.high_rows(self.proposed), near, self._stream(Purpose.NEIGHBOURS)),
            hints.completions(completed, self._stream(Purpose.COMPLETIONS)),
        ]

    def _select_best(self, guide: ScoreGuide, blocks: Iterable[Subsets], count: int) -> Subsets:
        """Return the `count` of greatest acquisition over all blocks; ties in the order of random keys."""
        subsets, values, keys = np.empty((0, self._plan.subset_size), np.int32), np.empty(0), np.empty(0, np.uint64)
        stream = self._stream(Purpose.TIES)
        for number, block in enumerate(blocks):
            subsets = np.concatenate([subsets, block])
            values = np.concatenate([values, guide.acquisition(self.proposed, block)])
            keys = np.concatenate([keys, draws.keys(draws.stream(stream, number, 0), len(block))])
            best = _greatest(values, keys, count)
            subsets, values, keys = subsets[best], values[best], keys[best]
        return subsets

    def _feature_order(self, guide: ScoreGuide) -> npt.NDArray[np.int32]:
        """Return the features by their frequency in the high subsets, most frequent first; ties by a seeded draw.

        Those of columns that every subset has come last: a restriction to subsets with one of them would be none.
        """
        if self._near_top is self._whole_space:
            return self._all_features
        ties = draws.keys(self._stream(Purpose.TOP_FEATURES), self._plan.features)
        frequencies = guide.high_frequencies(self.proposed)
        for column in self._plan.limits.required:
            frequencies[list(column)] = -1
        return np.lexsort([ties, -frequencies]).astype(np.int32)

    def _stream(self, purpose: Purpose) -> int:
        return draws.stream(self._settings.seed, self._steps, purpose)


def _greatest(values: npt.NDArray[np.float64], keys: npt.NDArray[np.uint64], count: int) -> npt.NDArray[np.int64]:
    """Return the indices of the `count` greatest values, greatest first, ties by ascending key."""
    if count < len(values):
        threshold = np.partition(values, len(values) - count)[len(values) - count]
        indices = np.flatnonzero(values >= threshold)
    else:
        indices = np.arange(len(values))
    return indices[np.lexsort([keys[indices], -values[indices]])][:count]
