"""Plots of the search: scores and rules by tree, and the features that its best trees use."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import Normal, withStroke
from matplotlib.ticker import MaxNLocator

from maabo_dist.plots import style
from maabo_dist.plots.inputs import Plottable, figures_of

MAX_NUMBERS = 10  # features of the pair plot up to which it has numbers

History = Mapping[str, Any]


def plot_search(result: Plottable, ax: Axes | None = None, *, random: Plottable | None = None) -> tuple[Axes, Axes]:
    """Plot the score of each tree and the best so far; below, the number of rules found so far.

    Parameters
    ----------
    result
        A fitted `RuleMiner`, figure data, or a document with its figure data.
    ax
        The axes to draw into, whose lower part becomes the second axes; by default, pyplot makes a figure.
    random
        Another search to compare with, such as a random one of the same table and budget. By default, the one in the
        figure data, if there is one.

    Returns
    -------
    tuple of Axes
        The axes with the scores and those with the rules.
    """
    figures = figures_of(result)
    history = figures["history"]
    other = figures["random"] if random is None else figures_of(random)["history"]
    above = ax or style.new_axes(6.4, 4.4)
    below = _split_axes(above)
    palette = style.prepare_axes(above)
    style.prepare_axes(below)
    numbers = [index + 1 for index in history["plotted"]]
    above.scatter(numbers, history["scores"], s=9, color=palette.faint, alpha=0.6, linewidths=0)
    if other is not None:
        dashed = {"color": palette.classes[1], "linewidth": 1.4, "linestyle": (0, (4, 2)), "label": "random"}
        _draw_history(above, below, other, dashed)
    _draw_history(above, below, history, {"color": palette.accent, "linewidth": 1.8, "label": "best so far"})
    if history["best"]:
        best = history["best"][-1][1]
        style.annotate(
            above, f"{best:.3f}", (history["trees"], best), (4, 0), color=palette.accent, annotation_clip=False
        )
    above.set_xlim(0, max(1, history["trees"], other["trees"] if other else 0))
    above.set_ylabel("macro F1")
    above.tick_params(labelbottom=False)
    below.set(xlabel="trees", ylabel="rules found")
    below.set_ylim(bottom=0)
    below.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    style.draw_grid(above, palette)
    style.draw_grid(below, palette)
    if other is not None:
        above.legend(frameon=False, fontsize=style.SMALL, labelcolor=palette.soft, ncols=2, **style.ABOVE_RIGHT)
    return above, below


def _split_axes(ax: Axes) -> Axes:
    """Move the axes to the upper part of their space and return new ones below; the current axes do not change."""
    figure = ax.figure
    root = figure.figure  # the figure that contains a subfigure
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


def _draw_history(above: Axes, below: Axes, history: History, options: Mapping[str, Any]) -> None:
    if history["best"]:
        numbers = [*(tree + 1 for tree, _ in history["best"]), history["trees"]]
        scores = [score for _, score in history["best"]]
        above.step(numbers, [*scores, scores[-1]], where="post", **options)
    counts = [0, *(count for _, count in history["rules"])]
    trees = [0, *(tree + 1 for tree, _ in history["rules"]), history["trees"]]
    below.step(trees, [*counts, counts[-1]], where="post", **options)


def plot_feature_use(result: Plottable, ax: Axes | None = None) -> Axes:
    """Plot the share of the best trees that use each feature (bar), and its share of all trees (tick).

    Parameters
    ----------
    result
        A fitted `RuleMiner`, figure data, or a document with its figure data.
    ax
        The axes to draw into; by default, pyplot makes a figure.

    Returns
    -------
    Axes
        The axes with the plot.
    """
    use = figures_of(result)["use"]
    features = use["features"]
    ax = ax or style.new_axes(6.0, 1.0 + 0.24 * len(features))
    palette = style.prepare_axes(ax, left=False)
    best = [feature["high"] / max(1, use["high"]) for feature in features]
    overall = [feature["trees"] / max(1, use["trees"]) for feature in features]
    rows = range(len(features))
    ax.barh(rows, best, height=0.6, color=palette.accent)
    ticks = ax.scatter(overall, rows, marker="|", s=90, linewidths=1.6, color=palette.ink, zorder=3)
    ticks.set_path_effects([withStroke(linewidth=3.4, foreground=ax.get_facecolor()), Normal()])
    for row in rows:
        style.annotate(
            ax, style.format_percent(best[row]), (max(best[row], overall[row]), row), (4, 0), color=palette.soft
        )
    style.label_rows(ax, [feature["name"] for feature in features])
    ax.tick_params(axis="y", labelcolor=palette.ink)
    ax.set_xlim(0, 1.12 * max([0.01, *best, *overall]))
    style.percent_axis(ax.xaxis)
    ax.set_xlabel(f"of the {use['high']:,} best trees (tick: of all {use['trees']:,})")
    return ax


def plot_pair_use(result: Plottable, ax: Axes | None = None) -> Axes:
    """Plot how many of the best trees use each two features together.

    Parameters
    ----------
    result
        A fitted `RuleMiner`, figure data, or a document with its figure data.
    ax
        The axes to draw into; by default, pyplot makes a figure.

    Returns
    -------
    Axes
        The axes with the plot.
    """
    use = figures_of(result)["use"]
    names = [feature["name"] for feature in use["features"]]
    ax = ax or style.new_axes(2.6 + 0.24 * len(names), 2.2 + 0.22 * len(names))
    palette = style.prepare_axes(ax, left=False, bottom=False)
    style.set_title(ax, f"Of the {use['high']:,} best trees, those that use both", palette)
    if not names:
        return ax
    # The upper half would repeat the lower, and the diagonal is the content of plot_feature_use.
    pairs = np.ma.masked_array(use["pairs"], np.triu(np.ones((len(names), len(names)), np.bool_)))
    highest = max(1, int(pairs.max())) if len(names) > 1 else 1
    numbers = len(names) <= MAX_NUMBERS
    image = style.draw_matrix(ax, pairs, highest, palette, masked="none", numbers=numbers)
    style.label_rows(ax, names)
    ax.set_xticks(range(len(names)), [style.shorten(name, 28) for name in names], rotation=90, **style.LITERAL)
    ax.tick_params(length=0, labelcolor=palette.ink)
    if not numbers:
        style.colour_bar(image, ax.inset_axes((0.75, 0.72, 0.03, 0.26)), [0, highest], palette)
    return ax
