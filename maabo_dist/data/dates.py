"""Dates and times: recognise a column that holds them, and take year, month, weekday, hour and days from it.

Days are counted from the first date of the table that the features are made from. Times with a zone are taken as they
are written in a column of times, and in UTC in a column of texts.
"""

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types

from maabo_dist.data.columns import Feature, FeatureKind

# A text column is taken for dates if at least this share of its distinct texts are dates of one layout.
DATE_SHARE = 0.95
# The layout of texts such as 2024-01-31 or 2024-01-31T23:59:00Z, and of cells that are dates already.
ISO = "ISO8601"

_DAYS = (
    *("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d"),
    *("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y", "%d-%b-%y"),
)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
LAYOUTS = (ISO, "%H:%M", "%H:%M:%S", *(day + time for day, time in product(_DAYS, _TIMES)))
# Both layouts may fit every text; then the first one is used, and a note says so.
_AMBIGUOUS = ("%d/%m/%Y", "%m-%d-%Y", "%d/%m/%y")

_SAMPLE = 200
_ISO_TEXT = r"\s*\d{4}-\d{1,2}-\d{1,2}(?:$|[T\s].*)"
_DATE_TEXT = r"\s*(?:\d|[A-Za-z]{3,9} \d).{2,30}"
_DATES = (dt.date, np.datetime64)

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Dates:
    """A column that holds dates."""

    # Without a time zone; NaT where a cell is missing or is not a date.
    times: pd.Series
    # The layout of its texts; `ISO` if its cells are dates.
    layout: str
    # Another layout that fits as well.
    or_layout: str | None = None
    # Texts that are not dates.
    exceptions: tuple[str, ...] = ()


def read_dates(cells: pd.Series) -> Dates | None:
    """Return the dates of a column; None if it holds something else."""
    if types.is_datetime64_any_dtype(cells.dtype) or isinstance(cells.dtype, pd.PeriodDtype):
        return Dates(to_times(cells, ISO), ISO)
    if isinstance(cells.dtype, pd.CategoricalDtype) or not (
        types.is_object_dtype(cells.dtype) or types.is_string_dtype(cells.dtype)
    ):
        return None
    kinds = set(map(type, cells.dropna())) if types.is_object_dtype(cells.dtype) else {str}
    if kinds and all(issubclass(kind, _DATES) for kind in kinds):
        return Dates(to_times(cells, ISO), ISO)
    return _read_texts(cells) if kinds == {str} else None


