"""`Screen`: what a look at single features and at pairs says before the search begins."""

from concurrent.futures import Executor
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.screens.bits import BitTable
from maabo_dist.screens.pairs import Pairs, screen_pairs

MOST_PAIRS = 200
FEWEST_PAIRS = 10
"""So many pairs are tried even if they might be chance."""
LN_2 = 0.6931471805599453


@dataclass(frozen=True, slots=True)
class Screen:
    """Features and pairs, the most promising first."""

    features: npt.NDArray[np.int32]
    """(D): all features, by the best single split of each; equals in their order."""
    pairs: npt.NDArray[np.int32]
    """(pairs, 2): those that tell more together than apart."""

    @classmethod
    def of(cls, single: npt.NDArray[np.float64], pairs: Pairs, classes: int) -> "Screen":
        """From the scores of single splits and the strongest pairs."""
        order = np.argsort(-single, kind="stable").astype(np.int32)
        count = max(FEWEST_PAIRS, int((pairs.strengths > chance_bar(len(single), classes)).sum()))
        return cls(order, pairs.features[:count])


def screen(
    columns: Columns,
    split: Split,
    single: npt.NDArray[np.float64],
    *,
    pool: Executor | None = None,
    pieces: int = 1,
) -> Screen:
    """Screen the training rows. `single` are the scores of each feature's best split, a training table's."""
    pairs = screen_pairs(BitTable.build(columns, split), MOST_PAIRS, pool=pool, pieces=pieces)
    return Screen.of(single, pairs, len(columns.classes))


def chance_bar(features: int, classes: int) -> float:
    """A strength that chance exceeds for less than one of all pairs.

    Under chance a strength is about χ² with k = 4 (C − 1) degrees of freedom, which exceeds k + 2 √(k x) + 2 x with a
    probability of at most e^−x (Laurent and Massart).
    """
    freedom, x = 4 * (classes - 1), (features * (features - 1) // 2).bit_length() * LN_2
    return freedom + 2 * sqrt(freedom * x) + 2 * x
