"""What a search did: the score of each tree, when rules were found, and which features its best trees used."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist.data.columns import Columns
from maabo_dist.data.probes import probe_mask
from maabo_dist.rules.publishing import TreeRecords
from maabo_dist.rules.rule import Rule

MOST_POINTS = 2_000
MOST_STEPS = 50
MOST_FEATURES = 20


def feature_use(columns: Columns, records: TreeRecords, alpha: float) -> dict[str, Any]:
    """How many of the best trees (the share `alpha`) use each of the features they use most, and each pair of those."""
    scored = np.flatnonzero(~np.isnan(records.scores))
    high = scored[np.argsort(-records.scores[scored], kind="stable")][: max(1, int(alpha * len(scored)))]
    counts = _uses(records.subsets[high], columns.count)
    everywhere = _uses(records.subsets[scored], columns.count)
    order = np.argsort(-counts, kind="stable")
    told = order[(counts[order] > 0) & ~probe_mask(columns)[order]][:MOST_FEATURES]
    held = (records.subsets[high][:, :, None] == told).any(axis=1).astype(np.int64)
    return {
        "high": len(high),
        "trees": len(scored),
        "features": [
            {"name": columns.features[place].name, "high": int(counts[place]), "trees": int(everywhere[place])}
            for place in told
        ],
        "pairs": (held.T @ held).tolist(),
    }


def _uses(subsets: npt.NDArray[np.int32], features: int) -> npt.NDArray[np.int64]:
    """(D): subsets that hold each feature; one that a row repeats counts once."""
    first = np.ones(subsets.shape, np.bool_)
    first[:, 1:] = np.diff(subsets, axis=1) > 0
    return np.bincount(subsets[first], minlength=features)


def search_history(rules: Sequence[Rule], records: TreeRecords) -> dict[str, Any]:
    """Scores by the number of the tree; of many trees the best and the worst of each stretch, so that no best is lost.

    `found` has pairs: a tree, and how many of the published rules were read from trees up to it.
    """
    shown = _told(records.scores)
    trees = sorted(rule.source.tree for rule in rules)
    found = [[tree, number + 1] for number, tree in enumerate(trees)]
    steps = np.unique(np.linspace(0, len(found) - 1, MOST_STEPS).round().astype(np.int64)).tolist() if found else []
    return {
        "trees": len(records.scores),
        "shown": shown.tolist(),
        "scores": [round(float(score), 4) for score in records.scores[shown]],
        "found": [found[step] for step in steps],
    }


def _told(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    scored = np.flatnonzero(~np.isnan(scores))
    if len(scored) <= MOST_POINTS:
        return scored
    kept = [
        (stretch[np.argmax(scores[stretch])], stretch[np.argmin(scores[stretch])])
        for stretch in np.array_split(scored, MOST_POINTS // 2)
    ]
    return np.unique(np.array(kept, np.int64))
