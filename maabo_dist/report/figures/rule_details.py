"""Figures of single rules: histograms of their columns by class, and the trees that they came from.

Rare classes are grouped where there are very many. Trees are nested nodes of limited number. A node has the class
counts of its training rows (`counts`). An inner node has the text of its question and its two children (`yes`, `no`)
or, where the figure ends, the number of nodes below it (`more`). On the path to the rule's leaf, `next` is the child on
the path, and `kept` is true if the rule kept that condition; the leaf itself is marked `leaf`. A rule that was found as
a box on the features of its tree has no path if the tree splits them in other ways.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist.contract.conditions import Op
from maabo_dist.contract.wording import condition_text
from maabo_dist.data.columns import Columns, FeatureKind
from maabo_dist.data.recoding import MISSING_VALUE
from maabo_dist.data.split import Split
from maabo_dist.rules.conditions import condition_literals, conditions_of
from maabo_dist.rules.publishing import TreeRecords
from maabo_dist.rules.rule import Rule
from maabo_dist.settings import MiningSettings
from maabo_dist.trees.forest import CompactTree
from maabo_dist.trees.growth import LEAF
from maabo_dist.trees.training import TrainingTable, depth_search

# Classes that a figure distinguishes.
MAX_CLASSES = 24


@dataclass(frozen=True, slots=True)
class ClassGroups:
    """The classes that are counted together."""

    # (C): the group of each class.
    group: npt.NDArray[np.int64]
    count: int

    @classmethod
    def of(cls, totals: npt.NDArray[np.int64]) -> "ClassGroups":
        """Group by the training rows of each class: the most frequent stay, in order; the last group has the rest."""
        classes = len(totals)
        if classes <= MAX_CLASSES:
            return cls(np.arange(classes), classes)
        frequent = np.sort(np.argsort(-totals, kind="stable")[: MAX_CLASSES - 1])
        group = np.full(classes, MAX_CLASSES - 1)
        group[frequent] = np.arange(len(frequent))
        return cls(group, MAX_CLASSES)

    def names(self, classes: Sequence[str]) -> list[str | None]:
        """Return the class of each group; None is the rest."""
        if self.count == len(classes):
            return list(classes)
        return [*(name for name, group in zip(classes, self.group, strict=True) if group < self.count - 1), None]

    def counts(self, counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return class counts (…, C) by group: (…, groups)."""
        member = np.zeros((len(self.group), self.count), np.int64)
        member[np.arange(len(self.group)), self.group] = 1
        result: npt.NDArray[np.int64] = counts.astype(np.int64) @ member
        return result


MAX_BINS = 40
MAX_VALUES = 24
MAX_LEVELS = 24
# Share of the rows at either end of a range that gets no bars of its own.
TAIL = 0.005

# The bar of rows that a histogram does not show.
NO_BAR = -1

Histogram = dict[str, Any]
_Key = tuple[str, str]


def draw_histograms(
    columns: Columns, split: Split, rules: Sequence[Rule], groups: ClassGroups
) -> tuple[list[Histogram], list[list[int]]]:
    """Return the histograms, and for each rule the index of the histogram of each condition."""
    keys = [_keys(columns, rule) for rule in rules]
    indexes = {key: index for index, key in enumerate(dict.fromkeys(key for row in keys for key in row))}
    bounds: dict[_Key, list[float]] = {key: [] for key in indexes}
    for rule, row in zip(rules, keys, strict=True):
        for key, condition in zip(row, rule.conditions, strict=True):
            if isinstance(condition.value, float | int):
                bounds[key].append(condition.value)
    drawer = _Drawer(columns, split, groups)
    return [drawer.draw(key, bounds[key]) for key in indexes], [[indexes[key] for key in row] for row in keys]


def _keys(columns: Columns, rule: Rule) -> list[_Key]:
    """Return for each condition the histogram that it belongs to."""
    literals = [2 * feature + large for feature, large in rule.logic]
    groups = condition_literals(columns.features, literals, rule.bounds)
    return [
        (condition.feature, "missing")
        if condition.op in {Op.IS_MISSING, Op.IS_PRESENT}
        else _key(columns, rule.logic[group[0]][0])
        for condition, group in zip(rule.conditions, groups, strict=True)
    ]