def _read_texts(cells: pd.Series) -> Dates | None:
    texts = pd.Series(cells.dropna().unique(), dtype=object)
    sample = texts.iloc[:: max(1, len(texts) // _SAMPLE)]
    # Nearly every text column is decided here.
    if not len(sample) or sample.str.fullmatch(_DATE_TEXT).mean() < DATE_SHARE:
        return None
    # No text of this layout, which begins with four digits and a hyphen, is a date of another.
    layouts = LAYOUTS[:1] if _share(sample, ISO) > 1 - DATE_SHARE else LAYOUTS[1:]
    likely = [layout for layout in layouts if _share(sample, layout) >= DATE_SHARE]
    shares = {layout: _share(texts, layout) for layout in likely}
    if not shares or max(shares.values()) < DATE_SHARE:
        return None
    best = max(shares, key=shares.__getitem__)  # the first among ties
    others = [layout for layout in shares if shares[layout] == shares[best] and _without_time(layout) in _AMBIGUOUS]
    unread = texts[to_times(texts, best).isna()]
    return Dates(to_times(cells, best), best, next(iter(others), None), tuple(unread))


def _without_time(layout: str) -> str:
    return next((layout.removesuffix(time) for time in _TIMES[1:] if layout.endswith(time)), layout)


def _share(texts: pd.Series, layout: str) -> float:
    return float(to_times(texts, layout).notna().mean())


def to_times(cells: pd.Series, layout: str) -> pd.Series:
    """Return the cells as times in UTC, without a zone; NaT for those that are no dates of this layout."""
    times: pd.Series
    if isinstance(cells.dtype, pd.PeriodDtype):
        times = cells.dt.to_timestamp()
        return times
    if isinstance(cells.dtype, pd.DatetimeTZDtype):
        times = cells.dt.tz_convert("UTC").dt.tz_localize(None)
        return times
    if types.is_datetime64_any_dtype(cells.dtype):
        return cells
    if isinstance(cells.dtype, pd.StringDtype):
        codes, texts = pd.factorize(cells)  # each text is read once
        times = _parse_times(pd.Series(texts, dtype=object), layout)
        return pd.Series(times.array.take(codes, allow_fill=True), cells.index, name=cells.name)
    return _parse_times(cells.astype(object), layout)


def _parse_times(cells: pd.Series, layout: str) -> pd.Series:
    if layout == ISO:
        # Without this, 7 would be the year 7 or a nanosecond.
        cells = cells.where(cells.astype(str).str.fullmatch(_ISO_TEXT))
    else:
        cells = cells.where(cells.map(lambda cell: isinstance(cell, str)))
    times: pd.Series = pd.to_datetime(cells, format=layout, errors="coerce", utc=True).dt.tz_localize(None)
    return times


def date_features(name: str, dates: Dates, *, mean: bool) -> list[Feature]:
    """Return a feature for each part of the dates that varies; missing dates get the median or the mean of the part."""
    present = dates.times.dropna()
    missing = len(dates.times) - len(present)
    if present.empty:
        return []
    first = present.min().strftime("%Y-%m-%d")
    features = []
    for part in ("year", "month", "weekday", "hour", "days"):
        values = part_values(present, part, first)
        if len(np.unique(values)) > 1:
            fill = float(np.mean(values) if mean else np.median(values))
            levels = (part, dates.layout, first)
            features.append(Feature(f"{name}: {part}", name, FeatureKind.DATE, levels, fill=fill, missing=missing))
    return features


def recurring_parts(seconds: Values) -> tuple[str, ...]:
    """Return the parts of dates, in seconds since 1970, that recur within the time that they span."""
    days = (seconds.max() - seconds.min()) / 86_400
    return tuple(part for part, needed in (("month", 730), ("weekday", 14), ("hour", 2)) if days >= needed)


def part_values(times: pd.Series, part: str, first: str) -> Values:
    """Return one part of each time, NaN where it is missing. Mondays are 1; days are counted from `first`."""
    match part:
        case "year" | "month" | "hour":
            values = getattr(times.dt, part)
        case "weekday":
            values = times.dt.day_of_week + 1
        case _:
            values = (times.dt.normalize() - pd.Timestamp(first)).dt.days
    numbers: Values = values.to_numpy(dtype=np.float64, na_value=np.nan, copy=True)
    return numbers


def cell_numbers(cells: Sequence[object], part: str, layout: str, first: str) -> Values:
    """Return one part of raw cells, as a client sends them; NaN for those that are no dates."""
    return part_values(to_times(pd.Series(list(cells), dtype=object), layout), part, first)


def date_note(name: str, dates: Dates, features: Sequence[Feature]) -> Iterator[str]:
    """Yield sentences on what became of a column of dates."""
    parts = ", ".join(feature.levels[0] for feature in features)
    layout = "" if dates.layout == ISO else f", read as {_layout_text(dates.layout)}"
    yield f"Column {name!r} holds dates{layout}: its features are {parts}."
    if dates.or_layout is not None:
        yield (
            f"The dates of {name!r} could also be read as {_layout_text(dates.or_layout)}. If they are, write them as "
            "2024-12-31 in the table."
        )


_DIRECTIVES = {
    "%d": "day",
    "%m": "month",
    "%b": "month",
    "%B": "month",
    "%Y": "year",
    "%y": "year",
    "%H": "hour",
    "%I": "hour",
    "%M": "minute",
    "%S": "second",
    "%p": "AM/PM",
}


def _layout_text(layout: str) -> str:
    """A layout in words: `day.month.year`."""
    for directive, word in _DIRECTIVES.items():
        layout = layout.replace(directive, word)
    return layout
