"""The trees that rules came from, as nested nodes of limited number, with the path to the rule's leaf marked.

A node has the class counts of its training rows (`counts`). An inner node has the text of its question and its two
children (`yes`, `no`) or, where the figure ends, the number of nodes below it (`more`). On the path to the leaf, `way`
is the child that comes next, and `kept` is true if the rule kept that condition; the leaf itself is marked `leaf`.
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
from maabo_dist.trees.forest import CompactTree
from maabo_dist.trees.growth import LEAF
from maabo_dist.trees.training import TrainingTable, depth_search

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
        literals = (2 * feature + large for feature, large in rule.logic)
        self.bounds = dict(zip(literals, rule.bounds, strict=True))
        paths = _paths(tree)
        self.leaf = max(paths, key=lambda node: self._match_quality(node, paths[node]))
        self.path = {step.node: step for step in paths[self.leaf]}
        self.expanded = self._choose_expanded()
        self.root = self._node(0)

    def _match_quality(self, node: int, path: Sequence[_Step]) -> tuple[int, ...]:
        """How well a node matches the rule: its leaf without dropped conditions and with refitted thresholds."""
        bounds = {step.literal: step.bound for step in path}  # the last of a literal is the tightest
        others = {literal: bound for literal, bound in bounds.items() if literal not in self.bounds}
        extra = set(conditions_of(self.columns.features, list(others), list(others.values())))
        lost = len(extra & set(self.rule.dropped))
        same = sum(bounds.get(literal) == bound for literal, bound in self.bounds.items())
        return bounds.keys() >= self.bounds.keys(), lost, lost - len(extra), same, -abs(self.sizes[node] - self.rule.n)

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
        drawn: Node = {"counts": self.counts[node].tolist()}
        if node == self.leaf:
            drawn["leaf"] = True
        if tree.feature[node] == LEAF:
            return drawn
        drawn["text"] = self._question(node)
        if node not in self.expanded:
            return drawn | {"more": _count_below(tree, node)}
        left = int(tree.left[node])
        if node in self.path:
            literal = self.path[node].literal
            drawn |= {"way": "no" if literal % 2 else "yes", "kept": literal in self.bounds}
        return drawn | {"yes": self._node(left), "no": self._node(left + 1)}

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
