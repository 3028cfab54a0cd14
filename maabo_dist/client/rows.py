"""Rows as JSON has them."""

from collections.abc import Iterable, Mapping
from math import isnan
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pandas as pd

Rows: TypeAlias = "pd.DataFrame | Iterable[Mapping[str, Any]]"


def plain_rows(rows: Rows) -> list[dict[str, Any]]:
    """One object a row; cells that are missing are null."""
    records: Any = rows.to_dict("records") if hasattr(rows, "to_dict") else rows
    return [{str(name): _plain(value) for name, value in row.items()} for row in records]


def _plain(value: Any) -> Any:
    """A number of NumPy's as Python has it; NaN, NaT and pandas' NA are missing."""
    value = value.item() if hasattr(value, "item") else value
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if isnan(value) else value
    text = str(value)
    return None if text in {"NaT", "<NA>"} else text
