"""`prepare`: choose the columns of a DataFrame, convert them to features and classes of the target.

    table ──► chosen columns, rows with a target ──► features ──► BlockEncoder, a block of columns at a time ──► Columns

Tables are taken as they come: a note says what was left out or read in a particular way. The features are made first,
and the matrix by the encoder that later reads new rows, so that both are encoded the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist._util.text import format_count, format_list, format_names, suggestion
from maabo_dist.data.column_blocks import BlockEncoder, divide_columns
from maabo_dist.data.column_sources import ColumnSource, FrameSource
from maabo_dist.data.columns import Columns, Feature, FeatureKind
from maabo_dist.data.encoder import ColumnReading, Reason, TableEncoder, check_unique, read_column
from maabo_dist.data.remarks import find_leaks, group_notes, leak_notes
from maabo_dist.data.row_roles import read_roles, role_columns, without_absolute_time
from maabo_dist.data.target import Target, encode_target
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings

MIN_ROWS = 10


@dataclass(frozen=True, slots=True, eq=False)
class PreparedTable:
    """A table ready for the search, and notes on its preparation."""

    columns: Columns
    # Encodes new rows in the same way as `columns`.
    encoder: TableEncoder
    # Sentences for users: what was left out, dropped, filled in or looks unusual.
    notes: tuple[str, ...]
    # Indices of the used rows in the frame, ascending; repeated if a row stands for several.
    rows_kept: npt.NDArray[np.int64]
    # Columns that nearly repeat the target.
    leaks: tuple[str, ...] = ()


def prepare(table: pd.DataFrame | ColumnSource, settings: TableSettings) -> PreparedTable:
    """Convert the columns to features that the settings choose, and classes of the target.

    Parameters
    ----------
    table
        The table, one row per case: a DataFrame, or a file as `open_columns` opens it.
    settings
        The target, the columns to use, and the treatment of missing values.

    Returns
    -------
    PreparedTable
        The prepared table (`columns`), an encoder for new rows, and notes for the user.

    Raises
    ------
    DatasetError
        If the table cannot be mined as it is: the message names the column and the remedy.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": [30, 50] * 10, "sex": list("fmmf") * 5, "ill": ["no"] * 12 + ["yes"] * 8})
    >>> prepared = prepare(frame, TableSettings(target="ill"))
    >>> [feature.name for feature in prepared.columns.features], prepared.columns.classes
    (['age', 'sex'], ('no', 'yes'))
    >>> prepared.notes
    ()
    """
    source = FrameSource.open(table) if isinstance(table, pd.DataFrame) else table
    target_name, names = choose_columns(source.names, settings)
    roles = role_columns(settings)
    check_unique(pd.Index(source.names), among=[target_name, *names, *roles.values()])
    described = source.read(list(dict.fromkeys([target_name, *roles.values()])))
    rows_kept, row_notes = _choose_rows(source, described[target_name], names, settings)
    row_roles = read_roles(described[list(roles.values())].iloc[rows_kept], roles)
    rows_kept = rows_kept[row_roles.rows]
    _check_row_count(len(rows_kept), row_roles.notes)
    names = [name for name in names if name not in row_roles.unused]
    target = encode_target(_take_rows(described, rows_kept)[target_name], settings)
    times = {} if row_roles.times is None else {roles["time"]: row_roles.times}
    reader = _ColumnReader(source, rows_kept, settings, times)
    readings, encoder = reader.encode(names, target, lambda each: each.reason is None or each.name in settings.include)
    used, column_notes = _choose_readings(readings, settings)
    if any(each.reason is Reason.IDENTIFIER and each.name not in settings.include for each in used):
        # They are used for want of others.
        _, encoder = reader.encode([each.name for each in used], target, lambda _each: True)
    all_features = tuple(encoder.features)
    columns, left_out = encoder.join(column_notes)
    columns = replace(
        columns,
        groups=row_roles.groups,
        times=row_roles.times,
        weights=row_roles.weights,
        roles=row_roles.names,
    )
    leaks = find_leaks(columns)
    notes = (  # what makes rules look better than they are comes first
        *(*leak_notes(leaks), *([] if "group" in roles else group_notes(readings, columns.rows))),
        *(*source.notes, *row_notes, *row_roles.notes, *target.notes, *column_notes),
        *(*_missing_notes(all_features, settings), *left_out),
    )
    return PreparedTable(columns, TableEncoder(columns.features), notes, rows_kept, tuple(leaks))


@dataclass(frozen=True, slots=True)
class _ColumnReader:
    """Reads the columns of a table in blocks, with the rows that are used."""

    source: ColumnSource
    rows: npt.NDArray[np.int64]
    settings: TableSettings
    # The column of --time, if it is used, and its times.
    times: dict[str, npt.NDArray[np.float64]]

    def encode(
        self, names: Sequence[str], target: Target, is_used: Callable[[ColumnReading], bool]
    ) -> tuple[list[ColumnReading], BlockEncoder]:
        """Read the columns, and encode those that are used."""
        readings, encoder = [], BlockEncoder(target, len(names))
        for block in divide_columns(names, self.source.rows):
            frame = self.source.read(block)
            taken = _take_rows(frame, self.rows)
            # Each column is taken out once: in a wide table, that is half of the work.
            cells = {name: taken[name] for name in block}
            own = self._read(frame, cells)
            encoder.add([each for each in own if is_used(each)], cells)
            readings += own
        return readings, encoder

    def _read(self, frame: pd.DataFrame, cells: dict[str, pd.Series]) -> list[ColumnReading]:
        readings = [read_column(column, self.settings) for column in cells.values()]
        if len(distinct := np.unique(self.rows)) < len(self.rows):  # a column that identifies rows does so before that
            once = [read_column(frame[name].iloc[distinct], self.settings) for name in cells]
            readings = [
                replace(each, reason=before.reason, detail=before.detail, identity=before.identity)
                for each, before in zip(readings, once, strict=True)
            ]
        return [
            without_absolute_time(each, self.times[each.name]) if each.name in self.times else each for each in readings
        ]


def _take_rows(frame: pd.DataFrame, rows: npt.NDArray[np.int64]) -> pd.DataFrame:
    return frame if _are_all(rows, len(frame)) else frame.iloc[rows].reset_index(drop=True)


def frame_from_arrays(X: npt.ArrayLike, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return a DataFrame of a two-dimensional array, rows first; its columns are called x0, x1, … unless named."""
    array = np.asarray(X)
    if array.ndim != 2:
        raise DatasetError(f"The array has the shape {array.shape}. Pass a two-dimensional array (rows × columns).")
    columns = [f"x{index}" for index in range(array.shape[1])] if names is None else [str(name) for name in names]
    if len(columns) != array.shape[1]:
        raise DatasetError(
            f"The array has {format_count(array.shape[1], 'column')}; {len(columns):,} names were given."
        )
    # Columns of an array of objects may be numbers.
    return pd.DataFrame(array, columns=columns).infer_objects()


