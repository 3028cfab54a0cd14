"""The paper's three tables: recognised by their columns in any file, fetched or bundled, and with columns of noise."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from maabo_dist._util.text import listed
from maabo_dist.data import load_bundled, read_table
from maabo_dist.errors import DatasetError, SettingsError
from maabo_dist.settings import TableSettings

NAMED = ("titanic", "diabetes")
"""Those that can be had without a file: one is fetched, one comes with scikit-learn."""
MOST_NOISE = 20
_NOISE = "noise "
_STREAM = 0x2017  # keeps the draws of noise apart from other uses of the seed

_TITANIC = ("pclass", "sex", "age", "sibsp", "parch", "fare", "embarked")
_BOSTON = ("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO", "LSTAT")


@dataclass(frozen=True, slots=True)
class PaperTable:
    """A table, and how the paper's figures on it come out."""

    name: str
    frame: pd.DataFrame
    settings: TableSettings
    max_depth: int
    """p_max; the paper says 5, but its leaf counts of Boston and diabetes need 3."""
    split_seed: int
    """With which the rule table's single tree comes out."""
    rows: int
    """As the paper has it."""

    @property
    def features(self) -> int:
        """D: a column of three texts or more is as many features."""
        from maabo_dist.data import prepare

        return prepare(self.frame, self.settings).columns.count

    @property
    def origin_note(self) -> str | None:
        """What should be known of a table that is not quite the paper's."""
        if len(self.frame) == self.rows:
            return None
        return f"{self.name}: this table has {len(self.frame):,} rows, the paper's {self.rows:,}."


def table_from_file(path: Path) -> PaperTable:
    """The table in a file, whichever of the paper's it is; columns beside its own do not matter."""
    frame = read_table(path)
    names = {str(name).lower(): name for name in reversed(frame.columns)}
    for name, wanted, targets in (("titanic", _TITANIC, ("survived",)), ("boston", _BOSTON, ("price", "MEDV"))):
        target = next((each for each in targets if each.lower() in names), None)
        if target is not None and all(each.lower() in names for each in wanted):
            own = {names[each.lower()]: each for each in (*wanted, target)}
            return _known(name, frame[list(own)].rename(columns=own), target)
    raise DatasetError(f"--data {path}: {_lacking(names)}")


def named_table(name: str) -> PaperTable:
    """A table that needs no file."""
    if name not in NAMED:
        raise DatasetError(f"The table {name} is not bundled. Give its file with --data.")
    try:
        frame, settings = load_bundled(name)
    except DatasetError as error:
        raise DatasetError(f"{error} For this command: --data titanic.csv.") from error
    return _known(name, _plain(frame), str(settings.target))


def chosen_tables(wanted: Sequence[str], files: Iterable[Path], named: Sequence[str]) -> list[PaperTable]:
    """What an experiment on the tables `wanted` runs on, in the paper's order.

    Files and names say so; beside files of an experiment on several tables, the bundled one is there anyway. Nothing
    is fetched unless nothing was given.
    """
    found: dict[str, PaperTable] = {}
    for table in map(table_from_file, files):
        if table.name in found:
            raise SettingsError(f"--data: two of the files are the table {table.name}. Give one of them.")
        found[table.name] = table
    asked = list(named) or (["diabetes"] if found and len(wanted) > 1 else [] if found else list(wanted))
    found |= {name: named_table(name) for name in asked if name not in found and name in NAMED}
    if len(wanted) == 1 and len(found) != 1:
        raise SettingsError(f"This experiment is on one table; {len(found)} are given: {', '.join(found)}. Give one.")
    return sorted(found.values(), key=lambda table: ("titanic", "boston", "diabetes").index(table.name))


def with_noise(table: PaperTable, count: int, seed: int) -> PaperTable:
    """With so many columns of uniform noise; those of fewer are among those of more."""
    if not count:
        return table
    drawn = np.random.default_rng([seed, _STREAM]).random((MOST_NOISE, len(table.frame)))
    noise = {f"{_NOISE}{place + 1}": drawn[place] for place in range(count)}
    return replace(table, frame=table.frame.assign(**noise))


def is_noise(column: str) -> bool:
    """Whether this is the name of a column of noise; no column of the paper's tables has one."""
    return column.startswith(_NOISE)


def _known(name: str, frame: pd.DataFrame, target: str) -> PaperTable:
    cut = pd.api.types.is_numeric_dtype(frame[target]) and name != "titanic"
    settings = TableSettings(target=target, target_above="mean" if cut else None)
    depth, seed, rows = {"titanic": (5, 5, 1309), "boston": (3, 5, 506), "diabetes": (3, 2, 442)}[name]
    return PaperTable(name, frame, settings, depth, seed, rows)


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Without an index of its own."""
    return frame.reset_index(drop=True)


def _lacking(names: Iterable[str]) -> str:
    """What keeps a file from being one of the paper's tables."""
    has = set(names)
    shapes = {"Titanic": (*_TITANIC, "survived"), "Boston housing": (*_BOSTON, "price")}
    missing = {title: [name for name in shape if name.lower() not in has] for title, shape in shapes.items()}
    said = "; ".join(f"for {title} it lacks {listed(lacks)}" for title, lacks in missing.items())
    return f"its columns are of none of the paper's tables: {said}. Name the columns so, or give another file."
