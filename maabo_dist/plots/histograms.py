"""The histograms of a rule: one by class for each of its columns, with the values that satisfy the rule highlighted."""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from maabo_dist._util.text import printable
from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.errors import SettingsError
from maabo_dist.plots import style
from maabo_dist.plots.inputs import Plottable, RuleName, figures_of, rule_of
from maabo_dist.report.wording import conditions_text, number_text

WIDTH, HEIGHT, MAX_COLUMNS = 3.3, 2.0, 3  # size of one histogram in inches, and how many are side by side

_DIMMED = 0.28  # opacity of the values that do not satisfy the conditions

Stack = Sequence[tuple[int, str]]  # groups of classes with their colours, from the axis upwards
Values = npt.NDArray[np.float64]
Edges = tuple[Values, Values]  # where bars begin and end


class ColumnHistogram(NamedTuple):
    """A histogram, and the conditions of a rule on its column."""

    data: Mapping[str, Any]
    conditions: list[Condition]


def plot_rule(result: Plottable, rule: RuleName, ax: Axes | Sequence[Axes] | None = None) -> list[Axes]:
    """Plot the histogram by class of each column of a rule, with the values that satisfy the rule highlighted.

    Parameters
    ----------
    result
        A fitted `RuleMiner`, or a document with its figure data.
    rule
        The rule, its id such as `"R1"`, or its index from 0.
    ax
        As many axes as the rule has columns; by default, pyplot makes a figure.

    Returns
    -------
    list of Axes
        One axes for each column. The class of the rule is at the bottom of its bars.
    """
    record, entry = rule_of(result, rule)
    figures = figures_of(result)
    classes = figures["classes"]
    conditions: dict[int, list[Condition]] = {}
    for condition, index in zip(record.premise, entry["histograms"], strict=True):
        conditions.setdefault(index, []).append(condition)
    histograms = [ColumnHistogram(figures["histograms"][index], each) for index, each in conditions.items()]
    axes = _new_axes(histograms, record, classes) if ax is None else _check_axes(ax, len(histograms), record.id)
    for each, histogram in zip(axes, histograms, strict=True):
        is_levels = histogram.data["kind"] == "levels"
        palette = style.prepare_axes(each, left=False, bottom=not is_levels)
        (_draw_levels if is_levels else _draw_numbers)(each, histogram, class_stack(record, classes, palette), palette)
        style.set_title(each, style.shorten(conditions_text(histogram.conditions), 44), palette)
        _label_missing(each, histogram.data)
    return axes


def class_stack(rule: RuleRecord, classes: Sequence[str | None], palette: style.Palette) -> Stack:
    """The groups of classes with their colours, the rule's own class first."""
    count = len(classes)
    own = classes.index(rule.label) if rule.label in classes else count
    order = sorted(range(count), key=lambda group: (group != own, group))
    return [(group, palette.class_colour(group, own, count)) for group in order]


def _new_axes(histograms: Sequence[ColumnHistogram], rule: RuleRecord, classes: Sequence[str | None]) -> list[Axes]:
    levels = max((len(each.data.get("levels", ())) for each in histograms), default=0)
    axes = style.new_grid(len(histograms), WIDTH, max(HEIGHT, 0.7 + 0.2 * levels), MAX_COLUMNS)
    if axes:
        text = fill(printable(rule.text), 46 * min(MAX_COLUMNS, len(axes)), max_lines=3, placeholder=" …")
        figure, palette = axes[0].figure.figure, style.palette_for(axes[0])
        names = [name or "others" for name in classes]
        style.class_legend(figure, names, palette, loc="outside lower left")
        figure.suptitle(
            f"{rule.id}: {text}", x=0.01, ha="left", fontsize=style.MEDIUM, color=palette.ink, **style.LITERAL
        )
    return axes


def _check_axes(ax: Axes | Sequence[Axes], count: int, name: str) -> list[Axes]:
    axes = [ax] if isinstance(ax, Axes) else list(np.ravel(np.asarray(ax, dtype=object)))
    if len(axes) != count:
        raise SettingsError(f"{name} has conditions on {count} columns; ax has {len(axes)} axes. Pass {count}.")
    return axes