# The names of columns that are arrays beside the table, unless it has others of the same names.
_ARRAY_NAMES = {"target": "class", "weight": "sample_weight", "group": "groups"}


def add_described_columns(frame: pd.DataFrame, arrays: dict[str, Any]) -> tuple[pd.DataFrame, dict[str, str]]:
    """Add arrays with a value for each row as columns; `arrays` and the names of these are by table settings."""
    names = {}
    for setting in arrays:
        name = _ARRAY_NAMES[setting]
        while name in frame.columns:
            name += "_"
        names[setting] = name
    columns = {names[setting]: pd.Series(array, index=frame.index) for setting, array in arrays.items()}
    return frame.assign(**columns), names


def choose_columns(names: list[str], settings: TableSettings) -> tuple[str, list[str]]:
    """Return the target and the columns that features are made from, in table order."""
    if settings.target is None:
        raise DatasetError(
            f"No target is given. Name the class column with --target. The columns are {format_names(names)}."
        )
    _check_known("--target", (settings.target,), names)
    for option, listing in (("--include", settings.include), ("--exclude", settings.exclude)):
        if settings.target in listing:
            raise DatasetError(
                f"{option} names the target {settings.target!r}, which cannot be a feature. Leave it out."
            )
        _check_known(option, listing, names)
    roles = role_columns(settings)
    for role, name in roles.items():
        _check_known(f"--{role}", (name,), names)
    # The column of --time stays: features are made of its recurring parts, such as the month.
    never = {settings.target, *settings.exclude, *(name for role, name in roles.items() if role != "time")}
    used = (set(settings.include) or set(names)) - never
    return settings.target, [name for name in names if name in used]


def _check_known(option: str, requested: Sequence[str], names: list[str]) -> None:
    existing = set(names)
    for name in requested:
        if name not in existing:
            raise DatasetError(f"{option} {name!r}: the table has no such column. {suggestion(name, names)}")