def _key(columns: Columns, feature: int) -> _Key:
    """A column, and what of it is drawn by itself: that its value is missing, or a part of its dates."""
    entry = columns.features[feature]
    own = {FeatureKind.MISSING: "missing", FeatureKind.DATE: (*entry.levels, "")[0]}
    return entry.column, own.get(entry.kind, "")


class _Drawer:
    def __init__(self, columns: Columns, split: Split, groups: ClassGroups) -> None:
        self.columns, self.rows, self.groups = columns, split.train, groups
        self.labels = groups.group[columns.labels[split.train]]
        self.raw = {raw.column: index for index, raw in enumerate(columns.raw)}
        self.features: dict[_Key, list[int]] = {}
        for index in range(columns.count):
            self.features.setdefault(_key(columns, index), []).append(index)

    def draw(self, key: _Key, bounds: Sequence[float]) -> Histogram:
        raw = self.raw.get(key[0])
        if raw is not None and key[1] == "missing":
            missing = (self.columns.raw_codes[raw][self.rows] == 0).astype(np.int64)
            return {"column": key[0]} | self._levels(missing, ["present", "missing"], 0)
        indices = self.features[key]
        first = self.columns.features[indices[0]]
        name = first.name if first.kind is FeatureKind.DATE else first.column
        return {"column": name} | self._draw(indices, bounds)

    def _draw(self, indices: Sequence[int], bounds: Sequence[float]) -> Histogram:
        first, kinds = self.columns.features[indices[0]], [self.columns.features[index].kind for index in indices]
        match first.kind:
            case FeatureKind.NUMBER | FeatureKind.PROBE | FeatureKind.DATE:
                return self._number(indices[0], bounds)
            case FeatureKind.PAIR:
                return self._levels(self._ranks(indices[0]), list(first.levels), first.missing)
            case FeatureKind.MISSING:
                return self._levels(self._ranks(indices[0]), ["present", "missing"], 0)
            case FeatureKind.LEVEL | FeatureKind.OTHER | FeatureKind.SET:
                if FeatureKind.SET in kinds:
                    return self._set_levels(self.raw[first.column])
                return self._several_levels(
                    [each for each, kind in zip(indices, kinds, strict=True) if kind is FeatureKind.LEVEL]
                )

    def _ranks(self, index: int) -> npt.NDArray[np.int64]:
        """(training rows): 0 or 1, the value of a column that has two."""
        values: npt.NDArray[np.int64] = self.columns.column(index)[self.rows].astype(np.int64)
        return values

    def _several_levels(self, indices: Sequence[int]) -> Histogram:
        """The most frequent levels, and one bar for other levels and missing cells."""
        has_level = np.array([self._ranks(index) for index in indices])
        frequent = np.sort(np.argsort(-has_level.sum(axis=1), kind="stable")[:MAX_LEVELS])
        level = np.full(len(self.rows), len(frequent))
        for number, index in enumerate(frequent):
            level[has_level[index] == 1] = number
        names: list[str | None] = [self.columns.features[indices[index]].levels[0] for index in frequent]
        return self._levels(level, [*names, *([None] if (level == len(frequent)).any() else [])], 0)

    def _set_levels(self, raw: int) -> Histogram:
        """The most frequent levels, and one bar for others; missing cells have none."""
        texts, cells = self.columns.raw[raw].levels, self.columns.raw_codes[raw][self.rows].astype(np.int64)
        rows = np.bincount(cells, minlength=len(texts) + 2)[1 : len(texts) + 1]
        frequent = np.sort(np.argsort(-rows, kind="stable")[:MAX_LEVELS])
        bars = np.full(len(texts) + 2, len(frequent))
        bars[0], bars[frequent + 1] = NO_BAR, np.arange(len(frequent))
        level = bars[cells]
        names: list[str | None] = [texts[index] for index in frequent]
        missing = int((self.columns.raw_codes[raw] == 0).sum())
        others = [None] if (level == len(frequent)).any() else []
        return self._levels(level, [*names, *others], missing) | {"apart": True}

    def _levels(self, level: npt.NDArray[np.int64], names: Sequence[str | None], missing: int) -> Histogram:
        return {
            "kind": "levels",
            "levels": list(names),
            "counts": self._by_group(level, len(names)),
            "missing": missing,
        }

    def _number(self, index: int, bounds: Sequence[float]) -> Histogram:
        values, codes = self.columns.distinct_values(index), self.columns.codes[index][self.rows].astype(np.int64)
        entry = self.columns.features[index]
        common: Histogram = {"missing": entry.missing, "fill": entry.fill if entry.missing else None}
        hidden = np.zeros(len(codes), np.bool_)
        if entry.fill == MISSING_VALUE:  # missing cells, which have the lowest code
            common, hidden = {"missing": entry.missing, "apart": True}, codes == 0
        used = np.unique(codes[~hidden])
        if len(used) <= MAX_VALUES:
            bars = np.where(hidden, NO_BAR, np.searchsorted(used, codes))
            return common | {
                "kind": "values",
                "values": values[used].tolist(),
                "counts": self._by_group(bars, len(used)),
            }
        ordered, tail = values[np.sort(codes[~hidden])], int(TAIL * int((~hidden).sum()))
        first, last = float(ordered[tail]), float(ordered[len(ordered) - 1 - tail])
        edges = _edges(min(first, *bounds), max(last, *bounds), min(MAX_BINS, max(10, int(np.sqrt(len(codes))))))
        bars = np.clip(np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2)[codes]
        bars[hidden] = NO_BAR
        return common | {
            "kind": "bins",
            "low": float(edges[0]),
            "high": float(edges[-1]),
            "counts": self._by_group(bars, len(edges) - 1),
        }

    def _by_group(self, bars: npt.NDArray[np.int64], count: int) -> list[list[int]]:
        """[group][bar]: training rows."""
        shown = bars != NO_BAR
        indices = self.labels[shown] * count + bars[shown]
        counts: list[list[int]] = (
            np.bincount(indices, minlength=self.groups.count * count).reshape(self.groups.count, count).tolist()
        )
        return counts


