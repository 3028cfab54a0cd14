"""Which rules fire for rows that nobody prepared: conditions of a document against raw cells.

The same rows fire as the SQL of the document selects: a missing cell satisfies no comparison unless the condition says
so, numbers are compared as they are, and levels by their spelling (`true`, `3`), as everywhere.
"""

from collections.abc import Mapping, Sequence
from math import isnan
from numbers import Real

from maabo_dist._util.levels import level_text
from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.errors import DatasetError
from maabo_dist.report.document import Document, conditions_of

Cell = bool | int | float | str | None
Row = Mapping[str, Cell]

NAMED = 10
_BOUNDS = frozenset({Op.ABOVE, Op.AT_MOST})


def needed_columns(document: Document) -> tuple[str, ...]:
    """The columns that the rules look at, each once."""
    conditions = (condition for rule in document["rules"] for condition in conditions_of(rule))
    return tuple(dict.fromkeys(condition.feature for condition in conditions))


def fired(document: Document, rows: Sequence[Row], missing: frozenset[str] = frozenset()) -> list[list[int]]:
    """For each row the rules that cover it, by their places in the document. `missing` are texts of missing cells.

    A row that lacks a column which rules look at is a DatasetError, and so is text where numbers are compared.
    """
    _check_columns(rows, needed_columns(document))
    held: dict[Condition, list[bool]] = {}
    covering: list[list[int]] = [[] for _ in rows]
    for place, rule in enumerate(document["rules"]):
        columns = [_held(condition, rows, missing, held) for condition in conditions_of(rule)]
        for number, found in enumerate(covering):
            if all(column[number] for column in columns):
                found.append(place)
    return covering


def predicted(document: Document, places: Sequence[int]) -> str | None:
    """The class that the rules at these places speak for: that of the greatest mean share of their training rows."""
    if not places:
        return None
    counts = [document["rules"][place]["counts"] for place in places]
    shares: dict[str, float] = {
        name: sum(each[name] / max(1, sum(each.values())) for each in counts) for name in counts[0]
    }
    return max(shares, key=lambda name: shares[name])


def holds(condition: Condition, cell: Cell, missing: frozenset[str] = frozenset()) -> bool:
    """Whether a cell satisfies a condition on its column."""
    absent = is_missing(cell, missing)
    if condition.op in {Op.IS_MISSING, Op.IS_PRESENT}:
        return absent is (condition.op is Op.IS_MISSING)
    if absent:
        return condition.or_missing
    if condition.op in _BOUNDS:
        return (_number(condition.feature, cell) > _bound(condition)) is (condition.op is Op.ABOVE)
    return (level_text(cell) == condition.value) is (condition.op is Op.IS)


def is_missing(cell: Cell, missing: frozenset[str] = frozenset()) -> bool:
    """Whether a cell counts as missing."""
    return cell is None or (isinstance(cell, float) and isnan(cell)) or (isinstance(cell, str) and cell in missing)


def _held(
    condition: Condition, rows: Sequence[Row], missing: frozenset[str], known: dict[Condition, list[bool]]
) -> list[bool]:
    """Rules share conditions: each is looked at once."""
    if condition not in known:
        known[condition] = [holds(condition, row[condition.feature], missing) for row in rows]
    return known[condition]


def _check_columns(rows: Sequence[Row], needed: Sequence[str]) -> None:
    for number, row in enumerate(rows):
        absent = [column for column in needed if column not in row]
        if absent:
            names = ", ".join(map(repr, absent[:NAMED]))
            others = f" and {len(absent) - NAMED} more" if len(absent) > NAMED else ""
            raise DatasetError(
                f"Row {number} lacks {names}{others}, which rules look at.",
                field=f"rows.{number}",
                remedy="Give every row these columns; null where a cell is missing.",
            )


def _number(feature: str, cell: Cell) -> float:
    if isinstance(cell, Real) and not isinstance(cell, bool):
        return cell  # as it is: a whole number of any size compares exactly
    raise DatasetError(
        f"Column {feature!r} holds {repr(cell)[:100]} where rules compare numbers.",
        field="rows",
        remedy="Give a number, or null where the cell is missing.",
    )


def _bound(condition: Condition) -> float:
    if isinstance(condition.value, str) or condition.value is None:
        raise DatasetError(f"The condition on {condition.feature!r} has no number to compare with.")
    return condition.value
