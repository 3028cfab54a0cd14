"""Plots of all rules together: precision and coverage, the rows they cover, their similarity, and the funnel."""

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from math import log10
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.transforms import offset_copy

from maabo_dist.contract.result import ResultDocument
from maabo_dist.contract.rules import RuleRecord
from maabo_dist.errors import SettingsError
from maabo_dist.plots import style
from maabo_dist.plots.inputs import Plottable, document_of, figures_of
from maabo_dist.report.figures import FigureData
from maabo_dist.report.summary import funnel_steps

MAX_NAMED_ARROWS = 24  # with more rules, names would hide the arrows
MAX_NAMED_ROWS = 60
# Columns of the coverage plot; with more rows, several share one, which is as dark as the covered share of them.
MAX_COLUMNS = 700
MAX_NUMBERS, MAX_LABELS = 12, 40  # rules of the similarity plot up to which it has numbers and labels
PARTS = {"train": "training", "validation": "validation", "holdout": "held out"}

_GAP = 0.006  # gap between groups, as a share of the width
_MIN_SHADE = 0.15  # shade of a column with any covered row, so that it is visible
_CHARACTER = 0.0105  # approximate width of a character of small text, as a share of that of the axes
_SIMILARITIES = {"logic": "Conditions that two rules share", "rows": "Rows that two rules both cover"}

Point = tuple[float, float]
Arrow = tuple[RuleRecord, Point, Point]  # a rule, and the start and the end of its arrow


def plot_precision_coverage(result: Plottable, ax: Axes | None = None) -> Axes:
    """Plot the precision of each rule against its coverage, on training rows and on unseen rows.

    Each rule is an arrow from training rows to held-out rows, or to validation rows where none were held out. Dashed
    lines are the base rates of the classes.

    Parameters
    ----------
    result
        A fitted `RuleMiner`, a `MiningResult` or a `ResultDocument`.
    ax
        The axes to draw into; by default, pyplot makes a figure.

    Returns
    -------
    Axes
        The axes with the plot.
    """
    document = document_of(result)
    ax = ax or style.new_axes(6.4, 4.2)
    palette = style.prepare_axes(ax)
    classes = document.dataset.classes
    arrows = [(rule, *_arrow_ends(rule)) for rule in document.rules if rule.train.precision is not None]
    colours = [_class_colour(rule.label, classes, palette) for rule, _, _ in arrows]
    for gid, index, size in (("train", 1, 13), ("later", 2, 5)):
        points = [arrow[index] for arrow in arrows]
        dots = ax.scatter([x for x, _ in points], [y for _, y in points], s=size, zorder=3, edgecolors=colours)
        dots.set(gid=gid, facecolors=ax.get_facecolor() if gid == "train" else colours)
    options = {"arrowstyle": "-|>", "linewidth": 1.1, "alpha": 0.75, "shrinkA": 2, "shrinkB": 0, "mutation_scale": 9}
    for (_, start, end), colour in zip(arrows, colours, strict=True):
        if start != end:
            ax.annotate("", xy=end, xytext=start, arrowprops=options | {"color": colour})
    for name, start, end in _arrow_names(arrows) if len(arrows) <= MAX_NAMED_ARROWS else ():
        below = end[1] < start[1]
        style.annotate(ax, name, end, (4, -4 if below else 4), va="top" if below else "bottom", color=palette.soft)
    _set_limits(ax, document, [point for _, *ends in arrows for point in ends], palette)
    ax.set_xlabel("rows covered")
    ax.set_ylabel(f"precision, training → {'held out' if document.dataset.parts.holdout else 'validation'}")
    style.class_legend(ax, classes, palette, **style.ABOVE_RIGHT)
    return ax


def _arrow_ends(rule: RuleRecord) -> tuple[Point, Point]:
    """Coverage and precision on training and unseen rows; the same point twice if it covers no unseen rows."""
    train, unseen = rule.train, rule.best_evidence
    start = train.n / max(1, train.rows), train.precision or 0.0
    return start, start if unseen.precision is None else (unseen.n / max(1, unseen.rows), unseen.precision)


def _class_colour(label: str, classes: Sequence[str], palette: style.Palette) -> str:
    own = classes.index(label)
    return palette.class_colour(own, own, len(classes))


def _arrow_names(arrows: Sequence[Arrow]) -> Iterator[tuple[str, Point, Point]]:
    """Names of arrows; those that end close to each other share a label."""
    width = max((x for _, *ends in arrows for x, _ in ends), default=1.0)
    height = 1 - min((y for _, *ends in arrows for _, y in ends), default=0.0)
    groups: list[list[Arrow]] = []
    for arrow in arrows:
        x, y = arrow[2]
        for group in groups:
            (other_x, other_y) = group[0][2]
            if abs(other_x - x) <= 0.04 * width and abs(other_y - y) <= 0.02 * height:
                group.append(arrow)
                break
        else:
            groups.append([arrow])
    for group in groups:
        _, start, end = group[0]
        yield ", ".join(rule.id for rule, _, _ in group), start, end


