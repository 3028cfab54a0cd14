"""`ScoreGuide`: what the scores so far say of a subset not yet tried. The model of the Bayesian search."""

import numpy as np
import numpy.typing as npt

from maabo_dist.search import maa
from maabo_dist.search.history import SearchHistory
from maabo_dist.search.space import Subsets, SubsetSpace
from maabo_dist.search.subset_index import SubsetIndex
from maabo_dist.search.tally import ContainmentTally, direct_overlaps


class ScoreGuide:
    """Keeps the high and the low subsets and compares candidates with both."""

    def __init__(self, space: SubsetSpace, alpha: float, h: float, b: float) -> None:
        self._features = space.features
        self._values = maa.mismatch_values(space.features, space.size, h, b)
        self._history = SearchHistory(alpha)
        fits = ContainmentTally.fits(space.features, space.size)
        self._tally = ContainmentTally(space.features, space.size) if fits else None

    def __len__(self) -> int:
        return len(self._history)

    def learn(
        self, proposed: SubsetIndex, positions: npt.NDArray[np.int64], scores: npt.NDArray[np.float64]
    ) -> None:
        """Take in the scores of the subsets at these positions of the list of proposals."""
        moved, moves = self._history.observe(positions, scores)
        if self._tally is not None:
            self._tally.update(proposed.rows[moved], moves)

    def high(self, proposed: SubsetIndex) -> Subsets:
        """The high-scoring subsets (U⁺), in no particular order."""
        return proposed.rows[self._history.high]

    def high_frequencies(self, proposed: SubsetIndex) -> npt.NDArray[np.int64]:
        """(D): in how many high subsets each feature occurs."""
        if self._tally is not None:
            return self._tally.high_frequencies.astype(np.int64)
        return np.bincount(self.high(proposed).ravel(), minlength=self._features)

    def acquisition(self, proposed: SubsetIndex, candidates: Subsets) -> npt.NDArray[np.float64]:
        """K(f, U⁺) / K(f, U⁻) for subsets f that were never proposed."""
        if self._tally is not None:
            high, low = self._tally.overlaps(candidates)
        else:
            high = direct_overlaps(candidates, proposed.rows[self._history.high], self._features)
            low = direct_overlaps(candidates, proposed.rows[self._history.low], self._features)
        return maa.acquisition(high, low, self._values)
