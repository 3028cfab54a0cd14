"""The tree that a rule came from, with the way to its leaf lit."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path

from maabo_dist._util.text import printable
from maabo_dist.plots.conditions import Stack, stacked
from maabo_dist.plots.style import (
    LITERAL,
    SMALL,
    Palette,
    RuleName,
    Shown,
    figures_of,
    legend_above,
    new_axes,
    rule_of,
    set_title,
    style_axes,
)

Node = Mapping[str, Any]

MOST_SIGNS = 30
"""Of a question: as many as fit between a node and its children."""
_STEP = 2.2
"""Inches from a node to its children: the unit of the picture."""
_SIGN = 0.072 / _STEP
"""The width of a sign of small text."""
_BAR, _TALL = 0.22, 0.26
_THRESHOLD = 11
"""Signs at the end of a long question that stay."""


@dataclass(frozen=True, slots=True)
class Spot:
    """A node in its place: `depth` from the left, `row` from the top."""

    node: Node
    depth: int
    row: float
    children: tuple["Spot", ...]

    def all(self) -> Iterator["Spot"]:
        """The spot and those below it."""
        yield self
        for child in self.children:
            yield from child.all()


def plot_tree(shown: Shown, rule: RuleName, ax: Axes | None = None) -> Axes:
    """Bars are class counts, numbers training rows, upwards is yes; dashed: a condition that the rule does without."""
    told, entry = rule_of(shown, rule)
    classes = figures_of(shown)["classes"]
    top = placed(entry["tree"])
    spots = list(top.all())
    deep, rows = max(spot.depth for spot in spots), max(spot.row for spot in spots)
    ax = ax or new_axes(1.3 + _STEP * deep, 0.9 + 0.46 * rows)
    palette = style_axes(ax, left=False, bottom=False)
    own = classes.index(told.label) if told.label in classes else len(classes)
    for spot in spots:
        for number, child in enumerate(spot.children):
            _edge(ax, spot, child, palette, side="no" if number else "yes")
    for spot in spots:
        _draw(ax, spot, stacked(own, len(classes), palette), palette)
    ax.set(xticks=[], yticks=[], xlim=(-0.05, deep + 0.6), ylim=(rows + 0.5, -0.75))
    set_title(ax, f"{told.id}, from tree {told.source.tree + 1:,}", palette)
    legend_above(ax, [name or "others" for name in classes], palette)
    return ax


def placed(node: Node) -> Spot:
    """Leaves on rows of their own, a parent halfway between its children."""
    return _placed(node, 0, iter(range(1_000_000)))


def _placed(node: Node, depth: int, rows: Iterator[int]) -> Spot:
    children = tuple(_placed(node[side], depth + 1, rows) for side in ("yes", "no") if side in node)
    row = sum(child.row for child in children) / 2 if children else float(next(rows))
    return Spot(node, depth, row, children)


def _count(node: Node) -> str:
    more = f" +{node['more']}" if node.get("more") else ""
    return f"{sum(node['counts']):,}{more}"


def _edge(ax: Axes, spot: Spot, child: Spot, palette: Palette, *, side: str) -> None:
    start, end = spot.depth + _BAR + 0.05 + _SIGN * len(_count(spot.node)), child.depth - 0.03
    middle = start + 0.3 * (end - start)
    lit = spot.node.get("way") == side
    path = Path(
        [(start, spot.row), (middle + 0.1, spot.row), (middle, child.row), (end, child.row)],
        [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
    )
    ax.add_patch(
        PathPatch(
            path,
            fill=False,
            edgecolor=palette.accent if lit else palette.rule,
            linewidth=2.4 if lit else 1.0,
            linestyle=(0, (2, 1.5)) if lit and not spot.node["kept"] else "solid",
            zorder=2 if lit else 1,
            gid="lit" if lit else "edge",
        )
    )


def _draw(ax: Axes, spot: Spot, stack: Stack, palette: Palette) -> None:
    counts = spot.node["counts"]
    x, total = float(spot.depth), max(1, sum(counts))
    for group, colour in stack:
        width = _BAR * counts[group] / total
        bar = Rectangle((x, spot.row - _TALL / 2), width, _TALL, color=colour, linewidth=0, zorder=3)
        bar.set_gid(f"class {group}")
        ax.add_patch(bar)
        x += width
    beside = 0.06 if spot.node.get("leaf") else 0.02
    ax.text(
        spot.depth + _BAR + beside,
        spot.row,
        _count(spot.node),
        va="center",
        fontsize=SMALL,
        color=palette.soft,
        zorder=4,
    )
    if spot.node.get("leaf"):
        _box(ax, spot, palette)
    if "text" in spot.node:
        ax.text(
            spot.depth,
            spot.row - _TALL / 2 - (0.14 if spot.node.get("leaf") else 0.08),
            _question(spot.node["text"]),
            va="bottom",
            fontsize=SMALL,
            fontweight="bold" if "way" in spot.node else "normal",
            color=palette.ink,
            zorder=4,
            bbox={"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 0.4, "alpha": 0.85},
            **LITERAL,
        )


def _question(text: str) -> str:
    """A long one loses the middle: the end has the threshold."""
    text = printable(text)
    if len(text) <= MOST_SIGNS:
        return text
    return f"{text[: MOST_SIGNS - _THRESHOLD - 1]}…{text[-_THRESHOLD:]}"


def _box(ax: Axes, spot: Spot, palette: Palette) -> None:
    """Around the leaf of the rule."""
    box = FancyBboxPatch(
        (spot.depth, spot.row - _TALL / 2),
        _BAR,
        _TALL,
        boxstyle="round,pad=0.035",
        mutation_aspect=3,
        fill=False,
        edgecolor=palette.accent,
        linewidth=1.8,
        zorder=4,
        gid="leaf",
    )
    ax.add_patch(box)
