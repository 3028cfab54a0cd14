"""What every picture is drawn on: axes with little ink of their own, and text that says what data says, no more.

Names come from tables. No sign in them is mathematics, none breaks a line, and long ones end with an ellipsis.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import FigureBase
from matplotlib.image import AxesImage
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from maabo_dist.plots.palette import Palette, palette_of
from maabo_dist.report.wording import one_line

SMALL, MIDDLE = 8.0, 9.0
"""Sizes of text, in points."""

LITERAL: dict[str, Any] = {"parse_math": False, "usetex": False}
"""For every text that has a name in it: a dollar is a dollar."""


def new_axes(width: float, height: float) -> Axes:
    """One empty axes in a figure of its own, which pyplot shows; inches."""
    return new_row(1, width, height)[0]


def new_row(count: int, width: float, height: float, most: int = 4) -> list[Axes]:
    """So many axes, at most `most` beside each other, each of that size."""
    from matplotlib import pyplot as plt

    across = max(1, min(count, most))
    down = max(1, -(-count // across))
    figure, grid = plt.subplots(
        down, across, figsize=(width * across, height * down), layout="constrained", squeeze=False
    )
    axes = list(grid.flat)
    for spare in axes[count:]:
        figure.delaxes(spare)
    return axes[:count]


def tidy(ax: Axes, *, left: bool = True, bottom: bool = True) -> Palette:
    """Soft labels, no box; without `left` and `bottom` no axis either. Returns the colours to draw with."""
    palette = palette_of(ax)
    for side, wanted in {"left": left, "bottom": bottom, "top": False, "right": False}.items():
        ax.spines[side].set(visible=wanted, color=palette.rule)
    ax.tick_params(which="both", color=palette.rule, labelcolor=palette.soft, labelsize=SMALL)
    for axis, wanted in ((ax.xaxis, bottom), (ax.yaxis, left)):
        axis.label.set(color=palette.soft, fontsize=MIDDLE)
        if not wanted:
            axis.set_tick_params(which="both", length=0)
    return palette


def entitle(ax: Axes, text: str, palette: Palette) -> None:
    """A title at the left, of a text that may have names in it."""
    ax.set_title(text, loc="left", fontsize=MIDDLE, color=palette.ink, **LITERAL)


def name_rows(ax: Axes, names: Sequence[str], length: int = 28) -> None:
    """Names beside the rows 0, 1, … from the top."""
    ax.set_yticks(range(len(names)), [shortened(name, length) for name in names], **LITERAL)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(max(1, len(names)) - 0.5, -0.5)


def shortened(text: str, length: int) -> str:
    """The text on one line, at most so many signs long."""
    text = one_line(text)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def legend_above(ax: Axes, names: Sequence[str], palette: Palette) -> None:
    """The classes on the line of the title, at the right."""
    above = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": max(1, len(names)), "borderaxespad": 0}
    class_legend(ax, names, palette, **above)


def class_legend(holder: Axes | FigureBase, names: Sequence[str], palette: Palette, **where: Any) -> None:
    """Which colour is which class, above axes or beside those of a figure; of more classes than colours, nothing."""
    if len(names) > len(palette.classes):
        return
    handles = [Patch(color=colour) for colour in palette.classes[: len(names)]]
    # matplotlib leaves out labels that begin with an underscore: the names come in afterwards.
    legend = holder.legend(
        handles, ["x"] * len(names), frameon=False, fontsize=SMALL, handlelength=0.8, handleheight=0.8, **where
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set(text=shortened(name, 24), color=palette.soft, **LITERAL)


def scale(image: AxesImage, place: Axes, ticks: Sequence[int], palette: Palette, unit: str = "") -> None:
    """What the colours of an image mean, drawn into small axes."""
    bar = place.figure.colorbar(image, cax=place, ticks=list(ticks))
    bar.set_ticklabels([f"{tick:,}{unit}" for tick in ticks])
    bar.outline.set_visible(False)
    place.tick_params(length=0, labelsize=SMALL, labelcolor=palette.soft)


def in_percent(axis: Axis) -> None:
    """Shares on an axis, told in percent."""
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))


def percent(share: float) -> str:
    """`7.5 %`, `42 %`."""
    return f"{100 * share:.{1 if 0 < share < 0.1 else 0}f} %"
