"""`Split`: the rows that trees are trained on, those that choose the depth, and those that the search never sees."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import ceil
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from maabo_dist._util.text import format_count, format_names
from maabo_dist.data.columns import Columns
from maabo_dist.data.groups import choose_groups
from maabo_dist.errors import DatasetError

# The share that is held out by default, of tables with at least so many rows.
DEFAULT_HOLDOUT, MIN_HOLDOUT_ROWS = 0.2, 1000
# The most training rows that the trees of findings are grown on.
MAX_TREE_ROWS = 30_000

Rows = npt.NDArray[np.int64]
Labels = npt.NDArray[np.integer]


class Part(IntEnum):
    """A part of the split, in the order of its fields."""

    TRAIN = 0
    VALIDATION = 1
    HOLDOUT = 2


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Row indices, each sorted; a partition of the rows."""

    train: Rows
    validation: Rows
    holdout: Rows


def split_rows(
    labels: Labels,
    *,
    test_size: float,
    seed: int,
    holdout: float | None = 0.0,
    stratify: bool = False,
    classes: Sequence[str] = (),
    groups: npt.NDArray[np.integer] | None = None,
    times: npt.NDArray[np.float64] | None = None,
) -> Split:
    """Return the rows that scikit-learn's `train_test_split` picks for this seed, without importing scikit-learn.

    The holdout is taken from all rows first; `test_size` is a share of the rest. Both use the same seed, the second
    one on the rows in the order in which the first returned them, so that two calls of `train_test_split` give the same
    split. `classes` are the labels' names, for messages. A holdout of None is a fifth of the rows of a table that has
    at least 1,000 rows, and none of others.

    Rows with the same number in `groups` stay together: whole groups are drawn, as near to the share as they allow;
    with `stratify` among the groups with the same most frequent class.

    With `times` the holdout are the latest rows, as near to the share as rows of the same time allow; with groups too,
    those of the groups that begin latest.
    """
    names = list(classes) or [str(label) for label in range(int(np.max(labels, initial=0)) + 1)]
    held_out, rest = np.empty(0, np.int64), np.arange(len(labels), dtype=np.int64)
    holdout = held_out_share(holdout, len(labels))

    def cut(rows: Rows, share: float, option: str) -> tuple[Rows, Rows]:
        if groups is not None:
            return _cut_groups(rows, labels if stratify else None, groups, share, seed, option=option)
        return _cut(rows, labels, share, seed, names if stratify else None, option=option)

    if holdout > 0:
        if times is not None:
            rest, held_out = _cut_latest(times, groups, holdout)
        else:
            rest, held_out = cut(rest, holdout, option="--holdout")
    train, validation = cut(rest, test_size, option="--test-size")
    _check_classes(labels[train], seed, names)
    return Split(np.sort(train), np.sort(validation), np.sort(held_out))


def sample_tree_rows(split: Split, seed: int) -> Split:
    """Return the split with at most `MAX_TREE_ROWS` training rows, and the same share of its validation rows.

    Trees of more rows take longer and split hardly better. The evidence for rules is counted on all rows.
    """
    share = MAX_TREE_ROWS / len(split.train)
    if share >= 1:
        return split
    rng = np.random.RandomState(seed)

    def draw(rows: Rows) -> Rows:
        return np.sort(rng.permutation(rows)[: ceil(share * len(rows))])

    return Split(draw(split.train), draw(split.validation), split.holdout)


def split_table(columns: Columns, *, holdout_by: Literal["time", "random"] = "time", **options: Any) -> Split:
    """Split a table by `split_rows`, with its groups and, unless rows are held out at random, its times.

    A table whose rows have parts is split by these: it is a sample of a larger one.
    """
    if columns.parts is not None:
        split = Split(*(np.flatnonzero(columns.parts == part) for part in Part))
        _check_classes(columns.labels[split.train], options["seed"], list(columns.classes))
        return split
    times = columns.times if holdout_by == "time" else None
    return split_rows(columns.labels, classes=columns.classes, groups=columns.groups, times=times, **options)


def held_out_share(holdout: float | None, rows: int) -> float:
    """Return the share of the rows that is held out; None leaves it to the number of rows."""
    return holdout if holdout is not None else DEFAULT_HOLDOUT if rows >= MIN_HOLDOUT_ROWS else 0.0


def _cut(
    rows: Rows, labels: Labels, share: float, seed: int, stratified: list[str] | None, *, option: str
) -> tuple[Rows, Rows]:
    """Return the rows that stay and the share cut off, shuffled; stratified if class names are given."""
    count = ceil(share * len(rows))
    if not 0 < count < len(rows):
        raise DatasetError(
            f"{option} {share:g} takes {count:,} of {format_count(len(rows), 'row')} and leaves {len(rows) - count:,}; "
            f"no part may be empty. Give another {option} or more rows."
        )
    rng = np.random.RandomState(seed)
    if stratified is None:  # as ShuffleSplit
        order = rng.permutation(len(rows))
        return rows[order[count:]], rows[order[:count]]
    _check_strata(labels[rows], count, share, stratified, option=option)
    return _stratified_cut(rows, labels[rows], count, rng)


