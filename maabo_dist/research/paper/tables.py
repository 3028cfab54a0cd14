"""The paper's three tables: read from files by their columns, fetched or bundled, and with added noise columns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from maabo_dist._util.text import format_list
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.data.readers import read_table
from maabo_dist.errors import DatasetError, SettingsError
from maabo_dist.settings import TableSettings

# Tables that need no file: the first is fetched, the second comes with scikit-learn.
WITHOUT_FILE = ("titanic", "diabetes")
MAX_NOISE = 20
_NOISE_PREFIX = "noise "
_NOISE_STREAM = 0x2017  # separates the noise from other uses of the seed

_TITANIC = ("pclass", "sex", "age", "sibsp", "parch", "fare", "embarked")
_BOSTON = ("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "LSTAT")
# `max_depth`, `split_seed` and `rows` of the tables, in the paper's order.
_PAPER = {"titanic": (5, 5, 1309), "boston": (3, 5, 506), "diabetes": (3, 2, 442)}


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table with the parameters that reproduce the paper's figures on it."""

    name: str
    frame: pd.DataFrame
    settings: TableSettings
    max_depth: int  # p_max; the paper states 5, but its leaf counts of Boston and diabetes need 3
    split_seed: int  # the seed that reproduces the single tree of the rule table
    rows: int  # the number of rows in the paper

    @property
    def features(self) -> int:
        """D: a column with three or more texts is that many features."""
        return prepare(self.frame, self.settings).columns.count

    @property
    def size_note(self) -> str | None:
        """A note on a table whose number of rows differs from the paper's."""
        if len(self.frame) == self.rows:
            return None
        return f"{self.name}: this table has {len(self.frame):,} rows, the paper's {self.rows:,}."


def table_from_file(path: Path) -> PaperTable:
    """Read a file and recognise the table by its columns; further columns are ignored."""
    frame = read_table(path)
    names = {str(name).lower(): name for name in reversed(frame.columns)}
    for table, columns, targets in (("titanic", _TITANIC, ("survived",)), ("boston", _BOSTON, ("price", "MEDV"))):
        target = next((each for each in targets if each.lower() in names), None)
        if target is not None and all(each.lower() in names for each in columns):
            original = {names[each.lower()]: each for each in (*columns, target)}
            return _paper_table(table, frame[list(original)].rename(columns=original), target)
    complete = {"Titanic": (*_TITANIC, "survived"), "Boston housing": (*_BOSTON, "price")}
    missing = {title: [each for each in columns if each.lower() not in names] for title, columns in complete.items()}
    reasons = "; ".join(f"for {title} it lacks {format_list(columns)}" for title, columns in missing.items())
    raise DatasetError(
        f"--data {path}: it has the columns of none of the paper's tables: {reasons}. "
        "Rename its columns, or give another file."
    )


def named_table(name: str) -> PaperTable:
    """A table that needs no file."""
    if name not in WITHOUT_FILE:
        raise DatasetError(f"The table {name} is not bundled. Give its file with --data.")
    try:
        frame, settings = load_bundled(name)
    except DatasetError as error:
        raise DatasetError(f"{error} For this command: --data titanic.csv.") from error
    return _paper_table(name, frame.reset_index(drop=True), str(settings.target))


def choose_tables(experiment_tables: Sequence[str], files: Iterable[Path], names: Sequence[str]) -> list[PaperTable]:
    """Return the tables to run an experiment with, in the paper's order; the paper runs it on `experiment_tables`.

    They are those of the files and names. With files for an experiment on several tables, the bundled one is added.
    Nothing is fetched unless neither files nor names are given.
    """
    tables: dict[str, PaperTable] = {}
    for table in map(table_from_file, files):
        if table.name in tables:
            raise SettingsError(f"--data: two of the files are the table {table.name}. Give one of them.")
        tables[table.name] = table
    if not names:
        names = list(experiment_tables) if not tables else ["diabetes"] if len(experiment_tables) > 1 else []
    tables |= {name: named_table(name) for name in names if name not in tables and name in WITHOUT_FILE}
    if len(experiment_tables) == 1 and len(tables) != 1:
        raise SettingsError(f"This experiment runs on one table, but got {len(tables)}: {', '.join(tables)}. Give one.")
    return [tables[name] for name in _PAPER if name in tables]


def with_noise(table: PaperTable, count: int, seed: int) -> PaperTable:
    """Add columns of uniform noise; a table with fewer of them has the first of those with more."""
    if not count:
        return table
    values = np.random.default_rng([seed, _NOISE_STREAM]).random((MAX_NOISE, len(table.frame)))
    noise = {f"{_NOISE_PREFIX}{index + 1}": values[index] for index in range(count)}
    return replace(table, frame=table.frame.assign(**noise))


def is_noise(column: str) -> bool:
    """True for the name of a noise column; no column of the paper's tables begins like it."""
    return column.startswith(_NOISE_PREFIX)


def _paper_table(name: str, frame: pd.DataFrame, target: str) -> PaperTable:
    cut = pd.api.types.is_numeric_dtype(frame[target]) and name != "titanic"
    settings = TableSettings(target=target, target_above="mean" if cut else None)
    return PaperTable(name, frame, settings, *_PAPER[name])
