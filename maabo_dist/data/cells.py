"""The cells of one table column: numbers, levels (text, booleans, categories), or neither; a description of each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api import types

from maabo_dist._util.text import format_count
from maabo_dist.data.columns import level_text
from maabo_dist.errors import DatasetError
from maabo_dist.settings import ColumnKind

_BOOLEANS = (bool, np.bool_)
_NUMBERS = (Real, Decimal)


@dataclass(frozen=True, slots=True)
class Levels:
    """A column as levels."""

    # Index into `texts`, row by row; −1 where the cell is missing.
    codes: npt.NDArray[np.intp]
    # The distinct levels: sorted, or in the order of an ordered categorical.
    texts: tuple[str, ...]

    @property
    def positions(self) -> dict[str, int]:
        """The code of each level."""
        return {text: code for code, text in enumerate(self.texts)}

    @property
    def present(self) -> int:
        """The number of cells that are not missing."""
        return int(np.count_nonzero(self.codes >= 0))

    @property
    def missing(self) -> int:
        """The number of missing cells."""
        return len(self.codes) - self.present


def holds_numbers(cells: pd.Series, *, remedy: str) -> bool:
    """True for numbers, False for levels; a DatasetError that ends with `remedy` for anything else."""
    dtype = cells.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iuf":  # the usual case, and there may be very many columns
        return True
    if types.is_object_dtype(dtype):
        return _objects_are_numbers(cells, remedy)
    if isinstance(dtype, pd.CategoricalDtype) or types.is_bool_dtype(dtype) or types.is_string_dtype(dtype):
        return False
    if types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
        return True
    raise _unsupported_error(cells, str(dtype), remedy)


def finite_numbers(cells: pd.Series, *, remedy: str) -> npt.NDArray[np.float64]:
    """Return a new array, NaN where a cell is missing; infinite values raise a DatasetError that ends with `remedy`."""
    try:
        # Adding 0 copies the cells and turns −0.0 into 0.0: one number, one byte pattern.
        values: npt.NDArray[np.float64] = cells.to_numpy(dtype=np.float64, na_value=np.nan) + 0.0
    except OverflowError:  # a Python integer beyond float64
        values = np.full(1, np.inf)
    infinite = int(np.count_nonzero(np.isinf(values)))
    if infinite:
        raise DatasetError(f"Column '{cells.name}' holds {format_count(infinite, 'infinite value')}. {remedy}")
    return values


def levels(cells: pd.Series) -> Levels:
    """Return the column's cells as texts; numbers are converted too."""
    if isinstance(cells.dtype, pd.CategoricalDtype):
        codes, values, ordered = cells.cat.codes.to_numpy(np.intp), list(cells.cat.categories), cells.cat.ordered
    else:
        codes, distinct = pd.factorize(cells)
        values, ordered = list(distinct), False
    spelled = [level_text(value) for value in values]
    used = np.bincount(codes[codes >= 0], minlength=len(values)) > 0
    ranked = range(len(values)) if ordered else _sort_positions(values, spelled)
    texts = tuple(dict.fromkeys(spelled[position] for position in ranked if used[position]))
    positions = {text: position for position, text in enumerate(texts)}
    lookup = np.array([*(positions.get(text, -1) for text in spelled), -1], dtype=np.intp)
    return Levels(lookup[codes], texts)  # a missing cell's code, −1, picks the last entry, which is −1 again


def _sort_positions(values: Sequence[Any], spelled: Sequence[str]) -> list[int]:
    """Sort by value where values compare (2 before 10), else by text."""
    try:
        return sorted(range(len(values)), key=values.__getitem__)
    except TypeError:
        return sorted(range(len(values)), key=spelled.__getitem__)


def _objects_are_numbers(cells: pd.Series, remedy: str) -> bool:
    """Classify an object column by the types of its cells; with any text among them, all are text."""
    kinds = set(map(type, cells.dropna()))
    unsupported = sorted(kind.__name__ for kind in kinds if not issubclass(kind, (str, *_BOOLEANS, *_NUMBERS)))
    if unsupported:
        raise _unsupported_error(cells, unsupported[0], remedy)
    return all(issubclass(kind, _NUMBERS) and not issubclass(kind, _BOOLEANS) for kind in kinds)


def _unsupported_error(cells: pd.Series, kind: str, remedy: str) -> DatasetError:
    return DatasetError(f"Column '{cells.name}' holds {kind} values, which cannot be mined. {remedy}")


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
