"""Tables as CSV files, and their random draws: three quarters of the rows to mine, the others to score."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from bench.real_tables.archives import CACHE, read_packaged_table
from bench.real_tables.registry import RealTable

HELD_OUT = 0.25
ABOVE, AT_MOST = "above", "at most"
"""The classes of a numeric target."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Rows to mine and rows to score."""

    table: RealTable
    frame: pd.DataFrame
    """All rows, with the target."""
    train: np.ndarray
    """Row numbers, ascending."""
    unseen: np.ndarray
    classes: np.ndarray
    """(rows): the name of each row's class; for a numeric target by the median of the training rows."""
    seed: int

    @property
    def cells(self) -> pd.DataFrame:
        """All columns but the target."""
        return self.frame.drop(columns=self.table.target)


@lru_cache(maxsize=4)
def load_table(table: RealTable) -> pd.DataFrame:
    """The table as pandas reads it from its CSV file, which is written first if it is missing."""
    path = csv_path(table)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        read_packaged_table(table).to_csv(part, index=False)
        part.rename(path)
    return pd.read_csv(path, low_memory=False)


def csv_path(table: RealTable) -> Path:
    return CACHE / "csv" / f"{table.name}.csv"


def draw_rows(table: RealTable, seed: int) -> Draw:
    """Draw rows by seed; every class has the same share in both parts, where each has at least two rows."""
    frame = load_table(table)
    strata = _classes(table, frame[table.target], frame[table.target])
    _, counts = np.unique(strata, return_counts=True)
    stratify = strata if counts.min() >= 2 else None
    train, unseen = train_test_split(np.arange(len(frame)), test_size=HELD_OUT, random_state=seed, stratify=stratify)
    train, unseen = np.sort(train), np.sort(unseen)
    classes = _classes(table, frame[table.target], frame[table.target].iloc[train])
    return Draw(table, frame, train, unseen, classes, seed)


def class_name(value: object) -> str:
    """A class as text: 1 and 1.0 are the same, so are True and true."""
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return text.casefold()
    return str(int(number)) if number.is_integer() else text


def _classes(table: RealTable, target: pd.Series, known: pd.Series) -> np.ndarray:
    """The classes of `target`; a number is cut at the median of the `known` rows."""
    if table.numeric:
        return np.where(target.to_numpy() > known.median(), ABOVE, AT_MOST)
    names = {value: class_name(value) for value in target.unique()}
    return target.map(names).to_numpy(str)
