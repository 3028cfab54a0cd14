"""Figures of all rules and of the search: covered rows, similarities, scores, and the features of the best trees."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util import draws
from maabo_dist.data.columns import Columns, probe_mask
from maabo_dist.data.split import Split
from maabo_dist.rules.matching import covered_rows, logic_arrays
from maabo_dist.rules.publishing import TreeRecords
from maabo_dist.rules.rule import Rule
from maabo_dist.rules.selection import Similarity, by_logic, by_rows

MAX_ROWS = 5_000
PARTS = ("train", "validation", "holdout")

# Number of this random stream; those of the search and of the probes are below it.
_SAMPLE = 200


class Covering:
    """The rows of a table, part by part, and the rules that cover them."""

    def __init__(self, columns: Columns, split: Split, rules: Sequence[Rule]) -> None:
        self._classes, self._train, self._rules = len(columns.classes), len(split.train), rules
        parts = [getattr(split, part) for part in PARTS]
        rows = np.concatenate(parts)
        self._labels = columns.labels[rows].astype(np.int64)
        self._part = np.repeat(np.arange(len(PARTS)), [len(part) for part in parts])
        self._covered = covered_rows(columns, rows, *logic_arrays(rules))

    def similarity(self) -> dict[str, Any]:
        """Return Simpson coefficients in percent by conditions (`logic`) and by training rows (`rows`), base64 bytes.

        `order` lists the rules for each so that similar ones are next to each other.
        """
        squares = {
            "logic": _similarities(by_logic(logic_arrays(self._rules)[0]), len(self._rules)),
            "rows": _similarities(by_rows(self._covered[:, : self._train]), len(self._rules)),
        }
        orders = {by: chain_by_similarity(square) for by, square in squares.items()}
        return {by: _encode(square) for by, square in squares.items()} | {"order": orders}

    def sample(self, seed: int) -> dict[str, Any]:
        """Return the rows in groups by part and class, a sample of at most `MAX_ROWS`, and a bit for each rule and row.

        Within a group, rows covered by the same rules are next to each other. `bits` has a row of bytes for each rule,
        the highest bit of a byte first; `covered` counts all rows of a group that any rule covers.
        """
        key = self._part * self._classes + self._labels
        rows = self._sample_rows(key, seed)
        rows = rows[np.lexsort([*~self._covered[::-1, rows], key[rows]])] if len(rows) else rows
        covered: npt.NDArray[np.bool_] = np.any(self._covered, axis=0)
        groups = [
            {
                "part": PARTS[number // self._classes],
                "class": int(number % self._classes),
                "rows": int((key == number).sum()),
                "covered": int(covered[key == number].sum()),
                "sampled": int((key[rows] == number).sum()),
            }
            for number in np.unique(key)
        ]
        bits = np.packbits(self._covered[:, rows], axis=1)
        return {"rows": len(key), "sampled": len(rows), "groups": groups, "bits": _encode(bits)}

    def _sample_rows(self, key: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.int64]:
        """Indices of the sampled rows: each group in proportion, and at least one row of it."""
        if len(key) <= MAX_ROWS:
            return np.arange(len(key))
        chance = draws.keys(draws.stream(seed, 0, _SAMPLE), len(key))
        order = np.lexsort((chance, key))
        sizes = np.unique(key, return_counts=True)[1]
        # One row of each group is reserved, so that rounding up never exceeds the limit.
        counts = np.maximum(1, (sizes * ((MAX_ROWS - len(sizes)) / len(key))).astype(np.int64))
        starts = np.cumsum(sizes) - sizes
        taken = [order[start : start + count] for start, count in zip(starts, counts, strict=True)]
        return np.sort(np.concatenate(taken))


def chain_by_similarity(square: npt.NDArray[np.uint8]) -> list[int]:
    """Return an order that begins with the first rule and continues with the most similar of the remaining ones."""
    remaining = list(range(len(square)))
    order = remaining[:1]
    while len(order) < len(square):
        remaining.remove(order[-1])
        order.append(max(remaining, key=lambda rule: (square[order[-1], rule], -rule)))
    return order


def _similarities(similarity: Similarity, count: int) -> npt.NDArray[np.uint8]:
    rules = np.arange(count)
    values = np.array([similarity(rule, rules) for rule in range(count)]).reshape(count, count)
    percent: npt.NDArray[np.uint8] = np.rint(100 * values).astype(np.uint8)
    return percent


def _encode(array: npt.NDArray[np.uint8]) -> str:
    return b64encode(array.tobytes()).decode()


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
    uses = (records.subsets[high][:, :, None] == used).any(axis=1).astype(np.int64)
    return {
        "high": len(high),
        "trees": len(scored),
        "features": [
            {"name": columns.features[index].name, "high": int(counts[index]), "trees": int(everywhere[index])}
            for index in used
        ],
        "pairs": (uses.T @ uses).tolist(),
    }


def _count_uses(subsets: npt.NDArray[np.int32], features: int) -> npt.NDArray[np.int64]:
    """(D): subsets with each feature; a feature repeated in a row counts once."""
    first = np.ones(subsets.shape, np.bool_)
    first[:, 1:] = np.diff(subsets, axis=1) > 0
    return np.bincount(subsets[first], minlength=features)


def search_history(rules: Sequence[Rule], records: TreeRecords) -> dict[str, Any]:
    """Return scores by the number of the tree; of many trees, the best and the worst of each section.

    `best` has a pair for each tree that improved the best score: the tree and its score. `rules` has pairs of a tree
    and the number of published rules that were read from trees up to it.
    """
    plotted = _select_points(records.scores)
    scores = [round(float(score), 4) for score in records.scores[plotted]]
    trees = sorted(rule.source.tree for rule in rules)
    steps = np.unique(np.linspace(0, len(trees) - 1, MAX_STEPS).round().astype(np.int64)).tolist() if trees else []
    return {
        "trees": len(records.scores),
        "plotted": plotted.tolist(),
        "scores": scores,
        "best": _improvements(plotted.tolist(), scores),
        "rules": [[trees[step], step + 1] for step in steps],
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
