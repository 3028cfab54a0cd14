"""Sizes of tables and trees: bytes for each cell in the store and in memory, bytes and CPU for each tree."""

from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np

from bench import printing, tables
from maabo_dist.settings import MiningSettings
from maabo_dist.study import split_for
from maabo_dist.trees.training import TrainingTable, depth_search
from maabo_dist.trees.wire import pack_forest

TREES, DEPTH = 500, 5


def run(options) -> None:
    shapes = [(2000, 1000), (20_000, 200), (100_000, 50)][: 2 if options.quick else 3]
    printing.print_table(
        f"Sizes of tables and trees ({TREES} trees of 3 features, depth {DEPTH})",
        ["rows × features", "store", "memory", "a tree", "CPU a tree"],
        [_row(*shape) for shape in shapes],
        [
            "Store and memory: bytes a cell of a table of different numbers (few values take less). Memory is the file",
            "that the processes of a host map together. A tree: as it travels, and as ledger and store keep it.",
        ],
    )


def _row(rows: int, features: int) -> tuple[str, ...]:
    columns = tables.generated(rows, features)
    training = TrainingTable.build(columns, split_for(columns, MiningSettings()))
    draw = np.random.default_rng(0)
    subsets = np.array([sorted(draw.choice(features, 3, replace=False)) for _ in range(TREES)], np.int32)
    depth_search(training, subsets[:10], DEPTH)
    start = process_time()
    forest = depth_search(training, subsets, DEPTH)
    seconds = (process_time() - start) / TREES
    stored, mapped = (_saved(part) / (rows * features) for part in (columns, training))
    tree = len(pack_forest(forest)) / TREES
    return (
        f"{rows:,} × {features}",
        f"{stored:.1f} B",
        f"{mapped:.1f} B",
        f"{tree:.0f} B",
        printing.format_time(seconds),
    )


def _saved(part) -> int:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "file"
        part.save(path)
        return path.stat().st_size