def _draw_numbers(ax: Axes, histogram: ColumnHistogram, stack: Stack, palette: style.Palette) -> None:
    conditions = histogram.conditions
    low = max((float(each.value or 0) for each in conditions if each.op is Op.ABOVE), default=-inf)
    high = min((float(each.value or 0) for each in conditions if each.op is Op.AT_MOST), default=inf)
    counts = np.array(histogram.data["counts"])
    edges, pieces = _bars(histogram.data, counts.shape[1], low, high)
    left, right = float(edges[0].min()), float(edges[1].max())
    pad = 0.02 * (right - left)
    ax.set_xlim(left - pad, right + pad)
    ax.axvspan(max(low, left - pad), min(high, right + pad), color=palette.tint, linewidth=0, zorder=0)
    bottom = np.zeros(counts.shape[1])
    for group, colour in stack:
        for starts, ends, satisfied in pieces:
            kept = (ends > starts) & (counts[group] > 0)
            bars = (starts[kept], counts[group][kept], (ends - starts)[kept], bottom[kept])
            options: dict[str, Any] = {"color": colour, "alpha": 1 if satisfied else _DIMMED, "linewidth": 0}
            ax.bar(*bars, align="edge", gid=f"class {group}", **options)
        bottom += counts[group]
    ax.set_ylim(0, 1.18 * max(1, bottom.max()))
    ax.set_yticks([])
    ax.locator_params(axis="x", nbins=5)
    _draw_thresholds(ax, [low, high], palette)


def _bars(
    data: Mapping[str, Any], count: int, low: float, high: float
) -> tuple[Edges, list[tuple[Values, Values, bool]]]:
    """The edges of all bars, and their pieces: starts, ends, and whether they satisfy the conditions.

    A bar for a single value satisfies the conditions or not; one for an interval is cut at the thresholds.
    """
    if data["kind"] == "values":
        values = np.array(data["values"], np.float64)
        width = 0.7 * float(np.diff(values).min()) if len(values) > 1 else 1.0
        width = max(width, 0.008 * float(values[-1] - values[0]))
        starts, ends = values - width / 2, values + width / 2
        satisfied = (values > low) & (values <= high)
        pieces = [(starts, np.where(satisfied, ends, starts), True), (starts, np.where(satisfied, starts, ends), False)]
        return (starts, ends), pieces
    edges = np.linspace(data["low"], data["high"], count + 1)
    starts, ends = edges[:-1], edges[1:]
    return (starts, ends), [
        (starts, np.minimum(ends, low), False),
        (np.maximum(starts, low), np.minimum(ends, high), True),
        (np.maximum(starts, high), ends, False),
    ]


def _draw_thresholds(ax: Axes, bounds: Sequence[float], palette: style.Palette) -> None:
    both = bool(np.isfinite(bounds).all())
    left, right = ax.get_xlim()
    options: dict[str, Any] = {"fontweight": "bold", "color": palette.ink, "va": "top"}
    for side, value in zip(("right", "left"), bounds, strict=True):
        if not np.isfinite(value):
            continue
        ax.axvline(value, ymax=0.87, color=palette.ink, linewidth=1.2)
        share = (value - left) / (right - left)
        outwards = side if both else "center"
        anchor = "left" if share < 0.15 else "right" if share > 0.85 else outwards
        offset = ({"left": 3, "right": -3, "center": 0}[anchor], -1)
        style.annotate(
            ax, number_text(value, 5), (value, 1), offset, xycoords=ax.get_xaxis_transform(), ha=anchor, **options
        )


_HOLDS: dict[Op, Callable[[str | None, object], bool]] = {
    Op.IS: lambda level, value: level == value,
    Op.IS_NOT: lambda level, value: level != value,
    Op.IS_MISSING: lambda level, _: level == "missing",
    Op.IS_PRESENT: lambda level, _: level == "present",
}


def _draw_levels(ax: Axes, histogram: ColumnHistogram, stack: Stack, palette: style.Palette) -> None:
    levels, counts = histogram.data["levels"], np.array(histogram.data["counts"])
    satisfied = [all(_HOLDS[each.op](level, each.value) for each in histogram.conditions) for level in levels]
    start = np.zeros(len(levels))
    for group, colour in stack:
        bars = ax.barh(range(len(levels)), counts[group], 0.66, start, color=colour, linewidth=0, gid=f"class {group}")
        for bar, holds in zip(bars, satisfied, strict=True):
            bar.set_alpha(1 if holds else _DIMMED)
        start += counts[group]
    for row, total in enumerate(start):
        style.annotate(ax, f"{int(total):,}", (total, row), (4, 0), color=palette.soft)
    style.label_rows(ax, ["other or missing" if level is None else level for level in levels], 18)
    for label, holds in zip(ax.get_yticklabels(), satisfied, strict=True):
        label.set(fontweight="bold" if holds else "normal", color=palette.ink if holds else palette.soft)
    ax.set_xlim(0, 1.2 * max(1, start.max()))
    ax.set_xticks([])


def _label_missing(ax: Axes, data: Mapping[str, Any]) -> None:
    if data["missing"]:
        cells = "1 missing cell counts" if data["missing"] == 1 else f"{data['missing']:,} missing cells count"
        value = data.get("fill")
        ax.set_xlabel(f"{cells} as {'one of these' if value is None else number_text(value, 5)}", fontsize=style.SMALL)
