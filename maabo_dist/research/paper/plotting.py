"""Plots of the paper's experiments: panels side by side, means with error bars of half a standard deviation."""

import io
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from maabo_dist.plots.style import SMALL, Palette, palette_for, percent_axis, prepare_axes, set_title
from maabo_dist.research.paper.output import Panel

WIDTH, HEIGHT = 4.2, 3.4  # size of a panel in inches
SINGLE_SCALE = 1.4  # scale of a panel that is the only one
MARKERS = "osD^v"
_LEVEL_STYLES = ("--", ":")
_TICK_STEPS = [1, 2, 5, 10]


def draw_png(panels: Sequence[Panel]) -> bytes:
    """Draw the panels side by side. pyplot is not used, so that no window can open."""
    scale = SINGLE_SCALE if len(panels) == 1 else 1.0
    figure = Figure(figsize=(WIDTH * scale * len(panels), HEIGHT * scale), layout="constrained")
    FigureCanvasAgg(figure)
    axes = [figure.add_subplot(1, len(panels), index + 1) for index in range(len(panels))]
    for panel, ax in zip(panels, axes, strict=True):
        palette = prepare_axes(ax)
        (_draw_bars if panel.bars else _draw_lines)(ax, panel, palette)
        ax.set(xlabel=panel.x_label, ylabel=panel.y_label)
        if panel.title:
            set_title(ax, panel.title, palette)
        if panel.percent:
            percent_axis(ax.yaxis)
    _draw_legends(figure, panels, axes)
    png = io.BytesIO()
    # Without matplotlib's version in the metadata, the file changes only when the plot does.
    figure.savefig(png, format="png", dpi=110, metadata={"Software": None})
    return png.getvalue()


def _draw_lines(ax: Axes, panel: Panel, palette: Palette) -> None:
    """Draw a curve for each series; a level is a horizontal line, with its error as a band."""
    style: dict[str, Any] = {"markersize": 3.5, "linewidth": 1.3, "capsize": 2, "elinewidth": 0.8}
    for index, series in enumerate(panel.series):
        colour = palette.classes[index % len(palette.classes)]
        if series.level:
            (y,), half = series.y, series.error[0] if series.error else 0.0
            ax.axhspan(y - half, y + half, color=colour, alpha=0.1, linewidth=0)
            ax.axhline(y, color=colour, linestyle=_LEVEL_STYLES[index % 2], linewidth=1.3, label=series.name)
        else:
            style |= {"marker": MARKERS[index % len(MARKERS)], "color": colour, "label": series.name}
            ax.errorbar(series.x, series.y, yerr=list(series.error) or None, **style)
    if panel.log:
        ax.set_yscale("log")
    else:
        ax.set_ylim(bottom=_lower_limit(panel))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, steps=_TICK_STEPS))


def _lower_limit(panel: Panel) -> float | None:
    """Zero, unless all values are far from it, where small differences would be invisible."""
    points = [
        (y, error) for each in panel.series for y, error in zip(each.y, each.error or (0.0,) * len(each.y), strict=True)
    ]
    low = min((y - error for y, error in points), default=0.0)
    high = max((y for y, _ in points), default=0.0)
    return None if low > 0.6 * high else min(0.0, low)


def _draw_bars(ax: Axes, panel: Panel, palette: Palette) -> None:
    width = 0.8 / len(panel.series)
    for index, series in enumerate(panel.series):
        shift = (index - (len(panel.series) - 1) / 2) * width
        colour = palette.classes[index % len(palette.classes)]
        errors: dict[str, Any] = {"yerr": list(series.error), "capsize": 2} if any(series.error) else {}
        bars = ax.bar([x + shift for x in series.x], series.y, width * 0.92, color=colour, label=series.name, **errors)
        labels = [f"{y:,.0f}" if y >= 100 else f"{y:.3g}" for y in series.y]
        ax.bar_label(bars, labels, fontsize=SMALL - 1.5, color=palette.soft, padding=2)
    ax.set_xticks(range(len(panel.ticks)), panel.ticks)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, steps=_TICK_STEPS))


def _draw_legends(figure: Figure, panels: Sequence[Panel], axes: Sequence[Axes]) -> None:
    """Draw one legend below all panels if they show the same series, else one in each panel with several series."""
    names = [tuple(series.name for series in panel.series) for panel in panels]
    style: dict[str, Any] = {"frameon": False, "fontsize": SMALL, "labelcolor": palette_for(axes[0]).soft}
    if len(set(names)) == 1:
        if len(names[0]) > 1:
            handles = _handles(axes[0], names[0])
            figure.legend(handles, names[0], loc="outside lower center", ncols=len(names[0]), **style)
        return
    for ax, labels in zip(axes, names, strict=True):
        if len(labels) > 1:
            ax.legend(_handles(ax, labels), labels, **style)


def _handles(ax: Axes, names: Sequence[str]) -> list[Any]:
    """Legend handles in the order of the names; matplotlib lists lines before series with error bars."""
    handles, labels = ax.get_legend_handles_labels()
    return [handles[labels.index(name)] for name in names]
