"""`ScoreGuide`: what the scores so far say of a subset not yet tried. The model of the Bayesian search.

A subset whose score is still to come counts among the low ones, so that what is under way is not proposed again in a
slightly different form. Measured against leaving it out of both, on breast_cancer with 64 subsets in flight: 28.6 ± 1.9
of the 75 best subsets found in 250 trees instead of 24.0 ± 2.0, and no fewer rules elsewhere.
"""

import numpy as np
import numpy.typing as npt

from maabo_dist.search import maa
from maabo_dist.search.history import SearchHistory
from maabo_dist.search.mixed import MixedSpace
from maabo_dist.search.mixed_tally import MixedTally, direct_mixed_overlaps
from maabo_dist.search.space import Subsets, SubsetSpace
from maabo_dist.search.subset_index import SubsetIndex
from maabo_dist.search.tally import ENTERS_LOW, LEAVES_LOW, ContainmentTally, direct_overlaps


class ScoreGuide:
    """Keeps the high and the low subsets and compares candidates with both."""

    def __init__(self, space: SubsetSpace | MixedSpace, alpha: float, h: float, b: float) -> None:
        self._features = space.features
        self._values = maa.mismatch_values(space.features, space.size, h, b)
        self._history = SearchHistory(alpha)
        self._tally = _tally(space)
        self._directly = direct_overlaps if len(space.sizes) == 1 else direct_mixed_overlaps
        self._pending: set[int] = set()

    def __len__(self) -> int:
        return len(self._history)

    def expect(self, proposed: SubsetIndex, positions: npt.NDArray[np.int64]) -> None:
        """The subsets at these positions of the list of proposals are under way."""
        self._pending.update(positions.tolist())
        if self._tally is not None:
            self._tally.update(proposed.rows[positions], np.full(len(positions), ENTERS_LOW, np.int8))

    def learn(self, proposed: SubsetIndex, positions: npt.NDArray[np.int64], scores: npt.NDArray[np.float64]) -> None:
        """Take in the scores of subsets that were under way; NaN for one that failed."""
        self._pending.difference_update(positions.tolist())
        moved, moves = self._history.observe(positions[~np.isnan(scores)], scores[~np.isnan(scores)])
        if self._tally is not None:
            self._tally.update(proposed.rows[positions], np.full(len(positions), LEAVES_LOW, np.int8))
            self._tally.update(proposed.rows[moved], moves)

    def high(self, proposed: SubsetIndex) -> Subsets:
        """The high-scoring subsets (U⁺), in no particular order."""
        return proposed.rows[self._history.high]

    def high_frequencies(self, proposed: SubsetIndex) -> npt.NDArray[np.int64]:
        """(D): in how many high subsets each feature occurs."""
        if self._tally is not None:
            return self._tally.high_frequencies.astype(np.int64)
        high = self.high(proposed)
        is_first = np.diff(high, axis=1, prepend=-1) > 0  # of a repeated feature
        return np.bincount(high[is_first], minlength=self._features)

    def acquisition(self, proposed: SubsetIndex, candidates: Subsets) -> npt.NDArray[np.float64]:
        """K(f, U⁺) / K(f, U⁻) for subsets f that were never proposed."""
        if self._tally is not None:
            high, low = self._tally.overlaps(candidates)
        else:
            high = self._directly(candidates, proposed.rows[self._history.high], self._features)
            below = np.concatenate([self._history.low, np.array(sorted(self._pending), np.int64)])
            low = self._directly(candidates, proposed.rows[below], self._features)
        return maa.acquisition(high, low, self._values)


def _tally(space: SubsetSpace | MixedSpace) -> ContainmentTally | MixedTally | None:
    """What counts overlaps; None where parts of subsets are too many, or too large, to be counted."""
    if not ContainmentTally.fits(space.features, space.size):
        return None
    one_size = len(space.sizes) == 1
    return ContainmentTally(space.features, space.size) if one_size else MixedTally(space.features, space.sizes)
