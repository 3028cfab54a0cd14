"""Counts of the rows that rules cover, in each part of the split: what the evidence for published rules is made of.

`SplitCounter` counts the rows of a study. `all_rows.AllRows` counts those of a dataset of which a study has a sample.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.data.weights import UNIT, count_units
from maabo_dist.rules.matching import Floats, Logic, covered_rows, covers_rows
from maabo_dist.study import Study

Ints = npt.NDArray[np.int64]

# Features whose codes are kept in the order of counting: 64 MB for a million rows.
CACHED_FEATURES = 32


class RowCounter(Protocol):
    """Counts the rows of rules."""

    @property
    def effect(self) -> float:
        """The number of rows that are worth one independent row in tests and intervals."""

    @property
    def unit(self) -> int:
        """The units of one row in counts: 1 unless rows have weights."""

    @property
    def totals(self) -> Ints:
        """(parts, C): all rows, in units."""

    @property
    def rows(self) -> tuple[int, int, int]:
        """The number of rows of each part, weights aside."""

    def count(self, logic: Logic, bounds: Floats) -> Ints:
        """(rules, parts, C): the rows that each rule covers, in units."""

    def count_unique(self, logic: Logic, bounds: Floats, labels: Sequence[int]) -> Ints:
        """(rules): the training rows that no other of these rules, for these classes, covers."""


@dataclass(frozen=True, slots=True)
class SplitCounter:
    """Counts the rows of a study."""

    columns: Columns
    split: Split
    effect: float

    @classmethod
    def of(cls, study: Study) -> "SplitCounter":
        """Count the rows that the study has in memory."""
        return cls(study.columns, study.split, study.design_effect)

    @property
    def unit(self) -> int:
        """The units of one row."""
        return 1 if self.columns.weights is None else UNIT

    @property
    def _parts(self) -> tuple[Ints, Ints, Ints]:
        return self.split.train, self.split.validation, self.split.holdout

    @property
    def totals(self) -> Ints:
        """(parts, C): all rows, in units."""
        return np.array([self._count_units(rows) for rows in self._parts], np.int64)

    @property
    def rows(self) -> tuple[int, int, int]:
        """The number of rows of each part."""
        train, validation, holdout = self._parts
        return len(train), len(validation), len(holdout)

    def count(self, logic: Logic, bounds: Floats) -> Ints:
        """(rules, parts, C): the rows that each rule covers, in units."""
        columns, classes = self.columns, len(self.columns.classes)
        # Rows by part and class: those of each are next to each other, and counting them is a sum.
        by_class = [rows[columns.labels[rows] == label] for rows in self._parts for label in range(classes)]
        order, stops = np.concatenate(by_class), np.cumsum([len(rows) for rows in by_class])
        starts = np.concatenate([[0], stops[:-1]])
        units = None if columns.weights is None else columns.weights[order]

        @lru_cache(maxsize=CACHED_FEATURES)
        def codes_of(feature: int) -> npt.NDArray[np.unsignedinteger[Any]]:
            codes: npt.NDArray[np.unsignedinteger[Any]] = columns.codes[feature][order]
            return codes

        counts = np.empty((len(logic), len(by_class)), np.int64)
        for rule, (literals, thresholds) in enumerate(zip(logic, bounds, strict=True)):
            covered = covers_rows(columns, codes_of, len(order), literals, thresholds)
            if units is None:
                counts[rule] = [np.count_nonzero(covered[low:high]) for low, high in zip(starts, stops, strict=True)]
            else:
                counts[rule] = [
                    units[low:high][covered[low:high]].sum() for low, high in zip(starts, stops, strict=True)
                ]
        return counts.reshape(len(logic), len(self._parts), classes)

    def count_unique(self, logic: Logic, bounds: Floats, labels: Sequence[int]) -> Ints:  # noqa: ARG002 - see AllRows
        """(rules): the training rows that no other of these rules covers."""
        train = self.split.train
        covered = covered_rows(self.columns, train, logic, bounds)
        alone = covered & (covered.sum(axis=0) == 1)
        return np.array([self.columns.count_classes(train[mask]).sum() for mask in alone], np.int64)

    def _count_units(self, rows: Ints) -> Ints:
        units = None if self.columns.weights is None else self.columns.weights[rows]
        return count_units(self.columns.labels[rows], units, len(self.columns.classes))
