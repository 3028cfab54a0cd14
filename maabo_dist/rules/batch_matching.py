"""Which rows of a batch satisfy conditions, as bits: 64 rows a word.

Each distinct condition is tested once for all rules. Numbers are compared as they are stored. Other cells (text,
booleans, dates) are dictionaries: a condition is tested on the distinct cells, as `frame_matching` does it, and the
result is looked up for each row.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.data.columns import FeatureKind
from maabo_dist.data.encoder import TableEncoder
from maabo_dist.rules.frame_matching import FrameColumn, column_kinds
from maabo_dist.rules.matching import Mask

# Rows whose conditions are tested at a time, so that a column of them stays in the processor's cache.
CHUNK_ROWS = 1 << 15

Bits = npt.NDArray[np.uint64]


class BatchMatcher:
    """Tests conditions on batches of rows."""

    def __init__(self, conditions: Sequence[Condition], encoder: TableEncoder, na_values: Sequence[str] = ()) -> None:
        self._kinds = {column: (kinds, layout) for column, kinds, layout in column_kinds(encoder)}
        self._na_values = list(na_values)
        # The conditions on each column, with their indices.
        self._conditions: dict[str, list[tuple[int, Condition]]] = {}
        for index, condition in enumerate(conditions):
            self._conditions.setdefault(condition.feature, []).append((index, condition))
        self._count = len(conditions)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the conditions are about."""
        return tuple(self._conditions)

    def match(self, cells: pa.RecordBatch) -> "MatchedBatch":
        """Read the columns of a batch, which are those of `columns` in their order."""
        columns = [self._read(name, cells.column(index)) for index, name in enumerate(self._conditions)]
        return MatchedBatch(columns, self._count, cells.num_rows)

    def _read(self, name: str, cells: Any) -> "_Numbers | _Lookup":
        kinds, layout = self._kinds[name]
        if FeatureKind.NUMBER in kinds and not pa.types.is_dictionary(cells.type):
            return _Numbers(_to_floats(cells), self._conditions[name])
        encoded = cells if pa.types.is_dictionary(cells.type) else cells.dictionary_encode()
        distinct = pd.Series(encoded.dictionary.to_pandas(), name=name)
        if self._na_values:
            distinct = distinct.mask(distinct.isin(self._na_values))
        # A missing cell is the last one.
        distinct = pd.concat([distinct, pd.Series([None], name=name)], ignore_index=True)
        column = FrameColumn(distinct, kinds, layout, partial=True)
        codes = encoded.indices.fill_null(len(distinct) - 1).to_numpy(zero_copy_only=False)
        return _Lookup(codes, [(index, column.holds(each)) for index, each in self._conditions[name]])


class MatchedBatch:
    """The columns of a batch, ready to test conditions on some rows at a time."""

    def __init__(self, columns: Sequence["_Numbers | _Lookup"], conditions: int, rows: int) -> None:
        self._columns, self._conditions, self.rows = columns, conditions, rows

    def bits(self, start: int, stop: int) -> Bits:
        """(conditions, words): the rows from `start` to before `stop` in which each condition holds."""
        packed = np.zeros((self._conditions, -(-(stop - start) // 64) * 8), np.uint8)
        for column in self._columns:
            column.pack(start, stop, packed)
        words: Bits = packed.view(np.uint64)
        return words


class _Numbers:
    def __init__(self, values: npt.NDArray[np.float64], conditions: Sequence[tuple[int, Condition]]) -> None:
        self._values, self._conditions = values, conditions
        self._needs_missing = any(
            each.or_missing or each.op in {Op.IS_MISSING, Op.IS_PRESENT} for _, each in conditions
        )

    def pack(self, start: int, stop: int, packed: npt.NDArray[np.uint8]) -> None:
        values = self._values[start:stop]
        missing = np.isnan(values) if self._needs_missing else np.zeros(0, np.bool_)
        for index, condition in self._conditions:
            _pack(_compare(condition, values, missing), packed[index])


def _compare(condition: Condition, values: npt.NDArray[np.float64], missing: Mask) -> Mask:
    """(rows): True where the condition holds; comparisons with NaN are False."""
    bound: Any = condition.value
    match condition.op:
        case Op.IS_MISSING:
            return missing
        case Op.IS_PRESENT:
            return ~missing
        case Op.AT_MOST:
            holds: Mask = values <= bound
        case Op.ABOVE:
            holds = values > bound
        case _:
            holds = values >= bound
    return holds | missing if condition.or_missing else holds


class _Lookup:
    def __init__(self, codes: npt.NDArray[np.integer], holds: Sequence[tuple[int, Mask]]) -> None:
        self._codes, self._holds = codes, holds

    def pack(self, start: int, stop: int, packed: npt.NDArray[np.uint8]) -> None:
        codes = self._codes[start:stop]
        for index, holds in self._holds:
            _pack(holds[codes], packed[index])


def _pack(holds: Mask, packed: npt.NDArray[np.uint8]) -> None:
    content = np.packbits(holds, bitorder="little")
    packed[: len(content)] = content


def _to_floats(cells: Any) -> npt.NDArray[np.float64]:
    """Return numbers, NaN where a cell is missing or infinite."""
    if not pa.types.is_float64(cells.type):
        cells = cells.cast(pa.float64(), safe=False)
    values: npt.NDArray[np.float64] = cells.to_numpy(zero_copy_only=False)
    infinite = np.isinf(values)
    return np.where(infinite, np.nan, values) if infinite.any() else values
