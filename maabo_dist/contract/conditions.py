"""Conditions of rules, and the key that tells whether two rules are the same. Plain data, without arrays."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Op(StrEnum):
    """The comparison of a condition."""

    AT_MOST = "<="
    ABOVE = ">"
    IS = "="
    IS_NOT = "!="
    IS_MISSING = "is missing"
    IS_PRESENT = "is not missing"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition on a column of the table."""

    # The table's column.
    feature: str
    op: Op
    # A number for <= and >, a level for = and !=, None for missing and not missing.
    value: float | str | None
    # True if rows where the column is missing satisfy it too (the value filled in does).
    or_missing: bool = False

    @property
    def literal(self) -> "Literal":
        """The condition without its threshold."""
        return self.feature, self.op, self.value if isinstance(self.value, str) else None


# Column, comparison and, for a level, its text. Neither the threshold nor `or_missing` is part of it.
Literal = tuple[str, Op, str | None]


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
