"""What a search did: the score of each tree, the best so far, and when the rules were found."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patheffects import Normal, withStroke
from matplotlib.ticker import MaxNLocator

from maabo_dist.plots.style import (
    LITERAL,
    SMALL,
    Palette,
    Shown,
    figures_of,
    name_rows,
    new_axes,
    percent,
    percent_axis,
    scale,
    set_title,
    shortened,
    style_axes,
)

_LABELS = ("random", "best so far")

History = Mapping[str, Any]


def plot_search(shown: Shown, ax: Axes | None = None, *, random: Shown | None = None) -> tuple[Axes, Axes]:
    """Scores, and below them, in a part cut from the same axes, the rules found so far.

    `random` is another search, such as a random one of the same table and budget, to be shown beside this one; without
    it, the one that the figures have, if any.
    """
    figures = figures_of(shown)
    history = figures["history"]
    other = figures["random"] if random is None else figures_of(random)["history"]
    above = ax or new_axes(6.4, 4.4)
    below = _cut(above)
    palette = style_axes(above)
    style_axes(below)
    above.scatter(_numbers(history["shown"]), history["scores"], s=9, color=palette.faint, alpha=0.6, linewidths=0)
    if other is not None:
        dashed: dict[str, Any] = {"color": palette.classes[1], "linewidth": 1.4, "linestyle": (0, (4, 2))}
        _best(above, other, _LABELS[0], dashed)
        _found(below, other, _LABELS[0], dashed)
    solid: dict[str, Any] = {"color": palette.accent, "linewidth": 1.8}
    _best(above, history, _LABELS[1], solid)
    _found(below, history, _LABELS[1], solid)
    _tell_best(above, history, palette)
    _frame(above, below, max(history["trees"], other["trees"] if other else 0), palette)
    if other is not None:
        place: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": 2, "borderaxespad": 0}
        above.legend(frameon=False, fontsize=SMALL, labelcolor=palette.soft, **place)
    return above, below


def _cut(ax: Axes) -> Axes:
    """New axes in the lower part of the room that these had; which axes are the current ones stays."""
    figure = ax.figure
    root = figure.figure  # of a subfigure, that which holds it
    current = root.gca()
    spec = ax.get_subplotspec()
    if spec is None:
        box = ax.get_position(original=True)
        ax.set_position((box.x0, box.y0 + 0.36 * box.height, box.width, 0.64 * box.height))
        below = figure.add_axes((box.x0, box.y0, box.width, 0.28 * box.height), sharex=ax)
    else:
        parts = spec.subgridspec(2, 1, height_ratios=(7, 3))
        ax.set_subplotspec(parts[0])
        below = figure.add_subplot(parts[1], sharex=ax)
    root.sca(current)
    return below


def _numbers(places: list[int]) -> list[int]:
    """Trees count from 1 where people read."""
    return [place + 1 for place in places]


def _best(ax: Axes, history: History, label: str, style: Mapping[str, Any]) -> None:
    if history["shown"]:
        best = np.maximum.accumulate(history["scores"])
        trees = [*_numbers(history["shown"]), history["trees"]]
        ax.step(trees, [*best, best[-1]], where="post", label=label, **style)


def _tell_best(ax: Axes, history: History, palette: Palette) -> None:
    if history["scores"]:
        best = max(history["scores"])
        ax.annotate(
            f"{best:.3f}",
            (history["trees"], best),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=palette.accent,
            annotation_clip=False,
        )


def _found(ax: Axes, history: History, label: str, style: Mapping[str, Any]) -> None:
    counts = [0, *(count for _, count in history["found"])]
    trees = [0, *(tree + 1 for tree, _ in history["found"]), history["trees"]]
    ax.step(trees, [*counts, counts[-1]], where="post", label=label, **style)


def _frame(above: Axes, below: Axes, trees: int, palette: Palette) -> None:
    above.set_xlim(0, max(1, trees))
    above.set_ylabel("macro F1")
    above.tick_params(labelbottom=False)
    below.set_ylabel("rules found")
    below.set_xlabel("trees")
    below.set_ylim(bottom=0)
    below.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    for ax in (above, below):
        ax.grid(axis="y", color=palette.grid, linewidth=0.8)
        ax.set_axisbelow(True)


MOST_NUMBERS = 10


def plot_feature_use(shown: Shown, ax: Axes | None = None) -> Axes:
    """The share of the best trees that use a feature (bar), beside its share of all trees (tick)."""
    use = figures_of(shown)["use"]
    features = use["features"]
    ax = ax or new_axes(6.0, 1.0 + 0.24 * len(features))
    palette = style_axes(ax, left=False)
    high = [feature["high"] / max(1, use["high"]) for feature in features]
    everywhere = [feature["trees"] / max(1, use["trees"]) for feature in features]
    ax.barh(range(len(features)), high, height=0.6, color=palette.accent)
    ax.scatter(
        everywhere, range(len(features)), marker="|", s=90, linewidths=1.6, color=palette.ink, zorder=3
    ).set_path_effects([withStroke(linewidth=3.4, foreground=ax.get_facecolor()), Normal()])
    for row, shares in enumerate(zip(high, everywhere, strict=True)):
        ax.annotate(
            percent(high[row]),
            (max(shares), row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=palette.soft,
        )
    name_rows(ax, [feature["name"] for feature in features])
    ax.tick_params(axis="y", labelcolor=palette.ink)
    ax.set_xlim(0, 1.12 * max([0.01, *high, *everywhere]))
    percent_axis(ax.xaxis)
    ax.set_xlabel(f"of the {use['high']:,} best trees (tick: of all {use['trees']:,})")
    return ax


def plot_pair_use(shown: Shown, ax: Axes | None = None) -> Axes:
    """How many of the best trees use two features together: a square for each two."""
    use = figures_of(shown)["use"]
    names = [feature["name"] for feature in use["features"]]
    ax = ax or new_axes(2.6 + 0.24 * len(names), 2.2 + 0.22 * len(names))
    palette = style_axes(ax, left=False, bottom=False)
    set_title(ax, f"Of the {use['high']:,} best trees, those that use both", palette)
    if not names:
        return ax
    # The other half would say the same again, and the diagonal what plot_feature_use says.
    pairs = np.ma.masked_array(use["pairs"], np.triu(np.ones((len(names), len(names)), np.bool_)))
    heat = LinearSegmentedColormap.from_list("pairs", [palette.grid, palette.accent]).with_extremes(bad="none")
    most = max(1, int(pairs.max())) if len(names) > 1 else 1
    image = ax.imshow(pairs, cmap=heat, vmin=0, vmax=most, interpolation="nearest")
    name_rows(ax, names)
    ax.set_xticks(range(len(names)), [shortened(name, 28) for name in names], rotation=90, **LITERAL)
    ax.tick_params(length=0, labelcolor=palette.ink)
    if len(names) > MOST_NUMBERS:
        scale(image, ax.inset_axes((0.75, 0.72, 0.03, 0.26)), [0, most], palette)
        return ax
    for column, row in combinations(range(len(names)), 2):
        count = use["pairs"][row][column]
        if count:
            colour = ax.get_facecolor() if count > most / 2 else palette.ink
            ax.text(column, row, f"{count:,}", ha="center", va="center", fontsize=SMALL, color=colour)
    return ax
