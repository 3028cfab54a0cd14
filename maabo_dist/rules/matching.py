"""Matching: the rows that satisfy the conditions of rules, and the class that the rules covering a row predict.

Rows come in three forms:

    prepared columns   covered_rows     rows of the table that was mined
    a DataFrame        match_frame      other rows, in `frame_matching`
    raw cells          match_cells      numbers, text, booleans and None, as a client sends them

Raw cells match as the SQL of a rule selects: a missing cell satisfies no comparison unless the condition says so,
numbers are compared as they are, and levels by their text (`true`, `3`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import isnan
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.data.columns import Columns, level_text
from maabo_dist.errors import DatasetError
from maabo_dist.rules.rule import NO_LITERAL, Rule

Mask = npt.NDArray[np.bool_]
Logic = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Cell = bool | int | float | str | None
Row = Mapping[str, Cell]

# Absent columns that a message names.
MAX_NAMES = 10


def covered_rows(columns: Columns, rows: npt.NDArray[np.int64], logic: Logic, bounds: Floats) -> Mask:
    """(leaves, rows): True where all conditions of a leaf hold in a row of the table."""
    covered = np.empty((len(logic), len(rows)), np.bool_)
    for leaf, (literals, thresholds) in enumerate(zip(logic, bounds, strict=True)):
        covered[leaf] = covers_rows(
            columns, lambda feature: columns.codes[feature][rows], len(rows), literals, thresholds
        )
    return covered


def covers_rows(
    columns: Columns,
    codes_of: Callable[[int], npt.NDArray[np.unsignedinteger[Any]]],
    rows: int,
    literals: npt.NDArray[np.int32],
    thresholds: Floats,
) -> Mask:
    """(rows): True where all conditions of a leaf hold; `codes_of` returns the codes of a feature in these rows."""
    covered = np.ones(rows, np.bool_)
    for literal, threshold in zip(literals.tolist(), thresholds.tolist(), strict=True):
        if literal == NO_LITERAL:
            break
        feature = literal // 2
        values = columns.distinct_values(feature)
        cut = int(np.searchsorted(values, threshold, side="right"))  # compared in the type of the codes
        codes = codes_of(feature)
        covered &= codes >= cut if literal % 2 else codes < cut
    return covered


def logic_arrays(rules: Sequence[Rule]) -> tuple[Logic, Floats]:
    """The literals and thresholds of rules, as leaves have them."""
    width = max((len(rule.logic) for rule in rules), default=0)
    logic, bounds = np.full((len(rules), width), NO_LITERAL, np.int32), np.zeros((len(rules), width))
    for number, rule in enumerate(rules):
        logic[number, : len(rule.logic)] = [2 * feature + large for feature, large in rule.logic]
        bounds[number, : len(rule.logic)] = rule.bounds
    return logic, bounds


def match_cells(
    rules: Sequence[Iterable[Condition]], rows: Sequence[Row], missing: frozenset[str] = frozenset()
) -> Mask:
    """(rules, rows): True where all conditions of a rule hold in a row of raw cells.

    `missing` are texts that mean a missing cell. Raises a DatasetError if a row lacks a column of the rules, or has
    text where numbers are compared.
    """
    conditions = [tuple(each) for each in rules]
    distinct = dict.fromkeys(condition for each in conditions for condition in each)
    _check_columns(rows, tuple(dict.fromkeys(condition.feature for condition in distinct)))
    holds = {condition: _holds(condition, [row[condition.feature] for row in rows], missing) for condition in distinct}
    covered = np.ones((len(conditions), len(rows)), np.bool_)
    for number, each in enumerate(conditions):
        for condition in each:
            covered[number] &= holds[condition]
    return covered


def condition_holds(
    condition: Condition,
    missing: Mask,
    numbers: Callable[[], npt.NDArray[Any]],
    levels: Callable[[], npt.NDArray[Any]],
) -> Mask:
    """(rows): True where a condition holds in a column.

    `missing` marks missing cells. `numbers` and `levels` return the other cells as numbers or as the texts of levels;
    their values for missing cells are ignored.
    """
    match condition.op:
        case Op.IS_MISSING:
            return missing
        case Op.IS_PRESENT:
            return ~missing
        case Op.AT_MOST | Op.ABOVE | Op.AT_LEAST:
            if not isinstance(condition.value, float | int):
                raise DatasetError(f"The condition on {condition.feature!r} has no number to compare with.")
            values = numbers()
            is_least = condition.op is Op.AT_LEAST
            holds = values >= condition.value if is_least else (values > condition.value) == (condition.op is Op.ABOVE)
        case Op.IN | Op.NOT_IN:
            among = condition.value if isinstance(condition.value, tuple) else ()
            holds = np.isin(levels(), np.array(among, object)) == (condition.op is Op.IN)
        case _:
            holds = (levels() == condition.value) == (condition.op is Op.IS)
    return np.where(missing, condition.or_missing, holds.astype(np.bool_))


def mean_class_shares(covered: Mask, counts: npt.ArrayLike) -> Floats:
    """(rows, C): the mean class shares of the rules that cover a row, each rule by its training rows; else NaN.

    `covered` is (rules, rows), `counts` is (rules, C): the training rows of each class.
    """
    rows = np.asarray(counts, np.float64)
    total = np.zeros((covered.shape[1], rows.shape[1] if rows.ndim > 1 else 0))
    for mask, each in zip(covered, rows, strict=True):  # rule by rule, so that sums are the same everywhere
        total[mask] += each / max(1.0, each.sum())
    covering = covered.sum(axis=0)[:, None]
    return np.where(covering > 0, total / np.maximum(covering, 1), np.nan)


def predicted_classes(covered: Mask, counts: npt.ArrayLike) -> list[int | None]:
    """For each row, the index of the class of greatest mean share, the first among ties; None if no rule covers it."""
    shares = mean_class_shares(covered, counts)
    return [int(row.argmax()) if any(rules) else None for row, rules in zip(shares, covered.T, strict=True)]


def _holds(condition: Condition, cells: Sequence[Cell], missing: frozenset[str]) -> Mask:
    absent = np.array([_is_missing(cell, missing) for cell in cells], np.bool_)
    if condition.part is not None:
        from maabo_dist.data.dates import cell_numbers  # noqa: PLC0415 - pandas takes half a second to import

        part, present = condition.part, [None if gone else cell for cell, gone in zip(cells, absent, strict=True)]
        dates = cell_numbers(present, part.part, part.layout, part.first)
        return condition_holds(condition, np.isnan(dates), lambda: dates, lambda: dates)

    def numbers() -> npt.NDArray[Any]:
        present = (0 if gone else _number(condition, cell) for cell, gone in zip(cells, absent, strict=True))
        return np.array([*present], object)  # as they are: whole numbers of any size compare exactly

    def levels() -> npt.NDArray[Any]:
        return np.array([level_text(cell) for cell in cells], object)

    return condition_holds(condition, absent, numbers, levels)


def _is_missing(cell: Cell, missing: frozenset[str]) -> bool:
    return cell is None or (isinstance(cell, float) and isnan(cell)) or (isinstance(cell, str) and cell in missing)


def _number(condition: Condition, cell: Cell) -> float:
    if isinstance(cell, Real) and not isinstance(cell, bool):
        return cell
    if isinstance(cell, str):  # a column of texts that are numbers
        with suppress(ValueError):
            return float(cell)
    raise DatasetError(
        f"Column {condition.feature!r} holds {repr(cell)[:100]} where rules compare numbers.",
        field="rows",
        remedy="Give a number, or null where the cell is missing.",
    )


def _check_columns(rows: Sequence[Row], needed: Sequence[str]) -> None:
    for number, row in enumerate(rows):
        absent = [column for column in needed if column not in row]
        if absent:
            names = ", ".join(map(repr, absent[:MAX_NAMES]))
            others = f" and {len(absent) - MAX_NAMES} more" if len(absent) > MAX_NAMES else ""
            raise DatasetError(
                f"Row {number} lacks {names}{others}, which rules look at.",
                field=f"rows.{number}",
                remedy="Give every row these columns; null where a cell is missing.",
            )