def _set_limits(ax: Axes, document: ResultDocument, points: list[Point], palette: style.Palette) -> None:
    low = max(0.0, min([0.9, *(y for _, y in points)]) - 0.05)
    ax.set_xlim(0, 1.08 * max([0.02, *(x for x, _ in points)]))
    ax.set_ylim(low, 1 + 0.04 * (1 - low))
    style.draw_grid(ax, palette)
    style.percent_axis(ax.xaxis)
    for name in dict.fromkeys(rule.label for rule in document.rules):
        rate = document.dataset.base_rates[name]
        if rate is not None and rate > low:
            colour = _class_colour(name, document.dataset.classes, palette)
            ax.axhline(rate, color=colour, linewidth=1, linestyle=(0, (3, 4)), zorder=1)


def plot_funnel(result: Plottable, ax: Axes | None = None) -> Axes:
    """Plot how many leaves passed each filter, from all leaves to the rules, on a logarithmic scale.

    Parameters
    ----------
    result
        A fitted `RuleMiner`, a `MiningResult` or a `ResultDocument`.
    ax
        The axes to draw into; by default, pyplot makes a figure.

    Returns
    -------
    Axes
        The axes with the plot.
    """
    steps = funnel_steps(document_of(result))
    ax = ax or style.new_axes(6.4, 0.6 + 0.28 * len(steps))
    palette = style.prepare_axes(ax, left=False, bottom=False)
    colours = [*[palette.rest] * (len(steps) - 1), palette.accent]
    lengths = [log10(1 + step.leaves) for step in steps]
    ax.barh(range(len(steps)), lengths, height=0.62, color=colours)
    for row, (step, length) in enumerate(zip(steps, lengths, strict=True)):
        weight = "bold" if step is steps[-1] else "normal"
        style.annotate(ax, f"{step.leaves:,}", (length, row), (5, 0), fontweight=weight, color=palette.ink)
    style.label_rows(ax, [f"{step.label}, {step.meaning}" if step.meaning else step.label for step in steps], length=60)
    ax.set_xticks([])
    ax.set_xlim(0, 1.15 * max(log10(2), *lengths))
    style.set_title(ax, "From leaves to rules (logarithmic)", palette)
    return ax


