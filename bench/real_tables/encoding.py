"""Tables as numbers for the peers: none of them reads text, dates and gaps alike.

- numbers stay, a gap gets the median of the training rows;
- text becomes one column of 0 and 1 for each of its most frequent levels (at least 1 % of the rows and 5 rows, 20 at
  most), of two levels only one;
- dates become days, month and weekday;
- ids are left out: whole numbers without repetition, and text without a frequent level.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

MAX_LEVELS, MIN_SHARE, MIN_ROWS = 20, 0.01, 5


@dataclass(frozen=True, slots=True)
class NumberColumn:
    """A column of the matrix."""

    name: str
    source: str
    convert: Callable[[pd.Series], np.ndarray]


def fit_columns(train: pd.DataFrame) -> list[NumberColumn]:
    """The columns of the matrix, chosen on the training rows."""
    return [column for name in train.columns for column in _columns_of(str(name), train[name])]


def encode(frame: pd.DataFrame, columns: list[NumberColumn]) -> pd.DataFrame:
    return pd.DataFrame({column.name: column.convert(frame[column.source]) for column in columns}, dtype=np.float64)


def _columns_of(name: str, cells: pd.Series) -> list[NumberColumn]:
    if pd.api.types.is_numeric_dtype(cells):
        whole = pd.api.types.is_integer_dtype(cells)
        if cells.nunique() < 2 or (whole and cells.is_unique and len(cells) > 30):
            return []
        median = float(cells.median())
        return [NumberColumn(name, name, lambda values: values.astype(np.float64).fillna(median).to_numpy())]
    return _date_columns(name) if _is_date(cells) else _level_columns(name, cells)


def _is_date(cells: pd.Series) -> bool:
    known = cells.dropna()
    if known.nunique() <= MAX_LEVELS or not known.astype(str).str.match(r"\d{4}[-/]\d{2}[-/]\d{2}").all():
        return False
    return bool(pd.to_datetime(known, errors="coerce", utc=True).notna().all())


def _date_columns(name: str) -> list[NumberColumn]:
    def column(part: str, read: Callable[[pd.Series], pd.Series]) -> NumberColumn:
        def convert(cells: pd.Series) -> np.ndarray:
            dates = pd.to_datetime(cells, errors="coerce", utc=True)
            return read(dates).fillna(-1).to_numpy(np.float64)

        return NumberColumn(f"{name} ({part})", name, convert)

    epoch = pd.Timestamp("1970-01-01", tz="UTC")
    return [
        column("days", lambda dates: (dates - epoch).dt.days),
        column("month", lambda dates: dates.dt.month),
        column("weekday", lambda dates: dates.dt.day_of_week),
    ]


def _level_columns(name: str, cells: pd.Series) -> list[NumberColumn]:
    counts = cells.astype(object).value_counts()
    frequent = counts[counts >= max(MIN_ROWS, MIN_SHARE * len(cells))].index[:MAX_LEVELS]
    if len(counts) < 2:
        return []
    chosen = frequent[:1] if len(counts) == 2 and not cells.isna().any() else frequent

    def column(level: object) -> NumberColumn:
        return NumberColumn(f"{name} = {level}", name, lambda values: (values == level).fillna(False).to_numpy(float))

    return [column(level) for level in chosen]
