"""What a search did: the score of each tree, the best so far, and when the rules were found."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from maabo_dist.plots.palette import Palette
from maabo_dist.plots.paper import SMALL, new_axes, tidy
from maabo_dist.plots.shown import Shown, exhibits_of

_LABELS = ("random", "best so far")

History = Mapping[str, Any]


def plot_search(shown: Shown, ax: Axes | None = None, *, random: Shown | None = None) -> tuple[Axes, Axes]:
    """Scores, and below them, in a part cut from the same axes, the rules found so far.

    `random` is another search, such as a random one of the same table and budget, to be shown beside this one; without
    it, the one that the exhibits have, if any.
    """
    exhibits = exhibits_of(shown)
    history = exhibits["history"]
    other = exhibits["random"] if random is None else exhibits_of(random)["history"]
    above = ax or new_axes(6.4, 4.4)
    below = _cut(above)
    palette = tidy(above)
    tidy(below)
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
