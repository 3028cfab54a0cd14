"""What a rule is: conditions on features, a class, and the evidence for it. Data, until a report makes text of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.data.columns import Feature, FeatureKind

Literal = tuple[int, bool]
"""The smallest unit of logic: a feature index, and True if its value is large (above a threshold)."""
NO_LITERAL = 2**31 - 1
"""Fills the end of a row of literal codes (2 · feature + large); sorts behind every literal."""


@dataclass(frozen=True, slots=True)
class ConditionTest:
    """What the rows say of a condition beside the others of its rule: p-values."""

    training: float
    """Of the rows that chose its threshold, corrected for all that could have been chosen."""
    validation: float
    p: float
    """Both combined, adjusted for the number of features and of conditions tested."""


@dataclass(frozen=True, slots=True)
class Support:
    """How a rule does on one part of the rows."""

    rows: int
    """Rows of the part."""
    n: int
    """Rows that the rule covers."""
    counts: tuple[int, ...]
    """Of these, the rows of each class."""
    precision: float | None
    """Share of the covered rows that have the rule's class; None where it covers none."""
    recall: float | None
    """Share of the rows of the class that it covers; None where there are none."""
    lift: float | None
    """Precision over the share of the class among all rows of the part."""


@dataclass(frozen=True, slots=True)
class HeldOut(Support):
    """How a rule does on rows that the search never saw."""

    precision_low: float | None
    """Wilson interval of the precision, 95 %."""
    precision_high: float | None
    p: float
    """Fisher's exact test, one-sided: the rule's class is no more frequent among the covered rows."""
    q: float
    """p after Benjamini–Hochberg over all published rules."""


@dataclass(frozen=True, slots=True)
class Source:
    """The tree a rule was read from."""

    tree: int
    """Number of the tree, in the order of proposal, from 0."""
    subset: tuple[str, ...]
    """Names of its features."""
    depth: int
    score: float
    """Macro F1 on the validation rows."""


@dataclass(frozen=True, slots=True)
class DisplacedLeaf:
    """A reliable leaf that a kept rule made redundant."""

    conditions: tuple[Condition, ...]
    label: int
    n: int
    gini: float
    similarity: float


@dataclass(frozen=True, slots=True)
class Rule:
    """A published rule."""

    id: str
    """R1, R2, … in the order of selection."""
    conditions: tuple[Condition, ...]
    label: int
    """Index of the class it predicts: the heaviest of its training rows."""
    n: int
    """Training rows."""
    counts: tuple[int, ...]
    """Training rows of each class."""
    gini: float
    """Weighted Gini index of the training rows."""
    logic: tuple[Literal, ...]
    """The logic set, ascending."""
    bounds: tuple[float, ...]
    """The threshold of each literal of `logic`."""
    train: Support
    validation: Support
    holdout: HeldOut | None
    unique: int
    """Training rows that no other published rule covers."""
    most_similar: str | None
    """Id of the published rule most similar to it, and how similar."""
    most_similar_by: float
    source: Source
    displaced: tuple[DisplacedLeaf, ...]
    """The best of the leaves it made redundant."""
    displaced_total: int
    """How many distinct ones there were."""
    dropped: tuple[Condition, ...] = ()
    """What its leaf demanded beside, and the rows did not support."""
    tests: tuple[ConditionTest, ...] = ()
    """For each of `conditions`, where conditions must be supported to stay."""
    dropped_tests: tuple[ConditionTest, ...] = ()
    """For each of `dropped`, were it one more condition."""


def conditions_of(
    features: Sequence[Feature], literals: Sequence[int], bounds: Sequence[float]
) -> tuple[Condition, ...]:
    """The conditions of a logic set, in the order of the features."""
    return tuple(
        _condition(features[literal // 2], bool(literal % 2), bound)
        for literal, bound in zip(literals, bounds, strict=True)
    )


def _condition(feature: Feature, large: bool, bound: float) -> Condition:
    match feature.kind:
        case FeatureKind.NUMBER | FeatureKind.PROBE:
            op, value = (Op.ABOVE if large else Op.AT_MOST), bound
            return Condition(feature.column, op, value, _missing_joins(feature, large, bound))
        case FeatureKind.PAIR:
            return Condition(feature.column, Op.IS, feature.levels[large], _missing_joins(feature, large, bound))
        case FeatureKind.LEVEL:
            op = Op.IS if large else Op.IS_NOT
            return Condition(feature.column, op, feature.levels[0], _missing_joins(feature, large, bound))
        case FeatureKind.MISSING:
            return Condition(feature.column, Op.IS_MISSING if large else Op.IS_PRESENT, None)


def _missing_joins(feature: Feature, large: bool, bound: float) -> bool:
    """Whether the value given to missing cells satisfies the condition."""
    return feature.missing > 0 and feature.fill is not None and (feature.fill > bound) == large
