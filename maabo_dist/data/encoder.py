"""Make features of table columns, and encode tables as feature values.

    numbers                          one NUMBER feature; texts that are numbers too
    dates and times                  a DATE feature for each part that varies
    two levels, none missing         one PAIR feature
    levels otherwise                 one LEVEL feature for each frequent one, an OTHER feature for the rest
    any of them with missing cells   also a MISSING feature, if requested

No column is refused. Those that would only harm the search are left out, with the reason: no cells, cells that are not
numbers, text or dates, values that identify rows.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist._util.text import format_count, format_names, suggestion
from maabo_dist.data.cells import Levels, finite_numbers, holds_numbers, levels
from maabo_dist.data.columns import Feature, FeatureKind
from maabo_dist.data.dates import ISO, Dates, date_features, date_note, part_values, read_dates, to_times
from maabo_dist.data.identifiers import Identity, identity_of_levels, identity_of_numbers
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings

# A text column of which this share of the distinct texts are numbers, at least so many, is read as numbers.
NUMERIC_SHARE, MIN_NUMERIC_TEXTS = 0.8, 10
# About so many distinct texts are looked at, if there are more, to see whether they are numbers with signs.
MAX_SIGNED_TEXTS = 1000
# `$1,250.00`, `12 %`, `1 200 €`: a number with a sign of a currency, a percent sign or separators of thousands.
_SIGN = r"(?:[$€£¥%]|USD|EUR|GBP|CHF)"
_SIGNED_NUMBER = rf"[-+]?{_SIGN}?\s?[-+]?\d+(?:[., '\u00a0]\d+)*\s?{_SIGN}?"

Values = npt.NDArray[np.float64]


class Reason(StrEnum):
    """Why a column is left out."""

    EMPTY = "there is no value"
    UNSUPPORTED = "the cells are not numbers, text or dates"
    CONSTANT_DATE = "all dates are the same"
    IDENTIFIER = "the values identify rows"


@dataclass(frozen=True, slots=True)
class ColumnReading:
    """The features of one column, and what users should know about it."""

    name: str
    features: tuple[Feature, ...] = ()
    # Set if the column is left out, with a detail for the message.
    reason: Reason | None = None
    detail: str = ""
    # Sentences on this column alone.
    notes: tuple[str, ...] = ()
    # A sentence on how to write the column so that it can be compared, shown even if the column is left out.
    hint: str = ""
    identity: Identity | None = None
    # Numbers that are infinite, and count as missing.
    infinite: int = 0


def read_column(cells: pd.Series, settings: TableSettings) -> ColumnReading:
    """Return the features of one column, in order; `fill` and `missing` are taken from its cells."""
    name = str(cells.name)
    dates = read_dates(cells)
    if dates is not None:
        reading = _read_dates(name, dates, settings)
    else:
        try:
            is_number = holds_numbers(cells, remedy="")
        except DatasetError:
            if not cells.isna().all():
                kind = type(cells.dropna().iloc[0]).__name__ if cells.dtype == object else str(cells.dtype)
                return ColumnReading(name, reason=Reason.UNSUPPORTED, detail=kind)
            is_number = True
        reading = _read_numbers(name, cells, settings) if is_number else _read_levels(name, cells, settings)
    missing = reading.features[0].missing if reading.features else 0
    if settings.missing_indicator and missing:
        as_text = reading.features[0].as_text
        indicator = Feature(f"{name} is missing", name, FeatureKind.MISSING, fill=1.0, missing=missing, as_text=as_text)
        return replace(reading, features=(*reading.features, indicator))
    return reading


def _read_dates(name: str, dates: Dates, settings: TableSettings) -> ColumnReading:
    features = tuple(date_features(name, dates, mean=settings.impute == "mean"))
    if not features:
        empty = bool(dates.times.isna().all())
        return ColumnReading(name, reason=Reason.EMPTY if empty else Reason.CONSTANT_DATE)
    notes = list(date_note(name, dates, features))
    if dates.exceptions:
        notes.append(f"Texts of {name!r} that are not dates count as missing: {format_names(dates.exceptions)}.")
    return ColumnReading(name, features, notes=tuple(notes))


def _read_numbers(name: str, cells: pd.Series, settings: TableSettings) -> ColumnReading:
    values, infinite = _numbers(cells)
    ordered = np.sort(values)  # missing ones last
    present = ordered[: len(ordered) - np.count_nonzero(np.isnan(ordered))]
    if not len(present):
        return ColumnReading(name, reason=Reason.EMPTY)
    # Rows with missing cells may be dropped here but occur in new tables: there is always a fill.
    fill = np.mean(present) if settings.impute == "mean" else _median_of_sorted(present)
    feature = Feature(name, name, FeatureKind.NUMBER, fill=float(fill), missing=len(values) - len(present))
    identity = identity_of_numbers(name, values, present)
    return _identified(ColumnReading(name, (feature,), identity=identity, infinite=infinite), "number")


def _identified(reading: ColumnReading, noun: str) -> ColumnReading:
    """Add the reason for leaving a column out that identifies rows."""
    if reading.identity is None or not reading.identity.identifies:
        return reading
    return replace(
        reading, reason=Reason.IDENTIFIER, detail=format_count(reading.identity.distinct, f"distinct {noun}")
    )


def _numbers(cells: pd.Series) -> tuple[Values, int]:
    """Return a new array with NaN for missing and infinite cells, and the number of the latter."""
    try:
        return finite_numbers(cells, remedy=""), 0
    except DatasetError:
        values = np.array([_to_float(cell) for cell in cells.astype(object)]) + 0.0
    infinite = ~np.isfinite(values) & cells.notna().to_numpy()
    values[infinite] = np.nan
    return values, int(np.count_nonzero(infinite))


def _to_float(cell: Any) -> float:
    try:
        return np.nan if pd.isna(cell) else float(cell)
    except OverflowError:  # a Python integer beyond float64
        return np.inf


def _median_of_sorted(values: Values) -> float:
    """`np.median`, five times as fast on sorted values."""
    middle = len(values) // 2
    return float(values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2)


def _read_levels(name: str, cells: pd.Series, settings: TableSettings) -> ColumnReading:
    coded = levels(cells)
    if not coded.texts:
        return ColumnReading(name, reason=Reason.EMPTY)
    numeric = None if isinstance(cells.dtype, pd.CategoricalDtype) else _numeric_texts(coded)
    if numeric is not None:
        reading = _read_numbers(name, pd.Series(numeric[coded.codes], name=name), settings)
        others = [text for text, value in zip(coded.texts, numeric, strict=False) if np.isnan(value)]
        features = tuple(replace(feature, as_text=True) for feature in reading.features)
        return replace(reading, features=features, notes=(_numeric_note(name, others),))
    identity = identity_of_levels(name, coded.codes, len(coded.texts))
    features = tuple(_level_features(name, coded, settings.max_levels))
    notes, hint = _other_note(name, coded, settings.max_levels), _signed_number_hint(name, coded)
    return _identified(ColumnReading(name, features, notes=notes, hint=hint, identity=identity), "text")


def _numeric_texts(coded: Levels) -> Values | None:
    """Return the numbers of the texts, NaN for others and for missing cells; None unless nearly all are numbers."""
    if len(coded.texts) < MIN_NUMERIC_TEXTS:
        return None
    texts = pd.Series(coded.texts, dtype=object).str.strip()
    values = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64, copy=True)
    values[~np.isfinite(values)] = np.nan
    readable = ~np.isnan(values)
    # Numbers do not begin with 0 as codes of places and articles do.
    is_code = texts.str.fullmatch(r"0\d+").to_numpy(dtype=bool)
    if readable.sum() < max(MIN_NUMERIC_TEXTS, NUMERIC_SHARE * len(texts)) or is_code.any():
        return None
    return np.append(values, np.nan)  # for a missing cell's code, −1


def _signed_number_hint(name: str, coded: Levels) -> str:
    """Say that nearly all texts are numbers but for signs and separators, if they are."""
    if len(coded.texts) < MIN_NUMERIC_TEXTS:
        return ""
    sample = coded.texts[:: max(1, len(coded.texts) // MAX_SIGNED_TEXTS)]
    texts = pd.Series(sample, dtype=object).str.strip()
    signed = texts[texts.str.fullmatch(_SIGNED_NUMBER).to_numpy(dtype=bool)]
    # Texts with dots alone are versions or network addresses.
    if len(signed) < NUMERIC_SHARE * len(texts) or not signed.str.contains(rf"{_SIGN}|,").any():
        return ""
    return (
        f"Column {name!r} holds numbers with signs or separators, such as {signed.iloc[0]!r}, and is read as text. "
        "Write plain numbers, so that they can be compared."
    )


def _numeric_note(name: str, others: list[str]) -> str:
    exceptions = f"; {format_names(others)} count as missing" if others else ""
    return f"Column {name!r} holds texts that are numbers and is read as such{exceptions}."


def _level_features(name: str, coded: Levels, max_levels: int) -> Iterable[Feature]:
    missing = coded.missing
    if len(coded.texts) == 2 and not missing:
        return [Feature(name, name, FeatureKind.PAIR, coded.texts)]
    if len(coded.texts) == 1 and not missing:  # left out later, under the column's own name
        return [Feature(name, name, FeatureKind.LEVEL, coded.texts, fill=0.0)]
    kept = _frequent(coded, max_levels)
    features = [
        Feature(f"{name} = {text}", name, FeatureKind.LEVEL, (text,), fill=0.0, missing=missing) for text in kept
    ]
    if len(kept) < len(coded.texts):
        features.append(Feature(f"{name} is another", name, FeatureKind.OTHER, kept, fill=0.0, missing=missing))
    return features


def _frequent(coded: Levels, count: int) -> tuple[str, ...]:
    """Return the most frequent levels in their order; among equally frequent ones, the first."""
    if len(coded.texts) <= count:
        return coded.texts
    frequency = np.bincount(coded.codes[coded.codes >= 0], minlength=len(coded.texts))
    kept = np.sort(np.argsort(-frequency, kind="stable")[:count])
    return tuple(coded.texts[position] for position in kept.tolist())


def _other_note(name: str, coded: Levels, max_levels: int) -> tuple[str, ...]:
    if len(coded.texts) <= max_levels or (len(coded.texts) == 2 and not coded.missing):
        return ()
    kept = (
        f"Kept the {max_levels:,} most frequent of {len(coded.texts):,} levels of {name!r}; the others are one level."
    )
    return (f"{kept} --max-levels {min(len(coded.texts), 10_000)} keeps more.",)


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
        """Return feature values (D, n).

        A level that no feature stands for is 0 in every LEVEL feature of its column, and 1 in its OTHER feature. A
        missing cell becomes the feature's `fill`. NaN satisfies no condition: a level that a PAIR feature does not
        have, or a missing cell of a column that had none.
        """
        frame = self.check(frame)
        matrix, start = np.empty((len(self.features), len(frame))), 0
        for column in self.encode_columns({column: frame[column] for column in self.columns}):
            column.fill()
            stop = start + len(column.features)
            matrix[start:stop] = column.spread(column.values)
            start = stop
        return matrix

    def check(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with its column names as text, once it is known to have the columns that are read."""
        frame = with_text_names(frame)
        absent = [column for column in self.columns if column not in frame.columns]
        if absent:
            raise DatasetError(
                f"The table lacks {format_count(len(absent), 'column')} that the features are made from: "
                f"{format_names(absent)}. " + suggestion(absent[0], list(frame.columns))
            )
        check_unique(frame.columns, among=self.columns)
        return frame

    def encode_columns(self, table: Mapping[str, pd.Series]) -> Iterator["EncodedColumn"]:
        """Encode columns that were already taken out of their frame; missing numbers and dates stay NaN."""
        for column, group in groupby(self.features, key=attrgetter("column")):
            yield encode_column(table[column], tuple(group))


