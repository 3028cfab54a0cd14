"""Means and shares over seeds, each with its standard error."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import nan, sqrt

import numpy as np

from bench.quality.experiment import Record


@dataclass(frozen=True, slots=True)
class Estimate:
    value: float
    error: float
    """Standard error; NaN where there is one seed only."""

    def shown(self, spec: str = ".3g", scale: float = 1.0) -> str:
        if np.isnan(self.value):
            return "–"
        error = "" if np.isnan(self.error) else f" ± {format(self.error * scale, spec)}"
        return f"{format(self.value * scale, spec)}{error}"

    @property
    def percent(self) -> str:
        return self.shown(".1f", 100)


def mean(values: Iterable[float | None]) -> Estimate:
    """Of those that are there."""
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    if not len(known):
        return Estimate(nan, nan)
    return Estimate(float(known.mean()), float(known.std(ddof=1) / sqrt(len(known))) if len(known) > 1 else nan)


def ratio(parts: Iterable[float], wholes: Iterable[float]) -> Estimate:
    """Sum of the parts over sum of the wholes, seeds being what varies (the error is the linearised one).

    A seed counts as much as its whole is large: one that publishes a single rule does not outweigh one with twenty.
    """
    part, whole = (np.array(list(values), dtype=np.float64) for values in (parts, wholes))
    if not whole.sum():
        return Estimate(nan, nan)
    value = part.sum() / whole.sum()
    if len(part) < 2:
        return Estimate(float(value), nan)
    residue = part - value * whole
    error = sqrt(float(residue @ residue) / (len(part) * (len(part) - 1))) / whole.mean()
    return Estimate(float(value), float(error))


def share(flags: Sequence[bool]) -> Estimate:
    """How many of the runs; binomial error."""
    value = float(np.mean(flags)) if len(flags) else nan
    return Estimate(value, sqrt(value * (1 - value) / len(flags)) if len(flags) else nan)


def grouped(records: Sequence[Record], key: str | Callable[[Record], object]) -> dict[object, list[Record]]:
    """Records by a field, in the order of their first appearance."""
    groups: dict[object, list[Record]] = {}
    for record in records:
        groups.setdefault(record[key] if isinstance(key, str) else key(record), []).append(record)
    return groups


def column(records: Sequence[Record], name: str) -> list:
    return [record[name] for record in records]
