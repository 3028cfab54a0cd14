"""Rules in a result document: records of plain values, which load neither NumPy nor the numba kernels.

The docstrings of the fields are the descriptions of the JSON Schema.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from maabo_dist.contract.conditions import Condition, Op, RuleKey

Part = Literal["train", "validation", "holdout"]
"""A part of the table's rows."""
Count = Annotated[int, Field(strict=True, ge=0)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Counts = dict[str, Count]
"""Rows of each class, by the name of the class."""


def is_none(value: object) -> bool:
    """Return True for a field that is left out of the JSON."""
    return value is None


def _is_false(value: object) -> bool:
    return value is False


class Record(BaseModel):
    """A part of the result document."""

    # Fields that a newer version added are ignored on reading. The schema describes what this version writes.
    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        allow_inf_nan=False,
        populate_by_name=True,
        use_attribute_docstrings=True,
        json_schema_extra={"additionalProperties": False},
    )

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values, under the names of the document."""
        return self.model_dump(mode="json", by_alias=True)


class ConditionTest(Record):
    """p-values of the hypothesis that the condition does not make the rule's class more frequent.

    Present only where conditions must be supported by the rows (`--literals supported`).
    """

    training: Share | None
    """On the rows that chose the condition, corrected for all conditions that could have been chosen."""
    validation: Share | None
    """On validation rows."""
    p: Share | None
    """Both combined by Fisher's method."""


_VALUES_OF_OPS = [
    {"properties": {"op": {"enum": [Op.AT_MOST, Op.ABOVE]}, "value": {"type": "number"}}},
    {"properties": {"op": {"enum": [Op.IS, Op.IS_NOT]}, "value": {"type": "string"}}},
    {"properties": {"op": {"enum": [Op.IS_MISSING, Op.IS_PRESENT]}, "value": {"type": "null"}}},
]


class ConditionRecord(Record):
    """One condition on a column of the table. A rule needs all of its conditions."""

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False, "oneOf": _VALUES_OF_OPS})  # type: ignore[dict-item]

    feature: str
    """The table's column."""
    op: Op
    """The comparison."""
    value: float | str | None
    """A number for <= and >, a level for = and !=, null for missing and not missing."""
    or_missing: bool = Field(False, strict=True, exclude_if=_is_false, json_schema_extra={"const": True})
    """Rows where the column is missing satisfy the condition too. Left out where they do not."""
    test: ConditionTest | SkipJsonSchema[None] = Field(None, exclude_if=is_none)

    @property
    def condition(self) -> Condition:
        """The condition without its test."""
        return Condition(self.feature, self.op, self.value, self.or_missing)


class _Statement:
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


ClassName = Annotated[str, Field(validation_alias="class", serialization_alias="class")]


class SupportRecord(Record):
    """How a rule performs on one part of the rows."""

    rows: Count
    """Rows of the part."""
    n: Count
    """Rows that the rule covers."""
    counts: Counts
    """Of these, the rows of each class."""
    precision: Share | None
    """Share of n that has the rule's class; null if n is 0."""
    recall: Share | None
    """Share of the class that the rule covers; null if the class has no rows."""
    lift: Annotated[float, Field(strict=True, ge=0)] | None
    """Precision divided by the share of the class among the rows of the part."""


class HoldoutRecord(SupportRecord):
    """How a rule performs on rows that the search never saw."""

    precision_low: Share | None
    """Lower end of the 95 % Wilson interval of the precision."""
    precision_high: Share | None
    """Upper end of the interval."""
    p: Share | None
    """Fisher's exact test, one-sided."""
    q: Share | None
    """p after the Benjamini–Hochberg correction over all rules of the document."""


class SimilarRule(Record):
    """The rule of the document that is most similar to another one."""

    rule: str
    """Its id."""
    similarity: Share | None
    """Simpson coefficient of the two."""


class SourceRecord(Record):
    """The tree that a rule was read from."""

    tree: Count
    """Number of the tree in the order of proposal, from 0."""
    subset: tuple[str, ...]
    """Names of its features."""
    depth: Annotated[int, Field(strict=True, ge=1)]
    """Its depth."""
    score: Share | None
    """Macro F1 on the validation rows."""


class DisplacedRecord(_Statement, Record):
    """A reliable leaf that a rule made redundant."""

    text: str
    """Its conditions, for people only."""
    conditions: tuple[ConditionRecord, ...]
    """Its conditions."""
    label: ClassName
    """The class it predicts."""
    n: Count
    """Training rows that it covers."""
    gini: Share
    """Weighted Gini index of these rows."""
    similarity: Share | None
    """Similarity to the rule."""


class StabilityRecord(Record):
    """How often a rule is found again when other draws of the rows are mined: same class, same conditions.

    Thresholds may differ. null without `--repeats`.
    """

    share: Share | None
    """Share of the repeats that found it; null where no repeat was done."""
    returns: Count
    """Repeats that found it."""
    repeats: Count
    """Repeats that were done."""
    precision: Share | None
    """On rows that a repeat did not search, over all repeats that found the rule, each with its own thresholds."""


class RuleRecord(_Statement, Record):
    """One rule with its evidence."""

    id: Annotated[str, Field(pattern=r"^R[1-9][0-9]*$")]
    """R1, R2, … in the order of selection."""
    text: str
    """The rule as a sentence with rounded numbers, for people only."""
    conditions: tuple[ConditionRecord, ...]
    """All of them must hold."""
    label: ClassName
    """The class it predicts."""
    n: Count
    """Training rows that it covers."""
    counts: Counts
    """Of these, the rows of each class."""
    gini: Share
    """Weighted Gini index of these rows."""
    train: SupportRecord
    """On the training rows."""
    validation: SupportRecord
    """On the validation rows."""
    holdout: HoldoutRecord | None
    """On the held-out rows; null without `--holdout`."""
    unique: Count
    """Training rows that no other rule covers."""
    most_similar: SimilarRule | None
    """The rule of this document most similar to it; null if it is the only one."""
    source: SourceRecord
    """The tree it was read from."""
    displaced: tuple[DisplacedRecord, ...]
    """The best of the reliable leaves that this rule made redundant."""
    displaced_total: Count
    """How many of these there were."""
    dropped: tuple[ConditionRecord, ...]
    """Conditions of the rule's leaf that were dropped because the rows do not support them."""
    stability: StabilityRecord | None
    """How often it is found again; null without `--repeats`."""

    @property
    def supports(self) -> dict[Part, SupportRecord]:
        """The parts of the rows on which the rule was evaluated."""
        tested: dict[Part, SupportRecord] = {} if self.holdout is None else {"holdout": self.holdout}
        return {"train": self.train, "validation": self.validation, **tested}

    @property
    def best_evidence(self) -> SupportRecord:
        """The support on held-out rows, or on validation rows where none were held out."""
        return self.holdout or self.validation


class ConsensusRecord(_Statement, Record):
    """A rule that most repeats found."""

    rule: str | None
    """Its id in `rules`; null where this run did not publish it."""
    text: str
    """The rule as a sentence, for people only."""
    conditions: tuple[ConditionRecord, ...]
    """Each with the median threshold of the repeats that found the rule."""
    label: ClassName
    """The class it predicts."""
    rows: Count
    """Rows of the table that it covers: the median of the repeats."""
    stability: StabilityRecord
    """How often it is found again."""
