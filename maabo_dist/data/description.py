"""Describe the columns of a table."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist.data.cells import finite_numbers, holds_numbers, levels
from maabo_dist.data.columns import ColumnKind
from maabo_dist.errors import DatasetError


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """One column, before any settings are applied."""

    name: str
    kind: ColumnKind
    missing: int
    distinct: int | None = None
    levels: tuple[str, ...] | None = None
    smallest: float | None = None
    largest: float | None = None


def describe(frame: pd.DataFrame) -> Iterator[ColumnDescription]:
    """Yield the columns in their order, one at a time: a wide table has many levels."""
    for name, cells in frame.items():
        try:
            if holds_numbers(cells, remedy=""):
                yield _describe_numbers(str(name), finite_numbers(cells, remedy=""))
                continue
            coded = levels(cells)
            kind: ColumnKind = "pair" if len(coded.texts) == 2 and not coded.missing else "level"
            yield ColumnDescription(str(name), kind, coded.missing, len(coded.texts), coded.texts)
        except DatasetError:  # dates, lists, bytes, infinite numbers
            yield ColumnDescription(str(name), "other", int(cells.isna().sum()))


def _describe_numbers(name: str, values: npt.NDArray[np.float64]) -> ColumnDescription:
    present = np.unique(values[~np.isnan(values)])
    missing = int(np.count_nonzero(np.isnan(values)))
    ends = (float(present[0]), float(present[-1])) if len(present) else (None, None)
    return ColumnDescription(name, "number", missing, len(present), None, *ends)
