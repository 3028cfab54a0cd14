"""Plots of a single rule: the histograms of its columns, and the tree that it was read from.

Histograms are by class, with the values that satisfy the rule highlighted; in the tree, the path to the leaf is.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import inf
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, PathPatch, Rectangle
from matplotlib.path import Path

from maabo_dist._util.text import printable
from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.contract.wording import conditions_text, number_text
from maabo_dist.errors import SettingsError
from maabo_dist.plots import style
from maabo_dist.plots.inputs import Plottable, RuleName, figures_of, rule_of

WIDTH, HEIGHT, MAX_COLUMNS = 3.3, 2.0, 3  # size of one histogram in inches, and how many are side by side

_DIMMED = 0.28  # opacity of the values that do not satisfy the conditions

Stack = Sequence[tuple[int, str]]  # groups of classes with their colours, from the axis upwards
Values = npt.NDArray[np.float64]
Edges = tuple[Values, Values]  # where bars begin and end


class ColumnHistogram(NamedTuple):
    """A histogram, and the conditions of a rule on its column."""

    data: Mapping[str, Any]
    conditions: list[Condition]


def plot_rule(result: Plottable, rule: RuleName, ax: Axes | Sequence[Axes] | None = None) -> list[Axes]:
    """Plot the histogram by class of each column of a rule, with the values that satisfy the rule highlighted.

    Parameters
    ----------
    result
        A fitted `RuleMiner`, or a document with its figure data.
    rule
        The rule, its id such as `"R1"`, or its index from 0.
    ax
        As many axes as the rule has columns; by default, pyplot makes a figure.

    Returns
    -------
    list of Axes
        One axes for each column. The class of the rule is at the bottom of its bars.
    """
    record, entry = rule_of(result, rule)
    figures = figures_of(result)
    classes = figures["classes"]
    conditions: dict[int, list[Condition]] = {}
    for condition, index in zip(record.premise, entry["histograms"], strict=True):
        conditions.setdefault(index, []).append(condition)
    histograms = [ColumnHistogram(figures["histograms"][index], each) for index, each in conditions.items()]
    axes = _new_axes(histograms, record, classes) if ax is None else _check_axes(ax, len(histograms), record.id)
    for each, histogram in zip(axes, histograms, strict=True):
        is_levels = histogram.data["kind"] == "levels"
        palette = style.prepare_axes(each, left=False, bottom=not is_levels)
        (_draw_levels if is_levels else _draw_numbers)(each, histogram, class_stack(record, classes, palette), palette)
        style.set_title(each, style.shorten(conditions_text(histogram.conditions), 44), palette)
        _label_missing(each, histogram.data)
    return axes


def class_stack(rule: RuleRecord, classes: Sequence[str | None], palette: style.Palette) -> Stack:
    """The groups of classes with their colours, the rule's own class first."""
    count = len(classes)
    own = classes.index(rule.label) if rule.label in classes else count
    order = sorted(range(count), key=lambda group: (group != own, group))
    return [(group, palette.class_colour(group, own, count)) for group in order]


def _new_axes(histograms: Sequence[ColumnHistogram], rule: RuleRecord, classes: Sequence[str | None]) -> list[Axes]:
    levels = max((len(each.data.get("levels", ())) for each in histograms), default=0)
    axes = style.new_grid(len(histograms), WIDTH, max(HEIGHT, 0.7 + 0.2 * levels), MAX_COLUMNS)
    if axes:
        text = fill(printable(rule.text), 46 * min(MAX_COLUMNS, len(axes)), max_lines=3, placeholder=" …")
        figure, palette = axes[0].figure.figure, style.palette_for(axes[0])
        names = [name or "others" for name in classes]
        style.class_legend(figure, names, palette, loc="outside lower left")
        figure.suptitle(
            f"{rule.id}: {text}", x=0.01, ha="left", fontsize=style.MEDIUM, color=palette.ink, **style.LITERAL
        )
    return axes


def _check_axes(ax: Axes | Sequence[Axes], count: int, name: str) -> list[Axes]:
    axes = [ax] if isinstance(ax, Axes) else list(np.ravel(np.asarray(ax, dtype=object)))
    if len(axes) != count:
        raise SettingsError(f"{name} has conditions on {count} columns; ax has {len(axes)} axes. Pass {count}.")
    return axes


def _draw_numbers(ax: Axes, histogram: ColumnHistogram, stack: Stack, palette: style.Palette) -> None:
    conditions = histogram.conditions
    low = max(
        (
            # A whole number of at least 3 is above 2.5.
            each.value - (0.5 if each.op is Op.AT_LEAST else 0)
            for each in conditions
            if each.op in {Op.ABOVE, Op.AT_LEAST} and isinstance(each.value, float | int)
        ),
        default=-inf,
    )
    high = min(
        (each.value for each in conditions if each.op is Op.AT_MOST and isinstance(each.value, float | int)),
        default=inf,
    )
    counts = np.array(histogram.data["counts"])
    edges, pieces = _bars(histogram.data, counts.shape[1], low, high)
    left, right = float(edges[0].min()), float(edges[1].max())
    pad = 0.02 * (right - left)
    ax.set_xlim(left - pad, right + pad)
    ax.axvspan(max(low, left - pad), min(high, right + pad), color=palette.tint, linewidth=0, zorder=0)
    bottom = np.zeros(counts.shape[1])
    for group, colour in stack:
        for starts, ends, satisfied in pieces:
            visible = (ends > starts) & (counts[group] > 0)
            bars = (starts[visible], counts[group][visible], (ends - starts)[visible], bottom[visible])
            options: dict[str, Any] = {"color": colour, "alpha": 1 if satisfied else _DIMMED, "linewidth": 0}
            ax.bar(*bars, align="edge", gid=f"class {group}", **options)
        bottom += counts[group]
    ax.set_ylim(0, 1.18 * max(1, bottom.max()))
    ax.set_yticks([])
    ax.locator_params(axis="x", nbins=5)
    _draw_thresholds(ax, [low, high], palette)


