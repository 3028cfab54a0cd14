"""Rows of a prepared table that satisfy the conditions of any rules on its columns, such as those of a document."""

from collections.abc import Iterable, Sequence

import numpy as np

from maabo_dist.contract.conditions import Condition
from maabo_dist.data.columns import Columns, Feature, FeatureKind
from maabo_dist.errors import DatasetError
from maabo_dist.rules.matching import Mask, condition_holds
from maabo_dist.rules.rule import conditions_of

# Between the two values of a feature that says whether a row has a level.
_HALF = 0.5


def match_columns(rules: Sequence[Iterable[Condition]], columns: Columns) -> Mask:
    """(rules, rows): True where all conditions of a rule hold in a row of the table."""
    premises = [tuple(each) for each in rules]
    distinct = dict.fromkeys(condition for each in premises for condition in each)
    holds = {condition: _holds(condition, columns) for condition in distinct}
    covered = np.ones((len(premises), columns.rows), np.bool_)
    for number, each in enumerate(premises):
        for condition in each:
            covered[number] &= holds[condition]
    return covered


def _holds(condition: Condition, columns: Columns) -> Mask:
    own = [(index, feature) for index, feature in enumerate(columns.features) if feature.column == condition.feature]
    bounded = next((index for index, feature in own if _is_bound(condition, feature)), None)
    if bounded is not None:
        values = columns.column(bounded)
        # Missing numbers are filled in, and conditions include them accordingly.
        return condition_holds(condition, np.zeros(columns.rows, np.bool_), lambda: values, lambda: values)
    for index, _ in own:
        for large in (False, True):
            (literal,) = conditions_of(columns.features, [2 * index + large], [_HALF])
            if literal.literal == condition.literal:
                holds: Mask = (columns.column(index) > _HALF) == large
                return holds
    raise DatasetError(
        f"The table has no column {condition.feature!r} for the condition of a rule. Give the same table."
    )


def _is_bound(condition: Condition, feature: Feature) -> bool:
    """True if the condition is a bound on the values of the feature."""
    if condition.part is not None:
        return feature.kind is FeatureKind.DATE and feature.levels[0] == condition.part.part
    return feature.kind is FeatureKind.NUMBER and isinstance(condition.value, float | int)
