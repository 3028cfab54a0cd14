"""Which rows of a table satisfy a rule's conditions, read from the cells themselves."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist.data.cells import levels
from maabo_dist.rules.rule import Condition, Op

Mask = npt.NDArray[np.bool_]


def covered(frame: pd.DataFrame, conditions: Iterable[Condition]) -> Mask:
    """(rows): whether all conditions hold."""
    mask = np.ones(len(frame), np.bool_)
    for condition in conditions:
        mask &= _holds(frame[condition.feature], condition)
    return mask


def present(frame: pd.DataFrame, names: Iterable[str]) -> Mask:
    """(rows): whether none of these columns is missing."""
    mask = np.ones(len(frame), np.bool_)
    for name in names:
        mask &= frame[name].notna().to_numpy()
    return mask


def overlap(one: Mask, other: Mask) -> float:
    """Jaccard similarity of two sets of rows; 1 where both are empty."""
    either = np.count_nonzero(one | other)
    return float(np.count_nonzero(one & other) / either) if either else 1.0


def _holds(cells: pd.Series, condition: Condition) -> Mask:
    missing: Mask = cells.isna().to_numpy()
    match condition.op:
        case Op.IS_MISSING:
            return missing
        case Op.IS_PRESENT:
            return ~missing
        case Op.AT_MOST | Op.ABOVE:
            values = cells.to_numpy(dtype=np.float64, na_value=np.nan)
            holds = values <= condition.value if condition.op is Op.AT_MOST else values > condition.value
        case _:
            coded = levels(cells)
            is_level = np.array([*(text == condition.value for text in coded.texts), False])[coded.codes]
            holds = is_level if condition.op is Op.IS else ~is_level & ~missing
    joined: Mask = holds | missing if condition.or_missing else holds
    return joined
