"""Checks, notes and errors that the readers of all file formats share."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from maabo_dist._util.text import format_count, format_list, format_names
from maabo_dist.errors import DatasetError

# The attribute of a frame that holds notes on how it was read.
NOTES = "maabo_notes"


def to_frame(path: Path, table: Any) -> pd.DataFrame:
    """Convert an Arrow table with rows, after a check of its column names."""
    names, notes = name_columns(path, table.column_names)
    if table.num_rows == 0:
        raise DatasetError(f"{path} has {format_count(len(names), 'column')} and no rows. Give a file with rows.")
    # Renamed columns lose their description for pandas.
    frame: pd.DataFrame = (table.rename_columns(names) if notes else table).to_pandas()
    return with_notes(frame.reset_index(drop=True), notes)


def name_columns(path: Path, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of the columns, those without one by their numbers, and notes; raise an error for duplicates.

    pandas and R write a column without a name for row numbers.
    """
    if problems := name_problems(path, names):
        raise DatasetError("\n".join(problems))
    nameless = [number for number, name in enumerate(names) if not name.strip()]
    named = [f"column {number + 1}" if number in nameless else name for number, name in enumerate(names)]
    if not nameless:
        return named, []
    called = [named[number] for number in nameless]
    clashes = [name for name in called if name in names]
    if clashes:
        raise DatasetError(
            f"{path}: a column has no name, and another is called {clashes[0]!r}. Name it in the header."
        )
    positions = format_list([f"{number + 1:,}" for number in nameless])
    if len(nameless) == 1:
        return named, [f"Column {positions} has no name and is called {called[0]!r}."]
    return named, [f"Columns {positions} have no name and are called {format_names(called)}."]


def name_problems(path: Path, names: Sequence[str]) -> list[str]:
    """Return the names that more than one column has."""
    duplicates = [name for name, uses in Counter(names).items() if uses > 1 and name.strip()]
    if not duplicates:
        return []
    return [f"{path}: more than one column is called {format_names(duplicates)}. Rename or remove the others."]


def with_notes(frame: pd.DataFrame, notes: Sequence[str]) -> pd.DataFrame:
    """Return the frame with notes for the users, after those that it has."""
    if notes:
        frame.attrs[NOTES] = (*frame.attrs.get(NOTES, ()), *notes)
    return frame


@contextmanager
def wrap_read_errors(path: Path, what: str) -> Iterator[None]:
    """Turn every error of a reader except MemoryError into a DatasetError."""
    try:
        yield
    except (DatasetError, MemoryError):
        raise
    except Exception as error:  # damaged metadata raises KeyError, TypeError and others
        raise DatasetError(
            f"{path} cannot be read as {what}: {first_line(error)}. It is damaged, truncated or of another format; "
            "write it again."
        ) from error


def first_line(error: Exception) -> str:
    """Return the first line of an error message, without its full stop."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
