"""`Split`: which rows are trained on, which choose the depth, and which the search never sees."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

from maabo_dist._util.text import counted, quoted
from maabo_dist.errors import DatasetError

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Row indices, each ascending; together they are every row once."""

    train: Rows
    validation: Rows
    holdout: Rows


def split_rows(
    labels: npt.NDArray[np.integer],
    *,
    test_size: float,
    seed: int,
    holdout: float = 0.0,
    stratify: bool = False,
    classes: Sequence[str] = (),
) -> Split:
    """The rows that scikit-learn's `train_test_split` picks for this seed.

    The holdout is cut off all rows first; `test_size` is a share of what it leaves. Both cuts take the same seed, each
    over the rows in the order in which the cut before returned them, so that two calls of `train_test_split` repeat it.
    `classes` are the labels' names, for messages.
    """
    names = list(classes) or [str(label) for label in range(int(np.max(labels, initial=0)) + 1)]
    held, rest = np.empty(0, np.int64), np.arange(len(labels), dtype=np.int64)
    if holdout > 0:
        rest, held = _cut(rest, labels, holdout, seed, names if stratify else None, option="--holdout")
    train, validation = _cut(rest, labels, test_size, seed, names if stratify else None, option="--test-size")
    _check_classes(labels[train], seed, names)
    return Split(np.sort(train), np.sort(validation), np.sort(held))


def _cut(
    rows: Rows, labels: npt.NDArray[np.integer], share: float, seed: int, stratified: list[str] | None, *, option: str
) -> tuple[Rows, Rows]:
    """The rows that stay and the share cut off, shuffled; stratified if class names are given."""
    count = ceil(share * len(rows))
    if not 0 < count < len(rows):
        raise DatasetError(
            f"{option} {share:g} takes {count:,} of {counted(len(rows), 'row')} and leaves {len(rows) - count:,}; "
            f"no part may be empty. Give another {option} or more rows."
        )
    if stratified is not None:
        return _stratified_cut(rows, labels[rows], share, seed, stratified, option=option)
    # What ShuffleSplit does, without the second that importing scikit-learn takes.
    order = np.random.RandomState(seed).permutation(len(rows))
    return rows[order[count:]], rows[order[:count]]


def _stratified_cut(
    rows: Rows, labels: npt.NDArray[np.integer], share: float, seed: int, names: list[str], *, option: str
) -> tuple[Rows, Rows]:
    from sklearn.model_selection import train_test_split

    single = [name for name, size in zip(names, np.bincount(labels, minlength=len(names)), strict=True) if size == 1]
    if single:
        raise DatasetError(
            f"--stratify needs 2 rows of every class at {option}; there is only 1 of {quoted(single)}. "
            "Leave --stratify out, or leave out the rows of that class."
        )
    try:
        kept, cut = train_test_split(rows, test_size=share, random_state=seed, stratify=labels)
    except ValueError as error:
        raise DatasetError(
            f"--stratify cannot cut {option} {share:g} off {counted(len(rows), 'row')}: {error}. "
            f"Leave --stratify out or give another {option}."
        ) from error
    return kept, cut


def _check_classes(labels: npt.NDArray[np.integer], seed: int, names: list[str]) -> None:
    found = np.unique(labels)
    if len(found) < 2:
        raise DatasetError(
            f"All {counted(len(labels), 'training row')} are of class {names[found[0]]!r} with split seed {seed}. "
            "Use --stratify, another --split-seed or more rows."
        )