def _cut_latest(times: npt.NDArray[np.float64], groups: Labels | None, share: float) -> tuple[Rows, Rows]:
    """Return the earlier rows and the share of the latest; with groups, the rows of those that begin latest."""
    units, remedy = "rows have", ""
    if groups is not None:
        times = _first_times(times, groups)
        units, remedy = (
            "groups begin at",
            ", which holds out random groups; without --group, the latest rows are held out",
        )
    distinct, counts = np.unique(times, return_counts=True)
    if len(distinct) < 2:
        raise DatasetError(
            f"--time: all {units} the same time, so that none are the latest. Name another column, or use --holdout-by "
            f"random{remedy}."
        )
    latest = np.cumsum(counts[:0:-1])  # rows from the last distinct time on, from the last but one on, …; never all
    best = int(np.argmin(np.abs(latest - ceil(share * len(times)))))
    is_late = times >= distinct[len(distinct) - 1 - best]
    return np.flatnonzero(~is_late), np.flatnonzero(is_late)


def _first_times(times: npt.NDArray[np.float64], groups: Labels) -> npt.NDArray[np.float64]:
    """(rows): the first time of each row's group."""
    _, codes = np.unique(groups, return_inverse=True)
    first = np.full(int(codes.max()) + 1, np.inf)
    np.minimum.at(first, codes, times)
    return first[codes]


def _cut_groups(
    rows: Rows, labels: Labels | None, groups: Labels, share: float, seed: int, *, option: str
) -> tuple[Rows, Rows]:
    """Return the rows that stay and the share cut off, in whole groups; class by class if labels are given."""
    rng = np.random.RandomState(seed)
    of_row = groups[rows]
    classes = np.zeros(len(rows), np.int64) if labels is None else _main_classes(of_row, labels[rows])
    chosen = np.zeros(len(rows), np.bool_)
    for label in np.unique(classes).tolist():
        own = np.flatnonzero(classes == label)
        chosen[own] = choose_groups(of_row[own], ceil(share * len(own)), rng)
    if not chosen.any() or chosen.all():
        raise DatasetError(
            f"{option} {share:g} cannot be cut off {format_count(len(rows), 'row')} in "
            f"{format_count(len(np.unique(of_row)), 'group')}: rows of a group stay together, and no part may be "
            "empty. Name another --group, or give more groups."
        )
    return rows[~chosen], rows[chosen]


def _main_classes(groups: Labels, labels: Labels) -> Rows:
    """(rows): the most frequent class of each row's group; the first among ties."""
    _, codes = np.unique(groups, return_inverse=True)
    classes = int(labels.max()) + 1
    counts = np.bincount(codes * classes + labels, minlength=(int(codes.max()) + 1) * classes)
    main: Rows = counts.reshape(-1, classes).argmax(axis=1)[codes]
    return main


def _check_strata(labels: Labels, count: int, share: float, names: list[str], *, option: str) -> None:
    sizes = np.bincount(labels, minlength=len(names))
    single = [name for name, size in zip(names, sizes, strict=True) if size == 1]
    if single:
        raise DatasetError(
            f"--stratify needs 2 rows of every class at {option}; there is only 1 of {format_names(single)}. "
            "Leave --stratify out, or leave out the rows of that class."
        )
    smaller, classes = min(count, len(labels) - count), np.count_nonzero(sizes)
    if smaller < classes:
        raise DatasetError(
            f"--stratify cannot cut {option} {share:g} off {format_count(len(labels), 'row')}: a part of "
            f"{format_count(smaller, 'row')} cannot hold {classes} classes. "
            f"Leave --stratify out or give another {option}."
        )


def _stratified_cut(rows: Rows, labels: Labels, count: int, rng: np.random.RandomState) -> tuple[Rows, Rows]:
    """StratifiedShuffleSplit, with its random draws in their order."""
    _, codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    members = np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])
    stay_sizes = _apportion(sizes, len(rows) - count, rng)
    cut_sizes = _apportion(sizes - stay_sizes, count, rng)
    stay, cut = [], []
    for indices, stay_size, cut_size in zip(members, stay_sizes, cut_sizes, strict=True):
        shuffled = indices[rng.permutation(len(indices))]
        stay.append(shuffled[:stay_size])
        cut.append(shuffled[stay_size : stay_size + cut_size])
    return rows[rng.permutation(np.concatenate(stay))], rows[rng.permutation(np.concatenate(cut))]


def _apportion(sizes: npt.NDArray[np.int64], count: int, rng: np.random.RandomState) -> npt.NDArray[np.int64]:
    """Divide `count` among classes in proportion to their sizes; the largest remainders are rounded up, ties drawn."""
    quotas = sizes / sizes.sum() * count
    parts: npt.NDArray[np.float64] = np.floor(quotas)
    remainders, missing = quotas - parts, int(count - parts.sum())
    for remainder in np.unique(remainders)[::-1]:
        if missing <= 0:
            break
        tied = np.flatnonzero(remainders == remainder)
        rounded_up = rng.choice(tied, size=min(len(tied), missing), replace=False)
        parts[rounded_up] += 1
        missing -= len(rounded_up)
    return parts.astype(np.int64)


def _check_classes(labels: Labels, seed: int, names: list[str]) -> None:
    present = np.unique(labels)
    if len(present) < 2:
        raise DatasetError(
            f"All {format_count(len(labels), 'training row')} are of class {names[present[0]]!r} with split seed "
            f"{seed}. Use --stratify, another --split-seed or more rows."
        )
