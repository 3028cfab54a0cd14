"""The paper's tables as numbers without missing cells, the same for every method, and their random splits.

Titanic and Boston come from files; diabetes and breast cancer come with scikit-learn.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from bench.quality.experiment import Run
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.columns import Columns
from maabo_dist.data.preparation import prepare
from maabo_dist.data.split import split_rows
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings

TARGET = "class"
HELD_OUT = 0.25
BUNDLED = {"diabetes": "diabetes", "breast cancer": "breast_cancer"}


@dataclass(frozen=True, slots=True)
class PaperTable:
    name: str
    frame: pd.DataFrame
    """Features as float64, and `TARGET` as text."""

    def draw(self, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Training rows and held-out rows; every class has the same share in both."""
        _, labels = np.unique(self.frame[TARGET].to_numpy(str), return_inverse=True)
        split = split_rows(labels, test_size=HELD_OUT, seed=seed, stratify=True)
        return tuple(self.frame.iloc[rows].reset_index(drop=True) for rows in (split.train, split.validation))


def paper_tables(run: Run) -> Iterator[PaperTable]:
    """The available tables; one without a file is omitted."""
    if run.titanic:
        yield PaperTable("Titanic", _read(run.titanic, "survived"))
    if run.boston:
        yield PaperTable("Boston", _read(run.boston, "price"))
    for name, bundled in BUNDLED.items():
        yield PaperTable(name, numbers(prepare(*load_bundled(bundled)).columns))


def absent(run: Run) -> list[str]:
    """A message for each omitted table."""
    files = {"Titanic": (run.titanic, "--titanic"), "Boston": (run.boston, "--boston")}
    return [f"{name} needs its file: {option} FILE" for name, (path, option) in files.items() if not path]


def numbers(columns: Columns) -> pd.DataFrame:
    """One column for each feature: categories as 0 and 1, missing cells filled."""
    names = [feature.name for feature in columns.features]
    matrix = {name: columns.column(index) for index, name in enumerate(names)}
    return pd.DataFrame(matrix).assign(**{TARGET: np.array(columns.classes, object)[columns.labels]})


def _read(path: Path, target: str) -> pd.DataFrame:
    try:
        return numbers(prepare(pd.read_csv(path), TableSettings(target=target)).columns)
    except DatasetError as error:
        raise SystemExit(f"{path}: {error}") from error
