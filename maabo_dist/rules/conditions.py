"""From literals on features to conditions on the table's columns."""

from collections.abc import Sequence

from maabo_dist.data.features import Feature, FeatureKind
from maabo_dist.rules.rule import Condition, Op


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
