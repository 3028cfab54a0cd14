"""Overlap counts between subsets of several sizes.

Two subsets of D′ features mismatch in D′ less the features they share. Of two sizes, the larger takes the place of D′:

    m(f, u) = max(|f|, |u|) − |f ∩ u|

so that a subset and the one with a feature more, less or changed mismatch in one. What the MAA function then gives is
b^(m − 1) times a constant, which cancels out of the acquisition.

Counts come out as `maa` takes them, with the largest size W for D′: column W − m has the observed subsets that mismatch
a candidate in m features.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from maabo_dist._util.subset_rows import sizes_of
from maabo_dist.search.maa import Overlaps
from maabo_dist.search.space import Subsets
from maabo_dist.search.tally import ContainmentTally, direct_overlaps


class MixedTally:
    """A `ContainmentTally` for each size of observed subsets."""

    def __init__(self, features: int, sizes: tuple[int, ...]) -> None:
        # Any subset but those of the largest size may be part of a candidate as a whole.
        self._tallies = {size: ContainmentTally(features, size, whole=size < sizes[-1]) for size in sizes}

    @property
    def high_frequencies(self) -> npt.NDArray[np.int32]:
        """(D): in how many high subsets each feature occurs."""
        frequencies: npt.NDArray[np.int32] = np.sum(
            [tally.high_frequencies for tally in self._tallies.values()], axis=0
        )
        return frequencies

    def update(self, subsets: Subsets, moves: npt.NDArray[np.int8]) -> None:
        """Count subsets in and out, as `ContainmentTally` does."""
        for size, places in _by_size(subsets):
            self._tallies[size].update(_rows(subsets, places, size), moves[places])

    def overlaps(self, candidates: Subsets) -> tuple[Overlaps, Overlaps]:
        """For the high and the low subsets. No candidate may be an observed subset."""
        high, low = (np.zeros((len(candidates), candidates.shape[1] + 1), np.int64) for _ in range(2))
        for size, places in _by_size(candidates):
            rows = _rows(candidates, places, size)
            for other, tally in self._tallies.items():
                for total, found in zip((high, low), tally.overlaps(rows), strict=True):
                    _add(total, places, found, size, other)
        return high, low


def direct_mixed_overlaps(candidates: Subsets, observed: Subsets, features: int) -> Overlaps:
    """The same for one list of observed subsets, by comparing every candidate with every one of them."""
    total = np.zeros((len(candidates), candidates.shape[1] + 1), np.int64)
    groups = [(other, _rows(observed, places, other)) for other, places in _by_size(observed)]
    for size, places in _by_size(candidates):
        rows = _rows(candidates, places, size)
        for other, group in groups:
            _add(total, places, direct_overlaps(rows, group, features), size, other)
    return total


def _by_size(rows: Subsets) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Each size that occurs, and the places of its rows."""
    sizes = sizes_of(rows)
    return ((int(size), np.flatnonzero(sizes == size)) for size in np.unique(sizes))


def _rows(rows: Subsets, places: npt.NDArray[np.int64], size: int) -> Subsets:
    return np.ascontiguousarray(rows[places, :size])


def _add(total: Overlaps, places: npt.NDArray[np.int64], found: Overlaps, size: int, other: int) -> None:
    """Add what was found by shared features to the total, which has the mismatches from its right end."""
    first, most = total.shape[1] - 1 - max(size, other), min(size, other)
    total[places, first : first + most + 1] += found[:, : most + 1]
