"""Which rows which rules cover."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.transforms import offset_copy

from maabo_dist.errors import SettingsError
from maabo_dist.plots.style import (
    LITERAL,
    SMALL,
    Palette,
    Shown,
    class_legend,
    figures_of,
    name_rows,
    new_axes,
    percent,
    scale,
    set_title,
    style_axes,
)
from maabo_dist.report.figures import FigureData

MOST_NAMED = 60
MOST_COLUMNS = 700
"""Columns of the picture; of more rows, several share one, which is as dark as the share of them that is covered."""
PARTS = {"train": "training", "validation": "validation", "holdout": "held out"}

_GAP = 0.006
"""Between groups, as a share of the width."""
_FAINTEST = 0.15
"""Of a column with any covered row: it must be seen."""
_SIGN = 0.0105
"""About the width of a sign of small text, as a share of that of the axes."""


def plot_coverage(shown: Shown, ax: Axes | None = None) -> Axes:
    """A line a rule, a column a row of the table in the colour of its class; in groups by part and class.

    Rows that the same rules cover stand together. Of a large table a share of each group is drawn.
    """
    figures = figures_of(shown)
    ids = [entry["id"] for entry in figures["rules"]]
    ax = ax or new_axes(8.6, min(9.0, 1.3 + 0.19 * len(ids)))
    palette = style_axes(ax, left=False, bottom=False)
    groups = figures["coverage"]["groups"]
    starts = _starts(groups, figures["coverage"]["shown"])
    covered, first = coverage_of(figures), 0
    for group, start in zip(groups, starts, strict=True):
        colour = palette.of_class(group["class"], group["class"], len(figures["classes"]))
        most = max(1, MOST_COLUMNS * group["shown"] // figures["coverage"]["shown"])
        _group(ax, covered[:, first : first + group["shown"]], most, start, (palette.grid, colour))
        first += group["shown"]
    ax.set_xlim(0, max(1.0, starts[-1] + groups[-1]["shown"]))
    ax.set_xticks([])
    name_rows(ax, ids if len(ids) <= MOST_NAMED else [])
    ax.set_ylim(max(1, len(ids)) - 0.5, -0.5)
    _heads(ax, groups, starts, palette)
    _foot(ax, figures, palette)
    return ax


def coverage_of(figures: FigureData) -> npt.NDArray[np.uint8]:
    """(rules, rows shown): 1 where a rule covers a row."""
    packed = np.frombuffer(b64decode(figures["coverage"]["bits"]), np.uint8)
    count, shown = len(figures["rules"]), figures["coverage"]["shown"]
    return np.unpackbits(packed.reshape(count, -1), axis=1)[:, :shown] if count else np.zeros((0, shown), np.uint8)


def _starts(groups: Sequence[Mapping[str, Any]], shown: int) -> list[float]:
    """Where each group begins."""
    sizes = np.array([group["shown"] for group in groups], np.float64)
    starts: list[float] = (np.cumsum(sizes) - sizes + _GAP * shown * np.arange(len(sizes))).tolist()
    return starts


def _group(ax: Axes, covered: npt.NDArray[np.uint8], most: int, start: float, colours: tuple[str, str]) -> None:
    rules, rows = covered.shape
    end = start + rows
    if rules and rows:
        ax.imshow(
            _columns(covered, most),
            cmap=LinearSegmentedColormap.from_list("covered", colours),
            vmin=0,
            vmax=1,
            aspect="auto",
            interpolation="nearest",
            extent=(start, end, rules - 0.5, -0.5),
        )
    for line in range(1, rules) if rules <= MOST_NAMED else ():
        ax.plot([start, end], [line - 0.5] * 2, color=ax.get_facecolor(), linewidth=1)
    above = offset_copy(ax.get_xaxis_transform(), ax.figure.figure, 0, 4, units="points")
    ax.plot([start, end], [1, 1], color=colours[1], linewidth=3, solid_capstyle="butt", clip_on=False, transform=above)


def _columns(covered: npt.NDArray[np.uint8], most: int) -> npt.NDArray[Any]:
    """(rules, columns): the covered share of the rows of each column; as they are where there is room for all."""
    rows = covered.shape[1]
    if rows <= most:
        return covered
    starts = np.arange(most) * rows // most
    shares = np.add.reduceat(covered, starts, axis=1, dtype=np.float64) / np.diff([*starts, rows])
    return np.where(shares > 0, np.maximum(_FAINTEST, shares), 0)


def _heads(ax: Axes, groups: Sequence[Mapping[str, Any]], starts: Sequence[float], palette: Palette) -> None:
    """Above each part its name, above each group how much of it is covered, where there is room."""
    width = ax.get_xlim()[1]
    above: dict[str, Any] = {"xycoords": ax.get_xaxis_transform(), "textcoords": "offset points", "fontsize": SMALL}
    said: set[str] = set()
    for group, start in zip(groups, starts, strict=True):
        part = PARTS[group["part"]]
        room = sum(other["shown"] for other in groups if other["part"] == group["part"])
        if part not in said and room > _SIGN * len(part) * width:
            ax.annotate(part, (start, 1), xytext=(0, 20), color=palette.ink, **above)
        said.add(part)
        text = f"{percent(group['covered'] / max(1, group['rows']))} covered"
        if group["shown"] > _SIGN * len(text) * width:
            ax.annotate(text, (start, 1), xytext=(0, 9), color=palette.soft, **above)


def _foot(ax: Axes, figures: FigureData, palette: Palette) -> None:
    rows, shown = figures["coverage"]["rows"], figures["coverage"]["shown"]
    ax.set_xlabel(f"{shown:,} of {rows:,} rows, each group by its share" if shown < rows else f"all {rows:,} rows")
    ax.xaxis.set_label_coords(0, 0)
    ax.xaxis.label.set(ha="left", va="top", fontsize=SMALL)
    names = [name or "others" for name in figures["classes"]]
    class_legend(
        ax, names, palette, loc="upper right", bbox_to_anchor=(1, 0), ncols=max(1, len(names)), borderaxespad=0.2
    )


MOST_NUMBERS, MOST_LABELS = 12, 40

_TITLES = {"logic": "Conditions that two rules share", "rows": "Rows that two rules both cover"}


def plot_similarity(shown: Shown, ax: Axes | None = None, *, by: Literal["logic", "rows"] = "logic") -> Axes:
    """Percent of the smaller of two rules that is in the other; similar rules stand together."""
    if by not in _TITLES:
        raise SettingsError(f"Similarity is by 'logic' (conditions) or by 'rows', not by {by!r}.")
    figures = figures_of(shown)
    square = similarity_of(figures, by)
    order = beside_the_most_similar(square)
    ids = [figures["rules"][place]["id"] for place in order]
    side = min(6.4, 1.6 + 0.32 * len(ids))
    ax = ax or new_axes(max(3.2, side + 1.2), max(2.8, side))
    palette = style_axes(ax, left=False, bottom=False)
    set_title(ax, _TITLES[by], palette)
    _squares(ax, square[np.ix_(order, order)], palette)
    _names(ax, ids)
    return ax


def similarity_of(figures: FigureData, by: str) -> npt.NDArray[np.uint8]:
    """(rules, rules): percent."""
    size = len(figures["rules"])
    return np.frombuffer(b64decode(figures["similarity"][by]), np.uint8).reshape(size, size)


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
    places = range(len(ids)) if len(ids) <= MOST_LABELS else []
    names = ids if len(ids) <= MOST_LABELS else []
    size = SMALL if len(ids) <= 25 else 5.5
    ax.set_xticks(places, names, rotation=90, fontsize=size, **LITERAL)
    ax.set_yticks(places, names, fontsize=size, **LITERAL)
    ax.tick_params(length=0)