def _choose_rows(
    source: ColumnSource, target_cells: pd.Series, names: list[str], settings: TableSettings
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return the rows that have a target, with --impute drop the complete ones of these, and notes on the others."""
    rows, target = np.flatnonzero(target_cells.notna().to_numpy()).astype(np.int64), settings.target
    notes = []
    unlabelled = source.rows - len(rows)
    if unlabelled:
        notes.append(f"Left out {format_count(unlabelled, 'row')} of {source.rows:,} without a {target!r}.")
    labelled = len(rows)
    if settings.impute == "drop":
        for block in divide_columns(names, source.rows):
            rows = rows[source.read(block).notna().to_numpy()[rows].all(axis=1)]
        if len(rows) < labelled:
            notes.append(f"Dropped {labelled - len(rows):,} of {labelled:,} rows because of missing cells.")
    if len(rows) >= MIN_ROWS:
        return rows, notes
    reason, remedy = "", "Give more rows."
    if unlabelled:
        reason, remedy = f" with a {target!r}, of {source.rows:,}", "Fill in the target, or name another --target."
    if len(rows) < labelled:
        reason += f" after --impute drop left out {labelled - len(rows):,} with missing cells"
        remedy = "Use --impute median, or leave out the columns with most missing cells."
    raise DatasetError(
        f"The table has {format_count(len(rows), 'row')}{reason}; at least {MIN_ROWS} are needed to split it. {remedy}"
    )


def _are_all(rows: npt.NDArray[np.int64], count: int) -> bool:
    return len(rows) == count and (not count or bool((np.diff(rows) == 1).all()))


def _check_row_count(rows: int, notes: Sequence[str]) -> None:
    if rows < MIN_ROWS:
        raise DatasetError(" ".join([*notes, f"{format_count(rows, 'row')} are too few; {MIN_ROWS} are needed."]))


def _choose_readings(
    readings: Sequence[ColumnReading], settings: TableSettings
) -> tuple[list[ColumnReading], list[str]]:
    """Return the columns that are used, and notes on what is left out or read in a particular way.

    Identifiers are used if --include names them, or if there is nothing else.
    """
    forced = set(settings.include)
    _check_forced([reading for reading in readings if reading.name in forced])
    identifiers = [each for each in readings if each.reason is Reason.IDENTIFIER and each.name not in forced]
    others = [each for each in readings if each.reason is None or each.name in forced]
    if not others and identifiers:
        names = format_names([each.name for each in identifiers])
        remark = f"{names} may identify rows and measure nothing; used, as the table has no other columns."
        return identifiers, [*_reading_notes(identifiers), *(each.hint for each in identifiers if each.hint), remark]
    left_out = []
    for reason in Reason:
        columns = [each for each in readings if each.reason is reason and each.name not in forced]
        if columns:
            texts = [f"{each.name!r}{f' ({each.detail})' if each.detail else ''}" for each in columns]
            remedy = " Name a column with --include to use it." if reason is Reason.IDENTIFIER else ""
            left_out.append(f"Left out, as {reason}: {format_list(texts)}.{remedy}")
    hints = [each.hint for each in readings if each.hint]
    return others, [*_reading_notes(others), *hints, *left_out]


def _check_forced(readings: Sequence[ColumnReading]) -> None:
    """Raise one error for all columns that --include names and that cannot be used."""
    problems = [
        f"--include {each.name!r}: {each.reason}{f' ({each.detail})' if each.detail else ''}."
        for each in readings
        if not each.features
    ]
    if problems:
        raise DatasetError("\n".join([*problems, "Convert to numbers, text or dates, or leave out of --include."]))


def _reading_notes(readings: Sequence[ColumnReading]) -> list[str]:
    infinite = [f"{each.infinite:,} of {each.name!r}" for each in readings if each.infinite]
    return [
        *(note for each in readings for note in each.notes),
        *([f"Infinite numbers count as missing: {format_list(infinite)}."] if infinite else []),
    ]


def _missing_notes(features: tuple[Feature, ...], settings: TableSettings) -> list[str]:
    missing = {f.column: f.missing for f in features if f.missing}
    if not missing:
        return []
    cells = format_list([f"{count:,} of {column!r}" for column, count in missing.items()])
    filled = any(f.missing and f.kind in {FeatureKind.NUMBER, FeatureKind.DATE} for f in features)
    paper = f"; --preset paper fills in the {settings.impute} of numbers" if filled else ""
    return [f"Cells are missing: {cells}. They satisfy a condition only if it says so{paper}."]
