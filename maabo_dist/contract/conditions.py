"""Conditions of rules, their records in a result document, and the key that tells whether two rules are the same."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING
from typing import Literal as TextOf

from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from maabo_dist.contract.document import Record, Share, is_false, is_none


class Op(StrEnum):
    """The comparison of a condition."""

    AT_MOST = "<="
    ABOVE = ">"
    AT_LEAST = ">="
    IS = "="
    IS_NOT = "!="
    IN = "in"
    NOT_IN = "not in"
    IS_MISSING = "is missing"
    IS_PRESENT = "is not missing"


# The layout of columns of dates, and of texts such as 2024-12-31.
ISO_LAYOUT = "ISO8601"


@dataclass(frozen=True, slots=True)
class DatePart:
    """A number that is taken from a date."""

    # Mondays are 1.
    part: TextOf["year", "month", "weekday", "hour", "days"]
    # How texts in the column are written, as in strftime; ISO8601 for 2024-12-31, and for columns of dates.
    layout: str
    # The date that days are counted from.
    first: str


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on a column of the table."""

    # The table's column.
    feature: str
    op: Op
    # A number for <=, > and >=, a level for = and !=, levels for in and not in, None for missing and not missing.
    value: float | str | tuple[str, ...] | None
    # True if rows where the column is missing satisfy it too (the value filled in does).
    or_missing: bool = False
    # The part of a date that is compared; None if the column does not hold dates.
    part: DatePart | None = None
    # True if the column holds texts that are read as numbers; those that are none count as missing.
    as_text: bool = False

    @property
    def name(self) -> str:
        """The column, with the part of its dates that is compared: `joined: weekday`."""
        return self.feature if self.part is None else f"{self.feature}: {self.part.part}"

    @property
    def literal(self) -> "Literal":
        """The condition without its threshold."""
        op = Op.ABOVE if self.op is Op.AT_LEAST else self.op
        return self.name, op, self.value if isinstance(self.value, str | tuple) else None


# Column, comparison (> for >=) and, for levels, their text. Neither the threshold nor `or_missing` is part of it.
Literal = tuple[str, Op, str | tuple[str, ...] | None]


@dataclass(frozen=True, slots=True)
class RuleKey:
    """The identity of a rule across runs: its class and its conditions, whatever their thresholds are.

    `or_missing` is not part of it: it follows from a threshold and the value filled in for missing cells, so a
    threshold that crosses that value would make another rule of the same one.
    """

    # The class that the rule predicts.
    label: str
    literals: frozenset[Literal]

    @classmethod
    def of(cls, label: str, conditions: Iterable[Condition]) -> "RuleKey":
        """The key of a rule with this class and these conditions."""
        return cls(label, frozenset(condition.literal for condition in conditions))


class ConditionTest(Record):
    """p-values of the hypothesis that the condition does not make the rule's class more frequent.

    Present only where conditions must be supported by the rows (`--literals supported`).

    Attributes
    ----------
    training : float or None
        On the rows that chose the condition, corrected for all conditions that could have been chosen.
    validation : float or None
        On validation rows.
    p : float or None
        Both combined by Fisher's method.
    """

    training: Share | None
    validation: Share | None
    p: Share | None


_VALUES_OF_OPS = [
    {"properties": {"op": {"enum": [Op.AT_MOST, Op.ABOVE, Op.AT_LEAST]}, "value": {"type": "number"}}},
    {"properties": {"op": {"enum": [Op.IS, Op.IS_NOT]}, "value": {"type": "string"}}},
    {"properties": {"op": {"enum": [Op.IN, Op.NOT_IN]}, "value": {"type": "array", "items": {"type": "string"}}}},
    {"properties": {"op": {"enum": [Op.IS_MISSING, Op.IS_PRESENT]}, "value": {"type": "null"}}},
]


class ConditionRecord(Record):
    """One condition on a column of the table. A rule needs all of its conditions.

    Attributes
    ----------
    feature : str
        The table's column.
    op : Op
        The comparison.
    value : float or str or tuple of str or None
        A number for <=, > and >=, a level for = and !=, levels for in and not in, null for missing and not missing.
    or_missing : bool
        Rows where the column is missing satisfy the condition too. Left out where they do not.
    part : DatePart or None
        The part of a date that is compared, such as its weekday. Left out if the column does not hold dates.
    as_text : bool
        The column holds texts that are read as numbers; those that are none count as missing. Left out otherwise.
    test : ConditionTest or None
    """

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False, "oneOf": _VALUES_OF_OPS})  # type: ignore[dict-item]

    feature: str
    op: Op
    value: float | str | tuple[str, ...] | None
    or_missing: bool = Field(False, strict=True, exclude_if=is_false, json_schema_extra={"const": True})
    part: DatePart | SkipJsonSchema[None] = Field(None, exclude_if=is_none)
    as_text: bool = Field(False, strict=True, exclude_if=is_false, json_schema_extra={"const": True})
    test: ConditionTest | SkipJsonSchema[None] = Field(None, exclude_if=is_none)

    @property
    def condition(self) -> Condition:
        """The condition without its test."""
        return Condition(self.feature, self.op, self.value, self.or_missing, self.part, self.as_text)


def condition_records(
    conditions: Sequence[Condition], tests: Sequence[ConditionTest | None] = ()
) -> tuple[ConditionRecord, ...]:
    """Return the records of conditions, with their tests where there are any."""
    return tuple(
        ConditionRecord(**asdict(condition), test=test)
        for condition, test in zip(conditions, tests or [None] * len(conditions), strict=True)
    )


class Statement:
    """The part of a record that holds conditions and the class that follows from them."""

    if TYPE_CHECKING:
        conditions: tuple[ConditionRecord, ...]
        label: str

    @property
    def premise(self) -> tuple[Condition, ...]:
        """The conditions without their tests."""
        return tuple(record.condition for record in self.conditions)

    @property
    def key(self) -> RuleKey:
        """The identity of the rule across runs."""
        return RuleKey.of(self.label, self.premise)
