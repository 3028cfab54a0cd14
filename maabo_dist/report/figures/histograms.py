"""Histograms of the columns that rules use, by class; rare classes are grouped where there are very many."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist.data.columns import Columns, FeatureKind
from maabo_dist.data.split import Split
from maabo_dist.rules.rule import Rule

# Classes that a figure distinguishes.
MAX_CLASSES = 24


@dataclass(frozen=True, slots=True)
class ClassGroups:
    """The classes that are counted together."""

    # (C): the group of each class.
    group: npt.NDArray[np.int64]
    count: int

    @classmethod
    def of(cls, totals: npt.NDArray[np.int64]) -> "ClassGroups":
        """Group by the training rows of each class: the most frequent stay, in order; the last group has the rest."""
        classes = len(totals)
        if classes <= MAX_CLASSES:
            return cls(np.arange(classes), classes)
        kept = np.sort(np.argsort(-totals, kind="stable")[: MAX_CLASSES - 1])
        group = np.full(classes, MAX_CLASSES - 1)
        group[kept] = np.arange(len(kept))
        return cls(group, MAX_CLASSES)

    def names(self, classes: Sequence[str]) -> list[str | None]:
        """Return the class of each group; None is the rest."""
        if self.count == len(classes):
            return list(classes)
        return [*(name for name, group in zip(classes, self.group, strict=True) if group < self.count - 1), None]

    def counts(self, counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return class counts (…, C) by group: (…, groups)."""
        member = np.zeros((len(self.group), self.count), np.int64)
        member[np.arange(len(self.group)), self.group] = 1
        result: npt.NDArray[np.int64] = counts.astype(np.int64) @ member
        return result


MAX_BINS = 40
MAX_VALUES = 24
MAX_LEVELS = 24
# Share of the rows at either end of a range that gets no bars of its own.
TAIL = 0.005

Histogram = dict[str, Any]
_Key = tuple[str, bool]


def draw_histograms(
    columns: Columns, split: Split, rules: Sequence[Rule], groups: ClassGroups
) -> tuple[list[Histogram], list[list[int]]]:
    """Return the histograms, and for each rule the index of the histogram of each condition."""
    keys = [[_key(columns, feature) for feature, _ in rule.logic] for rule in rules]
    indexes = {key: index for index, key in enumerate(dict.fromkeys(key for row in keys for key in row))}
    bounds: dict[_Key, list[float]] = {key: [] for key in indexes}
    for rule, row in zip(rules, keys, strict=True):
        for key, bound in zip(row, rule.bounds, strict=True):
            bounds[key].append(bound)
    drawer = _Drawer(columns, split, groups)
    return [drawer.draw(key, bounds[key]) for key in indexes], [[indexes[key] for key in row] for row in keys]


def _key(columns: Columns, feature: int) -> _Key:
    """A column, and True if the feature is that its value is missing."""
    entry = columns.features[feature]
    return entry.column, entry.kind is FeatureKind.MISSING


class _Drawer:
    def __init__(self, columns: Columns, split: Split, groups: ClassGroups) -> None:
        self.columns, self.rows, self.groups = columns, split.train, groups
        self.labels = groups.group[columns.labels[split.train]]
        self.features: dict[_Key, list[int]] = {}
        for place in range(columns.count):
            self.features.setdefault(_key(columns, place), []).append(place)

    def draw(self, key: _Key, bounds: Sequence[float]) -> Histogram:
        places = self.features[key]
        first = self.columns.features[places[0]]
        histogram: Histogram = {"column": first.column}
        match first.kind:
            case FeatureKind.NUMBER | FeatureKind.PROBE:
                return histogram | self._number(places[0], bounds)
            case FeatureKind.PAIR:
                return histogram | self._levels(self._ranks(places[0]), list(first.levels), first.missing)
            case FeatureKind.MISSING:
                return histogram | self._levels(self._ranks(places[0]), ["present", "missing"], 0)
            case FeatureKind.LEVEL:
                return histogram | self._several_levels(places)

    def _ranks(self, place: int) -> npt.NDArray[np.int64]:
        """(training rows): 0 or 1, the value of a column that has two."""
        values: npt.NDArray[np.int64] = self.columns.column(place)[self.rows].astype(np.int64)
        return values

    def _several_levels(self, places: Sequence[int]) -> Histogram:
        """The most frequent levels, and one bar for other levels and missing cells."""
        held = np.array([self._ranks(place) for place in places])
        kept = np.sort(np.argsort(-held.sum(axis=1), kind="stable")[:MAX_LEVELS])
        level = np.full(len(self.rows), len(kept))
        for number, place in enumerate(kept):
            level[held[place] == 1] = number
        names: list[str | None] = [self.columns.features[places[place]].levels[0] for place in kept]
        return self._levels(level, [*names, *([None] if (level == len(kept)).any() else [])], 0)

    def _levels(self, level: npt.NDArray[np.int64], names: Sequence[str | None], missing: int) -> Histogram:
        return {
            "kind": "levels",
            "levels": list(names),
            "counts": self._by_group(level, len(names)),
            "missing": missing,
        }

    def _number(self, place: int, bounds: Sequence[float]) -> Histogram:
        low, high = self.columns.offsets[place : place + 2]
        values, codes = self.columns.values[low:high], self.columns.codes[place][self.rows].astype(np.int64)
        entry = self.columns.features[place]
        common: Histogram = {"missing": entry.missing, "fill": entry.fill if entry.missing else None}
        used = np.unique(codes)
        if len(used) <= MAX_VALUES:
            bars = np.searchsorted(used, codes)
            return common | {
                "kind": "values",
                "values": values[used].tolist(),
                "counts": self._by_group(bars, len(used)),
            }
        first, last = _range(values[np.sort(codes)], bounds)
        edges = _edges(first, last, min(MAX_BINS, max(10, int(np.sqrt(len(codes))))))
        bars = np.clip(np.searchsorted(edges, values, side="left") - 1, 0, len(edges) - 2)[codes]
        return common | {
            "kind": "bins",
            "low": float(edges[0]),
            "high": float(edges[-1]),
            "counts": self._by_group(bars, len(edges) - 1),
        }

    def _by_group(self, bars: npt.NDArray[np.int64], count: int) -> list[list[int]]:
        """[group][bar]: training rows."""
        places = self.labels * count + bars
        counts: list[list[int]] = (
            np.bincount(places, minlength=self.groups.count * count).reshape(self.groups.count, count).tolist()
        )
        return counts


def _range(ordered: npt.NDArray[np.float64], bounds: Sequence[float]) -> tuple[float, float]:
    tail = int(TAIL * len(ordered))
    return min(float(ordered[tail]), *bounds), max(float(ordered[len(ordered) - 1 - tail]), *bounds)


def _edges(low: float, high: float, bars: int) -> npt.NDArray[np.float64]:
    """Bars of equal width; fewer for numbers too close together."""
    # By halves: the width of a range may exceed the largest float.
    edges = (
        np.linspace(low, high, bars + 1) if np.isfinite(high - low) else 2 * np.linspace(low / 2, high / 2, bars + 1)
    )
    return edges if (np.diff(edges) > 0).all() else np.array([low, high if high > low else np.nextafter(low, np.inf)])
