"""Precision against coverage: an arrow a rule, from training rows to rows that did not make it."""

from collections.abc import Iterator, Sequence
from math import log10

from matplotlib.axes import Axes

from maabo_dist.contract.result import Part, ResultDocument, RuleRecord
from maabo_dist.plots.style import (
    LITERAL,
    SMALL,
    Palette,
    Shown,
    document_of,
    legend_above,
    name_rows,
    new_axes,
    percent_axis,
    set_title,
    style_axes,
)
from maabo_dist.report.summary import funnel_steps

MOST_NAMED = 24
"""Rules whose arrows have names; of more, names would hide arrows."""

Spot = tuple[float, float]
Drawn = tuple[RuleRecord, Spot, Spot]
"""A rule, and where its arrow begins and ends."""


def plot_precision_coverage(shown: Shown, ax: Axes | None = None) -> Axes:
    """Arrows from training rows to held-out rows, or validation rows where none were held out; dashed: base rates."""
    document = document_of(shown)
    ax = ax or new_axes(6.4, 4.2)
    palette = style_axes(ax)
    classes = document.dataset.classes
    later: Part = "holdout" if document.dataset.parts.holdout else "validation"
    rules = [(rule, *_ends(rule, later)) for rule in document.rules if rule.train.precision is not None]
    colours = [_colour(rule.label, classes, palette) for rule, _, _ in rules]
    for gid, place, size in (("train", 1, 13), ("later", 2, 5)):
        spots = [entry[place] for entry in rules]
        dots = ax.scatter([x for x, _ in spots], [y for _, y in spots], s=size, zorder=3, edgecolors=colours)
        dots.set(gid=gid, facecolors=ax.get_facecolor() if gid == "train" else colours)
    for (_, start, end), colour in zip(rules, colours, strict=True):
        _arrow(ax, start, end, colour)
    for name, start, end in _names(rules) if len(rules) <= MOST_NAMED else ():
        _name(ax, name, start, end, palette)
    _frame(ax, document, [spot for _, *ends in rules for spot in ends], palette)
    ax.set_xlabel("rows covered")
    ax.set_ylabel(f"precision, training → {'held out' if later == 'holdout' else 'validation'}")
    legend_above(ax, classes, palette)
    return ax


def _ends(rule: RuleRecord, later: Part) -> tuple[Spot, Spot]:
    """Coverage and precision on training rows and later; a rule that covers nothing later stays where it is."""
    train, unseen = rule.train, rule.supports.get(later, rule.train)
    start = train.n / max(1, train.rows), train.precision or 0.0
    return start, start if unseen.precision is None else (unseen.n / max(1, unseen.rows), unseen.precision)


def _colour(label: str, classes: Sequence[str], palette: Palette) -> str:
    own = classes.index(label)
    return palette.of_class(own, own, len(classes))


def _arrow(ax: Axes, start: Spot, end: Spot, colour: str) -> None:
    arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.1, "alpha": 0.75, "shrinkA": 2, "shrinkB": 0}
    if start != end:
        ax.annotate("", xy=end, xytext=start, arrowprops=arrow | {"mutation_scale": 9})


def _names(rules: Sequence[Drawn]) -> Iterator[tuple[str, Spot, Spot]]:
    """Names of arrows; those that end in about one place share a label."""
    widest = max((x for _, *ends in rules for x, _ in ends), default=1.0)
    deepest = 1 - min((y for _, *ends in rules for _, y in ends), default=0.0)
    groups: list[list[Drawn]] = []
    for drawn in rules:
        x, y = drawn[2]
        for group in groups:
            (other_x, other_y) = group[0][2]
            if abs(other_x - x) <= 0.04 * widest and abs(other_y - y) <= 0.02 * deepest:
                group.append(drawn)
                break
        else:
            groups.append([drawn])
    for group in groups:
        _, start, end = group[0]
        yield ", ".join(rule.id for rule, _, _ in group), start, end


def _name(ax: Axes, name: str, start: Spot, end: Spot, palette: Palette) -> None:
    below = end[1] < start[1]
    ax.annotate(
        name,
        end,
        xytext=(4, -4 if below else 4),
        textcoords="offset points",
        va="top" if below else "bottom",
        fontsize=SMALL,
        color=palette.soft,
        **LITERAL,
    )


def _frame(ax: Axes, document: ResultDocument, spots: list[Spot], palette: Palette) -> None:
    low = max(0.0, min([0.9, *(y for _, y in spots)]) - 0.05)
    ax.set_xlim(0, 1.08 * max([0.02, *(x for x, _ in spots)]))
    ax.set_ylim(low, 1 + 0.04 * (1 - low))
    ax.grid(axis="y", color=palette.grid, linewidth=0.8)
    ax.set_axisbelow(True)
    percent_axis(ax.xaxis)
    for name in dict.fromkeys(rule.label for rule in document.rules):
        rate = document.dataset.base_rates[name]
        if rate is not None and rate > low:
            colour = _colour(name, document.dataset.classes, palette)
            ax.axhline(rate, color=colour, linewidth=1, linestyle=(0, (3, 4)), zorder=1)


def plot_funnel(shown: Shown, ax: Axes | None = None) -> Axes:
    """A bar a sieve, on a logarithmic scale: the first has all leaves, the last the rules."""
    document = document_of(shown)
    steps = funnel_steps(document)
    counts = [step.leaves for step in steps]
    ax = ax or new_axes(6.4, 0.6 + 0.28 * len(steps))
    palette = style_axes(ax, left=False, bottom=False)
    colours = [*[palette.rest] * (len(steps) - 1), palette.accent]
    ax.barh(range(len(steps)), [log10(1 + count) for count in counts], height=0.62, color=colours)
    for row, (step, count) in enumerate(zip(steps, counts, strict=True)):
        ax.annotate(
            f"{count:,}",
            (log10(1 + count), row),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL,
            fontweight="bold" if step is steps[-1] else "normal",
            color=palette.ink,
        )
    name_rows(ax, [f"{step.label}, {step.meaning}" if step.meaning else step.label for step in steps], length=60)
    ax.set_xticks([])
    ax.set_xlim(0, 1.15 * log10(1 + max(1, *counts)))
    set_title(ax, "From leaves to rules (logarithmic)", palette)
    return ax
