"""Rows of DataFrames that satisfy the conditions of rules, read as the table was that the rules were mined from.

match_frame    one DataFrame and the encoder of that table, as `RuleMiner` has it
FrameMatcher   a table that comes in parts, and nothing but the rules, as a result document has them
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist._util.text import format_count, format_names, suggestion
from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.data.cells import levels
from maabo_dist.data.columns import FeatureKind
from maabo_dist.data.dates import part_values, to_times
from maabo_dist.data.encoder import (
    TableEncoder,
    check_unique,
    no_dates_error,
    no_numbers_error,
    read_numbers,
    read_times,
    to_numbers,
    with_text_names,
)
from maabo_dist.errors import DatasetError
from maabo_dist.rules.matching import Mask, condition_holds

_BOUNDS = frozenset({Op.AT_MOST, Op.ABOVE, Op.AT_LEAST})
_ABSENCES = frozenset({Op.IS_MISSING, Op.IS_PRESENT})
# Cells of an unreadable column that an error quotes.
_MAX_EXAMPLES = 20


class ColumnUse(NamedTuple):
    """How the cells of a column are read: the kinds of features that conditions are on, and the layout of its dates."""

    kinds: frozenset[FeatureKind]
    layout: str = ""


def match_frame(rules: Sequence[Iterable[Condition]], frame: pd.DataFrame, encoder: TableEncoder) -> Mask:
    """(rules, rows): True where all conditions of a rule hold; `encoder` is that of the table of the rules."""
    frame = encoder.check(frame)
    columns = {column: FrameColumn(frame[column], kinds, layout) for column, kinds, layout in column_kinds(encoder)}
    return _match([tuple(each) for each in rules], columns, len(frame))


class FrameMatcher:
    """Matches the parts of a table, one after another. No part needs to have a readable cell in each column."""

    def __init__(self, rules: Sequence[Iterable[Condition]]) -> None:
        self._premises = [tuple(each) for each in rules]
        self.uses = uses_of_conditions(condition for each in self._premises for condition in each)
        self._readable = dict.fromkeys(self.uses, False)
        # Texts of cells that could not be read, by column.
        self._unread: dict[str, dict[str, None]] = {name: {} for name in self.uses}
        named = {each for premise in self._premises for each in premise if each.op not in _BOUNDS | _ABSENCES}
        # Levels that rules name, by column, as long as none of them has been met.
        self._levels = {each.feature: set[str]() for each in named}
        for each in named:
            self._levels[each.feature] |= {each.value} if isinstance(each.value, str) else {*_texts(each.value)}

    def check(self, names: Sequence[str]) -> None:
        """Raise an error if the table, with columns of these names, lacks columns of the rules."""
        absent = [name for name in self.uses if name not in names]
        if absent:
            raise DatasetError(
                f"The table lacks {format_count(len(absent), 'column')} of the rules: {format_names(absent)}. "
                f"{suggestion(absent[0], list(names))} Rename the columns as in the table that was mined."
            )

    def match(self, frame: pd.DataFrame) -> Mask:
        """(rules, rows): True where all conditions of a rule hold."""
        frame = with_text_names(frame)
        self.check(list(frame.columns))
        check_unique(frame.columns, among=self.uses)
        readable = {}
        for name, use in self.uses.items():
            cells = frame[name]
            column = FrameColumn(cells, use.kinds, use.layout, partial=True)
            readable[name] = column
            self._note(name, cells, column)
        return _match(self._premises, readable, len(frame))

    def finish(self) -> list[str]:
        """Raise an error if no cell of a column was of its kind; return remarks on columns without known levels."""
        for name, use in self.uses.items():
            examples = list(self._unread[name])
            if self._readable[name] or not examples:
                continue
            raise no_dates_error(name, examples[0], use.layout) if use.layout else no_numbers_error(name, examples)
        return [
            f"Column {name!r} has none of the levels that rules name: {format_names(sorted(texts))}."
            for name, texts in self._levels.items()
            if texts and self._readable[name]
        ]

    def _note(self, name: str, cells: pd.Series, column: "FrameColumn") -> None:
        if not column.missing.all():
            self._readable[name] = True
        elif not self._readable[name] and len(self._unread[name]) < _MAX_EXAMPLES:
            present = cells.dropna().iloc[:_MAX_EXAMPLES]
            self._unread[name] |= dict.fromkeys(map(str, present))
        if self._levels.get(name) and not self._levels[name].isdisjoint(column.texts):
            self._levels[name] = set()


def uses_of_conditions(conditions: Iterable[Condition]) -> dict[str, ColumnUse]:
    """Return how each column is read that conditions name, in the order of their first condition."""
    uses: dict[str, ColumnUse] = {}
    for condition in conditions:
        known = uses.setdefault(condition.feature, ColumnUse(frozenset({FeatureKind.MISSING})))
        if known.kinds == {FeatureKind.MISSING} and (condition.as_text or condition.op not in _ABSENCES):
            uses[condition.feature] = _use_of(condition)
    return uses


def _use_of(condition: Condition) -> ColumnUse:
    if condition.part is not None:
        return ColumnUse(frozenset({FeatureKind.DATE}), condition.part.layout)
    is_number = condition.as_text or condition.op in _BOUNDS
    return ColumnUse(frozenset({FeatureKind.NUMBER if is_number else FeatureKind.LEVEL}))


def column_kinds(encoder: TableEncoder) -> Iterable[tuple[str, set[FeatureKind], str]]:
    """Yield each column with the kinds of its features, and the layout of its dates."""
    for column, group in groupby(encoder.features, key=attrgetter("column")):
        features = tuple(group)
        layouts = [feature.levels[1] for feature in features if feature.kind is FeatureKind.DATE]
        yield column, {feature.kind for feature in features}, (*layouts, "")[0]


class FrameColumn:
    """The cells of one column. Unless `partial`, it is an error if none of them is of the column's kind."""

    def __init__(
        self, cells: pd.Series, kinds: AbstractSet[FeatureKind], layout: str, *, partial: bool = False
    ) -> None:
        convert_times, convert_numbers = (to_times, to_numbers) if partial else (read_times, read_numbers)
        self._times = convert_times(cells, layout) if FeatureKind.DATE in kinds else None
        self._numbers = convert_numbers(cells) if FeatureKind.NUMBER in kinds else np.empty(0)
        # The texts of levels; empty if the column is read otherwise.
        self.texts: npt.NDArray[np.object_] = np.empty(0, object)
        if self._times is not None:
            self.missing: Mask = self._times.isna().to_numpy()
        elif FeatureKind.NUMBER in kinds:
            self.missing = np.isnan(self._numbers)
        elif kinds == {FeatureKind.MISSING}:
            self.missing = cells.isna().to_numpy()
        else:
            coded = levels(cells)
            self.texts = np.array([*coded.texts, None], object)[coded.codes]
            self.missing = coded.codes < 0

    def holds(self, condition: Condition) -> Mask:
        """(rows): True where the condition holds."""
        return condition_holds(condition, self.missing, lambda: self._values(condition), lambda: self.texts)

    def _values(self, condition: Condition) -> npt.NDArray[np.float64]:
        if condition.part is not None and self._times is not None:
            return part_values(self._times, condition.part.part, condition.part.first)
        return self._numbers


def _match(premises: Sequence[Sequence[Condition]], columns: Mapping[str, FrameColumn], rows: int) -> Mask:
    distinct = dict.fromkeys(condition for each in premises for condition in each)
    holds = {condition: columns[condition.feature].holds(condition) for condition in distinct}
    covered = np.ones((len(premises), rows), np.bool_)
    for number, each in enumerate(premises):
        for condition in each:
            covered[number] &= holds[condition]
    return covered


def _texts(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()
