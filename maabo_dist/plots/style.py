"""The style of all plots: the report's colours, axes, titles and legends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap, to_rgba
from matplotlib.figure import FigureBase
from matplotlib.image import AxesImage
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from maabo_dist._util.text import printable

SMALL, MEDIUM = 8.0, 9.0  # font sizes in points

# For every text with a name from the table: a dollar sign is not mathematics.
LITERAL: dict[str, Any] = {"parse_math": False, "usetex": False}
# The position of a legend: on the line of the title, at the right.
ABOVE_RIGHT: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0}


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours by their use; safe for colour-blind readers."""

    ink: str
    soft: str  # for secondary text
    faint: str
    rule: str  # for axes and edges
    grid: str
    tint: str  # for a region behind bars
    accent: str
    rest: str  # for classes without a colour of their own
    classes: tuple[str, ...]

    def class_colour(self, index: int, own: int, count: int) -> str:
        """The colour of a class in the plot of a rule for class `own`, of `count` classes."""
        if count <= len(self.classes):
            return self.classes[index]
        return self.classes[0] if index == own else self.rest


LIGHT = Palette(
    ink="#1c2025",
    soft="#545b64",
    faint="#8a9099",
    rule="#cfcbc1",
    grid="#ebe8e1",
    tint="#e8f1f7",
    accent="#0b5c8a",
    rest="#b9bcc1",
    classes=("#0072b2", "#d55e00", "#009e73", "#b65c92", "#c58600", "#3d9bd6", "#882255", "#7d7d1e"),
)
DARK = Palette(
    ink="#e8e6e1",
    soft="#aab0b8",
    faint="#7d858f",
    rule="#414851",
    grid="#252a31",
    tint="#1d2c38",
    accent="#7cc4f0",
    rest="#5b626c",
    classes=("#56b4e9", "#f0933b", "#35c79d", "#e29cc6", "#eedd55", "#7f9cf0", "#e0708a", "#b9b95a"),
)


def palette_for(ax: Axes) -> Palette:
    """The palette for the background of the axes: light or dark."""
    red, green, blue, alpha = to_rgba(ax.get_facecolor())
    return DARK if alpha > 0.5 and 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.4 else LIGHT


def new_axes(width: float, height: float) -> Axes:
    """Make a pyplot figure of this size in inches with one empty axes."""
    return new_grid(1, width, height)[0]


def new_grid(count: int, width: float, height: float, max_columns: int = 4) -> list[Axes]:
    """Make a pyplot figure with this many axes, each of this size in inches."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 - only here: pyplot must not be touched by plots into given axes

    columns = max(1, min(count, max_columns))
    rows = max(1, -(-count // columns))
    figure, grid = plt.subplots(
        rows, columns, figsize=(width * columns, height * rows), layout="constrained", squeeze=False
    )
    axes = list(grid.flat)
    for unused in axes[count:]:
        figure.delaxes(unused)
    return axes[:count]


def prepare_axes(ax: Axes, *, left: bool = True, bottom: bool = True) -> Palette:
    """Remove the frame, and the axes without `left` and `bottom`; return the colours to draw with."""
    palette = palette_for(ax)
    for side, visible in {"left": left, "bottom": bottom, "top": False, "right": False}.items():
        ax.spines[side].set(visible=visible, color=palette.rule)
    ax.tick_params(which="both", color=palette.rule, labelcolor=palette.soft, labelsize=SMALL)
    for axis, visible in ((ax.xaxis, bottom), (ax.yaxis, left)):
        axis.label.set(color=palette.soft, fontsize=MEDIUM)
        if not visible:
            axis.set_tick_params(which="both", length=0)
    return palette


def set_title(ax: Axes, text: str, palette: Palette) -> None:
    """Set a title at the left; the text may contain names from the table."""
    ax.set_title(text, loc="left", fontsize=MEDIUM, color=palette.ink, **LITERAL)


def draw_grid(ax: Axes, palette: Palette) -> None:
    """Draw horizontal grid lines behind everything else."""
    ax.grid(axis="y", color=palette.grid, linewidth=0.8)
    ax.set_axisbelow(True)


def annotate(ax: Axes, text: str, point: tuple[float, float], offset: tuple[float, float], **style: Any) -> None:
    """Write small text next to a point; the offset is in points."""
    style = {"va": "center", "fontsize": SMALL, **style}
    ax.annotate(text, point, xytext=offset, textcoords="offset points", **style, **LITERAL)


def label_rows(ax: Axes, names: Sequence[str], length: int = 28) -> None:
    """Label the rows 0, 1, … from the top with names of at most `length` characters."""
    ax.set_yticks(range(len(names)), [shorten(name, length) for name in names], **LITERAL)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(max(1, len(names)) - 0.5, -0.5)


def shorten(text: str, length: int) -> str:
    """The text on one line with at most `length` characters."""
    text = printable(text)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def class_legend(parent: Axes | FigureBase, names: Sequence[str], palette: Palette, **options: Any) -> None:
    """Draw a legend of the classes, unless there are more classes than colours."""
    if len(names) > len(palette.classes):
        return
    handles = [Patch(color=colour) for colour in palette.classes[: len(names)]]
    options |= {"ncols": max(1, len(names)), "handlelength": 0.8, "handleheight": 0.8}
    # matplotlib omits labels that begin with an underscore, so the names are set afterwards.
    legend = parent.legend(handles, ["x"] * len(names), frameon=False, fontsize=SMALL, **options)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set(text=shorten(name, 24), color=palette.soft, **LITERAL)


def draw_matrix(
    ax: Axes, values: np.ma.MaskedArray[Any, Any], highest: int, palette: Palette, *, masked: str, numbers: bool
) -> AxesImage:
    """Draw a matrix with values from 0 to `highest` as colours, and as numbers too if there is room."""
    colours = LinearSegmentedColormap.from_list("matrix", [palette.grid, palette.accent]).with_extremes(bad=masked)
    image = ax.imshow(values, cmap=colours, vmin=0, vmax=highest, interpolation="nearest")
    for row, column in zip(*np.nonzero(values.filled(0)), strict=True) if numbers else ():
        value = values[row, column]
        colour: Any = ax.get_facecolor() if value > highest / 2 else palette.ink
        ax.text(column, row, f"{value:,}", ha="center", va="center", fontsize=SMALL, color=colour)
    return image


def colour_bar(image: AxesImage, ax: Axes, ticks: Sequence[int], palette: Palette, unit: str = "") -> None:
    """Draw the colour scale of an image into small axes."""
    bar = ax.figure.colorbar(image, cax=ax, ticks=list(ticks))
    bar.set_ticklabels([f"{tick:,}{unit}" for tick in ticks])
    bar.outline.set_visible(False)
    ax.tick_params(length=0, labelsize=SMALL, labelcolor=palette.soft)


def percent_axis(axis: Axis) -> None:
    """Label shares on an axis in percent."""
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))


def format_percent(share: float) -> str:
    """`7.5 %`, `42 %`."""
    return f"{100 * share:.{1 if 0 < share < 0.1 else 0}f} %"
