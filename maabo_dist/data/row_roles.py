"""Columns that describe rows: which of them belong together, when each of them was, and how much it counts."""

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist._util.text import format_count, format_names
from maabo_dist.data.cells import finite_numbers, holds_numbers
from maabo_dist.data.dates import read_dates, recurring_parts
from maabo_dist.data.encoder import ColumnReading
from maabo_dist.data.weights import kish_effect, weight_units
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings

# The settings that name such columns.
ROLES = ("group", "time", "weight")
# Rows that a table may have once rows are repeated as often as their weights say.
MAX_REPEATED_ROWS = 10_000_000

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RowRoles:
    """What these columns say about the rows, and notes for users."""

    # Indices of the rows that are used; those that stand for several are repeated.
    rows: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int32] | None = None
    times: Floats | None = None
    # Sampling weights, in units.
    weights: npt.NDArray[np.int64] | None = None
    # Columns that cannot be features.
    unused: frozenset[str] = frozenset()
    # As `Columns.roles`.
    names: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def role_columns(settings: TableSettings) -> dict[str, str]:
    """Return the columns that are given a role, by its name; raise a DatasetError if one is also something else."""
    roles = {role: name for role in ROLES if (name := getattr(settings, role)) is not None}
    for role, name in roles.items():
        others = [other for other, column in roles.items() if column == name and other != role]
        if name == settings.target or others:
            other = "target" if name == settings.target else others[0]
            raise DatasetError(f"--{role} {name!r} is also the --{other}. Name another column.")
        if name in settings.include and role != "time":
            raise DatasetError(f"--include names {name!r}, which is the --{role} and not a feature. Leave it out.")
    return roles


def read_roles(frame: pd.DataFrame, roles: dict[str, str]) -> RowRoles:
    """Read the columns of these roles."""
    used, names, notes = np.ones(len(frame), np.bool_), dict(roles), list[str]()
    times, is_date, groups = None, True, None
    if "time" in roles:
        times, is_date = _read_times(frame[roles["time"]])
        used &= ~np.isnan(times)
        if not used.all():
            missing = format_count(int(np.count_nonzero(~used)), "row")
            notes.append(f"Left out {missing} of {len(frame):,} without a {roles['time']!r} (--time).")
        names |= {"time_kind": "date"} if is_date else {}
    rows, weights = np.flatnonzero(used).astype(np.int64), None
    if "weight" in roles:
        values = _read_weights(frame[roles["weight"]])
        counted = rows[values[rows] > 0]
        if len(counted) < len(rows):
            left_out = format_count(len(rows) - len(counted), "row")
            notes.append(f"Left out {left_out} of {len(rows):,} whose {roles['weight']!r} is 0 or missing (--weight).")
        rows, weights, note = _apply_weights(counted, values[counted], roles["weight"])
        notes.append(note)
        if weights is None:  # the table is that of the repeated rows
            del names["weight"]
    if "group" in roles and len(rows):
        groups, note = _read_groups(frame[roles["group"]].iloc[rows])
        notes.append(note)
    return RowRoles(
        rows,
        groups,
        None if times is None else times[rows],
        weights,
        frozenset() if is_date else frozenset({roles["time"]}),
        names,
        tuple(notes),
    )


def _read_weights(cells: pd.Series) -> Floats:
    """Return the weights, NaN where one is missing; raise a DatasetError if one is negative or no number."""
    option = f"--weight {cells.name!r}"
    try:
        is_number = holds_numbers(cells, remedy="")
    except DatasetError:
        is_number = False
    if not is_number:
        raise DatasetError(f"{option}: weights are numbers, and the column holds something else. Name another column.")
    weights = finite_numbers(cells, remedy="Correct them, or name another --weight.")
    if (weights < 0).any():
        smallest = np.nanmin(weights)
        count = format_count(int(np.count_nonzero(weights < 0)), "row")
        raise DatasetError(f"{option}: {count} have a negative weight, such as {smallest:g}. Correct them.")
    if not (weights > 0).any():
        raise DatasetError(f"{option}: no row has a weight above 0. Name another column.")
    return weights


def _apply_weights(
    rows: npt.NDArray[np.int64], weights: Floats, name: str
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None, str]:
    """Return the rows, repeated if the weights are numbers of rows; otherwise their weights; and a note."""
    is_whole = not (weights % 1).any()
    if is_whole and weights.sum() <= MAX_REPEATED_ROWS:
        repeated = np.repeat(rows, weights.astype(np.int64))
        note = f"The {len(rows):,} rows stand for {len(repeated):,}, by the numbers in {name!r}."
        return repeated, None, note
    units = weight_units(weights)
    worth = round(len(units) / kish_effect(units))
    why = f", as they sum to {weights.sum():,.0f}, too many to be numbers of rows" if is_whole else ""
    return rows, units, f"{name!r} has sampling weights{why}: {len(rows):,} rows are worth {worth:,} unweighted ones."


def _read_groups(cells: pd.Series) -> tuple[npt.NDArray[np.int32], str]:
    """Number the groups by their first rows. Rows without a value are one group, as they may belong together."""
    codes, values = pd.factorize(cells)
    missing = codes < 0
    groups = np.where(missing, len(values), codes).astype(np.int32)
    sizes = np.bincount(groups)
    if len(sizes) < 2:
        raise DatasetError(
            f"--group {cells.name!r}: all rows have the same value, and groups are never divided. Name another column."
        )
    together = f" The {format_count(int(missing.sum()), 'row')} without one are a group." if missing.any() else ""
    rows = f"{sizes.min():,}" if sizes.min() == sizes.max() else f"{sizes.min():,} to {sizes.max():,}"
    return groups, f"Rows with the same {cells.name!r} stay together: {len(sizes):,} groups of {rows} rows.{together}"


def _read_times(cells: pd.Series) -> tuple[Floats, bool]:
    """Return the times, NaN where one is missing, and True if they are dates: these in seconds since 1970."""
    dates = read_dates(cells)
    if dates is not None:
        since = (dates.times - pd.Timestamp(0)).dt.total_seconds()
        return np.asarray(since.to_numpy(dtype=np.float64, na_value=np.nan), np.float64), True
    try:
        is_number = holds_numbers(cells, remedy="")
    except DatasetError:
        is_number = False
    if is_number:
        return finite_numbers(cells, remedy="Correct them, or name another --time."), False
    values = pd.to_numeric(cells.astype(object), errors="coerce").to_numpy(dtype=np.float64)
    unread = cells[np.isnan(values) & cells.notna().to_numpy()]
    if len(unread):
        texts = format_names([str(cell) for cell in unread.unique()])
        raise DatasetError(
            f"--time {cells.name!r}: rows are ordered by dates or numbers, and the column holds {texts}. "
            "Write dates as 2024-12-31, or name another column."
        )
    return values, False


def without_absolute_time(reading: ColumnReading, times: Floats) -> ColumnReading:
    """Return the features of the dates that order rows without parts that do not recur, such as the year.

    A rule on them could not hold in later rows. The first note of a reading names its features.
    """
    recurring = recurring_parts(times)
    features = tuple(feature for feature in reading.features if feature.levels[:1] and feature.levels[0] in recurring)
    parts = ", ".join(feature.levels[0] for feature in features)
    used = f"its features are {parts}, which recur" if features else "it is not used, as no part of it recurs"
    note = f"Column {reading.name!r} orders the rows: {used}."
    return replace(reading, features=features, notes=(note, *reading.notes[1:]))
