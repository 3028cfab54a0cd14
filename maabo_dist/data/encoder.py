"""`TableEncoder`: from a table's rows to the matrix of feature values, the same way for every table it is given.

The features alone say how: source column, kind, levels and fill. What the table that they were made from went through
is what new rows go through, so that a rule means the same on both.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist.data.cells import Levels, finite_numbers, holds_numbers, levels
from maabo_dist.data.features import Feature, FeatureKind
from maabo_dist.data.wording import counted, quoted, suggestion
from maabo_dist.errors import DatasetError

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TableEncoder:
    """Turns tables that have the features' source columns into feature values."""

    features: tuple[Feature, ...]
    """In table order: the features of one column stand together."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The table columns that `encode` reads, each once."""
        return tuple(dict.fromkeys(feature.column for feature in self.features))

    def encode(self, frame: pd.DataFrame) -> Values:
        """Feature values (D, n), no NaN among them.

        A level that the features do not know is 0 in every LEVEL feature of its column. A missing cell becomes the
        feature's `fill`.
        """
        frame = with_text_names(frame)
        self._check_columns(frame.columns)
        return self.encode_cells({column: frame[column] for column in self.columns}, len(frame))

    def encode_cells(self, table: Mapping[str, pd.Series], rows: int) -> Values:
        """`encode`, of columns that were taken out of their frame already."""
        matrix = np.empty((len(self.features), rows))
        position = 0
        for column, group in groupby(self.features, key=attrgetter("column")):
            for values in _encode_column(table[column], tuple(group)):
                matrix[position] = values
                position += 1
        return matrix

    def _check_columns(self, names: pd.Index) -> None:
        absent = [column for column in self.columns if column not in names]
        if absent:
            raise DatasetError(
                f"The table lacks {counted(len(absent), 'column')} that the features are made from: {quoted(absent)}. "
                + suggestion(absent[0], list(names))
            )
        check_unique(names, among=self.columns)


def with_text_names(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame, with its column names as text; a view where they are not text already."""
    if all(isinstance(name, str) for name in frame.columns):
        return frame
    return frame.set_axis([str(name) for name in frame.columns], axis="columns")


def check_unique(names: pd.Index, *, among: Iterable[str]) -> None:
    """Refuse a table in which one of the names `among` is the name of two columns."""
    if names.is_unique:
        return
    twice = sorted(set(names[names.duplicated()]).intersection(among))
    if twice:
        raise DatasetError(f"More than one column is called {quoted(twice)}. Give every column a name of its own.")


def _encode_column(cells: pd.Series, features: tuple[Feature, ...]) -> Iterable[Values]:
    """One array for each of the features, all of which are made from this column."""
    kinds = {feature.kind for feature in features}
    if FeatureKind.NUMBER in kinds:
        values = _numbers(cells)
        missing = np.isnan(values)
        return [_encode_number(values, missing, feature) for feature in features]
    if kinds == {FeatureKind.MISSING}:
        return [cells.isna().to_numpy().astype(np.float64)]
    coded = levels(cells)
    return [_encode_levels(coded, feature) for feature in features]


def _numbers(cells: pd.Series) -> Values:
    remedy = f"Convert column '{cells.name}' to numbers."
    if holds_numbers(cells, remedy=remedy):
        return finite_numbers(cells, remedy="Replace them by numbers or by missing cells.")
    examples = quoted(levels(cells).texts)
    raise DatasetError(f"Column '{cells.name}' holds text ({examples}) where numbers are expected. {remedy}")


def _encode_number(values: Values, missing: npt.NDArray[np.bool_], feature: Feature) -> Values:
    if feature.kind is FeatureKind.MISSING:
        return missing.astype(np.float64)
    if missing.any():
        values[missing] = _fill(feature)
    return values


def _encode_levels(coded: Levels, feature: Feature) -> Values:
    """Look each code up; a missing cell's code, −1, picks the entry put last."""
    by_level = [_level_value(text, feature) for text in coded.texts]
    for_missing = _fill(feature) if coded.missing else 0.0
    return np.array([*by_level, for_missing])[coded.codes]


def _level_value(text: str, feature: Feature) -> float:
    if feature.kind is not FeatureKind.PAIR:
        return float(feature.levels == (text,))  # 0 for every level of a MISSING feature, which names none
    if text in feature.levels:
        return float(feature.levels.index(text))
    raise DatasetError(
        f"Column '{feature.column}' holds {text!r}, which is neither {feature.levels[0]!r} nor {feature.levels[1]!r}. "
        "Correct the value or leave its rows out."
    )


def _fill(feature: Feature) -> float:
    if feature.fill is not None:
        return feature.fill
    raise DatasetError(
        f"Column '{feature.column}' has missing cells, and had none in the table that its features were made from. "
        "Fill them in or leave their rows out."
    )
