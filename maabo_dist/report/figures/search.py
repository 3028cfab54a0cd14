"""The history of a search: scores of trees, rules found so far, and the features of its best trees."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist.data.columns import Columns, probe_mask
from maabo_dist.rules.publishing import TreeRecords
from maabo_dist.rules.rule import Rule

MAX_POINTS = 2_000
MAX_STEPS = 50
MAX_FEATURES = 20


def feature_use(columns: Columns, records: TreeRecords, alpha: float) -> dict[str, Any]:
    """Count how many of the best trees (the share `alpha`) use each of their most used features, and each pair."""
    scored = np.flatnonzero(~np.isnan(records.scores))
    high = scored[np.argsort(-records.scores[scored], kind="stable")][: max(1, int(alpha * len(scored)))]
    counts = _count_uses(records.subsets[high], columns.count)
    everywhere = _count_uses(records.subsets[scored], columns.count)
    order = np.argsort(-counts, kind="stable")
    used = order[(counts[order] > 0) & ~probe_mask(columns)[order]][:MAX_FEATURES]
    held = (records.subsets[high][:, :, None] == used).any(axis=1).astype(np.int64)
    return {
        "high": len(high),
        "trees": len(scored),
        "features": [
            {"name": columns.features[index].name, "high": int(counts[index]), "trees": int(everywhere[index])}
            for index in used
        ],
        "pairs": (held.T @ held).tolist(),
    }


def _count_uses(subsets: npt.NDArray[np.int32], features: int) -> npt.NDArray[np.int64]:
    """(D): subsets with each feature; a feature repeated in a row counts once."""
    first = np.ones(subsets.shape, np.bool_)
    first[:, 1:] = np.diff(subsets, axis=1) > 0
    return np.bincount(subsets[first], minlength=features)


def search_history(rules: Sequence[Rule], records: TreeRecords) -> dict[str, Any]:
    """Return scores by the number of the tree; of many trees, the best and the worst of each section.

    `best` has a pair for each tree that improved the best score: the tree and its score. `found` has pairs of a tree
    and the number of published rules that were read from trees up to it.
    """
    shown = _select_points(records.scores)
    scores = [round(float(score), 4) for score in records.scores[shown]]
    trees = sorted(rule.source.tree for rule in rules)
    found = [[tree, number + 1] for number, tree in enumerate(trees)]
    steps = np.unique(np.linspace(0, len(found) - 1, MAX_STEPS).round().astype(np.int64)).tolist() if found else []
    return {
        "trees": len(records.scores),
        "shown": shown.tolist(),
        "scores": scores,
        "best": _improvements(shown.tolist(), scores),
        "found": [found[step] for step in steps],
    }


def _improvements(trees: Sequence[int], scores: Sequence[float]) -> list[tuple[int, float]]:
    best: list[tuple[int, float]] = []
    for tree, score in zip(trees, scores, strict=True):
        if not best or score > best[-1][1]:
            best.append((tree, score))
    return best


def _select_points(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    scored = np.flatnonzero(~np.isnan(scores))
    if len(scored) <= MAX_POINTS:
        return scored
    extremes = [
        (section[np.argmax(scores[section])], section[np.argmin(scores[section])])
        for section in np.array_split(scored, MAX_POINTS // 2)
    ]
    return np.unique(np.array(extremes, np.int64))
