"""`preview`: what a table holds, for users who are about to mine it, and a guess of the column they want to explain.

Each column comes with the use that `prepare` would make of it by default, and with counts for a small histogram.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist.data.cells import ColumnDescription, describe, finite_numbers, levels
from maabo_dist.data.columns import level_text
from maabo_dist.data.dates import read_dates
from maabo_dist.data.encoder import Reason, read_column
from maabo_dist.data.file_checks import NOTES
from maabo_dist.settings import TableSettings

BINS = 16
MAX_FREQUENT = 6
# The first rows, and the first columns of them, that are shown.
SAMPLE_ROWS, SAMPLE_COLUMNS, MAX_CELL = 8, 400, 60
# In a wider table, the columns after these are only described: a histogram of each takes too long to send.
MAX_COLUMNS = 2000
# A column with more values is divided before it can be the target.
MAX_CLASSES = 20

ColumnUse = Literal["feature", "date", "identifier", "empty", "constant", "unsupported"]
_USES: dict[Reason, ColumnUse] = {
    Reason.EMPTY: "empty",
    Reason.UNSUPPORTED: "unsupported",
    Reason.CONSTANT_DATE: "constant",
    Reason.IDENTIFIER: "identifier",
}


@dataclass(frozen=True, slots=True)
class ColumnPreview:
    """One column, what mining does with it by default, and how its values are distributed."""

    description: ColumnDescription
    use: ColumnUse = "feature"
    # Cells from the smallest to the largest value or date, in bins of equal width; of texts, of the most frequent ones.
    histogram: tuple[int, ...] = ()
    # The texts that `histogram` counts, the most frequent first.
    frequent: tuple[str, ...] = ()
    # The first and the last date.
    first: str | None = None
    last: str | None = None


@dataclass(frozen=True, slots=True)
class TablePreview:
    """A table before any settings are applied."""

    rows: int
    columns: tuple[ColumnPreview, ...]
    # The first rows, as text; None where a cell is missing.
    sample: tuple[tuple[str | None, ...], ...]
    # The column that users most likely want to explain; None if no column suggests itself.
    target: str | None
    # How the file was read.
    notes: tuple[str, ...]


def preview(frame: pd.DataFrame) -> TablePreview:
    """Describe a table.

    Examples
    --------
    >>> frame = pd.DataFrame({"id": range(40), "age": [30, 50] * 20, "ill": ["no"] * 30 + ["yes"] * 10})
    >>> seen = preview(frame)
    >>> [(column.description.name, column.use) for column in seen.columns], seen.target
    ([('id', 'identifier'), ('age', 'feature'), ('ill', 'feature')], 'ill')
    """
    columns = tuple(_preview_columns(frame))
    return TablePreview(
        rows=len(frame),
        columns=columns,
        sample=tuple(_sample_rows(frame)),
        target=guess_target(columns, len(frame)),
        notes=tuple(frame.attrs.get(NOTES, ())),
    )


def _preview_columns(frame: pd.DataFrame) -> Iterator[ColumnPreview]:
    for index, description in enumerate(describe(frame)):
        yield _preview_column(frame.iloc[:, index], description) if index < MAX_COLUMNS else ColumnPreview(description)


def _preview_column(cells: pd.Series, description: ColumnDescription) -> ColumnPreview:
    reading = read_column(cells, TableSettings())
    use: ColumnUse = "feature" if reading.reason is None else _USES[reading.reason]
    if use == "feature" and description.distinct == 1 and not description.missing:
        use = "constant"
    if use in {"empty", "unsupported"}:
        return ColumnPreview(description, use)
    dates = read_dates(cells)
    if dates is not None:
        times = dates.times.dropna()
        ends = (str(times.min().date()), str(times.max().date()))
        histogram = _bins(times.to_numpy(dtype="datetime64[s]").astype(np.float64))
        return ColumnPreview(description, "date" if use == "feature" else use, histogram, (), *ends)
    if description.kind == "number":
        return ColumnPreview(description, use, _bins(finite_numbers(cells, remedy="")))
    if description.kind == "other":  # infinite numbers, which count as missing
        return ColumnPreview(description, use)
    coded = levels(cells)
    counts = np.bincount(coded.codes[coded.codes >= 0], minlength=len(coded.texts))
    most = np.argsort(-counts, kind="stable")[:MAX_FREQUENT].tolist()
    texts = tuple(coded.texts[each][:MAX_CELL] for each in most)
    return ColumnPreview(description, use, tuple(counts[most].tolist()), texts)


def _bins(values: npt.NDArray[np.float64]) -> tuple[int, ...]:
    """Count the values in bins of equal width; few distinct ones have a bin each."""
    present = values[~np.isnan(values)]
    distinct = np.unique(present)
    if len(distinct) <= BINS:
        return tuple(np.unique(present, return_counts=True)[1].tolist())
    return tuple(np.histogram(present, bins=BINS)[0].tolist())


def _sample_rows(frame: pd.DataFrame) -> Iterator[tuple[str | None, ...]]:
    for row in frame.iloc[:SAMPLE_ROWS, :SAMPLE_COLUMNS].itertuples(index=False, name=None):
        yield tuple(None if _is_missing(cell) else level_text(cell)[:MAX_CELL] for cell in row)


def _is_missing(cell: Any) -> bool:
    return bool(pd.api.types.is_scalar(cell) and pd.isna(cell))


# Names of columns that tables are usually made to explain. The first ones say nothing else.
_CERTAIN = frozenset({"target", "class", "label", "outcome", "y"})
_LIKELY = frozenset(
    {
        *("survived", "survival", "churn", "churned", "exited", "left", "attrition", "cancelled", "canceled", "quit"),
        *(
            "default",
            "defaulted",
            "fraud",
            "fraudulent",
            "spam",
            "diagnosis",
            "disease",
            "ill",
            "died",
            "death",
            "dead",
        ),
        *("defect", "defective", "fault", "faulty", "failure", "failed", "fail", "scrap", "reject", "rejected"),
        *("response", "responded", "converted", "conversion", "clicked", "bought", "purchased", "subscribed", "won"),
        *(
            "approved",
            "readmitted",
            "relapse",
            "recurrence",
            "result",
            "success",
            "species",
            "cultivar",
            "status",
            "progression",
        ),
    }
)
# Two-valued columns that describe a case and are hardly ever what a table is about.
_ATTRIBUTES = frozenset({"sex", "gender", "male", "female", "married", "smoker"})
_ANSWERS = frozenset({"yes", "no", "y", "n", "true", "false", "0", "1", "positive", "negative", "good", "bad"})
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
# Two values, or a telling name, are enough of a reason.
_MIN_POINTS = 2


def guess_target(columns: Sequence[ColumnPreview], rows: int) -> str | None:
    """Return the column that users most likely want to explain, by its name and values; None if none stands out.

    The position of a column is no reason by itself; it only decides between equally likely columns.
    """
    points = [_target_points(column, rows) for column in columns]
    best = max(points, default=0)
    if best < _MIN_POINTS:
        return None
    last = len(points) - 1 - points[::-1].index(best)
    return columns[last].description.name


def _target_points(column: ColumnPreview, rows: int) -> int:
    description = column.description
    distinct = description.distinct or 0
    if column.use != "feature" or distinct < 2 or description.missing > rows / 2:
        return 0
    named = _name_points(description.name)
    if distinct > MAX_CLASSES:
        # A quantity, or texts that are not classes.
        return min(named, _MIN_POINTS) if description.kind == "number" else 0
    return named + (2 if distinct == 2 else 0) + (1 if _are_answers(column) else 0)


def _name_points(name: str) -> int:
    words = [word.lower() for word in _WORDS.findall(name)]
    if set(words) & _ATTRIBUTES:
        return -_MIN_POINTS
    if name.lower() in _CERTAIN:
        return 6
    if words and all(word in _LIKELY or word in {"is", "has"} for word in words):
        return 5
    return 3 if set(words) & (_LIKELY | (_CERTAIN - {"y"})) else 0


def _are_answers(column: ColumnPreview) -> bool:
    description = column.description
    if description.kind == "number":
        return (description.distinct, description.smallest, description.largest) == (2, 0.0, 1.0)
    return {text.lower() for text in column.frequent} <= _ANSWERS
