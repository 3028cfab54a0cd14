"""Rows of the table that a reader can change to see which rules match, and how each of their columns is entered."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist.data.columns import Columns, Feature, FeatureKind
from maabo_dist.rules.column_matching import match_columns
from maabo_dist.rules.rule import Rule
from maabo_dist.study import Study

# Rows: one for each of the first rules, and one that no rule covers.
MAX_ROWS = 8
# Levels that can be chosen, besides those in conditions.
MAX_LEVELS = 100
# Stands for every value that is not listed, and for a cell of which only its presence is known; no level has this text.
OTHER = "\0other"

Cell = float | str | None


def example_rows(rules: Sequence[Rule], study: Study) -> dict[str, Any] | None:
    """Return the columns of the rules (`fields`) and rows (`rows`) with their classes; None without rules.

    The cells of a row are in the order of the fields: numbers, levels, dates as `2024-12-31T23:00`, None if missing.
    """
    columns = study.prepared
    names = dict.fromkeys(condition.feature for rule in rules for condition in rule.conditions)
    if not names:
        return None
    fields = [_Field(name, columns, rules) for name in names]
    rows = _choose_rows(rules, columns, study.split.holdout if len(study.split.holdout) else study.mined_rows)
    return {
        "fields": [field.to_json() for field in fields],
        "rows": [
            {"cells": [field.cell(row) for field in fields], "class": int(columns.labels[row])} for row in rows.tolist()
        ],
    }


def _choose_rows(rules: Sequence[Rule], columns: Columns, among: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the first row that each of the first rules covers, then one that no rule covers."""
    covered = match_columns([rule.conditions for rule in rules], columns)[:, np.sort(among)]
    firsts = [int(mask.argmax()) for mask in covered[: MAX_ROWS - 1] if mask.any()]
    uncovered = np.flatnonzero(~covered.any(axis=0))[:1].tolist()
    chosen = list(dict.fromkeys([*firsts, *uncovered])) or [0]
    return np.sort(among)[chosen]


class _Field:
    """A column of the table: how it is entered, and the cell of a row."""

    def __init__(self, name: str, columns: Columns, rules: Sequence[Rule]) -> None:
        self.name, self._columns = name, columns
        self._features = {index: feature for index, feature in enumerate(columns.features) if feature.column == name}
        self._raw = next((index for index, raw in enumerate(columns.raw) if raw.column == name), None)
        self._conditions = [each for rule in rules for each in rule.conditions if each.feature == name]
        kinds = {feature.kind for feature in self._features.values()}
        self.kind = "levels"
        if FeatureKind.NUMBER in kinds:
            self.kind = "number"
        elif FeatureKind.DATE in kinds:
            self.kind = "date"

    def to_json(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"column": self.name, "kind": self.kind}
        if self.kind == "levels":
            return entry | {"levels": self._levels()}
        if self.kind == "date":
            return entry | {"hours": self._part("hour") is not None, "days": self._part("days") is not None}
        values = self._columns.column(self._first(FeatureKind.NUMBER))
        return entry | {"low": float(values.min()), "high": float(values.max())}

    def cell(self, row: int) -> Cell:
        if self._raw is not None and self._columns.raw_codes[self._raw][row] == 0:
            return None
        match self.kind:
            case "number":
                return float(self._columns.column(self._first(FeatureKind.NUMBER))[row])
            case "date":
                return self._date(row)
        if self._raw is not None:
            texts = (*self._columns.raw[self._raw].levels, OTHER)
            return texts[int(self._columns.raw_codes[self._raw][row]) - 1]
        index, feature = next(iter(self._features.items()))
        if feature.kind is FeatureKind.PAIR:
            return feature.levels[int(self._columns.column(index)[row])]
        return OTHER

    def _levels(self) -> list[str]:
        """The levels of the conditions, and the others up to the limit; `OTHER` is always one."""
        used = [
            level
            for condition in self._conditions
            if condition.value is not None
            for level in (condition.value if isinstance(condition.value, tuple) else (str(condition.value),))
        ]
        pairs = [level for feature in self._features.values() for level in feature.levels if _is_pair(feature)]
        known = pairs if self._raw is None else [*self._columns.raw[self._raw].levels]
        listed = {*used, *(known or pairs)[:MAX_LEVELS]}
        return [*(level for level in dict.fromkeys([*known, *used]) if level in listed), OTHER]

    def _first(self, kind: FeatureKind) -> int:
        return next(index for index, feature in self._features.items() if feature.kind is kind)

    def _part(self, part: str) -> int | None:
        dates = (index for index, each in self._features.items() if each.kind is FeatureKind.DATE)
        return next((index for index in dates if self._features[index].levels[0] == part), None)

    def _date(self, row: int) -> str | None:
        """The day, and the hour where hours differ; None where the table kept too little of its dates."""
        days, hours = self._part("days"), self._part("hour")
        if days is None and hours is None:
            return None
        first = self._features[self._first(FeatureKind.DATE)].levels[2]
        days_after = 0.0 if days is None else float(self._columns.column(days)[row])
        hour = 0.0 if hours is None else float(self._columns.column(hours)[row])
        moment = datetime.fromisoformat(first) + timedelta(days=days_after, hours=hour)
        return moment.isoformat(timespec="minutes")


def _is_pair(feature: Feature) -> bool:
    return feature.kind is FeatureKind.PAIR
