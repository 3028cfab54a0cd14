"""Compile the kernels before they are needed: `python -m maabo_dist.warm`.

The machine code is cached on disk, so that this takes its time once for an installation. Worker processes call `warm`
before their first task.
"""

import numpy as np

from maabo_dist.data.columns import Columns
from maabo_dist.data.features import Feature, FeatureKind
from maabo_dist.mining import mine
from maabo_dist.rules import TreePool
from maabo_dist.settings import MiningSettings
from maabo_dist.trees.forest import Forest
from maabo_dist.trees.wire import pack_forest, unpack_forest


def warm() -> None:
    """Mine small tables in the ways that meet every kernel in its usual types."""
    for classes in (2, 3):
        columns = _table(classes)
        settings = MiningSettings(trees=30, batch=4, min_samples=2, gini=1.0)
        _add_as_sent(mine(columns, settings, jobs=1, keep_trees=True).forest, settings, classes)
        mine(columns, MiningSettings(trees=30, subset_size="1-3", min_samples=2, gini=1.0))
        mine(columns, MiningSettings(trees=30, candidates=8, top_features=4, min_samples=2, gini=1.0))
    mine(_table(2, features=60), MiningSettings(preset="auto", trees=30, batch=4, min_samples=2, gini=1.0))


def _add_as_sent(forest: Forest | None, settings: MiningSettings, classes: int) -> None:
    """As in a cluster, where trees come in messages."""
    if forest is not None:
        received = unpack_forest(pack_forest(forest), forest.subsets)
        TreePool(settings, forest.subsets.shape[1], np.ones(classes)).add(received)


def _table(classes: int, features: int = 12) -> Columns:
    rng = np.random.default_rng(0)
    matrix = rng.random((features, 200))
    matrix[::3] = matrix[::3].round(1)  # tied values
    matrix[::4] = matrix[::4] > 0.5  # few values
    labels = (matrix[:3].sum(axis=0) * classes / 3).astype(np.int32)
    described = tuple(Feature(f"x{i}", f"x{i}", FeatureKind.NUMBER) for i in range(len(matrix)))
    return Columns.from_matrix(matrix, labels, described, tuple(str(c) for c in range(classes)), "y")


if __name__ == "__main__":
    warm()
