"""`TrainingTable`: the rows of one split, in the layout of the kernels.

Every training cell is one integer, and each feature's integers are sorted once:

    entry = | rank of the value | training row | tied | class |

so that a scan in value order gets rank, class and row in one load, and a node's order survives a split by a stable
partition. `tied` is set where several training rows share the value.
"""

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist._util import arrayfile
from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.errors import FormatError
from maabo_dist.trees import growth

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
    # (C): training rows of each class.
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
        totals = np.bincount(labels, minlength=len(columns.classes)).astype(np.int64)
        weights, shares = _class_weights(totals, class_weight)
        layout, dtype = _choose_layout(columns, len(labels))
        train_codes = _plain(columns.codes[:, split.train])
        entries = _plain(_pack(train_codes, labels, layout, dtype))
        scores, cuts = growth.root_splits(entries, layout, totals, weights, min_samples_leaf)
        return cls(
            entries=entries,
            layout=layout,
            train_codes=train_codes,
            validation_codes=_plain(columns.codes[:, split.validation]),
            validation_entries=_plain(_tails(columns.labels[split.validation], layout)),
            values=_plain(columns.values),
            offsets=_plain(columns.offsets),
            totals=_plain(totals),
            weights=_plain(weights),
            shares=_plain(shares),
            min_samples_leaf=min_samples_leaf,
            root_scores=_plain(scores),
            root_cuts=_plain(cuts),
        )

    def with_min_samples_leaf(self, rows: int) -> "TrainingTable":
        """Return the table for another minimum of training rows in a leaf; the same as `build`, but faster."""
        scores, cuts = growth.root_splits(self.entries, self.layout, self.totals, self.weights, rows)
        return self._replace(min_samples_leaf=rows, root_scores=_plain(scores), root_cuts=_plain(cuts))

    @property
    def features(self) -> int:
        """D."""
        return len(self.entries)

    def save(self, path: Path) -> None:
        """Write one file, atomically, which the processes of a host share."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrayfile.write(path, KIND, arrays, {"layout": self.layout._asdict(), "min_leaf": self.min_samples_leaf})

    @classmethod
    def load(cls, path: Path) -> "TrainingTable":
        """Map a saved file of this host, after a check of every byte."""
        arrays, meta = arrayfile.read(path, KIND, _ARRAYS, writable=True, verify=True)
        mapped = {name: _plain(arrays[name]) for name in _ARRAYS}
        try:
            return cls(**mapped, layout=Layout(**meta["layout"]), min_samples_leaf=int(meta["min_leaf"]))
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{path} is damaged: its description lacks or garbles {error}.") from error


_ARRAYS = tuple(name for name in TrainingTable._fields if name not in {"layout", "min_samples_leaf"})


def _plain(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a contiguous, writable array: numba compiles kernels once more for any other type."""
    array = np.ascontiguousarray(array)
    return array if array.flags.writeable else array.copy()


def _class_weights(
    totals: npt.NDArray[np.int64], class_weight: ClassWeight
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Balanced: n / (classes present · rows of the class), as in scikit-learn; a class without rows has weight 0."""
    present = totals > 0
    if class_weight == "none":
        return np.ones(len(totals)), np.ones(len(totals), np.int64)
    shares = np.where(present, totals, 1)
    return np.where(present, totals.sum() / (present.sum() * shares), 0.0), shares


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
