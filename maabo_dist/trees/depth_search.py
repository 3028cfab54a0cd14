"""Depth search: for each subset one CART tree, and the depth at which its macro F1 on the validation rows is best.

The result depends on the training table, the subsets and the maximum depth alone, not on the number of pieces or
threads.
"""

from concurrent.futures import Executor

import numpy as np
import numpy.typing as npt

from maabo_dist._util.subset_rows import is_well_formed
from maabo_dist.errors import SearchError
from maabo_dist.trees import growth
from maabo_dist.trees.forest import NODE_ARRAYS, Forest, failed_forest
from maabo_dist.trees.training import TrainingTable

# Nodes that a piece of a block has room for; unused room costs nothing.
PIECE_NODES = 1 << 18
# Table cells that a piece of a block visits, some tenths of a second of work: Ctrl-C may have to wait that long.
PIECE_CELLS = 1 << 26


def depth_search(
    table: TrainingTable,
    subsets: npt.NDArray[np.int32],
    max_depth: int,
    *,
    whole: bool = False,
    pool: Executor | None = None,
    pieces: int = 1,
) -> Forest:
    """Grow the trees of a block of subsets (rows of ascending feature indices, see `subset_rows`).

    Each tree is cut at its best depth, or kept `whole`, down to `max_depth`. With a `pool`, at least `pieces` pieces of
    the block run on it in parallel; the kernels hold no GIL.
    """
    subsets = _check_subsets(subsets, table.features)
    blocks = _divide(subsets, max_depth, table.entries.shape[1], pieces)
    if not blocks:
        return failed_forest(subsets, max_depth, len(table.totals))
    if pool is None or len(blocks) == 1:
        return Forest.concatenate([_grow(table, block, max_depth, whole) for block in blocks])
    return Forest.concatenate(list(pool.map(lambda block: _grow(table, block, max_depth, whole), blocks)))


def _check_subsets(subsets: npt.NDArray[np.integer], features: int) -> npt.NDArray[np.int32]:
    """Raise an error for indices out of range or order: kernels do not check bounds."""
    subsets = np.asarray(subsets)
    if subsets.ndim != 2 or subsets.shape[1] < 1:
        raise SearchError(f"Subsets come as rows of feature indices; the array has shape {subsets.shape}.")
    if subsets.size and (subsets.min() < 0 or subsets.max() >= features):
        raise SearchError(
            f"A subset names feature {subsets.max()} or {subsets.min()}; the table has 0 … {features - 1}."
        )
    if not is_well_formed(subsets):
        raise SearchError("A subset's feature indices must ascend; only the last may be repeated.")
    return np.ascontiguousarray(subsets, dtype=np.int32)


def _divide(subsets: npt.NDArray[np.int32], max_depth: int, rows: int, pieces: int) -> list[npt.NDArray[np.int32]]:
    by_nodes = PIECE_NODES // growth.max_nodes(rows, max_depth)
    by_cells = PIECE_CELLS // (rows * subsets.shape[1] * max_depth)
    length = max(1, min(-(-len(subsets) // pieces), by_nodes, by_cells))
    return [subsets[start : start + length] for start in range(0, len(subsets), length)]


def _grow(table: TrainingTable, subsets: npt.NDArray[np.int32], max_depth: int, whole: bool) -> Forest:
    room = len(subsets) * growth.max_nodes(table.entries.shape[1], max_depth)
    block = growth.Block(
        scores=np.empty((len(subsets), max_depth)),
        depths=np.empty(len(subsets), np.int32),
        sizes=np.empty(len(subsets), np.int64),
        feature=np.empty(room, np.int32),
        threshold=np.empty(room),
        left=np.empty(room, np.int32),
        counts=np.empty((room, len(table.totals)), np.int32),
    )
    roots, sequence = growth.find_roots(table.root_scores, subsets)
    used = growth.grow_block(table, subsets, roots, sequence, max_depth, whole, block)
    return Forest(
        subsets=subsets,
        scores=block.scores,
        depths=block.depths,
        offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(block.sizes)]),
        **{name: getattr(block, name)[:used].copy() for name in NODE_ARRAYS},
    )
