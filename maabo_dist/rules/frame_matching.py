"""Rows of a DataFrame that satisfy the conditions of rules, read as the table was that the rules were mined from."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist.contract.conditions import Condition
from maabo_dist.data.cells import levels
from maabo_dist.data.columns import FeatureKind
from maabo_dist.data.dates import part_values
from maabo_dist.data.encoder import TableEncoder, read_numbers, read_times
from maabo_dist.rules.matching import Mask, condition_holds


def match_frame(rules: Sequence[Iterable[Condition]], frame: pd.DataFrame, encoder: TableEncoder) -> Mask:
    """(rules, rows): True where all conditions of a rule hold; `encoder` is that of the table of the rules."""
    frame = encoder.check(frame)
    columns = {column: _Column(frame[column], kinds, layout) for column, kinds, layout in _kinds(encoder)}
    premises = [tuple(each) for each in rules]
    distinct = dict.fromkeys(condition for each in premises for condition in each)
    holds = {condition: columns[condition.feature].holds(condition) for condition in distinct}
    covered = np.ones((len(premises), len(frame)), np.bool_)
    for number, each in enumerate(premises):
        for condition in each:
            covered[number] &= holds[condition]
    return covered


def _kinds(encoder: TableEncoder) -> Iterable[tuple[str, set[FeatureKind], str]]:
    """Each column with the kinds of its features, and the layout of its dates."""
    for column, group in groupby(encoder.features, key=attrgetter("column")):
        features = tuple(group)
        layouts = [feature.levels[1] for feature in features if feature.kind is FeatureKind.DATE]
        yield column, {feature.kind for feature in features}, (*layouts, "")[0]


class _Column:
    """The cells of one column."""

    def __init__(self, cells: pd.Series, kinds: set[FeatureKind], layout: str) -> None:
        self._times = read_times(cells, layout) if FeatureKind.DATE in kinds else None
        self._numbers = read_numbers(cells) if FeatureKind.NUMBER in kinds else np.empty(0)
        self._texts = np.empty(0, object)
        if self._times is not None:
            self._missing = self._times.isna().to_numpy()
        elif FeatureKind.NUMBER in kinds:
            self._missing = np.isnan(self._numbers)
        elif kinds == {FeatureKind.MISSING}:
            self._missing = cells.isna().to_numpy()
        else:
            coded = levels(cells)
            self._texts = np.array([*coded.texts, None], object)[coded.codes]
            self._missing = coded.codes < 0

    def holds(self, condition: Condition) -> Mask:
        return condition_holds(condition, self._missing, lambda: self._values(condition), lambda: self._texts)

    def _values(self, condition: Condition) -> npt.NDArray[np.float64]:
        if condition.part is not None and self._times is not None:
            return part_values(self._times, condition.part.part, condition.part.first)
        return self._numbers
