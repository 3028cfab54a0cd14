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
    """Standard error; NaN for a single seed."""

    def format(self, spec: str = ".3g", scale: float = 1.0) -> str:
        if np.isnan(self.value):
            return "–"
        error = "" if np.isnan(self.error) else f" ± {format(self.error * scale, spec)}"
        return f"{format(self.value * scale, spec)}{error}"

    @property
    def percent(self) -> str:
        return self.format(".1f", 100)


def mean(values: Iterable[float | None]) -> Estimate:
    """The mean of the values that are not None."""
    present = np.array([value for value in values if value is not None], dtype=np.float64)
    if not len(present):
        return Estimate(nan, nan)
    return Estimate(float(present.mean()), float(present.std(ddof=1) / sqrt(len(present))) if len(present) > 1 else nan)


def ratio(parts: Iterable[float], wholes: Iterable[float]) -> Estimate:
    """Sum of the parts over sum of the wholes, with the linearised error over seeds.

    A seed has the weight of its whole: one with a single rule does not count as much as one with twenty.
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
    """The share of True, with the binomial error."""
    value = float(np.mean(flags)) if len(flags) else nan
    return Estimate(value, sqrt(value * (1 - value) / len(flags)) if len(flags) else nan)


def group_by(records: Sequence[Record], key: str | Callable[[Record], object]) -> dict[object, list[Record]]:
    """Records by a field, in the order of their first appearance."""
    groups: dict[object, list[Record]] = {}
    for record in records:
        groups.setdefault(record[key] if isinstance(key, str) else key(record), []).append(record)
    return groups


def values(records: Sequence[Record], name: str) -> list:
    return [record[name] for record in records]
