"""What is shown of an experiment, as values: tables of our figures beside the paper's, and panels of a plot."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

NOT_PRINTED = "not printed"
"""Where the paper has a figure only as a point of a plot, or not at all."""
ERROR_SHARE = 0.5
"""The paper's error bars are half a standard deviation."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table: our figures, and the paper's where it prints them."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Series:
    """Points with error bars."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    error: tuple[float, ...] = ()
    """Half the length of each bar; none if empty."""
    level: bool = False
    """Whether it is one value for all x: a line across."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    bars: bool = False
    """Bars beside each other rather than lines."""
    ticks: tuple[str, ...] = ()
    """Names of the places 0, 1, … on the x axis, where these are not numbers."""
    log: bool = False
    percent: bool = False


def mean(values: Iterable[float]) -> float:
    """NaN of nothing."""
    known = list(values)
    return fmean(known) if known else float("nan")


def error(values: Iterable[float]) -> float:
    """Half the length of an error bar."""
    known = list(values)
    return ERROR_SHARE * pstdev(known) if known else 0.0


def spread(values: Sequence[float], digits: int = 2) -> str:
    """`6.42 ± 0.81`: a mean and half a standard deviation, as the paper's error bars."""
    return f"{mean(values):.{digits}f} ± {error(values):.{digits}f}" if values else "–"


def in_percent(values: Sequence[float]) -> str:
    """`47 %`."""
    return f"{100 * mean(values):.0f} %" if values else "–"


def series(name: str, points: dict[float, Sequence[float]]) -> Series:
    """Means with error bars, from all values at each x; an x without values is left out."""
    known = {x: values for x, values in sorted(points.items()) if values}
    return Series(
        name,
        tuple(known),
        tuple(mean(values) for values in known.values()),
        tuple(error(values) for values in known.values()),
    )
