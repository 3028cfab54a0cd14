"""Where a rule holds: a histogram by class of each of its columns, what satisfies its conditions lit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from textwrap import fill
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes

from maabo_dist._util.text import printable
from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.contract.result import RuleRecord
from maabo_dist.errors import SettingsError
from maabo_dist.plots.style import (
    LITERAL,
    MIDDLE,
    SMALL,
    Palette,
    RuleName,
    Shown,
    class_legend,
    figures_of,
    name_rows,
    new_row,
    palette_for,
    rule_of,
    set_title,
    shortened,
    style_axes,
)
from maabo_dist.report.wording import conditions_text, number_text

WIDTH, HEIGHT = 3.3, 2.0
"""Of one histogram, in inches."""

_OFF = 0.28
"""Opacity of what does not satisfy the conditions."""

Stack = Sequence[tuple[int, str]]
"""Groups of classes from the axis upwards, with their colours."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A histogram, and the conditions of a rule on it."""

    picture: Mapping[str, Any]
    conditions: tuple[Condition, ...]


def plot_rule(shown: Shown, rule: RuleName, ax: Axes | Sequence[Axes] | None = None) -> list[Axes]:
    """One axes a column that the rule has conditions on; the rule's own class stands on the axis of each.

    `ax` has as many axes as that; `len(plot_rule(…))` tells.
    """
    told, entry = rule_of(shown, rule)
    figures = figures_of(shown)
    marked = _marked(told, entry, figures["histograms"])
    axes = _made(marked, told, figures["classes"]) if ax is None else _given(ax, len(marked), told.id)
    own = figures["classes"].index(told.label) if told.label in figures["classes"] else len(figures["classes"])
    for place, each in zip(axes, marked, strict=True):
        levels = each.picture["kind"] == "levels"
        palette = style_axes(place, left=False, bottom=not levels)
        draw = _levels if levels else _numbers
        draw(place, each, stacked(own, len(figures["classes"]), palette), palette)
        set_title(place, shortened(conditions_text(each.conditions), 44), palette)
        _tell_missing(place, each.picture)
    return axes


def stacked(own: int, count: int, palette: Palette) -> Stack:
    """The rule's own class first."""
    order = sorted(range(count), key=lambda group: (group != own, group))
    return [(group, palette.of_class(group, own, count)) for group in order]


def _marked(rule: RuleRecord, entry: Mapping[str, Any], histograms: Sequence[Mapping[str, Any]]) -> list[Marked]:
    """Conditions on one column stand on one histogram."""
    found: dict[int, list[Condition]] = {}
    for condition, place in zip(rule.premise, entry["histograms"], strict=True):
        found.setdefault(place, []).append(condition)
    return [Marked(histograms[place], tuple(conditions)) for place, conditions in found.items()]


def _made(marked: Sequence[Marked], rule: RuleRecord, classes: Sequence[str | None]) -> list[Axes]:
    most = max((len(each.picture.get("levels", ())) for each in marked), default=0)
    axes = new_row(len(marked), WIDTH, max(HEIGHT, 0.7 + 0.2 * most), most=3)
    if axes:
        across = min(3, len(axes))
        text = fill(printable(rule.text), 46 * across, max_lines=3, placeholder=" …")
        figure, palette = axes[0].figure.figure, palette_for(axes[0])
        names = [name or "others" for name in classes]
        class_legend(figure, names, palette, loc="outside lower left", ncols=len(names))
        figure.suptitle(f"{rule.id}: {text}", x=0.01, ha="left", fontsize=MIDDLE, color=palette.ink, **LITERAL)
    return axes


def _given(ax: Axes | Sequence[Axes], wanted: int, name: str) -> list[Axes]:
    axes = [ax] if isinstance(ax, Axes) else list(np.ravel(np.asarray(ax, dtype=object)))
    if len(axes) != wanted:
        raise SettingsError(f"{name} has conditions on {wanted} columns; ax has {len(axes)} axes. Pass {wanted}.")
    return axes


def _numbers(ax: Axes, marked: Marked, stack: Stack, palette: Palette) -> None:
    low, high = _bounds(marked.conditions)
    picture = marked.picture
    counts = np.array(picture["counts"])
    edges = _value_bars(picture["values"]) if picture["kind"] == "values" else _bins(picture, counts.shape[1])
    lit = _holding(picture["values"], low, high) if picture["kind"] == "values" else None
    left, right = float(edges[0].min()), float(edges[1].max())
    pad = 0.02 * (right - left)
    ax.set_xlim(left - pad, right + pad)
    ax.axvspan(max(low, left - pad), min(high, right + pad), color=palette.tint, linewidth=0, zorder=0)
    bottom = np.zeros(counts.shape[1])
    for group, colour in stack:
        for starts, ends, on in _pieces(edges, low, high, lit):
            kept = (ends > starts) & (counts[group] > 0)
            ax.bar(
                starts[kept],
                counts[group][kept],
                (ends - starts)[kept],
                bottom[kept],
                align="edge",
                color=colour,
                alpha=1 if on else _OFF,
                linewidth=0,
                gid=f"class {group}",
            )
        bottom += counts[group]
    ax.set_ylim(0, 1.18 * max(1, bottom.max()))
    ax.set_yticks([])
    ax.locator_params(axis="x", nbins=5)
    _thresholds(ax, [low, high], palette)


