"""Which features, and which two together, the best trees of a search use."""

from itertools import combinations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patheffects import Normal, withStroke

from maabo_dist.plots.paper import (
    LITERAL,
    SMALL,
    entitle,
    in_percent,
    name_rows,
    new_axes,
    percent,
    scale,
    shortened,
    tidy,
)
from maabo_dist.plots.shown import Shown, exhibits_of

MOST_NUMBERS = 10


def plot_feature_use(shown: Shown, ax: Axes | None = None) -> Axes:
    """The share of the best trees that use a feature (bar), beside its share of all trees (tick)."""
    use = exhibits_of(shown)["use"]
    features = use["features"]
    ax = ax or new_axes(6.0, 1.0 + 0.24 * len(features))
    palette = tidy(ax, left=False)
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
    in_percent(ax.xaxis)
    ax.set_xlabel(f"of the {use['high']:,} best trees (tick: of all {use['trees']:,})")
    return ax


def plot_pair_use(shown: Shown, ax: Axes | None = None) -> Axes:
    """How many of the best trees use two features together: a square for each two."""
    use = exhibits_of(shown)["use"]
    names = [feature["name"] for feature in use["features"]]
    ax = ax or new_axes(2.6 + 0.24 * len(names), 2.2 + 0.22 * len(names))
    palette = tidy(ax, left=False, bottom=False)
    entitle(ax, f"Of the {use['high']:,} best trees, those that use both", palette)
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