def plot_coverage(result: Plottable, ax: Axes | None = None) -> Axes:
    """Plot which rows each rule covers: a line for each rule, a column for each row in the colour of its class.

    Rows are grouped by part and class; within a group, rows covered by the same rules are next to each other. Of a
    large table, a sample of each group is drawn.

    Parameters
    ----------
    result
        A fitted `RuleMiner`, figure data, or a document with its figure data.
    ax
        The axes to draw into; by default, pyplot makes a figure.

    Returns
    -------
    Axes
        The axes with the plot.
    """
    figures = figures_of(result)
    ids = [entry["id"] for entry in figures["rules"]]
    ax = ax or style.new_axes(8.6, min(9.0, 1.3 + 0.19 * len(ids)))
    palette = style.prepare_axes(ax, left=False, bottom=False)
    groups, sampled = figures["coverage"]["groups"], figures["coverage"]["sampled"]
    sizes = np.array([group["sampled"] for group in groups])
    firsts = np.cumsum(sizes) - sizes
    starts: list[float] = (firsts + _GAP * sampled * np.arange(len(sizes))).tolist()
    covered = read_coverage(figures)
    for group, first, start in zip(groups, firsts.tolist(), starts, strict=True):
        colour = palette.class_colour(group["class"], group["class"], len(figures["classes"]))
        max_columns = max(1, MAX_COLUMNS * group["sampled"] // sampled)
        _draw_group(ax, covered[:, first : first + group["sampled"]], max_columns, start, (palette.grid, colour))
    ax.set_xlim(0, max(1.0, starts[-1] + groups[-1]["sampled"]))
    ax.set_xticks([])
    style.label_rows(ax, ids if len(ids) <= MAX_NAMED_ROWS else [])
    ax.set_ylim(max(1, len(ids)) - 0.5, -0.5)
    _label_groups(ax, groups, starts, palette)
    rows = figures["coverage"]["rows"]
    ax.set_xlabel(f"{sampled:,} of {rows:,} rows, each group by its share" if sampled < rows else f"all {rows:,} rows")
    ax.xaxis.set_label_coords(0, 0)
    ax.xaxis.label.set(ha="left", va="top", fontsize=style.SMALL)
    names = [name or "others" for name in figures["classes"]]
    style.class_legend(ax, names, palette, loc="upper right", bbox_to_anchor=(1, 0), borderaxespad=0.2)
    return ax


def read_coverage(figures: FigureData) -> npt.NDArray[np.uint8]:
    """(rules, sampled rows): 1 where a rule covers a row."""
    packed = np.frombuffer(b64decode(figures["coverage"]["bits"]), np.uint8)
    count, sampled = len(figures["rules"]), figures["coverage"]["sampled"]
    return np.unpackbits(packed.reshape(count, -1), axis=1)[:, :sampled] if count else np.zeros((0, sampled), np.uint8)


def _draw_group(
    ax: Axes, covered: npt.NDArray[np.uint8], max_columns: int, start: float, colours: tuple[str, str]
) -> None:
    rules, rows = covered.shape
    end = start + rows
    if rules and rows:
        ax.imshow(
            _column_shades(covered, max_columns),
            cmap=LinearSegmentedColormap.from_list("covered", colours),
            vmin=0,
            vmax=1,
            aspect="auto",
            interpolation="nearest",
            extent=(start, end, rules - 0.5, -0.5),
        )
    for line in range(1, rules) if rules <= MAX_NAMED_ROWS else ():
        ax.plot([start, end], [line - 0.5] * 2, color=ax.get_facecolor(), linewidth=1)
    above = offset_copy(ax.get_xaxis_transform(), ax.figure.figure, 0, 4, units="points")
    ax.plot([start, end], [1, 1], color=colours[1], linewidth=3, solid_capstyle="butt", clip_on=False, transform=above)


def _column_shades(covered: npt.NDArray[np.uint8], max_columns: int) -> npt.NDArray[Any]:
    """(rules, columns): the covered share of the rows of each column; the rows themselves if there is room for all."""
    rows = covered.shape[1]
    if rows <= max_columns:
        return covered
    starts = np.arange(max_columns) * rows // max_columns
    shares = np.add.reduceat(covered, starts, axis=1, dtype=np.float64) / np.diff([*starts, rows])
    return np.where(shares > 0, np.maximum(_MIN_SHADE, shares), 0)


def _label_groups(
    ax: Axes, groups: Sequence[Mapping[str, Any]], starts: Sequence[float], palette: style.Palette
) -> None:
    """Write the name above each part and the covered share above each group, where there is room."""
    width = ax.get_xlim()[1]
    above: dict[str, Any] = {"xycoords": ax.get_xaxis_transform(), "va": "baseline"}
    labelled: set[str] = set()
    for group, start in zip(groups, starts, strict=True):
        part = PARTS[group["part"]]
        room = sum(other["sampled"] for other in groups if other["part"] == group["part"])
        if part not in labelled and room > _CHARACTER * len(part) * width:
            style.annotate(ax, part, (start, 1), (0, 20), color=palette.ink, **above)
        labelled.add(part)
        text = f"{style.format_percent(group['covered'] / max(1, group['rows']))} covered"
        if group["sampled"] > _CHARACTER * len(text) * width:
            style.annotate(ax, text, (start, 1), (0, 9), color=palette.soft, **above)


def plot_similarity(result: Plottable, ax: Axes | None = None, *, by: Literal["logic", "rows"] = "logic") -> Axes:
    """Plot the similarity of each two rules in percent of the smaller one; similar rules are next to each other.

    Parameters
    ----------
    result
        A fitted `RuleMiner`, figure data, or a document with its figure data.
    ax
        The axes to draw into; by default, pyplot makes a figure.
    by
        `"logic"` for the share of common conditions, `"rows"` for that of common training rows.

    Returns
    -------
    Axes
        The axes with the plot.
    """
    if by not in _SIMILARITIES:
        raise SettingsError(f"Similarity is by 'logic' (conditions) or by 'rows', not by {by!r}.")
    figures = figures_of(result)
    matrix = read_similarity(figures, by)
    order = figures["similarity"]["order"][by]
    ids = [figures["rules"][index]["id"] for index in order]
    side = min(6.4, 1.6 + 0.32 * len(ids))
    ax = ax or style.new_axes(max(3.2, side + 1.2), max(2.8, side))
    palette = style.prepare_axes(ax, left=False, bottom=False)
    style.set_title(ax, _SIMILARITIES[by], palette)
    if ids:
        # Every rule is fully similar to itself: the diagonal would dominate the plot.
        masked = np.ma.masked_array(matrix[np.ix_(order, order)], np.eye(len(ids), dtype=np.bool_))
        numbers = len(ids) <= MAX_NUMBERS
        image = style.draw_matrix(ax, masked, 100, palette, masked=palette.rule, numbers=numbers)
        if not numbers:
            style.colour_bar(image, ax.inset_axes((1.03, 0.7, 0.025, 0.3)), [0, 50, 100], palette, " %")
    names = ids if len(ids) <= MAX_LABELS else []
    size = style.SMALL if len(ids) <= 25 else 5.5
    ax.set_xticks(range(len(names)), names, rotation=90, fontsize=size, **style.LITERAL)
    ax.set_yticks(range(len(names)), names, fontsize=size, **style.LITERAL)
    ax.tick_params(length=0)
    return ax


def read_similarity(figures: FigureData, by: str) -> npt.NDArray[np.uint8]:
    """(rules, rules): percent."""
    size = len(figures["rules"])
    return np.frombuffer(b64decode(figures["similarity"][by]), np.uint8).reshape(size, size)
