"""From literals to conditions: what the features of a rule and their bounds say about the columns of the table.

Literals on one text column, whose levels are in a set, are one condition; so is a bound together with the literal that
the cell is not missing. See `recoding` for features of this kind. Otherwise each literal is a condition.
"""

from collections.abc import Sequence
from math import floor

from maabo_dist.contract.conditions import Condition, DatePart, Op
from maabo_dist.data.columns import OTHER_LEVELS, Feature, FeatureKind
from maabo_dist.data.recoding import MISSING_VALUE

# Up to this many levels are listed, even if those that are not in the set are fewer.
FEW_LEVELS = 3
# In a set of levels: a missing cell.
_MISSING = None

_Levels = frozenset[str | None]


def conditions_of(
    features: Sequence[Feature], literals: Sequence[int], bounds: Sequence[float]
) -> tuple[Condition, ...]:
    """Return the conditions of a logic set, in the order of the features."""
    return tuple(_read(features, literals, bounds, own) for own in condition_literals(features, literals, bounds))


def condition_literals(
    features: Sequence[Feature], literals: Sequence[int], bounds: Sequence[float]
) -> list[tuple[int, ...]]:
    """Return for each condition the positions of its literals, in the order of `conditions_of`."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for position, literal in enumerate(literals):
        feature = features[literal // 2]
        if _set_of_column(features, literal // 2) is not None:
            groups.setdefault((feature.column,), []).append(position)
        elif literal % 2 and _is_gap(feature, bounds[position]) and (literal - 1, False) in groups:
            groups[literal - 1, False].append(position)
        else:
            groups.setdefault((literal, False), []).append(position)
    return [tuple(group) for group in groups.values()]


def _set_of_column(features: Sequence[Feature], index: int) -> Feature | None:
    """Return a set of the feature's column, if it has one. Features of a column are adjacent."""
    column = features[index].column
    for step in (-1, 1):
        at = index
        while 0 <= at < len(features) and features[at].column == column:
            if features[at].kind is FeatureKind.SET:
                return features[at]
            at += step
    return None


def _read(
    features: Sequence[Feature], literals: Sequence[int], bounds: Sequence[float], own: Sequence[int]
) -> Condition:
    first = features[literals[own[0]] // 2]
    column = _set_of_column(features, literals[own[0]] // 2)
    if column is not None:
        holds = [
            _levels_of(features[literals[each] // 2], literals[each] % 2 == 1, bounds[each], column) for each in own
        ]
        return _set_condition(column, frozenset.intersection(*holds))
    excluded = any(literal % 2 and features[literal // 2] is first for literal in literals)
    return _condition(first, literals[own[0]] % 2 == 1, bounds[own[0]], or_missing=not excluded)


def _condition(feature: Feature, large: bool, bound: float, *, or_missing: bool) -> Condition:
    """Return what one literal says; `or_missing` is False if another one excludes missing cells."""
    if _is_gap(feature, bound):
        return Condition(feature.column, Op.IS_PRESENT if large else Op.IS_MISSING, None, as_text=feature.as_text)
    # True if the value given to missing cells satisfies the condition.
    filled = feature.missing > 0 and feature.fill is not None and (feature.fill > bound) == large
    or_missing = filled and (or_missing or feature.fill != MISSING_VALUE)
    value: float | str | tuple[str, ...] | None
    part = None
    match feature.kind:
        case FeatureKind.NUMBER | FeatureKind.PROBE | FeatureKind.SET:  # sets are read above
            op, value = (Op.ABOVE if large else Op.AT_MOST), bound
            if feature.whole:  # no number lies between
                op, value = (Op.AT_LEAST, floor(bound) + 1.0) if large else (op, float(floor(bound)))
        case FeatureKind.DATE:
            op, value, part = (Op.ABOVE if large else Op.AT_MOST), bound, DatePart(*feature.levels)  # type: ignore[arg-type]
        case FeatureKind.PAIR:
            op, value = Op.IS, feature.levels[large]
        case FeatureKind.LEVEL:
            op, value = (Op.IS if large else Op.IS_NOT), feature.levels[0]
        case FeatureKind.OTHER:
            op, value = (Op.NOT_IN if large else Op.IN), feature.levels
        case FeatureKind.MISSING:
            op, value = (Op.IS_MISSING if large else Op.IS_PRESENT), None
            or_missing = False
    return Condition(feature.column, op, value, or_missing, part, feature.as_text)


def _is_gap(feature: Feature, bound: float) -> bool:
    """True if the bound separates missing cells from all others. A tree has it halfway to the lowest number."""
    return feature.fill == MISSING_VALUE and bound < MISSING_VALUE / 4


def _levels_of(feature: Feature, large: bool, bound: float, column: Feature) -> _Levels:
    """Return the levels for which a literal holds; `column` has all levels of the feature's column."""
    levels: _Levels = frozenset(column.levels)
    missing: _Levels = frozenset([_MISSING]) if column.missing else frozenset()
    if feature.kind is FeatureKind.MISSING or _is_gap(feature, bound):
        return missing if large == (feature.kind is FeatureKind.MISSING) else levels
    match feature.kind:
        case FeatureKind.SET:
            above: _Levels = frozenset(level for rank, level in enumerate(feature.levels) if rank > bound)
        case FeatureKind.OTHER:
            above = frozenset([OTHER_LEVELS])
        case _:
            above = frozenset(feature.levels)
    return above if large else (levels | missing) - above


def _set_condition(column: Feature, holds: _Levels) -> Condition:
    """Return the condition that the level is one of these: the shorter list, unless it is short either way."""
    levels = sorted(level for level in column.levels if level != OTHER_LEVELS)
    listed, others = (tuple(level for level in levels if (level in holds) == inside) for inside in (True, False))
    or_missing = _MISSING in holds
    if holds == {_MISSING}:
        return Condition(column.column, Op.IS_MISSING, None)
    if not or_missing and holds == frozenset(column.levels):
        return Condition(column.column, Op.IS_PRESENT, None)
    if OTHER_LEVELS in holds or (
        OTHER_LEVELS not in column.levels and len(listed) > max(FEW_LEVELS, len(others)) and others
    ):
        if len(others) == 1:
            return Condition(column.column, Op.IS_NOT, others[0], or_missing)
        return Condition(column.column, Op.NOT_IN, others, or_missing)
    if len(listed) == 1:
        return Condition(column.column, Op.IS, listed[0], or_missing)
    return Condition(column.column, Op.IN, listed, or_missing)
