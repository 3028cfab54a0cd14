"""Human-readable texts of conditions, rules and numbers. Nothing parses them.

Numbers are rounded for reading, unless an exact text is requested, which selects exactly the rows of the rule.
"""

import calendar
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from math import floor

from maabo_dist._util.text import printable
from maabo_dist.contract.conditions import Condition, ConditionRecord, DatePart, Op
from maabo_dist.contract.result import DatasetInfo
from maabo_dist.contract.rules import ConsensusRecord, DisplacedRecord, RuleRecord, StandInRecord

# The text of a rule without conditions.
ALWAYS = "always"
# Counts above this are written as powers of ten.
LARGEST_PLAIN = 10**9

# Of more levels than the first number, only the second is listed.
_MAX_LEVELS, _FEW_LEVELS = 6, 3
_DIGITS = 6
_MAX_DIGITS = 17  # enough to distinguish any two doubles
_EXACT_DIGITS = 8  # bounds of so many digits are not rounded
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_BOUNDS = frozenset({Op.ABOVE, Op.AT_LEAST, Op.AT_MOST})
_SIGNS = {Op.IS: "=", Op.IS_NOT: "≠"}


def number_text(value: float, digits: int = _DIGITS) -> str:
    """A number in `digits` significant digits; large ones in full, as columns of years, sums and counts show them."""
    if 1e6 <= abs(value) < 1e15:
        # One decimal: a threshold lies halfway between two whole numbers.
        return f"{value:.{digits - _DIGITS + 1}f}".rstrip("0").rstrip(".")
    return f"{value + 0.0:.{digits}g}"  # + 0.0: no "-0"


def large_number(number: int) -> str:
    """`161,700`; above a billion `1.3×10¹²`."""
    if number <= LARGEST_PLAIN:
        return f"{number:,}"
    mantissa, exponent = f"{Decimal(number):.1e}".split("e+")
    return f"{mantissa}×10{exponent.translate(_SUPERSCRIPTS)}"


def condition_text(condition: Condition) -> str:
    """One condition: `age ≤ 27.5`, `embarked ≠ C`, `age is missing`, `(age ≤ 27.5 or missing)`."""
    return _group_text([condition])


def condition_texts(conditions: Iterable[Condition], *, exact: bool = False) -> list[str]:
    """The conditions in their order, those that bound the same column merged into one: `3 < x ≤ 7`."""
    groups: dict[object, list[Condition]] = {}
    for condition in conditions:
        key = condition.name if condition.op in _BOUNDS else condition
        groups.setdefault(key, []).append(condition)
    return [_group_text(group, exact=exact) for group in groups.values()]


def dropped_texts(dropped: Iterable[ConditionRecord]) -> list[str]:
    """Return dropped conditions, each with the p-value that it failed with: `noise_7 > 0.31 (p = 0.4)`."""
    return [
        condition_text(record.condition)
        + (f" ({p_text(record.test.p)})" if record.test and record.test.p is not None else "")
        for record in dropped
    ]


def stand_in_text(record: StandInRecord) -> str:
    """`x17 in place of x3, correlation 0.91`."""
    return (
        f"{printable(record.column)} in place of {printable(record.instead_of)}, correlation {record.correlation:.2f}"
    )


def also_text(stand_ins: Sequence[StandInRecord], displaced: Sequence[DisplacedRecord], total: int) -> str | None:
    """Return other wordings of a finding in a few words: `also x17 in place of x3, …; 4 more`."""
    if stand_ins:
        text = f"also {stand_in_text(stand_ins[0])}"
    elif displaced:
        text = f"also seen as {displaced[0].text}"
    else:
        return None
    return f"{text}; {total - 1:,} more" if total > 1 else text