Edges = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
"""Where bars begin and end."""


def _bins(picture: Mapping[str, Any], bars: int) -> Edges:
    edges = np.linspace(picture["low"], picture["high"], bars + 1)
    return edges[:-1], edges[1:]


def _value_bars(values: Sequence[float]) -> Edges:
    at = np.array(values, np.float64)
    width = 0.7 * float(np.diff(at).min()) if len(at) > 1 else 1.0
    width = max(width, 0.008 * float(at[-1] - at[0]))
    return at - width / 2, at + width / 2


def _holding(values: Sequence[float], low: float, high: float) -> npt.NDArray[np.bool_]:
    at = np.array(values, np.float64)
    holds: npt.NDArray[np.bool_] = (at > low) & (at <= high)
    return holds


def _pieces(
    edges: Edges, low: float, high: float, lit: npt.NDArray[np.bool_] | None
) -> list[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], bool]]:
    """Bars that hold one value are lit or not; those of many are cut at the thresholds."""
    starts, ends = edges
    if lit is not None:
        return [(starts, np.where(lit, ends, starts), True), (starts, np.where(lit, starts, ends), False)]
    return [
        (starts, np.minimum(ends, low), False),
        (np.maximum(starts, low), np.minimum(ends, high), True),
        (np.maximum(starts, high), ends, False),
    ]


def _bounds(conditions: Sequence[Condition]) -> tuple[float, float]:
    low = max((float(each.value or 0) for each in conditions if each.op is Op.ABOVE), default=-inf)
    high = min((float(each.value or 0) for each in conditions if each.op is Op.AT_MOST), default=inf)
    return low, high


def _thresholds(ax: Axes, bounds: Sequence[float], palette: Palette) -> None:
    both = bool(np.isfinite(bounds).all())
    left, right = ax.get_xlim()
    for side, value in zip(("right", "left"), bounds, strict=True):
        if not np.isfinite(value):
            continue
        ax.axvline(value, ymax=0.87, color=palette.ink, linewidth=1.2)
        share = (value - left) / (right - left)
        outwards = side if both else "center"
        anchor = "left" if share < 0.15 else "right" if share > 0.85 else outwards
        ax.annotate(
            number_text(value, 5),
            (value, 1),
            xycoords=ax.get_xaxis_transform(),
            xytext=({"left": 3, "right": -3, "center": 0}[anchor], -1),
            textcoords="offset points",
            ha=anchor,
            va="top",
            fontsize=SMALL,
            fontweight="bold",
            color=palette.ink,
        )


_HOLDS: dict[Op, Callable[[str | None, object], bool]] = {
    Op.IS: lambda level, value: level == value,
    Op.IS_NOT: lambda level, value: level != value,
    Op.IS_MISSING: lambda level, _: level == "missing",
    Op.IS_PRESENT: lambda level, _: level == "present",
}


def _levels(ax: Axes, marked: Marked, stack: Stack, palette: Palette) -> None:
    levels, counts = marked.picture["levels"], np.array(marked.picture["counts"])
    on = [all(_HOLDS[each.op](level, each.value) for each in marked.conditions) for level in levels]
    start = np.zeros(len(levels))
    for group, colour in stack:
        bars = ax.barh(range(len(levels)), counts[group], 0.66, start, color=colour, linewidth=0, gid=f"class {group}")
        for bar, lit in zip(bars, on, strict=True):
            bar.set_alpha(1 if lit else _OFF)
        start += counts[group]
    for row, total in enumerate(start):
        ax.annotate(
            f"{int(total):,}",
            (total, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            color=palette.soft,
        )
    name_rows(ax, ["other or missing" if level is None else level for level in levels], 18)
    for label, lit in zip(ax.get_yticklabels(), on, strict=True):
        label.set(fontweight="bold" if lit else "normal", color=palette.ink if lit else palette.soft)
    ax.set_xlim(0, 1.2 * max(1, start.max()))
    ax.set_xticks([])


def _tell_missing(ax: Axes, picture: Mapping[str, Any]) -> None:
    if picture["missing"]:
        cells = "1 missing cell counts" if picture["missing"] == 1 else f"{picture['missing']:,} missing cells count"
        told = picture.get("fill")
        ax.set_xlabel(f"{cells} as {'one of these' if told is None else number_text(told, 5)}", fontsize=SMALL)
