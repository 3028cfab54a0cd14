"""`prepare`: choose the columns of a DataFrame, convert them to features and classes of the target.

    frame ──► chosen columns, rows with a target ──► features ──► TableEncoder.encode ──► matrix ──► pruned ──► Columns

Tables are taken as they come: a note says what was left out or read in a particular way. The features are made first,
and the matrix by the encoder that later reads new rows, so that both are encoded the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist._util.text import format_count, format_list, format_names, suggestion
from maabo_dist.data.columns import Columns, Feature, FeatureKind
from maabo_dist.data.encoder import ColumnReading, Reason, TableEncoder, check_unique, read_column, with_text_names
from maabo_dist.data.file_checks import NOTES
from maabo_dist.data.recoding import raw_columns
from maabo_dist.data.remarks import find_leaks, group_notes, leak_notes
from maabo_dist.data.row_roles import read_roles, role_columns, without_absolute_time
from maabo_dist.data.target import encode_target
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings

MIN_ROWS = 10

Matrix = npt.NDArray[np.float64]


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


def prepare(frame: pd.DataFrame, settings: TableSettings) -> PreparedTable:
    """Convert the columns to features that the settings choose, and classes of the target.

    Parameters
    ----------
    frame
        The table, one row per case.
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
    file_notes = tuple(frame.attrs.get(NOTES, ()))
    frame = with_text_names(frame)
    target_name, names = choose_columns(list(frame.columns), settings)
    roles = role_columns(settings)
    check_unique(frame.columns, among=[target_name, *names, *roles.values()])
    rows_kept, row_notes = _choose_rows(frame, target_name, names, settings)
    row_roles = read_roles(frame[list(roles.values())].iloc[rows_kept], roles)
    rows_kept = rows_kept[row_roles.rows]
    _check_row_count(len(rows_kept), row_roles.notes)
    names = [name for name in names if name not in row_roles.unused]
    used_frame = frame if _are_all(rows_kept, len(frame)) else frame.iloc[rows_kept].reset_index(drop=True)
    target = encode_target(used_frame[target_name], settings)
    # Each column is taken out once: in a wide table, that is half of the work.
    table = {name: used_frame[name] for name in names}
    readings = [read_column(cells, settings) for cells in table.values()]
    if len(distinct := np.unique(rows_kept)) < len(rows_kept):  # a column that identifies rows does so before that
        once = [read_column(frame[name].iloc[distinct], settings) for name in names]
        readings = [
            replace(each, reason=before.reason, detail=before.detail, identity=before.identity)
            for each, before in zip(readings, once, strict=True)
        ]
    if row_roles.times is not None:
        ordered = {roles["time"]: row_roles.times}
        readings = [
            without_absolute_time(each, ordered[each.name]) if each.name in ordered else each for each in readings
        ]
    used, column_notes = _choose_readings(readings, settings)
    all_features = tuple(feature for reading in used for feature in reading.features)
    encoder = TableEncoder(all_features)
    full = encoder.encode_cells(table, len(used_frame))
    raw, raw_codes = raw_columns(all_features, full)
    encoder.fill(full)
    features, matrix, left_out = _prune(all_features, full, column_notes)
    columns = Columns.from_matrix(matrix, target.labels, features, target.classes, target.text)
    columns = replace(
        columns,
        groups=row_roles.groups,
        times=row_roles.times,
        weights=row_roles.weights,
        roles=row_roles.names,
        raw=raw,
        raw_codes=raw_codes,
    )
    leaks = find_leaks(columns)
    notes = (  # what makes rules look better than they are comes first
        *(*leak_notes(leaks), *([] if "group" in roles else group_notes(readings, len(used_frame)))),
        *(*file_notes, *row_notes, *row_roles.notes, *target.notes, *column_notes),
        *(*_missing_notes(all_features, settings), *left_out),
    )
    return PreparedTable(columns, TableEncoder(features), notes, rows_kept, tuple(leaks))


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
    frame: pd.DataFrame, target: str, names: list[str], settings: TableSettings
) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Return the rows that have a target, with --impute drop the complete ones of these, and notes on the others."""
    rows = np.flatnonzero(frame[target].notna().to_numpy()).astype(np.int64)
    notes = []
    unlabelled = len(frame) - len(rows)
    if unlabelled:
        notes.append(f"Left out {format_count(unlabelled, 'row')} of {len(frame):,} without a {target!r}.")
    labelled = len(rows)
    if settings.impute == "drop":
        rows = rows[frame[names].notna().to_numpy()[rows].all(axis=1)]
        if len(rows) < labelled:
            notes.append(f"Dropped {labelled - len(rows):,} of {labelled:,} rows because of missing cells.")
    if len(rows) >= MIN_ROWS:
        return rows, notes
    reason, remedy = "", "Give more rows."
    if unlabelled:
        reason, remedy = f" with a {target!r}, of {len(frame):,}", "Fill in the target, or name another --target."
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
        return identifiers, [*_reading_notes(identifiers), remark]
    left_out = []
    for reason in Reason:
        columns = [each for each in readings if each.reason is reason and each.name not in forced]
        if columns:
            texts = [f"{each.name!r}{f' ({each.detail})' if each.detail else ''}" for each in columns]
            remedy = " Name a column with --include to use it." if reason is Reason.IDENTIFIER else ""
            left_out.append(f"Left out, as {reason}: {format_list(texts)}.{remedy}")
    return others, [*_reading_notes(others), *left_out]


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


def _prune(
    features: tuple[Feature, ...], matrix: Matrix, earlier: Sequence[str]
) -> tuple[tuple[Feature, ...], Matrix, list[str]]:
    """Drop constant features, and all but the first of identical ones; `earlier` are notes for an error."""
    constant = (matrix == matrix[:, :1]).all(axis=1)
    duplicates = _find_duplicates(matrix, np.flatnonzero(~constant))
    keep = [index for index in range(len(features)) if not constant[index] and index not in duplicates]
    notes = []
    if constant.any():
        names = [features[index].name for index in np.flatnonzero(constant)]
        notes.append(f"Left out {format_count(len(names), 'constant feature')}: {format_names(names)}.")
    if duplicates:
        equal = [f"{features[index].name!r} (as {features[first].name!r})" for index, first in duplicates.items()]
        count = format_count(len(equal), "feature")
        notes.append(f"Left out {count} with the same content as another: {format_list(equal)}.")
    if not keep:
        raise DatasetError(" ".join(["No feature is left.", *earlier, *notes, "Give a table with columns that vary."]))
    remaining = tuple(features[index] for index in keep)
    _check_feature_names(remaining)
    return remaining, (matrix if len(keep) == len(features) else matrix[keep]), notes


def _find_duplicates(matrix: Matrix, candidates: npt.NDArray[np.intp]) -> dict[int, int]:
    """Map each duplicate feature to the first feature with the same values."""
    first: dict[bytes, int] = {}
    duplicates = {}
    for index in candidates.tolist():
        # 128 bits: equal digests mean equal contents, and no column is copied to be compared.
        earlier = first.setdefault(blake2b(matrix[index], digest_size=16).digest(), index)
        if earlier != index:
            duplicates[index] = earlier
    return duplicates


def _check_feature_names(features: tuple[Feature, ...]) -> None:
    sources: dict[str, str] = {}
    for feature in features:
        other = sources.setdefault(feature.name, feature.column)
        if other != feature.column:
            raise DatasetError(
                f"Columns {other!r} and {feature.column!r} both make a feature called {feature.name!r}. "
                "Rename one of them, or leave it out with --exclude."
            )


def _missing_notes(features: tuple[Feature, ...], settings: TableSettings) -> list[str]:
    missing = {f.column: f.missing for f in features if f.missing}
    if not missing:
        return []
    cells = format_list([f"{count:,} of {column!r}" for column, count in missing.items()])
    filled = any(f.missing and f.kind in {FeatureKind.NUMBER, FeatureKind.DATE} for f in features)
    paper = f"; --preset paper fills in the {settings.impute} of numbers" if filled else ""
    return [f"Cells are missing: {cells}. They satisfy a condition only if it says so{paper}."]
