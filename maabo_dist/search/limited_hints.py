"""Hints that meet `SubsetLimits`: lists of features become subsets that have what is required and nothing excluded."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util import draws
from maabo_dist._util.jit import kernel
from maabo_dist.screens.screen import Screen
from maabo_dist.search.limits import SubsetLimits

FREE = -1


@dataclass(frozen=True)
class LimitTable:
    """The limits of each feature, and the screen without what needs no hint or can be in no subset."""

    # (D): the number of the feature's column among those that are required or in a group, required ones first.
    columns: npt.NDArray[np.int64]
    # (D): the number of its group.
    groups: npt.NDArray[np.int64]
    # For each required column its features, the most promising first.
    required: tuple[npt.NDArray[np.int32], ...]
    screen: Screen

    @classmethod
    def of(cls, limits: SubsetLimits, features: int, screen: Screen) -> "LimitTable":
        """Look up the limits of a table."""
        columns, groups = np.full(features, FREE, np.int64), np.full(features, FREE, np.int64)
        in_groups = [column for group in limits.exclusive for column in group]
        for number, column in enumerate(dict.fromkeys([*limits.required, *in_groups])):
            columns[list(column)] = number
        for number, group in enumerate(limits.exclusive):
            for column in group:
                groups[list(column)] = number
        required = tuple(screen.features[np.isin(screen.features, column)] for column in limits.required)
        # A column of one feature is in every subset, and a column beside a required one of its group in none.
        taken = {groups[column[0]] for column in limits.required} - {FREE}
        excluded = np.isin(groups, list(taken)) & (columns >= len(required))
        alone = [own[0] for own in required if len(own) == 1]
        keeps = np.ones(features, np.bool_)
        keeps[alone] = False
        pairs = screen.pairs[~excluded[screen.pairs].any(axis=1)]
        first, second = pairs[:, 0], pairs[:, 1]
        apart = (groups[first] != FREE) & (groups[first] == groups[second]) & (columns[first] != columns[second])
        drawn = screen.features[(keeps & ~excluded)[screen.features]]
        # If nothing is left to draw, every list is completed by what is required.
        triples = screen.triples[~excluded[screen.triples].any(axis=1)]
        drawn = drawn if len(drawn) else screen.features
        conjunctions = {size: sets[~excluded[sets].any(axis=1)] for size, sets in screen.conjunctions.items()}
        return cls(columns, groups, required, Screen(drawn, pairs[~apart], triples, (), conjunctions))

    def fit(self, features: npt.NDArray[np.int32], size: int, stream: int) -> npt.NDArray[np.int32]:
        """Return subsets of `size`, sorted; rows without enough features that go together are left out.

        Of each required column a row gets its own first feature or else one that is drawn, the promising ones most
        often. Then its features follow in their order, unless they are excluded, up to `size`.
        """
        picks = np.empty((len(features), len(self.required)), np.int32)
        for number, own in enumerate(self.required):
            keys: Any = draws.keys(draws.stream(stream, number, 0), len(features)) >> np.uint64(11)
            uniform = keys * 2.0**-53
            picks[:, number] = own[np.minimum((uniform * uniform * len(own)).astype(np.int64), len(own) - 1)]
        out = np.empty((len(features), size), np.int32)
        count = _fit(np.ascontiguousarray(features, np.int32), picks, self.columns, self.groups, out)
        return np.sort(out[:count], axis=1)


@kernel
def _goes_with(feature: int, others: Any, columns: Any, groups: Any) -> bool:
    """True if the feature is none of the others, and none of them excludes it."""
    for other in others:
        in_one_group = groups[feature] >= 0 and groups[feature] == groups[other]
        if feature == other or (in_one_group and columns[feature] != columns[other]):
            return False
    return True


@kernel
def _fit(features: Any, picks: Any, columns: Any, groups: Any, out: Any) -> int:
    """Write one subset after another; return their number."""
    count, size = 0, out.shape[1]
    for row in range(len(features)):
        filled = 0
        for number in range(picks.shape[1]):
            feature = picks[row, number]
            for own in features[row]:
                if columns[own] == number:
                    feature = own
                    break
            out[count, filled] = feature
            filled += 1
        for own in features[row]:
            if filled < size and _goes_with(own, out[count, :filled], columns, groups):
                out[count, filled] = own
                filled += 1
        if filled == size:
            count += 1
    return count
