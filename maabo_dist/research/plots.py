"""The plots of the paper's experiments: panels beside each other, means with error bars of half a standard deviation.

What they show comes as values of `maabo_dist.research.paper.shown`.
"""

import io
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from maabo_dist.plots.canvas import SMALL, Palette, entitle, in_percent, palette_of, tidy
from maabo_dist.research.paper.shown import Panel, Series

WIDTH, HEIGHT = 4.2, 3.4
"""Of a panel, in inches."""
ALONE = 1.4
"""A panel that has no others beside it is so much larger."""
MARKERS = "osD^v"
_LEVELS = ("--", ":")
_STEPS = [1, 2, 5, 10]
"""Between ticks: round numbers only."""


def plot_panels(panels: Sequence[Panel], axes: Sequence[Axes]) -> Sequence[Axes]:
    """Draw each panel into its axes, without a legend."""
    for panel, ax in zip(panels, axes, strict=True):
        palette = tidy(ax)
        (_bars if panel.bars else _lines)(ax, panel, palette)
        _label(ax, panel, palette)
    return axes


def png_of(panels: Sequence[Panel]) -> bytes:
    """The panels as a picture. pyplot is not touched, so that no window can open."""
    larger = ALONE if len(panels) == 1 else 1.0
    figure = Figure(figsize=(WIDTH * larger * len(panels), HEIGHT * larger), layout="constrained")
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(1, len(panels), place + 1) for place in range(len(panels))]
    plot_panels(panels, axes)
    _legend(figure, panels, axes)
    picture = io.BytesIO()
    # Without the version of matplotlib in it, the file changes only when the picture does.
    figure.savefig(picture, format="png", dpi=110, metadata={"Software": None})
    return picture.getvalue()


def _lines(ax: Axes, panel: Panel, palette: Palette) -> None:
    for place, each in enumerate(panel.series):
        colour = palette.classes[place % len(palette.classes)]
        if each.level:
            _level(ax, each, colour, _LEVELS[place % 2])
        else:
            _curve(ax, each, colour, MARKERS[place % len(MARKERS)])
    if panel.log:
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=_floor(panel))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=_STEPS))


def _curve(ax: Axes, each: Series, colour: str, marker: str) -> None:
    style: dict[str, Any] = {"marker": marker, "markersize": 3.5, "linewidth": 1.3, "capsize": 2, "elinewidth": 0.8}
    ax.errorbar(each.x, each.y, yerr=list(each.error) or None, color=colour, label=each.name, **style)


def _level(ax: Axes, each: Series, colour: str, style: str) -> None:
    """A line across, and what it varies by as a band."""
    (y,), half = each.y, each.error[0] if each.error else 0.0
    ax.axhspan(y - half, y + half, color=colour, alpha=0.1, linewidth=0)
    ax.axhline(y, color=colour, linestyle=style, linewidth=1.3, label=each.name)


def _floor(panel: Panel) -> float | None:
    """Zero, unless all lies far from it: then what is small to the eye is what matters."""
    low = min((y - e for each in panel.series for y, e in _ranges(each)), default=0.0)
    high = max((y for each in panel.series for y in each.y), default=0.0)
    return None if low > 0.6 * high else min(0.0, low)


def _ranges(each: Series) -> list[tuple[float, float]]:
    return list(zip(each.y, each.error or (0.0,) * len(each.y), strict=True))


def _bars(ax: Axes, panel: Panel, palette: Palette) -> None:
    width = 0.8 / len(panel.series)
    for place, each in enumerate(panel.series):
        shift = (place - (len(panel.series) - 1) / 2) * width
        colour = palette.classes[place % len(palette.classes)]
        errors: dict[str, Any] = {"yerr": list(each.error), "capsize": 2} if any(each.error) else {}
        drawn = ax.bar([x + shift for x in each.x], each.y, width * 0.92, color=colour, label=each.name, **errors)
        ax.bar_label(drawn, [_figure(y) for y in each.y], fontsize=SMALL - 1.5, color=palette.soft, padding=2)
    ax.set_xticks(range(len(panel.ticks)), panel.ticks)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, steps=_STEPS))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _label(ax: Axes, panel: Panel, palette: Palette) -> None:
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel(panel.y_label)
    if panel.title:
        entitle(ax, panel.title, palette)
    if panel.percent:
        in_percent(ax.yaxis)


def _legend(figure: Figure, panels: Sequence[Panel], axes: Sequence[Axes]) -> None:
    """One below all panels where they show the same series, else one in each that has several; in their order."""
    names = {tuple(each.name for each in panel.series) for panel in panels}
    style: dict[str, Any] = {"frameon": False, "fontsize": SMALL, "labelcolor": palette_of(axes[0]).soft}
    if len(names) == 1:
        (shown,) = names
        if len(shown) > 1:
            handles = _handles(axes[0], shown)
            figure.legend(handles, shown, loc="outside lower center", ncols=len(shown), **style)
        return
    for panel, ax in zip(panels, axes, strict=True):
        if len(panel.series) > 1:
            shown = tuple(each.name for each in panel.series)
            ax.legend(_handles(ax, shown), shown, **style)


def _handles(ax: Axes, names: Sequence[str]) -> list[Any]:
    """Matplotlib lists lines before what has error bars."""
    handles, labels = ax.get_legend_handles_labels()
    return [handles[labels.index(name)] for name in names]
