"""`Screen`: the features, pairs and triples to try first, from the screens of a table."""

from concurrent.futures import Executor
from dataclasses import dataclass, field
from math import sqrt

import numpy as np
import numpy.typing as npt

from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.screens.pairs import BitTable, Pairs, screen_pairs
from maabo_dist.screens.triples import LN_2, Triples, screen_triples

MAX_PAIRS = 200
# The number of pairs to try even if they may be chance.
MIN_PAIRS = 10
# The most triples of each class, and of interactions; and of all of them. Every one of them gets a tree.
MAX_TRIPLES, MAX_TRIED_TRIPLES = 40, 120


def _no_triples() -> npt.NDArray[np.int32]:
    return np.empty((0, 3), np.int32)


@dataclass(frozen=True, slots=True)
class Screen:
    """Features, pairs and triples, the most promising first."""

    # (D): all features, by the best single split of each; ties in their order.
    features: npt.NDArray[np.int32]
    # (pairs, 2): those that say more together than apart.
    pairs: npt.NDArray[np.int32]
    # (triples, 3): those that say more than their pairs; none if they were not screened.
    triples: npt.NDArray[np.int32] = field(default_factory=_no_triples)

    @classmethod
    def from_scores(
        cls, single: npt.NDArray[np.float64], pairs: Pairs, classes: int, triples: Triples | None = None
    ) -> "Screen":
        """Make a screen from the scores of single splits, the strongest pairs and the strongest triples."""
        order = np.argsort(-single, kind="stable").astype(np.int32)
        count = max(MIN_PAIRS, int((pairs.strengths > chance_threshold(len(single), classes)).sum()))
        return cls(order, pairs.features[:count], _take_turns(triples or Triples.empty()))


def _take_turns(triples: Triples) -> npt.NDArray[np.int32]:
    """The strongest triple of each kind, then the second of each, and so on; each triple once."""
    rank = np.arange(len(triples)) - np.searchsorted(triples.kinds, triples.kinds)
    features = triples.features[np.lexsort([triples.kinds, rank])]
    first = np.sort(np.unique(features, axis=0, return_index=True)[1])
    return features[first][:MAX_TRIED_TRIPLES]


def compute_screen(
    columns: Columns,
    split: Split,
    single: npt.NDArray[np.float64],
    *,
    triples: bool,
    pool: Executor | None = None,
    pieces: int = 1,
) -> Screen:
    """Screen the training rows. `single` are the scores of each feature's best split, from a training table."""
    table = BitTable.build(columns, split)
    pairs = screen_pairs(table, MAX_PAIRS, pool=pool, pieces=pieces)
    strongest = screen_triples(table, MAX_TRIPLES, pool=pool, pieces=pieces) if triples else None
    return Screen.from_scores(single, pairs, len(columns.classes), strongest)


def chance_threshold(features: int, classes: int) -> float:
    """A strength that chance exceeds for less than one of all pairs.

    Under chance a strength is about χ² with k = 4 (C − 1) degrees of freedom, which exceeds k + 2 √(k x) + 2 x with a
    probability of at most e^−x (Laurent and Massart).
    """
    freedom, x = 4 * (classes - 1), (features * (features - 1) // 2).bit_length() * LN_2
    return freedom + 2 * sqrt(freedom * x) + 2 * x
