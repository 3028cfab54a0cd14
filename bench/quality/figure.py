"""Plots as plain values, which are drawn in the peers' environment, where matplotlib is installed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Series:
    """A bar (one value, no x) or a line."""

    name: str
    y: Sequence[float]
    error: Sequence[float]
    x: Sequence[float] = ()
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    ylabel: str
    series: Sequence[Series]
    kind: Literal["bars", "lines"] = "bars"
    xlabel: str = ""
    goal: float | None = None
