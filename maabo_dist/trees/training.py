"""`TrainingTable`: the rows of one split, in the layout of the kernels; and the depth search on it.

Every training cell is one integer, and each feature's integers are sorted once:

    entry = | rank of the value | training row | tied | class |

so that a scan in value order gets rank, class and row in one load, and a node's order survives a split by a stable
partition. `tied` is set where several training rows share the value.

Depth search grows one CART tree for each subset, and chooses the depth at which its macro F1 on the validation rows is
best. The result depends on the training table, the subsets and the maximum depth alone, not on the number of pieces or
threads.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist._util import arrayfile, scratch
from maabo_dist._util.subset_rows import is_well_formed
from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.data.weights import UNIT, count_units, to_rows
from maabo_dist.errors import FormatError, SearchError
from maabo_dist.trees import growth
from maabo_dist.trees.forest import NODE_ARRAYS, Forest, failed_forest

ClassWeight = Literal["balanced", "none"]
KIND = "training/1"


class Layout(NamedTuple):
    """The positions of the parts of an entry."""

    class_mask: int
    tied_shift: int
    row_shift: int
    row_mask: int
    code_shift: int


class TrainingTable(NamedTuple):
    """The data that trees are grown and scored on; read-only. A named tuple, which a kernel accepts as one argument."""

    # (D, training rows): packed entries in value order; uint32 where they fit, else int64.
    entries: npt.NDArray[Any]
    layout: Layout
    train_codes: npt.NDArray[Any]
    validation_codes: npt.NDArray[Any]
    # (validation rows): row and class packed as in `entries`, without a rank.
    validation_entries: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    offsets: npt.NDArray[np.int64]
    # (training rows), (validation rows): sampling weights in units; empty if each row counts as one.
    units: npt.NDArray[np.int64]
    validation_units: npt.NDArray[np.int64]
    # (C): training rows of each class; units if rows have weights.
    totals: npt.NDArray[np.int64]
    # (C): the weight of one row of each class.
    weights: npt.NDArray[np.float64]
    # (C): a class's weighted count is its count divided by this; integers, so that a majority is decided exactly.
    shares: npt.NDArray[np.int64]
    min_samples_leaf: int
    # (D): the score of each feature's best split of all training rows, the same in every subset.
    root_scores: npt.NDArray[np.float64]
    # (D): the number of entries of the feature that this split puts on the left.
    root_cuts: npt.NDArray[np.int64]

    @classmethod
    def build(
        cls, columns: Columns, split: Split, *, class_weight: ClassWeight = "balanced", min_samples_leaf: int = 1
    ) -> "TrainingTable":
        """Build the table of the split's training and validation rows."""
        labels = columns.labels[split.train]
        weighted = columns.weights is not None
        units, validation_units = (
            np.empty(0, np.int64) if columns.weights is None else columns.weights[rows]
            for rows in (split.train, split.validation)
        )
        totals = count_units(labels, units if weighted else None, len(columns.classes))
        weights, shares = class_weights(totals, class_weight, weighted=weighted)
        layout, dtype = _choose_layout(columns, len(labels))
        codes, features, on_disk = columns.codes, columns.count, columns.is_large
        train_codes = scratch.empty((features, len(split.train)), codes.dtype, on_disk=on_disk)
        validation_codes = scratch.empty((features, len(split.validation)), codes.dtype, on_disk=on_disk)
        entries = scratch.empty(train_codes.shape, dtype, on_disk=on_disk)
        for block in scratch.each_block(codes, train_codes, validation_codes, entries):
            train_codes[block] = codes[block][:, split.train]
            validation_codes[block] = codes[block][:, split.validation]
            entries[block] = _pack(train_codes[block], labels, layout, dtype)
        table = cls(
            entries=entries,
            layout=layout,
            train_codes=train_codes,
            validation_codes=validation_codes,
            validation_entries=_plain(_tails(columns.labels[split.validation], layout)),
            values=_plain(columns.values, on_disk=on_disk),
            offsets=_plain(columns.offsets),
            units=_plain(units),
            validation_units=_plain(validation_units),
            totals=_plain(totals),
            weights=_plain(weights),
            shares=_plain(shares),
            min_samples_leaf=min_samples_leaf,
            root_scores=np.empty(features),
            root_cuts=np.empty(features, np.int64),
        )
        return table.with_min_samples_leaf(min_samples_leaf)

    def with_min_samples_leaf(self, rows: int) -> "TrainingTable":
        """Return the table for another minimum of training rows in a leaf; the same as `build`, but faster."""
        scores, cuts = np.empty(self.features), np.empty(self.features, np.int64)
        for block in scratch.each_block(self.entries):
            scores[block], cuts[block] = growth.root_splits(
                self.entries[block], self.layout, self.totals, self.weights, rows, self.units
            )
        return self._replace(min_samples_leaf=rows, root_scores=scores, root_cuts=cuts)

    def with_labels(
        self, columns: Columns, split: Split, class_weight: ClassWeight = "balanced", changed: Sequence[int] = ()
    ) -> "TrainingTable":
        """Return the table for other labels and weights; the same as `build`, but faster.

        The order of the entries does not depend on the labels, except for features whose codes have `changed`.
        """
        train, weighted = columns.labels[split.train], columns.weights is not None
        units, validation_units = self.units, self.validation_units
        if columns.weights is not None:
            units, validation_units = columns.weights[split.train], columns.weights[split.validation]
        totals = count_units(train, units if weighted else None, len(self.totals))
        weights, shares = class_weights(totals, class_weight, weighted=weighted)
        on_disk, unlabelled = columns.is_large, ~self.entries.dtype.type(self.layout.class_mask)
        entries = scratch.empty(self.entries.shape, self.entries.dtype, on_disk=on_disk)
        for block in scratch.each_block(self.entries, entries):
            rows = (self.entries[block] >> self.layout.row_shift) & self.layout.row_mask
            entries[block] = (self.entries[block] & unlabelled) | train.astype(rows.dtype)[rows]
        train_codes, validation_codes = self.train_codes, self.validation_codes
        if changed:
            indices = list(changed)
            train_codes, validation_codes = (
                scratch.copy(codes, on_disk=on_disk) for codes in (train_codes, validation_codes)
            )
            train_codes[indices] = columns.codes[indices][:, split.train]
            validation_codes[indices] = columns.codes[indices][:, split.validation]
            entries[indices] = _pack(train_codes[indices], train, self.layout, entries.dtype)
        table = self._replace(
            entries=entries,
            train_codes=train_codes,
            validation_codes=validation_codes,
            totals=_plain(totals),
            weights=_plain(weights),
            shares=_plain(shares),
            validation_entries=_plain(_tails(columns.labels[split.validation], self.layout)),
            units=_plain(units),
            validation_units=_plain(validation_units),
        )
        return table.with_min_samples_leaf(self.min_samples_leaf)

    @property
    def features(self) -> int:
        """D."""
        return len(self.entries)

    @property
    def row_totals(self) -> npt.NDArray[np.int64]:
        """(C): training rows of each class, weighted if they have weights."""
        return to_rows(self.totals, self.units if len(self.units) else None)

    def save(self, path: Path) -> None:
        """Write one file, atomically, which the processes of a host share."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrayfile.write(path, KIND, arrays, {"layout": self.layout._asdict(), "min_leaf": self.min_samples_leaf})

    @classmethod
    def load(cls, path: Path) -> "TrainingTable":
        """Map a saved file of this host, after a check of every byte."""
        arrays, meta = arrayfile.read(path, KIND, _ARRAYS, writable=True, verify=True)
        try:
            return cls(**arrays, layout=Layout(**meta["layout"]), min_samples_leaf=int(meta["min_leaf"]))
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{path} is damaged: its field {error} is missing or invalid.") from error


_ARRAYS = tuple(name for name in TrainingTable._fields if name not in {"layout", "min_samples_leaf"})


def _plain(array: npt.NDArray[Any], *, on_disk: bool = False) -> npt.NDArray[Any]:
    """Return a contiguous, writable array: numba compiles kernels once more for any other type."""
    array = np.ascontiguousarray(array)
    return array if array.flags.writeable else scratch.copy(array, on_disk=on_disk)


def class_weights(
    totals: npt.NDArray[np.int64], class_weight: ClassWeight, *, weighted: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Balanced: n / (classes present · rows of the class), as in scikit-learn; a class without rows has weight 0.

    Shares are rows even if totals are units, so that products of both fit 64 bits.
    """
    present = totals > 0
    if class_weight == "none":
        return np.ones(len(totals)), np.ones(len(totals), np.int64)
    divisors = np.where(present, totals, 1)
    shares = np.maximum(1, (divisors + UNIT // 2) // UNIT) if weighted else divisors
    return np.where(present, totals.sum() / (present.sum() * divisors), 0.0), shares


def _choose_layout(columns: Columns, rows: int) -> tuple[Layout, type[np.unsignedinteger[Any]] | type[np.int64]]:
    row_bits = max(1, (rows - 1).bit_length())
    class_bits = max(1, (len(columns.classes) - 1).bit_length())
    code_bits = int(np.diff(columns.offsets).max(initial=1)).bit_length()
    layout = Layout(
        class_mask=(1 << class_bits) - 1,
        tied_shift=class_bits,
        row_shift=class_bits + 1,
        row_mask=(1 << row_bits) - 1,
        code_shift=class_bits + 1 + row_bits,
    )
    return layout, np.uint32 if layout.code_shift + code_bits <= 32 else np.int64


def _pack(codes: npt.NDArray[Any], labels: npt.NDArray[np.int32], layout: Layout, dtype: Any) -> npt.NDArray[Any]:
    """Pack and sort, one feature at a time: the intermediate int64 row is the only extra memory."""
    packed = np.empty(codes.shape, dtype)
    tail = _tails(labels, layout)
    for feature, column in enumerate(codes):
        tied = (np.bincount(column) > 1)[column]
        entry = (column.astype(np.int64) << layout.code_shift) | (tied.astype(np.int64) << layout.tied_shift) | tail
        packed[feature] = np.sort(entry.astype(dtype))
    return packed


def _tails(labels: npt.NDArray[np.int32], layout: Layout) -> npt.NDArray[np.int64]:
    return (np.arange(len(labels)) << layout.row_shift) | labels


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
    unit = UNIT if len(table.units) else 1
    used = growth.grow_block(table, subsets, roots, sequence, max_depth, whole, unit, block)
    if table.features > table.entries.shape[1] and table.entries.nbytes > scratch.BLOCK_BYTES:
        # The next trees use other columns.
        scratch.release(table.entries, table.train_codes, table.validation_codes, table.values)
    return Forest(
        subsets=subsets,
        scores=block.scores,
        depths=block.depths,
        offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(block.sizes)]),
        **{name: getattr(block, name)[:used].copy() for name in NODE_ARRAYS},
    )
