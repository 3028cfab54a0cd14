"""How similar rules are, two by two."""

from base64 import b64decode
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from maabo_dist.errors import SettingsError
from maabo_dist.plots.palette import Palette
from maabo_dist.plots.paper import LITERAL, SMALL, entitle, new_axes, scale, tidy
from maabo_dist.plots.shown import Shown, exhibits_of
from maabo_dist.report.exhibits import Exhibits

MOST_NUMBERS, MOST_NAMED = 12, 40

_TITLES = {"logic": "Conditions that two rules share", "rows": "Rows that two rules both cover"}


def plot_similarity(shown: Shown, ax: Axes | None = None, *, by: Literal["logic", "rows"] = "logic") -> Axes:
    """Percent of the smaller of two rules that is in the other; similar rules stand together."""
    if by not in _TITLES:
        raise SettingsError(f"Similarity is by 'logic' (conditions) or by 'rows', not by {by!r}.")
    exhibits = exhibits_of(shown)
    square = similarity_of(exhibits, by)
    order = beside_the_most_similar(square)
    ids = [exhibits["rules"][place]["id"] for place in order]
    side = min(6.4, 1.6 + 0.32 * len(ids))
    ax = ax or new_axes(max(3.2, side + 1.2), max(2.8, side))
    palette = tidy(ax, left=False, bottom=False)
    entitle(ax, _TITLES[by], palette)
    _squares(ax, square[np.ix_(order, order)], palette)
    _names(ax, ids)
    return ax


def similarity_of(exhibits: Exhibits, by: str) -> npt.NDArray[np.uint8]:
    """(rules, rules): percent."""
    size = len(exhibits["rules"])
    return np.frombuffer(b64decode(exhibits["similarity"][by]), np.uint8).reshape(size, size)


def beside_the_most_similar(square: npt.NDArray[np.uint8]) -> list[int]:
    """Places in an order in which each stands beside the most similar of those that are left."""
    left = list(range(len(square)))
    order = left[:1]
    while len(order) < len(square):
        left.remove(order[-1])
        order.append(max(left, key=lambda place: (square[order[-1], place], -place)))
    return order


def _squares(ax: Axes, values: npt.NDArray[np.uint8], palette: Palette) -> None:
    if not len(values):
        return
    # A rule is always like itself: the diagonal would outshine what there is to see.
    masked = np.ma.masked_array(values, np.eye(len(values), dtype=np.bool_))
    heat = LinearSegmentedColormap.from_list("heat", [palette.grid, palette.accent]).with_extremes(bad=palette.rule)
    image = ax.imshow(masked, cmap=heat, vmin=0, vmax=100, interpolation="nearest")
    if len(values) <= MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(values):
            if row != column and value:
                _number(ax, row, column, int(value), palette)
        return
    scale(image, ax.inset_axes((1.03, 0.7, 0.025, 0.3)), [0, 50, 100], palette, " %")


def _number(ax: Axes, row: int, column: int, value: int, palette: Palette) -> None:
    colour: Any = ax.get_facecolor() if value > 50 else palette.ink
    ax.text(column, row, str(value), ha="center", va="center", fontsize=SMALL, color=colour)


def _names(ax: Axes, ids: list[str]) -> None:
    places = range(len(ids)) if len(ids) <= MOST_NAMED else []
    names = ids if len(ids) <= MOST_NAMED else []
    size = SMALL if len(ids) <= 25 else 5.5
    ax.set_xticks(places, names, rotation=90, fontsize=size, **LITERAL)
    ax.set_yticks(places, names, fontsize=size, **LITERAL)
    ax.tick_params(length=0)