def _edges(low: float, high: float, bars: int) -> npt.NDArray[np.float64]:
    """Bars of equal width; fewer for numbers too close together."""
    # By halves: the width of a range may exceed the largest float.
    edges = (
        np.linspace(low, high, bars + 1) if np.isfinite(high - low) else 2 * np.linspace(low / 2, high / 2, bars + 1)
    )
    return edges if (np.diff(edges) > 0).all() else np.array([low, high if high > low else np.nextafter(low, np.inf)])


MAX_NODES = 31
PROBE = "a probe"

Node = dict[str, Any]


def draw_trees(
    table: TrainingTable,
    columns: Columns,
    settings: MiningSettings,
    rules: Sequence[Rule],
    records: TreeRecords,
    groups: ClassGroups,
) -> list[Node]:
    """Grow the tree of each rule again and draw it."""
    numbers = np.unique(np.array([rule.source.tree for rule in rules], np.int64))
    forest = depth_search(table, records.subsets[numbers], settings.max_depth, whole=settings.whole_trees)
    trees = [forest.tree(int(np.searchsorted(numbers, rule.source.tree))) for rule in rules]
    return [_TreeFigure(tree, columns, rule, groups).root for tree, rule in zip(trees, rules, strict=True)]


@dataclass(frozen=True, slots=True)
class _Step:
    """One node on a path, and the literal that leads to the next one."""

    node: int
    literal: int
    bound: float


