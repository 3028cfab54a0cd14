"""What a prepared column means: its source column, its kind, and the value given to missing cells."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal


class FeatureKind(StrEnum):
    """How a table column became a feature."""

    NUMBER = "number"  # the value itself
    PAIR = "pair"  # a column of two levels: 0 is the first level, 1 the second
    LEVEL = "level"  # one level of several: 1 where the column has it
    MISSING = "missing"  # 1 where the column is missing
    PROBE = "probe"  # a permuted copy of another feature, never shown


ColumnKind = Literal["number", "pair", "level", "other"]
"""What a table column would become, as `FeatureKind` calls it; `other` can only be left out."""


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of the search."""

    name: str
    """Unique, as shown to people: `age`, `embarked = C`, `age is missing`."""
    column: str
    """The table column it was made from."""
    kind: FeatureKind
    levels: tuple[str, ...] = ()
    """PAIR: the two levels in code order. LEVEL: the one level."""
    fill: float | None = None
    """The encoded value that missing cells got; None where nothing may be missing."""
    missing: int = 0
    """How many rows of the prepared table were missing."""

    def to_json(self) -> dict[str, Any]:
        """Plain values for a header or a document."""
        return {**asdict(self), "kind": self.kind.value, "levels": list(self.levels)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Feature":
        """Inverse of `to_json`."""
        return cls(**{**data, "kind": FeatureKind(data["kind"]), "levels": tuple(data["levels"])})