def _bars(
    data: Mapping[str, Any], count: int, low: float, high: float
) -> tuple[Edges, list[tuple[Values, Values, bool]]]:
    """The edges of all bars, and their pieces: starts, ends, and whether they satisfy the conditions.

    A bar for a single value satisfies the conditions or not; one for an interval is cut at the thresholds.
    """
    if data["kind"] == "values":
        values = np.array(data["values"], np.float64)
        width = 0.7 * float(np.diff(values).min()) if len(values) > 1 else 1.0
        width = max(width, 0.008 * float(values[-1] - values[0]))
        starts, ends = values - width / 2, values + width / 2
        satisfied = (values > low) & (values <= high)
        pieces = [(starts, np.where(satisfied, ends, starts), True), (starts, np.where(satisfied, starts, ends), False)]
        return (starts, ends), pieces
    edges = np.linspace(data["low"], data["high"], count + 1)
    starts, ends = edges[:-1], edges[1:]
    return (starts, ends), [
        (starts, np.minimum(ends, low), False),
        (np.maximum(starts, low), np.minimum(ends, high), True),
        (np.maximum(starts, high), ends, False),
    ]


def _draw_thresholds(ax: Axes, bounds: Sequence[float], palette: style.Palette) -> None:
    both = bool(np.isfinite(bounds).all())
    left, right = ax.get_xlim()
    options: dict[str, Any] = {"fontweight": "bold", "color": palette.ink, "va": "top"}
    for side, value in zip(("right", "left"), bounds, strict=True):
        if not np.isfinite(value):
            continue
        ax.axvline(value, ymax=0.87, color=palette.ink, linewidth=1.2)
        share = (value - left) / (right - left)
        outwards = side if both else "center"
        anchor = "left" if share < 0.15 else "right" if share > 0.85 else outwards
        offset = ({"left": 3, "right": -3, "center": 0}[anchor], -1)
        style.annotate(
            ax, number_text(value, 5), (value, 1), offset, xycoords=ax.get_xaxis_transform(), ha=anchor, **options
        )


_HOLDS: dict[Op, Callable[[str | None, object], bool]] = {
    Op.IS: lambda level, value: level == value,
    Op.IS_NOT: lambda level, value: level != value,
    Op.IN: lambda level, value: isinstance(value, tuple) and level in value,
    Op.NOT_IN: lambda level, value: not isinstance(value, tuple) or level not in value,
    Op.IS_MISSING: lambda level, _: level == "missing",
    Op.IS_PRESENT: lambda level, _: level == "present",
}


def _draw_levels(ax: Axes, histogram: ColumnHistogram, stack: Stack, palette: style.Palette) -> None:
    levels, counts = histogram.data["levels"], np.array(histogram.data["counts"])
    satisfied = [all(_HOLDS[each.op](level, each.value) for each in histogram.conditions) for level in levels]
    start = np.zeros(len(levels))
    for group, colour in stack:
        bars = ax.barh(range(len(levels)), counts[group], 0.66, start, color=colour, linewidth=0, gid=f"class {group}")
        for bar, holds in zip(bars, satisfied, strict=True):
            bar.set_alpha(1 if holds else _DIMMED)
        start += counts[group]
    for row, total in enumerate(start):
        style.annotate(ax, f"{int(total):,}", (total, row), (4, 0), color=palette.soft)
    style.label_rows(ax, ["other or missing" if level is None else level for level in levels], 18)
    for label, holds in zip(ax.get_yticklabels(), satisfied, strict=True):
        label.set(fontweight="bold" if holds else "normal", color=palette.ink if holds else palette.soft)
    ax.set_xlim(0, 1.2 * max(1, start.max()))
    ax.set_xticks([])


def _label_missing(ax: Axes, data: Mapping[str, Any]) -> None:
    if data["missing"]:
        cells = "1 missing cell" if data["missing"] == 1 else f"{data['missing']:,} missing cells"
        value = data.get("fill")
        shown = "counts" if data["missing"] == 1 else "count"
        use = f"{shown} as {'one of these' if value is None else number_text(value, 5)}"
        ax.set_xlabel(f"{cells} {'not shown' if data.get('apart') else use}", fontsize=style.SMALL)


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
    if parent.node.get("next") == side:
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
        weight = "bold" if "next" in node else "normal"
        above = top - (0.14 if is_leaf else 0.08)
        text |= {"va": "bottom", "fontweight": weight, "color": palette.ink, "bbox": background}
        condition = printable(node["text"])
        if len(condition) > MAX_CHARACTERS:  # the middle is cut out, because the end has the threshold
            condition = f"{condition[: MAX_CHARACTERS - _KEPT_END - 1]}…{condition[-_KEPT_END:]}"
        ax.text(placed.depth, above, condition, **text, **style.LITERAL)
