"""Make features of table columns, and encode tables as feature values.

    numbers                          one NUMBER feature
    two levels, none missing         one PAIR feature
    levels otherwise                 one LEVEL feature for each
    any of them with missing cells   also a MISSING feature, if requested

Columns that would only harm the search are rejected: all cells missing, texts that identify rows, more levels than
allowed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist._util.text import format_count, format_names, suggestion
from maabo_dist.data.cells import Levels, finite_numbers, holds_numbers, levels
from maabo_dist.data.columns import Feature, FeatureKind
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings

# A column with at least this many values, all different, is considered an identifier.
IDENTIFIER_ROWS = 10
# A text column of which this share of the texts read as numbers is taken for a damaged numeric column.
NUMERIC_SHARE = 0.8


def features_of(cells: pd.Series, settings: TableSettings) -> list[Feature]:
    """Return the features of one column, in order; `fill` and `missing` are taken from its cells."""
    name = str(cells.name)
    remedy = f"Convert the column to numbers or text, or leave it out with --exclude {name!r}."
    if holds_numbers(cells, remedy=remedy):
        features = [_number_feature(name, cells, settings)]
    else:
        features = _level_features(name, levels(cells), settings)
    missing = features[0].missing
    if settings.missing_indicator and missing:
        features.append(Feature(f"{name} is missing", name, FeatureKind.MISSING, fill=1.0, missing=missing))
    return features


def _number_feature(name: str, cells: pd.Series, settings: TableSettings) -> Feature:
    remedy = f"Replace them by numbers or by missing cells, or leave the column out with --exclude {name!r}."
    values = np.sort(finite_numbers(cells, remedy=remedy))  # missing ones last
    present = values[: len(values) - np.count_nonzero(np.isnan(values))]
    if not len(present):
        raise _all_missing_error(name)
    # Rows with missing cells may be dropped here but occur in new tables: there is always a fill.
    fill = np.mean(present) if settings.impute == "mean" else _median_of_sorted(present)
    return Feature(name, name, FeatureKind.NUMBER, fill=float(fill), missing=len(values) - len(present))


def _median_of_sorted(values: npt.NDArray[np.float64]) -> float:
    """`np.median`, five times as fast on sorted values."""
    middle = len(values) // 2
    return float(values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2)


def _level_features(name: str, coded: Levels, settings: TableSettings) -> list[Feature]:
    _check_levels(name, coded, settings.max_levels)
    missing = coded.missing
    if len(coded.texts) == 2 and not missing:
        return [Feature(name, name, FeatureKind.PAIR, coded.texts)]
    constant = len(coded.texts) == 1 and not missing  # left out later, under the column's own name
    return [
        Feature(name if constant else f"{name} = {text}", name, FeatureKind.LEVEL, (text,), fill=0.0, missing=missing)
        for text in coded.texts
    ]


def _check_levels(name: str, coded: Levels, max_levels: int) -> None:
    count, present, examples = len(coded.texts), coded.present, format_names(coded.texts[:3])
    if not count:
        raise _all_missing_error(name)
    if count > max_levels:
        _check_not_numeric(name, coded.texts)
    if count == present >= IDENTIFIER_ROWS:
        raise DatasetError(
            f"Column {name!r} has {format_count(count, 'value')}, all different, such as {examples}. "
            f"It looks like an identifier; leave it out with --exclude {name!r}."
        )
    if count > max_levels:
        raise DatasetError(
            f"Column {name!r} has {format_count(count, 'distinct value')}, such as {examples}; at most "
            f"{max_levels} are allowed. Leave it out with --exclude {name!r}, or allow more with --max-levels {count}."
        )


def _check_not_numeric(name: str, texts: tuple[str, ...]) -> None:
    readable = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").notna().to_numpy()
    if readable.mean() < NUMERIC_SHARE:
        return
    others = [text for text, reads in zip(texts, readable, strict=True) if not reads]
    if not others:
        raise DatasetError(f"Column {name!r} holds numbers as text, such as {format_names(texts[:3])}. Convert them.")
    raise DatasetError(
        f"Column {name!r} looks numeric, but {len(others):,} of its {len(texts):,} distinct values are not "
        f"numbers: {format_names(others)}. If they stand for a missing value, use --na-values {others[0]!r}; "
        f"else correct them, or leave the column out with --exclude {name!r}."
    )


def _all_missing_error(name: str) -> DatasetError:
    return DatasetError(f"Column {name!r} is missing in every row. Leave it out with --exclude {name!r}.")


Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TableEncoder:
    """Encodes tables that have the features' source columns as feature values."""

    # In table order: the features of one column are adjacent.
    features: tuple[Feature, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The table columns that `encode` reads, each once."""
        return tuple(dict.fromkeys(feature.column for feature in self.features))

    def encode(self, frame: pd.DataFrame) -> Values:
        """Return feature values (D, n) without NaN.

        A level that no feature stands for is 0 in every LEVEL feature of its column. A missing cell becomes the
        feature's `fill`.
        """
        frame = with_text_names(frame)
        absent = [column for column in self.columns if column not in frame.columns]
        if absent:
            raise DatasetError(
                f"The table lacks {format_count(len(absent), 'column')} that the features are made from: "
                f"{format_names(absent)}. " + suggestion(absent[0], list(frame.columns))
            )
        check_unique(frame.columns, among=self.columns)
        return self.encode_cells({column: frame[column] for column in self.columns}, len(frame))

    def encode_cells(self, table: Mapping[str, pd.Series], rows: int) -> Values:
        """Encode columns that were already taken out of their frame."""
        matrix = np.empty((len(self.features), rows))
        position = 0
        for column, group in groupby(self.features, key=attrgetter("column")):
            for values in _encode_column(table[column], tuple(group)):
                matrix[position] = values
                position += 1
        return matrix


def with_text_names(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with its column names as text."""
    if all(isinstance(name, str) for name in frame.columns):
        return frame
    return frame.set_axis([str(name) for name in frame.columns], axis="columns")


def check_unique(names: pd.Index, *, among: Iterable[str]) -> None:
    """Raise an error if one of the names `among` is the name of two columns."""
    if names.is_unique:
        return
    duplicates = sorted(set(names[names.duplicated()]).intersection(among))
    if duplicates:
        raise DatasetError(
            f"More than one column is called {format_names(duplicates)}. Give every column a name of its own."
        )


def _encode_column(cells: pd.Series, features: tuple[Feature, ...]) -> Iterable[Values]:
    """Return one array for each of the features, all of which are made from this column."""
    kinds = {feature.kind for feature in features}
    if FeatureKind.NUMBER in kinds:
        values = _check_numbers(cells)
        missing = np.isnan(values)
        return [_encode_number(values, missing, feature) for feature in features]
    if kinds == {FeatureKind.MISSING}:
        return [cells.isna().to_numpy().astype(np.float64)]
    coded = levels(cells)
    return [_encode_levels(coded, feature) for feature in features]


def _check_numbers(cells: pd.Series) -> Values:
    remedy = f"Convert column '{cells.name}' to numbers."
    if holds_numbers(cells, remedy=remedy):
        return finite_numbers(cells, remedy="Replace them by numbers or by missing cells.")
    examples = format_names(levels(cells).texts)
    raise DatasetError(f"Column '{cells.name}' holds text ({examples}) where numbers are expected. {remedy}")


def _encode_number(values: Values, missing: npt.NDArray[np.bool_], feature: Feature) -> Values:
    if feature.kind is FeatureKind.MISSING:
        return missing.astype(np.float64)
    if missing.any():
        values[missing] = _fill(feature)
    return values


def _encode_levels(coded: Levels, feature: Feature) -> Values:
    """Look each code up; a missing cell's code, −1, selects the last entry."""
    by_level = [_level_value(text, feature) for text in coded.texts]
    for_missing = _fill(feature) if coded.missing else 0.0
    return np.array([*by_level, for_missing])[coded.codes]


def _level_value(text: str, feature: Feature) -> float:
    if feature.kind is not FeatureKind.PAIR:
        return float(feature.levels == (text,))  # 0 for every level of a MISSING feature, which has none
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