class _TreeFigure:
    def __init__(self, tree: CompactTree, columns: Columns, rule: Rule, groups: ClassGroups) -> None:
        self.tree, self.columns, self.rule, self.groups = tree, columns, rule, groups
        self.counts = groups.counts(tree.counts)
        self.sizes = tree.counts.sum(axis=1)
        literals = [2 * feature + large for feature, large in rule.logic]
        # That a cell is present follows from most conditions, and need not be on the path.
        self.bounds = {
            literal: bound
            for literal, bound in zip(literals, rule.bounds, strict=True)
            if bound != MISSING_VALUE or literal % 2 == 0 or literal - 1 not in literals
        }
        paths = _paths(tree)
        leaf = max(paths, key=lambda node: self._match_quality(node, paths[node]))
        has_path = {step.literal for step in paths[leaf]} >= self.bounds.keys()
        self.leaf = leaf if has_path else None
        self.path = {step.node: step for step in paths[leaf]} if has_path else {}
        self.expanded = self._choose_expanded()
        self.root = self._node(0)

    def _match_quality(self, node: int, path: Sequence[_Step]) -> tuple[int, ...]:
        """Rank a node by its match with the rule, which may lack dropped conditions and have refitted thresholds."""
        bounds = {step.literal: step.bound for step in path}  # the last of a literal is the tightest
        others = {literal: bound for literal, bound in bounds.items() if literal not in self.bounds}
        extra = set(conditions_of(self.columns.features, list(others), list(others.values())))
        dropped = len(extra & set(self.rule.dropped))
        same = sum(
            literal in bounds and self._cut(literal, bounds[literal]) == self._cut(literal, bound)
            for literal, bound in self.bounds.items()
        )
        gap = abs(self.sizes[node] - self.rule.n)
        return bounds.keys() >= self.bounds.keys(), dropped, dropped - len(extra), same, -gap

    def _cut(self, literal: int, bound: float) -> int:
        """The number of the feature's values that are at most the bound."""
        return int(np.searchsorted(self.columns.distinct_values(literal // 2), bound, side="right"))

    def _choose_expanded(self) -> set[int]:
        """Nodes whose children are drawn: those on the path, then the largest, up to the limit."""
        tree = self.tree
        expanded = set(self.path)
        while 1 + 2 * (len(expanded) + 1) <= MAX_NODES:
            visible = {0, *(tree.left[node] + side for node in expanded for side in (0, 1))}
            collapsed = [int(node) for node in visible if tree.feature[node] != LEAF and int(node) not in expanded]
            if not collapsed:
                break
            expanded.add(max(collapsed, key=lambda node: (int(self.sizes[node]), -node)))
        return expanded

    def _node(self, node: int) -> Node:
        tree = self.tree
        entry: Node = {"counts": self.counts[node].tolist()}
        if node == self.leaf:
            entry["leaf"] = True
        if tree.feature[node] == LEAF:
            return entry
        entry["text"] = self._question(node)
        if node not in self.expanded:
            return entry | {"more": _count_below(tree, node)}
        left = int(tree.left[node])
        if node in self.path:
            literal = self.path[node].literal
            entry |= {"next": "no" if literal % 2 else "yes", "kept": literal in self.bounds}
        return entry | {"yes": self._node(left), "no": self._node(left + 1)}

    def _question(self, node: int) -> str:
        """The condition that holds in the left child."""
        feature = int(self.tree.feature[node])
        if self.columns.features[feature].kind is FeatureKind.PROBE:
            return PROBE
        return condition_text(*conditions_of(self.columns.features, [2 * feature], [float(self.tree.threshold[node])]))


def _paths(tree: CompactTree) -> dict[int, list[_Step]]:
    """The steps from the root to each node. Children come after their parents."""
    paths: dict[int, list[_Step]] = {0: []}
    for node in range(len(tree.feature)):
        if tree.feature[node] != LEAF:
            feature, bound, left = int(tree.feature[node]), float(tree.threshold[node]), int(tree.left[node])
            for side in (0, 1):
                paths[left + side] = [*paths[node], _Step(node, 2 * feature + side, bound)]
    return paths


def _count_below(tree: CompactTree, node: int) -> int:
    if tree.feature[node] == LEAF:
        return 0
    left = int(tree.left[node])
    return 2 + _count_below(tree, left) + _count_below(tree, left + 1)
