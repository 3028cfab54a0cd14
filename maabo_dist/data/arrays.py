"""Tables in NumPy's files (`.npy`): a matrix, or an array of records.

The columns of a matrix are called x0, x1, … as those of an array that `RuleMiner.fit` gets. Records have names. Files
are mapped, so that a block of columns is read without the others; objects are not read, because they could run code.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist._util.text import format_count
from maabo_dist.data.file_checks import wrap_read_errors
from maabo_dist.data.text_files import MISSING_TEXTS
from maabo_dist.errors import DatasetError

NPY = (".npy",)
# Truth values, whole numbers, numbers, text and times.
_KINDS = "biufUM"


@dataclass(frozen=True)
class ArraySource:
    """A matrix or an array of records in a file."""

    path: Path
    array: npt.NDArray[Any]
    na_values: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def open(cls, path: Path, na_values: tuple[str, ...] = ()) -> "ArraySource":
        """Map a file and check what it holds."""
        with wrap_read_errors(path, "NPY"):
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        _check(path, array)
        return cls(path, array, (*MISSING_TEXTS, *na_values))

    @cached_property
    def names(self) -> list[str]:
        """The names of all columns."""
        if self.array.dtype.names is None:
            return [f"x{number}" for number in range(self.array.shape[1])]
        return list(self.array.dtype.names)

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.array)

    def read(self, names: Sequence[str]) -> pd.DataFrame:
        """Return these columns."""
        if self.array.dtype.names is not None:
            columns = {name: self._cells(self.array[name]) for name in names}
            return pd.DataFrame(columns, columns=list(names))
        numbers = [self._numbers[name] for name in names]
        return pd.DataFrame(self._cells(self.array[:, numbers]), columns=list(names))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}

    def _cells(self, cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The cells in memory, of a type that pandas has; text with None for what is missing."""
        kind = cells.dtype.kind
        if kind == "U":
            texts: npt.NDArray[Any] = cells.astype(object)
            texts[np.isin(cells, np.array(self.na_values))] = None
            return texts
        if kind == "f":
            return np.array(cells, np.float32 if cells.dtype.itemsize <= 4 else np.float64)
        return np.array(cells, cells.dtype.newbyteorder("="))


def _check(path: Path, array: Any) -> None:
    if not isinstance(array, np.ndarray):
        raise DatasetError(f"{path} holds several arrays. Save one of them with numpy.save.")
    kinds = array.dtype if array.dtype.names is None else None
    if array.ndim != (2 if kinds is not None else 1):
        raise DatasetError(
            f"{path} holds an array of the shape {array.shape}. Save a matrix (rows × columns), or an array of records."
        )
    if not array.size:
        raise DatasetError(f"{path} has the shape {array.shape} and no cells. Give a file with rows and columns.")
    if kinds is not None:
        wrong = [] if kinds.kind in _KINDS else [("the cells", kinds)]
    else:
        types = [(f"column {name!r}", array.dtype[name]) for name in array.dtype.names]
        wrong = [each for each in types if each[1].kind not in _KINDS or each[1].shape]
    if wrong:
        what, kind = wrong[0]
        more = f", and {format_count(len(wrong) - 1, 'more column')}" if wrong[1:] else ""
        raise DatasetError(f"{path}: {what} of type {kind}{more} cannot be read. Use numbers, text or times.")