def p_text(p: float) -> str:
    """`p = 0.04`, `p < 0.001`."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"


def conditions_text(conditions: Iterable[Condition], *, exact: bool = False) -> str:
    """All conditions in one line; `always` if there are none."""
    return " and ".join(condition_texts(conditions, exact=exact)) or ALWAYS


def statement_text(conditions: Iterable[Condition], consequence: str) -> str:
    """The sentence `IF … THEN …`, from conditions and the text of a class."""
    return f"IF {' AND '.join(condition_texts(conditions)) or ALWAYS} THEN {consequence}"


def predicted_text(rule: RuleRecord | ConsensusRecord | DisplacedRecord, dataset: DatasetInfo) -> str:
    """Return what a rule of a document predicts: `survived = 1`, `progression > 152.1`."""
    return class_text(rule.label, dataset.classes, dataset.target)


def class_text(name: str, classes: Sequence[str], target: str) -> str:
    """`survived = 1`; a class that is a statement itself, such as `progression > 152.1`, is used as it is."""
    return printable(name if _are_statements(classes, target) else f"{target} = {name}")


def _are_statements(classes: Sequence[str], target: str) -> bool:
    """True if the classes are ranges of a number: `y ≤ 3`, `3 < y ≤ 7`, `y > 7` of the target `y in 3 classes`."""
    name, sign, _ = classes[0].rpartition(" ≤ ")
    return bool(sign) and classes[-1].startswith(f"{name} > ") and target.startswith(f"{name} ")


def _group_text(group: Sequence[Condition], *, exact: bool = False) -> str:
    """Conditions on one column; rows with a missing cell must satisfy each of them."""
    first = group[0]
    text = _interval_text(group, exact=exact) if first.op in _BOUNDS else _level_text(first)
    comma = "," if isinstance(first.value, tuple) else ""  # after a list with an "or"
    return f"({text}{comma} or missing)" if all(condition.or_missing for condition in group) else text


def _level_text(condition: Condition) -> str:
    feature = printable(condition.feature)
    if isinstance(condition.value, tuple):
        return f"{feature} {'is' if condition.op is Op.IN else 'is other than'} {_levels_text(condition.value)}"
    if condition.op in _SIGNS:
        return f"{feature} {_SIGNS[condition.op]} {printable(str(condition.value))}"
    return f"{feature} {condition.op.value}"


def _levels_text(levels: Sequence[str]) -> str:
    """`C or Q`; of many levels the first ones: `Berlin, Paris, Rome … (47 more)`."""
    shown = [printable(level) for level in levels]
    if len(shown) > _MAX_LEVELS:
        return f"{', '.join(shown[:_FEW_LEVELS])} … ({len(shown) - _FEW_LEVELS} more)"
    return " or ".join([*([", ".join(shown[:-1])] if len(shown) > 1 else []), *shown[-1:]])


def _date_text(column: str, part: DatePart, low: float | None, high: float | None) -> str:
    """Bounds on a part of a date, in whole numbers: `joined: weekday ≥ Saturday`, `joined ≤ 2024-06-30`."""
    least, most = None if low is None else floor(low) + 1, None if high is None else floor(high)
    name = printable(column if part.part == "days" else f"{column}: {part.part}")
    if least is not None and least == most:
        return f"{name} = {_part_text(part, least)}"
    if most is None:
        return f"{name} ≥ {_part_text(part, least or 0)}"
    before = "" if least is None else f"{_part_text(part, least)} ≤ "
    return f"{before}{name} ≤ {_part_text(part, most)}"


def _part_text(part: DatePart, value: int) -> str:
    names: list[str] = {"month": [*calendar.month_name], "weekday": ["", *calendar.day_name]}.get(part.part, [])
    if 0 < value < len(names):
        return names[value]
    return day_text(part, value) if part.part == "days" else str(value)


def day_text(part: DatePart, days: int) -> str:
    """The date so many days after the first one of the table: `2024-06-30`."""
    try:
        return (date.fromisoformat(part.first) + timedelta(days=days)).isoformat()
    except (OverflowError, ValueError):
        return f"{part.first} + {days} days"


def _interval_text(group: Sequence[Condition], *, exact: bool) -> str:
    """The tightest of the bounds on a number column."""
    feature = printable(group[0].name)
    least, above = _bounds(group, Op.AT_LEAST), _bounds(group, Op.ABOVE)
    low = max([*least, *above], default=None)
    high = min(_bounds(group, Op.AT_MOST), default=None)
    if group[0].part is not None:
        return _date_text(group[0].feature, group[0].part, low, high)
    below, upto = _bound_texts([low, high], exact=exact)
    inclusive = low in least
    if low is not None and high is not None:
        return (
            f"{feature} = {below}"
            if inclusive and low == high
            else f"{below} {'≤' if inclusive else '<'} {feature} ≤ {upto}"
        )
    return f"{feature} {'≥' if inclusive else '>'} {below}" if high is None else f"{feature} ≤ {upto}"


def _digits(number: float) -> int:
    """The significant digits of a number, which distinguish it from all others."""
    return len(Decimal(repr(float(number))).normalize().as_tuple().digits)


def _bounds(group: Sequence[Condition], op: Op) -> list[float]:
    return [condition.value for condition in group if condition.op is op and isinstance(condition.value, float | int)]


def _bound_texts(bounds: Sequence[float | None], *, exact: bool) -> list[str]:
    """The bounds, with as many digits as are needed to distinguish them."""
    numbers = [0.0 if bound is None else bound for bound in bounds]
    if not exact and any(_digits(number) > _EXACT_DIGITS for number in numbers):
        for digits in range(_DIGITS, _MAX_DIGITS):
            texts = [number_text(number, digits) for number in numbers]
            if len(set(texts)) == len(set(numbers)):
                return texts
    return [repr(float(number)).removesuffix(".0") for number in numbers]
