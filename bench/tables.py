"""The tables of the benchmarks: Titanic from a file, or a generated one like it, and generated ones of any size."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from maabo_dist.data.columns import Columns, Feature, FeatureKind
from maabo_dist.data.preparation import frame_from_arrays, prepare
from maabo_dist.data.split import Split, split_rows
from maabo_dist.screens.pairs import BitTable
from maabo_dist.settings import TableSettings
from maabo_dist.trees.training import TrainingTable


def titanic_path(path: str | None) -> Path | None:
    """The given file, or that of MAABO_TITANIC; None if there is neither."""
    if path is not None and not Path(path).is_file():
        raise SystemExit(f"--titanic {path}: no such file.")
    candidates = (path, os.environ.get("MAABO_TITANIC"))
    return next((Path(path) for path in candidates if path and Path(path).is_file()), None)


def titanic_frame(path: Path | None) -> pd.DataFrame:
    return pd.read_csv(path) if path is not None else _like_titanic()


def noisy_titanic(path: Path | None) -> Columns:
    """Titanic with 20 added columns of uniform noise: 29 features."""
    frame, random = titanic_frame(path), np.random.default_rng(0)
    noise = {f"noise{k}": random.random(len(frame)) for k in range(20)}
    return prepare(frame.assign(**noise), TableSettings(target="survived")).columns


@cache
def generated(rows: int, features: int) -> Columns:
    return prepare(generated_frame(rows, features), TableSettings(target="label")).columns


def generated_frame(rows: int, features: int) -> pd.DataFrame:
    """Normal columns; three of them decide the class, with noise."""
    random = np.random.default_rng(rows + features)
    matrix = random.normal(size=(rows, features))
    signal = matrix[:, 0] + matrix[:, 1] * matrix[:, 2] + random.normal(size=rows)
    return frame_from_arrays(matrix).assign(label=np.where(signal > 0, "yes", "no"))


def random_bits(features: int, rows: int, classes: int) -> BitTable:
    """Random numbers and labels, all rows for training, as screens read them."""
    random = np.random.default_rng(0)
    names = tuple(Feature(f"x{number}", f"x{number}", FeatureKind.NUMBER) for number in range(features))
    labels = random.integers(0, classes, rows).astype(np.int32)
    columns = Columns.from_matrix(random.random((features, rows)), labels, names, tuple(map(str, range(classes))), "y")
    return BitTable.build(columns, Split(np.arange(rows), np.arange(0), np.arange(0)))


def split_of(columns: Columns, seed: int = 0) -> Split:
    return split_rows(columns.labels, test_size=0.3, seed=seed, classes=columns.classes)


def training(columns: Columns) -> TrainingTable:
    return TrainingTable.build(columns, split_of(columns))


def random_subsets(features: int, size: int, count: int, seed: int = 0) -> np.ndarray:
    """Distinct rows of ascending feature indices, in random order."""
    random = np.random.default_rng(seed)
    subsets = np.empty((0, size), np.int32)
    while len(subsets) < count:
        candidates = np.sort(random.integers(0, features, (count + count // 2 + 16, size), dtype=np.int32), axis=1)
        candidates = candidates[(np.diff(candidates, axis=1) > 0).all(axis=1)]
        subsets = np.unique(np.concatenate([subsets, candidates]), axis=0)
    return subsets[random.permutation(len(subsets))[:count]]


def _like_titanic() -> pd.DataFrame:
    """1,309 rows with Titanic's columns, kinds of values and missing cells."""
    random, rows = np.random.default_rng(1912), 1309
    pclass, female = random.choice([1, 2, 3], rows, p=[0.25, 0.21, 0.54]), random.random(rows) < 0.36
    chance = 0.15 + 0.55 * female + 0.1 * (2 - pclass)
    age = np.round(random.gamma(6, 5, rows), 0)
    frame = pd.DataFrame(
        {
            "pclass": pclass,
            "sex": np.where(female, "female", "male"),
            "age": np.where(random.random(rows) < 0.2, np.nan, age),
            "sibsp": random.poisson(0.5, rows),
            "parch": random.poisson(0.4, rows),
            "fare": np.round(random.lognormal(3.6 - 0.6 * (pclass - 1), 0.6, rows), 1),
            "embarked": random.choice(["C", "Q", "S"], rows, p=[0.21, 0.09, 0.7]),
        }
    )
    return frame.assign(survived=(random.random(rows) < chance).astype(int))
