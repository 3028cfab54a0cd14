"""Rows of a prepared table that satisfy the conditions of any rules on its columns, such as those of a document."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.data.columns import OTHER_LEVELS, Columns, Feature, FeatureKind
from maabo_dist.errors import DatasetError
from maabo_dist.rules.matching import Mask, condition_holds

_ON_LEVELS = frozenset({Op.IN, Op.NOT_IN, Op.IS, Op.IS_NOT})


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
    own = [index for index, feature in enumerate(columns.features) if feature.column == condition.feature]
    if not own:
        raise DatasetError(
            f"The table has no column {condition.feature!r} for the condition of a rule. Give the same table."
        )
    raw = next((index for index, each in enumerate(columns.raw) if each.column == condition.feature), None)
    if condition.op in _ON_LEVELS:
        return _levels_hold(condition, columns, own[0], raw)
    missing = np.zeros(columns.rows, np.bool_) if raw is None else columns.raw_codes[raw] == 0

    def numbers() -> npt.NDArray[np.float64]:
        return columns.column(next(index for index in own if _is_bounded(condition, columns.features[index])))

    return condition_holds(condition, missing, numbers, numbers)


def _levels_hold(condition: Condition, columns: Columns, feature: int, raw: int | None) -> Mask:
    """Decide each level once, and then look up those of the rows."""
    if raw is None:
        texts, codes = columns.features[feature].levels, columns.column(feature).astype(np.int64)
    else:
        texts, codes = ("", *columns.raw[raw].levels, OTHER_LEVELS), columns.raw_codes[raw]
    cells = np.array(texts, object)
    missing = np.zeros(len(texts), np.bool_)
    missing[0] = raw is not None
    return condition_holds(condition, missing, lambda: cells, lambda: cells)[codes]


def _is_bounded(condition: Condition, feature: Feature) -> bool:
    """True if the condition is a bound on the values of the feature."""
    if condition.part is not None:
        return feature.kind is FeatureKind.DATE and feature.levels[0] == condition.part.part
    return feature.kind is FeatureKind.NUMBER
