"""The trees that rules came from, as nested nodes of bounded number, with the way to the rule's leaf marked.

A node has the class counts of its training rows (`counts`). One with a question has its text, its two children (`yes`,
`no`) or, where the picture ends, how many nodes follow (`more`). On the way to the leaf, `way` says which child comes
next, and `kept` whether the rule kept that condition; the leaf itself is marked `leaf`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maabo_dist.data.columns import Columns, FeatureKind
from maabo_dist.report.figures.histograms import ClassGroups
from maabo_dist.report.wording import condition_text
from maabo_dist.rules.publishing import TreeRecords
from maabo_dist.rules.rule import Rule, conditions_of
from maabo_dist.settings import MiningSettings
from maabo_dist.trees.depth_search import depth_search
from maabo_dist.trees.forest import CompactTree
from maabo_dist.trees.growth import LEAF
from maabo_dist.trees.training import TrainingTable

MOST_NODES = 31
PROBE = "a probe"

Node = dict[str, Any]


def tree_pictures(
    table: TrainingTable,
    columns: Columns,
    settings: MiningSettings,
    rules: Sequence[Rule],
    records: TreeRecords,
    groups: ClassGroups,
) -> list[Node]:
    """One tree a rule, grown again."""
    numbers = np.unique(np.array([rule.source.tree for rule in rules], np.int64))
    forest = depth_search(table, records.subsets[numbers], settings.max_depth, whole=settings.whole_trees)
    trees = [forest.tree(int(np.searchsorted(numbers, rule.source.tree))) for rule in rules]
    return [_Picture(tree, columns, rule, groups).root for tree, rule in zip(trees, rules, strict=True)]


@dataclass(frozen=True, slots=True)
class _Step:
    """One node on a way down: where it is, and the literal that leads from it."""

    node: int
    literal: int
    bound: float


class _Picture:
    def __init__(self, tree: CompactTree, columns: Columns, rule: Rule, groups: ClassGroups) -> None:
        self.tree, self.columns, self.rule, self.groups = tree, columns, rule, groups
        self.counts = groups.counts(tree.counts)
        self.sizes = tree.counts.sum(axis=1)
        literals = (2 * feature + large for feature, large in rule.logic)
        self.bounds = dict(zip(literals, rule.bounds, strict=True))
        ways = _ways(tree)
        self.leaf = max(ways, key=lambda node: self._likeness(node, ways[node]))
        self.way = {step.node: step for step in ways[self.leaf]}
        self.opened = self._opened()
        self.root = self._node(0)

    def _likeness(self, node: int, way: Sequence[_Step]) -> tuple[int, ...]:
        """How well a node fits the rule, which is its leaf without what was dropped, the thresholds fitted anew."""
        bounds = {step.literal: step.bound for step in way}  # the last of a literal is the tightest
        others = {literal: bound for literal, bound in bounds.items() if literal not in self.bounds}
        told = set(conditions_of(self.columns.features, list(others), list(others.values())))
        lost = len(told & set(self.rule.dropped))
        same = sum(bounds.get(literal) == bound for literal, bound in self.bounds.items())
        return bounds.keys() >= self.bounds.keys(), lost, lost - len(told), same, -abs(self.sizes[node] - self.rule.n)

    def _opened(self) -> set[int]:
        """Nodes whose children are drawn: those on the way, then the largest, as long as there is room."""
        tree = self.tree
        opened = set(self.way)
        while 1 + 2 * (len(opened) + 1) <= MOST_NODES:
            shown = {0, *(tree.left[node] + side for node in opened for side in (0, 1))}
            closed = [int(node) for node in shown if tree.feature[node] != LEAF and int(node) not in opened]
            if not closed:
                break
            opened.add(max(closed, key=lambda node: (int(self.sizes[node]), -node)))
        return opened

    def _node(self, node: int) -> Node:
        tree = self.tree
        told: Node = {"counts": self.counts[node].tolist()}
        if node == self.leaf:
            told["leaf"] = True
        if tree.feature[node] == LEAF:
            return told
        told["text"] = self._question(node)
        if node not in self.opened:
            return told | {"more": _below(tree, node)}
        left = int(tree.left[node])
        if node in self.way:
            literal = self.way[node].literal
            told |= {"way": "no" if literal % 2 else "yes", "kept": literal in self.bounds}
        return told | {"yes": self._node(left), "no": self._node(left + 1)}

    def _question(self, node: int) -> str:
        """What holds in the left child."""
        feature = int(self.tree.feature[node])
        if self.columns.features[feature].kind is FeatureKind.PROBE:
            return PROBE
        return condition_text(*conditions_of(self.columns.features, [2 * feature], [float(self.tree.threshold[node])]))


def _ways(tree: CompactTree) -> dict[int, list[_Step]]:
    """For each node the steps from the root. Children stand behind their parents."""
    ways: dict[int, list[_Step]] = {0: []}
    for node in range(len(tree.feature)):
        if tree.feature[node] != LEAF:
            feature, bound, left = int(tree.feature[node]), float(tree.threshold[node]), int(tree.left[node])
            for side in (0, 1):
                ways[left + side] = [*ways[node], _Step(node, 2 * feature + side, bound)]
    return ways


def _below(tree: CompactTree, node: int) -> int:
    """How many nodes follow."""
    if tree.feature[node] == LEAF:
        return 0
    left = int(tree.left[node])
    return 2 + _below(tree, left) + _below(tree, left + 1)
