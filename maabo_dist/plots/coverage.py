"""Which rows which rules cover."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.transforms import offset_copy

from maabo_dist.plots.palette import Palette
from maabo_dist.plots.paper import SMALL, class_legend, name_rows, new_axes, percent, tidy
from maabo_dist.plots.shown import Shown, exhibits_of
from maabo_dist.report.exhibits import Exhibits

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
    exhibits = exhibits_of(shown)
    ids = [entry["id"] for entry in exhibits["rules"]]
    ax = ax or new_axes(8.6, min(9.0, 1.3 + 0.19 * len(ids)))
    palette = tidy(ax, left=False, bottom=False)
    groups = exhibits["coverage"]["groups"]
    starts = _starts(groups, exhibits["coverage"]["shown"])
    covered, first = coverage_of(exhibits), 0
    for group, start in zip(groups, starts, strict=True):
        colour = palette.of_class(group["class"], group["class"], len(exhibits["classes"]))
        most = max(1, MOST_COLUMNS * group["shown"] // exhibits["coverage"]["shown"])
        _group(ax, covered[:, first : first + group["shown"]], most, start, (palette.grid, colour))
        first += group["shown"]
    ax.set_xlim(0, max(1.0, starts[-1] + groups[-1]["shown"]))
    ax.set_xticks([])
    name_rows(ax, ids if len(ids) <= MOST_NAMED else [])
    ax.set_ylim(max(1, len(ids)) - 0.5, -0.5)
    _heads(ax, groups, starts, palette)
    _foot(ax, exhibits, palette)
    return ax


def coverage_of(exhibits: Exhibits) -> npt.NDArray[np.uint8]:
    """(rules, rows shown): 1 where a rule covers a row."""
    packed = np.frombuffer(b64decode(exhibits["coverage"]["bits"]), np.uint8)
    count, shown = len(exhibits["rules"]), exhibits["coverage"]["shown"]
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


def _foot(ax: Axes, exhibits: Exhibits, palette: Palette) -> None:
    rows, shown = exhibits["coverage"]["rows"], exhibits["coverage"]["shown"]
    ax.set_xlabel(f"{shown:,} of {rows:,} rows, each group by its share" if shown < rows else f"all {rows:,} rows")
    ax.xaxis.set_label_coords(0, 0)
    ax.xaxis.label.set(ha="left", va="top", fontsize=SMALL)
    names = [name or "others" for name in exhibits["classes"]]
    class_legend(
        ax, names, palette, loc="upper right", bbox_to_anchor=(1, 0), ncols=max(1, len(names)), borderaxespad=0.2
    )
