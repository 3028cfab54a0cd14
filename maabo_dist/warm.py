"""Compile the kernels before they are needed: `python -m maabo_dist.warm`.

The machine code is cached on disk, so an installation compiles only once. Worker processes call `warm` before their
first task.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from maabo_dist.data.columns import Columns, Feature, FeatureKind
from maabo_dist.data.weights import UNIT
from maabo_dist.mining.local import mine
from maabo_dist.rules.publishing import TreePool
from maabo_dist.settings import MiningSettings, TableSettings
from maabo_dist.study import Study
from maabo_dist.trees.wire import pack_forest, unpack_forest

# Rows of tables whose packed cells, and whose packed cells and ranks, need wider types than those of small tables.
LARGE_TABLES = (50_000, 70_000)
# Rules selected as in the paper, after pruning.
_GS_MRM = {"preset": "paper", "literals": "supported"}


def warm() -> None:
    """Mine small tables in ways that compile every kernel for its usual argument types.

    Neither the number of classes nor the way candidates are drawn changes a type. A table that is mapped from a file
    does, because its arrays are read-only.
    """
    columns = _table()
    forest = mine(columns, _settings(batch=4), jobs=1, keep_trees=True).forest
    if forest is not None:  # as in a cluster, where trees arrive in messages
        TreePool(Study.build(columns, _settings())).add(unpack_forest(pack_forest(forest), forest.subsets))
    with TemporaryDirectory(prefix="maabo-warm-") as directory:
        columns.save(Path(directory) / "columns")
        # A mapped table, as workers have it.
        mapped = Columns.load(Path(directory) / "columns")
        mine(mapped, _settings(subset_size="1-3", certify=1))
        mine(mapped, _settings(**_GS_MRM))
    mine(columns, _settings(**_GS_MRM))
    mine(_table(features=60), _settings(batch=4, certify=1))
    weighted = replace(columns, weights=np.full(columns.rows, UNIT))
    mine(weighted, _settings(certify=1))


def _settings(**changes: Any) -> MiningSettings:
    return MiningSettings(trees=30, min_samples=2, gini=1.0, **changes)


def warm_for_large_tables() -> None:
    """Compile the kernels for large tables too.

    The packed cells of a table with more than about 40,000 rows have another type, and from 65,536 distinct values of a
    column on, so have the ranks.
    """
    for rows in LARGE_TABLES:
        mine(_table(rows=rows), _settings(batch=4, certify=1))


def warm_for_datasets() -> None:
    """Compile the kernels that draw and count the rows of a dataset."""
    # pandas and pyarrow take half a second to import, and workers need neither.
    import pandas as pd  # noqa: PLC0415

    from maabo_dist.mining.dataset import MIN_SAMPLE, mine_dataset  # noqa: PLC0415

    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.random(5_000), "t": rng.choice(["a", "b", "c"], 5_000)})
    frame["y"] = np.where(frame["x"] > 0.5, "yes", "no")
    mine_dataset(frame, TableSettings(target="y"), MiningSettings(trees=2), sample=2 * MIN_SAMPLE)


def _table(features: int = 12, rows: int = 200) -> Columns:
    rng = np.random.default_rng(0)
    matrix = rng.random((features, rows))
    matrix[::3] = matrix[::3].round(1)  # tied values
    matrix[::4] = matrix[::4] > 0.5  # few values
    labels = (matrix[:3].sum(axis=0) * 2 / 3).astype(np.int32)
    features_of_table = tuple(Feature(f"x{i}", f"x{i}", FeatureKind.NUMBER) for i in range(len(matrix)))
    return Columns.from_matrix(matrix, labels, features_of_table, ("0", "1"), "y")


if __name__ == "__main__":
    warm()
    warm_for_large_tables()
    warm_for_datasets()
