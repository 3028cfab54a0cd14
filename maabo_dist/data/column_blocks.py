"""Encode a table in blocks of columns, so that only one block at a time is in memory as it was read.

    block of cells ──► features ──► values of distinct cells ──► ranks ──► pruned ──► Columns of the block

Texts are encoded once for each level, and the rows get ranks alone. The columns of all blocks are joined at the end. A
cell then takes two bytes, and each distinct value eight; those of a very wide table are kept on disk (see `scratch`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist._util.scratch import is_large
from maabo_dist._util.text import format_count, format_list, format_names
from maabo_dist.data.columns import Columns, ColumnsBuilder, Feature, RankedValues, RawColumn, rank_values
from maabo_dist.data.encoder import ColumnReading, EncodedColumn, TableEncoder
from maabo_dist.data.recoding import raw_columns
from maabo_dist.data.target import Target
from maabo_dist.errors import DatasetError

# 32 MB of numbers.
BLOCK_CELLS = 1 << 22


def divide_columns(names: Sequence[str], rows: int) -> Iterator[list[str]]:
    """Yield blocks of columns, each of about `BLOCK_CELLS` cells."""
    size = max(1, BLOCK_CELLS // max(1, rows))
    for start in range(0, len(names), size):
        yield list(names[start : start + size])


class BlockEncoder:
    """Encodes block after block, without constant features and without copies of other features."""

    def __init__(self, target: Target, columns: int) -> None:
        """`columns` is about the number of columns that will be added."""
        self._target = target
        self._built = ColumnsBuilder(on_disk=is_large(columns, len(target.labels)))
        # All features, and names of those that are left out.
        self.features: list[Feature] = []
        self._constant: list[str] = []
        self._equal: list[str] = []
        # The first feature with each content.
        self._first: dict[bytes, str] = {}

    def add(self, readings: Sequence[ColumnReading], table: Mapping[str, pd.Series]) -> None:
        """Encode the cells of these columns."""
        features = tuple(feature for reading in readings for feature in reading.features)
        # One step for all columns after another: in a wide table, that is a quarter faster than column by column.
        encoded = list(TableEncoder(features).encode_columns(table))
        raw, raw_codes = self._raw_columns(encoded)
        for column in encoded:
            column.fill()
        kept = [pair for column in encoded for pair in self._keep(column)]
        block = Columns.from_ranks(
            [ranked for _, ranked in kept],
            self._target.labels,
            tuple(feature for feature, _ in kept),
            self._target.classes,
            self._target.text,
        )
        self.features.extend(features)
        self._built.add(replace(block, raw=raw, raw_codes=raw_codes))

    def join(self, earlier: Sequence[str]) -> tuple[Columns, list[str]]:
        """Return the columns of all blocks, and notes on those that are left out; `earlier` are notes for an error."""
        notes = []
        if self._constant:
            names = format_names(self._constant)
            notes.append(f"Left out {format_count(len(self._constant), 'constant feature')}: {names}.")
        if self._equal:
            count = format_count(len(self._equal), "feature")
            notes.append(f"Left out {count} with the same content as another: {format_list(self._equal)}.")
        if not self._built.count:
            raise DatasetError(
                " ".join(["No feature is left.", *earlier, *notes, "Give a table with columns that vary."])
            )
        columns = self._built.finish()
        _check_names(columns.features)
        return columns, notes

    def _raw_columns(self, encoded: Sequence[EncodedColumn]) -> tuple[tuple[RawColumn, ...], npt.NDArray[Any]]:
        raw: list[RawColumn] = []
        codes: list[npt.NDArray[Any]] = [np.empty((0, len(self._target.labels)), np.uint8)]
        for column in encoded:
            if column.cells is not None or column.features[0].missing:  # else it has no text and no missing cells
                own, own_codes = raw_columns(column.features, column.values)
                raw += own
                codes.append(column.spread(own_codes))
        return tuple(raw), np.concatenate(codes)

    def _keep(self, column: EncodedColumn) -> Iterator[tuple[Feature, RankedValues]]:
        """Yield the features that are neither constant nor have the values of an earlier one."""
        for feature, cells in zip(column.features, column.values, strict=True):
            values, ranks = rank_values(cells)
            if len(values) == 1:
                self._constant.append(feature.name)
                continue
            ranked = RankedValues(values, column.spread(ranks))
            # 128 bits: equal digests mean equal contents, and no column is kept to be compared.
            digest = blake2b(values.data, digest_size=16)
            digest.update(ranked.ranks.data)
            content = digest.digest()
            if content in self._first:
                self._equal.append(f"{feature.name!r} (as {self._first[content]!r})")
                continue
            self._first[content] = feature.name
            yield feature, ranked


def _check_names(features: Sequence[Feature]) -> None:
    sources: dict[str, str] = {}
    for feature in features:
        other = sources.setdefault(feature.name, feature.column)
        if other != feature.column:
            raise DatasetError(
                f"Columns {other!r} and {feature.column!r} both make a feature called {feature.name!r}. "
                "Rename one of them, or leave it out with --exclude."
            )
