"""What the columns of a table hold, for people who have to choose a target and what to leave out."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from maabo_dist.data.cells import finite_numbers, holds_numbers, levels
from maabo_dist.data.features import ColumnKind
from maabo_dist.errors import DatasetError


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """One column, before any settings."""

    name: str
    kind: ColumnKind
    missing: int
    distinct: int | None = None
    levels: tuple[str, ...] | None = None
    smallest: float | None = None
    largest: float | None = None


def describe(frame: pd.DataFrame) -> Iterator[ColumnDescription]:
    """The columns in their order, one at a time: a wide table has many levels."""
    for name, cells in frame.items():
        try:
            yield _numbers(str(name), cells) if holds_numbers(cells, remedy="") else _levels(str(name), cells)
        except DatasetError:  # dates, lists, bytes, infinite numbers
            yield ColumnDescription(str(name), "other", int(cells.isna().sum()))


def _numbers(name: str, cells: pd.Series) -> ColumnDescription:
    values = finite_numbers(cells, remedy="")
    present = np.unique(values[~np.isnan(values)])
    missing = int(np.count_nonzero(np.isnan(values)))
    ends = (float(present[0]), float(present[-1])) if len(present) else (None, None)
    return ColumnDescription(name, "number", missing, len(present), None, *ends)


def _levels(name: str, cells: pd.Series) -> ColumnDescription:
    found = levels(cells)
    kind: ColumnKind = "pair" if len(found.texts) == 2 and not found.missing else "level"
    return ColumnDescription(name, kind, found.missing, len(found.texts), found.texts)