class EncodedColumn(NamedTuple):
    """The values of all features of one column."""

    features: tuple[Feature, ...]
    # (features, distinct cells), or (features, rows).
    values: Values
    # (rows): the distinct cell of each row, −1 for the last one; None if `values` has one for each row.
    cells: npt.NDArray[np.intp] | None

    def spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the value of each row from those of the distinct cells, which are the last axis."""
        return values if self.cells is None else values[..., self.cells]

    def fill(self) -> None:
        """Fill in missing numbers and dates."""
        for feature, values in zip(self.features, self.values, strict=True):
            if feature.kind in {FeatureKind.NUMBER, FeatureKind.DATE}:
                missing = np.isnan(values)
                if missing.any():
                    values[missing] = _fill(feature)


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


def encode_column(cells: pd.Series, features: tuple[Feature, ...]) -> EncodedColumn:
    """Encode one column, which all these features are made from; missing numbers and dates stay NaN."""
    kinds = {feature.kind for feature in features}
    if FeatureKind.DATE in kinds:
        return EncodedColumn(features, np.array(list(_encode_dates(cells, features))), None)
    if FeatureKind.NUMBER in kinds:
        values = read_numbers(cells)
        if len(features) == 1:
            return EncodedColumn(features, values[np.newaxis], None)
        missing = np.isnan(values)
        return EncodedColumn(features, np.array([_encode_number(values, missing, each) for each in features]), None)
    if kinds == {FeatureKind.MISSING}:
        return EncodedColumn(features, cells.isna().to_numpy().astype(np.float64)[np.newaxis], None)
    coded = levels(cells)
    values = np.array([_encode_levels(coded.positions, feature) for feature in features])
    # Without missing cells, their value occurs in no row.
    return EncodedColumn(features, values if coded.missing else values[:, :-1], coded.codes)


def _encode_dates(cells: pd.Series, features: tuple[Feature, ...]) -> Iterable[Values]:
    times = read_times(cells, next(feature.levels[1] for feature in features if feature.kind is FeatureKind.DATE))
    missing = times.isna().to_numpy()
    for feature in features:
        is_date = feature.kind is FeatureKind.DATE
        values = part_values(times, feature.levels[0], feature.levels[2]) if is_date else missing.astype(np.float64)
        yield _encode_number(values, missing, feature)


def read_times(cells: pd.Series, layout: str) -> pd.Series:
    """Return dates; texts that are none count as missing."""
    times = to_times(cells, layout)
    if times.isna().all() and cells.notna().sum() > 1:
        raise no_dates_error(str(cells.name), cells.dropna().iloc[0], layout)
    return times


def no_dates_error(column: str, example: object, layout: str) -> DatasetError:
    """Return the error about a column in which no cell is a date of this layout."""
    written = "dates such as 2024-12-31" if layout == ISO else f"dates written as {layout}"
    return DatasetError(
        f"Column '{column}' holds {example!r} where {written} are expected. Write them so, or give another column this "
        "name."
    )


def read_numbers(cells: pd.Series) -> Values:
    """Return numbers; texts are read as numbers, and those that are none count as missing."""
    values = to_numbers(cells)
    if np.isnan(values).all() and not holds_numbers(cells, remedy="") and cells.notna().sum() > 1:
        raise no_numbers_error(str(cells.name), levels(cells).texts)
    return values


def to_numbers(cells: pd.Series) -> Values:
    """As `read_numbers`, but no cell needs to be a number."""
    if holds_numbers(cells, remedy=_number_remedy(str(cells.name))):
        return _numbers(cells)[0]
    texts = cells.astype(object).where(cells.notna(), None)
    values = pd.to_numeric(texts.map(_stripped), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan) + 0.0
    values[np.isinf(values)] = np.nan
    return values


def no_numbers_error(column: str, examples: Iterable[str]) -> DatasetError:
    """Return the error about a column in which no cell is a number."""
    return DatasetError(
        f"Column '{column}' holds text ({format_names(examples)}) where numbers are expected. {_number_remedy(column)}"
    )


def _number_remedy(column: str) -> str:
    return f"Convert column '{column}' to numbers."


def _stripped(cell: object) -> object:
    return cell.strip() if isinstance(cell, str) else cell


def _encode_number(values: Values, missing: npt.NDArray[np.bool_], feature: Feature) -> Values:
    return missing.astype(np.float64) if feature.kind is FeatureKind.MISSING else values


def _encode_levels(positions: Mapping[str, int], feature: Feature) -> Values:
    """Return the value of each level, by its position, and that of missing cells."""
    values = np.zeros(len(positions) + 1)
    match feature.kind:
        case FeatureKind.PAIR:
            values[:] = np.nan
            chosen = dict(zip(feature.levels, (0.0, 1.0), strict=True))
        case FeatureKind.OTHER:
            values[:] = 1.0
            chosen = dict.fromkeys(feature.levels, 0.0)
        case _:  # a MISSING feature has no level
            chosen = dict.fromkeys(feature.levels, 1.0)
    for level, value in chosen.items():
        if level in positions:
            values[positions[level]] = value
    values[-1] = _fill(feature)
    return values


def _fill(feature: Feature) -> float:
    """Return the value of missing cells; NaN if the table that the feature was made from had none."""
    return np.nan if feature.fill is None else feature.fill
