"""`Screen`: the features, pairs and triples to try first, from the screens of a table."""

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.screens.blocks import SIXTHS, TENTHS, ScreenPlan
from maabo_dist.screens.conjunctions import Sets, grow_conjunctions
from maabo_dist.screens.pairs import BitTable, Pairs, screen_pairs
from maabo_dist.screens.triples import LN_2, Triples, least_strength, screen_triples

MAX_PAIRS = 200
# The number of pairs to try even if they may be chance.
MIN_PAIRS = 100
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
    # For each class, a strength that no other triple exceeds; empty if triples were not screened.
    untried: tuple[float, ...] = ()
    # Conjunctions that were grown, by their number of features: for sizes of which not all sets were counted.
    conjunctions: Mapping[int, Sets] = field(default_factory=dict)

    @classmethod
    def from_scores(
        cls, single: npt.NDArray[np.float64], pairs: Pairs, classes: int, triples: Triples | None = None
    ) -> "Screen":
        """Make a screen from the scores of single splits, the strongest pairs and the strongest triples."""
        order = np.argsort(-single, kind="stable").astype(np.int32)
        count = max(MIN_PAIRS, int((pairs.strengths > chance_threshold(len(single), classes)).sum()))
        if triples is None:
            return cls(order, pairs.features[:count])
        tried = _take_turns(triples)
        untried = tuple(_strongest_untried(triples, tried, kind, len(single)) for kind in range(classes))
        return cls(order, pairs.features[:count], tried, untried)


def _take_turns(triples: Triples) -> npt.NDArray[np.int32]:
    """The strongest triple of each kind, then the second of each, and so on; each triple once."""
    rank = np.arange(len(triples)) - np.searchsorted(triples.kinds, triples.kinds)
    features = triples.features[np.lexsort([triples.kinds, rank])]
    first = np.sort(np.unique(features, axis=0, return_index=True)[1])
    return features[first][:MAX_TRIED_TRIPLES]


def _strongest_untried(triples: Triples, tried: npt.NDArray[np.int32], kind: int, features: int) -> float:
    """A strength of this kind that no triple exceeds which is not tried: neither of those listed, nor of the others."""
    own, known = triples.kinds == kind, {tuple(triple) for triple in tried.tolist()}
    listed: list[tuple[float, list[int]]] = list(
        zip(triples.strengths[own].tolist(), triples.features[own].tolist(), strict=True)
    )
    beyond = listed[-1][0] if len(listed) == MAX_TRIPLES else least_strength(features)
    return max([beyond, *(strength for strength, triple in listed if tuple(triple) not in known)])


def compute_screen(
    columns: Columns,
    split: Split,
    single: npt.NDArray[np.float64],
    plan: ScreenPlan,
    *,
    pool: Executor | None = None,
    pieces: int = 1,
) -> Screen:
    """Screen the training rows. `single` are the scores of each feature's best split, from a training table."""
    parallel: dict[str, Any] = {"pool": pool, "pieces": pieces}
    table = BitTable.build(columns, split)
    pair_tables = [table, BitTable.build(columns, split, TENTHS)] if plan.tenths else [table]
    pairs = [screen_pairs(each, MAX_PAIRS, **parallel) for each in pair_tables]
    strongest = None
    if plan.triples:
        triple_tables = [table, BitTable.build(columns, split, SIXTHS)] if plan.sixths else [table]
        triples = [screen_triples(each, MAX_TRIPLES, **parallel) for each in triple_tables]
        strongest = Triples.strongest(triples, MAX_TRIPLES)
    screen = Screen.from_scores(single, Pairs.strongest(pairs, MAX_PAIRS), len(columns.classes), strongest)
    return replace(screen, conjunctions=grow_conjunctions(pair_tables, plan.grown))


def chance_threshold(features: int, classes: int) -> float:
    """A strength that chance exceeds for less than one of all pairs.

    Under chance a strength is about χ² with k = 4 (C − 1) degrees of freedom, which exceeds k + 2 √(k x) + 2 x with a
    probability of at most e^−x (Laurent and Massart).
    """
    freedom, x = 4 * (classes - 1), (features * (features - 1) // 2).bit_length() * LN_2
    return freedom + 2 * sqrt(freedom * x) + 2 * x
