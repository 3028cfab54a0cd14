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
    names: list[str] = table.column_names
    check_names(path, names)
    if table.num_rows == 0:
        raise DatasetError(f"{path} has {format_count(len(names), 'column')} and no rows. Give a file with rows.")
    frame: pd.DataFrame = table.to_pandas()
    return frame.reset_index(drop=True)


def check_names(path: Path, names: Sequence[str]) -> None:
    """Raise an error if columns have no name, or the same."""
    problems = name_problems(path, names)
    if problems:
        raise DatasetError("\n".join(problems))


def name_problems(path: Path, names: Sequence[str]) -> list[str]:
    """Return what is wrong with the names of the columns."""
    problems = []
    nameless = [str(number) for number, name in enumerate(names, start=1) if not name.strip()]
    if nameless:
        problems.append(
            f"{path}: column {format_list(nameless)} of {len(names):,} has no name. Name it in the header, or leave it "
            "out (pandas writes such a column for row numbers unless index=False is given)."
        )
    duplicates = [name for name, uses in Counter(names).items() if uses > 1 and name.strip()]
    if duplicates:
        problems.append(
            f"{path}: more than one column is called {format_names(duplicates)}. Rename or remove the others."
        )
    return problems


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
