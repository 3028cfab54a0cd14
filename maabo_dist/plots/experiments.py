"""The plots of the paper's experiments: panels beside each other, means with error bars of half a standard deviation."""

import io
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from maabo_dist.paper.shown import Panel, Series
from maabo_dist.plots.palette import Palette
from maabo_dist.plots.paper import SMALL, entitle, in_percent, tidy

WIDTH, HEIGHT = 4.2, 3.2
"""Of a panel, in inches."""
ALONE = 1.35
"""A panel that has no others beside it is so much wider."""
MARKERS = "osD^v"
_LEVELS = {0: "--", 1: ":"}


def plot_panels(panels: Sequence[Panel], axes: Sequence[Axes]) -> Sequence[Axes]:
    """Draw each panel into its axes."""
    for panel, ax in zip(panels, axes, strict=True):
        palette = tidy(ax)
        (_bars if panel.bars else _lines)(ax, panel, palette)
        _label(ax, panel, palette)
    return axes


def png_of(panels: Sequence[Panel]) -> bytes:
    """The panels as a picture. pyplot is not touched, so that no window can open."""
    wide = WIDTH * (ALONE if len(panels) == 1 else len(panels))
    figure = Figure(figsize=(wide, HEIGHT * (1.2 if len(panels) == 1 else 1)), layout="constrained")
    FigureCanvasAgg(figure)
    plot_panels(panels, [figure.add_subplot(1, len(panels), place + 1) for place in range(len(panels))])
    picture = io.BytesIO()
    # Without the version of matplotlib in it, the file changes only when the picture does.
    figure.savefig(picture, format="png", dpi=110, metadata={"Software": None})
    return picture.getvalue()


def _lines(ax: Axes, panel: Panel, palette: Palette) -> None:
    levels = 0
    for place, each in enumerate(panel.series):
        colour = palette.classes[place % len(palette.classes)]
        if each.level:
            _level(ax, each, colour, _LEVELS[levels % 2])
            levels += 1
        else:
            errors = list(each.error) or None
            style = {"marker": MARKERS[place % len(MARKERS)], "markersize": 3.5, "linewidth": 1.3, "capsize": 2}
            ax.errorbar(each.x, each.y, yerr=errors, color=colour, elinewidth=0.8, label=each.name, **style)
    if panel.log:
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=_floor(panel))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def _floor(panel: Panel) -> float | None:
    """Zero, unless all lies far from it: then what is small to the eye is what matters."""
    low = min(y - e for each in panel.series for y, e in zip(each.y, each.error or (0.0,) * len(each.y), strict=True))
    high = max(y for each in panel.series for y in each.y)
    return None if low > 0.6 * high else min(0.0, low)


def _level(ax: Axes, each: Series, colour: str, style: str) -> None:
    """A line across, and what it varies by as a band."""
    (y,), half = each.y, each.error[0] if each.error else 0.0
    ax.axhspan(y - half, y + half, color=colour, alpha=0.12, linewidth=0)
    ax.axhline(y, color=colour, linestyle=style, linewidth=1.3, label=each.name)


def _bars(ax: Axes, panel: Panel, palette: Palette) -> None:
    width = 0.8 / len(panel.series)
    for place, each in enumerate(panel.series):
        shift = (place - (len(panel.series) - 1) / 2) * width
        at = [x + shift for x in each.x]
        colour = palette.classes[place % len(palette.classes)]
        errors = {"yerr": list(each.error), "capsize": 2, "error_kw": {"elinewidth": 0.8}} if any(each.error) else {}
        drawn = ax.bar(at, each.y, width * 0.92, color=colour, label=each.name, **errors)
        ax.bar_label(drawn, [f"{y:.3g}" for y in each.y], fontsize=SMALL - 1.5, color=palette.soft, padding=2)
    ax.set_xticks(range(len(panel.ticks)), panel.ticks)


def _label(ax: Axes, panel: Panel, palette: Palette) -> None:
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    if panel.title:
        entitle(ax, panel.title, palette)
    if panel.percent:
        in_percent(ax.yaxis)
    if len(panel.series) > 1:
        ax.legend(frameon=False, fontsize=SMALL, labelcolor=palette.soft)
