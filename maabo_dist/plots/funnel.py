"""The funnel: how many leaves passed each sieve."""

from math import log10

from matplotlib.axes import Axes

from maabo_dist.plots.paper import SMALL, entitle, name_rows, new_axes, tidy
from maabo_dist.plots.shown import Shown, document_of
from maabo_dist.report.sayings import funnel_steps


def plot_funnel(shown: Shown, ax: Axes | None = None) -> Axes:
    """A bar a sieve, on a logarithmic scale: the first has all leaves, the last the rules."""
    document = document_of(shown)
    steps = funnel_steps(document)
    counts = [document["funnel"][step.key] for step in steps]
    ax = ax or new_axes(6.4, 0.6 + 0.28 * len(steps))
    palette = tidy(ax, left=False, bottom=False)
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
    entitle(ax, "From leaves to rules (logarithmic)", palette)
    return ax
