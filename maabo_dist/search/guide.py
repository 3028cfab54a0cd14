"""`ScoreGuide`: rates subsets by the scores so far. The model of the Bayesian search.

A subset whose score is pending counts among the low ones, so that it is not proposed again in a slightly different
form. Measured against leaving it out of both, on breast_cancer with 64 subsets in flight: 28.6 ± 1.9
of the 75 best subsets found in 250 trees instead of 24.0 ± 2.0, and no fewer rules elsewhere.
"""

import numpy as np
import numpy.typing as npt

from maabo_dist.search import maa
from maabo_dist.search.history import SearchHistory
from maabo_dist.search.space import Subsets, SubsetSpace
from maabo_dist.search.subset_index import ProposedSubsets
from maabo_dist.search.tally import ENTERS_LOW, LEAVES_LOW, ContainmentTally, direct_overlaps


class ScoreGuide:
    """Keeps the high and the low subsets and compares candidates with both."""

    def __init__(self, space: SubsetSpace, alpha: float, h: float, b: float) -> None:
        self._space = space
        self._values = maa.mismatch_values(space.features, space.width, h, b)
        self._history = SearchHistory(alpha)
        counted = ContainmentTally.fits(space.features, space.width)
        self._tally = ContainmentTally(space.features, space.sizes) if counted else None

    def __len__(self) -> int:
        return len(self._history)

    def expect(self, subsets: Subsets) -> None:
        """Count subsets that were just proposed among the low ones."""
        if self._tally is not None:
            self._tally.update(subsets, np.full(len(subsets), ENTERS_LOW, np.int8))

    def learn(
        self, proposed: ProposedSubsets, positions: npt.NDArray[np.int64], scores: npt.NDArray[np.float64]
    ) -> None:
        """Take in the scores of pending subsets; NaN for one that failed."""
        moved, moves = self._history.observe(positions[~np.isnan(scores)], scores[~np.isnan(scores)])
        if self._tally is not None:
            self._tally.update(proposed.rows[positions], np.full(len(positions), LEAVES_LOW, np.int8))
            self._tally.update(proposed.rows[moved], moves)

    def high(self, proposed: ProposedSubsets) -> Subsets:
        """Return the high-scoring subsets (U⁺), in no particular order."""
        return proposed.rows[self._history.high]

    def high_frequencies(self, proposed: ProposedSubsets) -> npt.NDArray[np.int64]:
        """(D): the number of high subsets in which each feature occurs."""
        if self._tally is not None:
            return self._tally.high_frequencies
        high = self.high(proposed)
        is_first = np.diff(high, axis=1, prepend=-1) > 0  # of a repeated feature
        return np.bincount(high[is_first], minlength=self._space.features)

    def acquisition(self, proposed: ProposedSubsets, candidates: Subsets) -> npt.NDArray[np.float64]:
        """Return K(f, U⁺) / K(f, U⁻) for subsets f that were never proposed."""
        if self._tally is not None:
            high, low = self._tally.overlaps(candidates)
        else:
            below = np.concatenate([self._history.low, np.array(sorted(proposed.pending), np.int64)])
            high, low = (
                direct_overlaps(candidates, proposed.rows[positions], self._space.features, self._space.sizes)
                for positions in (self._history.high, below)
            )
        return maa.acquisition(high, low, self._values)
