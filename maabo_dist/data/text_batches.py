"""Read delimited text in parts, with the types that the whole columns have.

Arrow's own reader in parts takes the types of the first part for all. Here all cells are read as text twice: once to
find the type of each column (`text_types`), then to convert them. The result is that of `read_text`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv as arrow_csv

from maabo_dist.data.file_checks import first_line
from maabo_dist.data.text_files import explain_text, find_separator, header_line, parser_options
from maabo_dist.data.text_types import TypeCandidates, convert_texts
from maabo_dist.errors import DatasetError


@dataclass(frozen=True, slots=True)
class TextTable:
    """A delimited file in UTF-8."""

    path: Path
    separator: str
    na_values: tuple[str, ...]

    @classmethod
    def open(cls, path: Path, kind: str, na_values: tuple[str, ...]) -> "TextTable":
        """Find the separator of the file; `kind` is its extension."""
        return cls(path, find_separator(header_line(path), kind), na_values)

    def names(self) -> list[str]:
        """Return the header."""
        with self._explained(), self._reader(()) as reader:
            return list(reader.schema.names)

    def types(self, columns: Sequence[str]) -> dict[str, str]:
        """Return the type of each column: int64, bool, float64, `DECIMAL_COMMAS` or `TEXT`."""
        candidates = {name: TypeCandidates(decimal_commas=self.separator != ",") for name in columns}
        for batch in self.read_texts(columns):
            for name in columns:
                candidates[name].narrow(batch.column(name))
        return {name: each.best for name, each in candidates.items()}

    def read_texts(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield record batches in which all cells are text; at least the first of the columns is read."""
        with self._explained(), self._reader(columns) as reader:
            yield from reader

    def read(self, types: dict[str, str]) -> Iterator[Any]:
        """Yield tables of the columns, converted to these types."""
        for batch in self.read_texts(list(types)):
            arrays = [convert_texts(batch.column(name), kind) for name, kind in types.items()]
            yield pa.table(arrays, names=list(types))

    def _reader(self, columns: Sequence[str]) -> Any:
        types = {name: pa.string() for name in columns}
        return arrow_csv.open_csv(str(self.path), **parser_options(self.separator, self.na_values, types, columns))

    def _explained(self) -> "_ExplainedErrors":
        return _ExplainedErrors(self)


class _ExplainedErrors:
    """Turns errors of the parser into a DatasetError with the position in the file."""

    def __init__(self, table: TextTable) -> None:
        self._table = table

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, pa.ArrowException | OSError | ValueError) and not isinstance(
            error, DatasetError | MemoryError
        ):
            reason = first_line(error)
            raise DatasetError(explain_text(self._table.path, self._table.separator, reason)) from error
