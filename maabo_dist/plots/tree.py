"""The tree that a rule was read from, with the path to its leaf highlighted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path

from maabo_dist._util.text import printable
from maabo_dist.plots import style
from maabo_dist.plots.histograms import Stack, class_stack
from maabo_dist.plots.inputs import Plottable, RuleName, figures_of, rule_of

Node = Mapping[str, Any]

MAX_CHARACTERS = 30  # length of a condition that fits between a node and its children
_STEP = 2.2  # inches from a node to its children: the unit of the plot
_CHARACTER = 0.072 / _STEP  # width of a character of small text
_BAR_WIDTH, _BAR_HEIGHT = 0.22, 0.26
_KEPT_END = 11  # characters at the end of a long condition that are kept


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node with its position: `depth` from the left, `row` from the top."""

    node: Node
    depth: int
    row: float
    children: tuple["PlacedNode", ...]

    def descendants(self) -> Iterator["PlacedNode"]:
        """The node and all nodes below it."""
        yield self
        for child in self.children:
            yield from child.descendants()


def plot_tree(result: Plottable, rule: RuleName, ax: Axes | None = None) -> Axes:
    """Plot the tree that a rule was read from, with the path to its leaf highlighted.

    Bars are class counts, numbers are training rows, and the upper branch of a node is "yes". A dashed edge is a
    condition that was dropped from the rule.

    Parameters
    ----------
    result
        A fitted `RuleMiner`, or a document with its figure data.
    rule
        The rule, its id such as `"R1"`, or its index from 0.
    ax
        The axes to draw into; by default, pyplot makes a figure.

    Returns
    -------
    Axes
        The axes with the plot.
    """
    record, entry = rule_of(result, rule)
    classes = figures_of(result)["classes"]
    nodes = list(place_nodes(entry["tree"]).descendants())
    depth, rows = max(node.depth for node in nodes), max(node.row for node in nodes)
    ax = ax or style.new_axes(1.3 + _STEP * depth, 0.9 + 0.46 * rows)
    palette = style.prepare_axes(ax, left=False, bottom=False)
    stack = class_stack(record, classes, palette)
    for node in nodes:
        for number, child in enumerate(node.children):
            _draw_edge(ax, node, child, palette, side="no" if number else "yes")
    for node in nodes:
        _draw_node(ax, node, stack, palette)
    ax.set(xticks=[], yticks=[], xlim=(-0.05, depth + 0.6), ylim=(rows + 0.5, -0.75))
    style.set_title(ax, f"{record.id}, from tree {record.source.tree + 1:,}", palette)
    style.class_legend(ax, [name or "others" for name in classes], palette, **style.ABOVE_RIGHT)
    return ax


def place_nodes(node: Node, depth: int = 0, rows: Iterator[int] | None = None) -> PlacedNode:
    """Place each leaf on the next of the `rows`, and a parent halfway between its children."""
    rows = rows or count()
    children = tuple(place_nodes(node[side], depth + 1, rows) for side in ("yes", "no") if side in node)
    row = sum(child.row for child in children) / 2 if children else float(next(rows))
    return PlacedNode(node, depth, row, children)


def _count_text(node: Node) -> str:
    more = f" +{node['more']}" if node.get("more") else ""
    return f"{sum(node['counts']):,}{more}"


def _draw_edge(ax: Axes, parent: PlacedNode, child: PlacedNode, palette: style.Palette, *, side: str) -> None:
    start = parent.depth + _BAR_WIDTH + 0.05 + _CHARACTER * len(_count_text(parent.node))
    end = child.depth - 0.03
    middle = start + 0.3 * (end - start)
    path = Path(
        [(start, parent.row), (middle + 0.1, parent.row), (middle, child.row), (end, child.row)],
        [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
    )
    options: dict[str, Any] = {"edgecolor": palette.rule, "linewidth": 1.0, "zorder": 1, "gid": "edge"}
    if parent.node.get("way") == side:
        options = {"edgecolor": palette.accent, "linewidth": 2.4, "zorder": 2, "gid": "path"}
        options["linestyle"] = "solid" if parent.node["kept"] else (0, (2, 1.5))
    ax.add_patch(PathPatch(path, fill=False, **options))


def _draw_node(ax: Axes, placed: PlacedNode, stack: Stack, palette: style.Palette) -> None:
    node, counts = placed.node, placed.node["counts"]
    x, top, total = float(placed.depth), placed.row - _BAR_HEIGHT / 2, max(1, sum(counts))
    for group, colour in stack:
        width = _BAR_WIDTH * counts[group] / total
        bar = Rectangle((x, top), width, _BAR_HEIGHT, color=colour, linewidth=0, zorder=3)
        bar.set_gid(f"class {group}")
        ax.add_patch(bar)
        x += width
    is_leaf = bool(node.get("leaf"))
    text: dict[str, Any] = {"fontsize": style.SMALL, "zorder": 4}
    right = placed.depth + _BAR_WIDTH + (0.06 if is_leaf else 0.02)
    ax.text(right, placed.row, _count_text(node), va="center", color=palette.soft, **text)
    if is_leaf:
        options: dict[str, Any] = {"edgecolor": palette.accent, "linewidth": 1.8, "zorder": 4, "gid": "leaf"}
        options |= {"boxstyle": "round,pad=0.035", "mutation_aspect": 3, "fill": False}
        ax.add_patch(FancyBboxPatch((placed.depth, top), _BAR_WIDTH, _BAR_HEIGHT, **options))
    if "text" in node:
        background = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 0.4, "alpha": 0.85}
        weight = "bold" if "way" in node else "normal"
        above = top - (0.14 if is_leaf else 0.08)
        text |= {"va": "bottom", "fontweight": weight, "color": palette.ink, "bbox": background}
        condition = printable(node["text"])
        if len(condition) > MAX_CHARACTERS:  # the middle is cut out, because the end has the threshold
            condition = f"{condition[: MAX_CHARACTERS - _KEPT_END - 1]}…{condition[-_KEPT_END:]}"
        ax.text(placed.depth, above, condition, **text, **style.LITERAL)
