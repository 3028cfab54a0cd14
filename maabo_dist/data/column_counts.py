"""`ColumnCounts`: what is known about the columns of all rows of a dataset, added up batch by batch in any order."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute

# Levels of a column that are counted; with more, it is only known that there are more.
MAX_LEVELS = 1000
# Levels that users are shown.
SHOWN_LEVELS = 20


@dataclass
class ColumnCounts:
    """Counts of the cells of one column."""

    missing: int = 0
    # The smallest and the largest number; of dates, as text that is ordered alike.
    smallest: float | str | None = None
    largest: float | str | None = None
    # Rows of each level of text and booleans; None if there are too many, or if the column holds something else.
    levels: Counter[str] | None = field(default_factory=Counter)

    def add(self, column: Any) -> None:
        """Count the cells of a batch."""
        kind = column.type
        if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind):
            self._add_levels(column if pa.types.is_dictionary(kind) else column.dictionary_encode())
            return
        self.levels = None
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            self._add_numbers(column)
        else:
            self.missing += column.null_count
            if pa.types.is_temporal(kind) and not pa.types.is_duration(kind) and column.null_count < len(column):
                limits = compute.min_max(column)
                self._extend(*(str(limits[name].as_py()) for name in ("min", "max")))

    def merge(self, other: "ColumnCounts") -> None:
        """Add the counts of other rows."""
        self.missing += other.missing
        if other.smallest is not None and other.largest is not None:
            self._extend(other.smallest, other.largest)
        if self.levels is not None and other.levels is not None:
            self.levels += other.levels
        else:
            self.levels = None
        self._limit()

    def frequent(self) -> dict[str, int]:
        """Return the rows of the most frequent levels; empty if levels are not counted."""
        levels = Counter() if self.levels is None else self.levels
        return dict(sorted(levels.items(), key=lambda item: (-item[1], item[0]))[:SHOWN_LEVELS])

    def to_json(self) -> dict[str, Any]:
        """Return plain values for `from_json`."""
        levels = None if self.levels is None else dict(self.levels)
        return {"missing": self.missing, "smallest": self.smallest, "largest": self.largest, "levels": levels}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "ColumnCounts":
        """Read what `to_json` returned."""
        levels = values["levels"]
        return cls(
            values["missing"], values["smallest"], values["largest"], None if levels is None else Counter(levels)
        )

    def _add_levels(self, encoded: Any) -> None:
        self.missing += encoded.null_count
        if self.levels is None:
            return
        codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
        counts = np.bincount(codes, minlength=len(encoded.dictionary))[: len(encoded.dictionary)]
        if np.count_nonzero(counts) > MAX_LEVELS:
            self.levels = None
            return
        for index in np.flatnonzero(counts).tolist():
            text = encoded.dictionary[index].as_py()
            self.levels[str(text).lower() if isinstance(text, bool) else str(text)] += int(counts[index])
        self._limit()

    def _add_numbers(self, column: Any) -> None:
        self.missing += column.null_count
        values = column if not pa.types.is_decimal(column.type) else column.cast(pa.float64(), safe=False)
        numbers = values.drop_null().to_numpy(zero_copy_only=False)
        if np.issubdtype(numbers.dtype, np.floating):
            present = np.isfinite(numbers)
            if not present.all():
                self.missing += len(numbers) - int(present.sum())
                numbers = numbers[present]
        if len(numbers):
            self._extend(float(numbers.min()), float(numbers.max()))

    def _extend(self, smallest: Any, largest: Any) -> None:
        self.smallest = smallest if self.smallest is None else min(self.smallest, smallest)
        self.largest = largest if self.largest is None else max(self.largest, largest)

    def _limit(self) -> None:
        if self.levels is not None and len(self.levels) > MAX_LEVELS:
            self.levels = None
