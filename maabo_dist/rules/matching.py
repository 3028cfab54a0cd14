"""Which rows a leaf covers."""

import numpy as np
import numpy.typing as npt

from maabo_dist.data.columns import Columns
from maabo_dist.rules.leaves import NO_LITERAL


def covered_rows(
    columns: Columns,
    rows: npt.NDArray[np.int64],
    logic: npt.NDArray[np.int32],
    bounds: npt.NDArray[np.float64],
) -> npt.NDArray[np.bool_]:
    """(leaves, rows): whether each leaf's conditions hold in each of `rows`."""
    covered = np.ones((len(logic), len(rows)), np.bool_)
    for leaf, (literals, thresholds) in enumerate(zip(logic, bounds, strict=True)):
        for literal, threshold in zip(literals.tolist(), thresholds.tolist(), strict=True):
            if literal == NO_LITERAL:
                break
            covered[leaf] &= _holds(columns, rows, literal, threshold)
    return covered


def _holds(columns: Columns, rows: npt.NDArray[np.int64], literal: int, threshold: float) -> npt.NDArray[np.bool_]:
    feature, large = divmod(literal, 2)
    values = columns.values[columns.offsets[feature] : columns.offsets[feature + 1]]
    above: npt.NDArray[np.bool_] = columns.codes[feature][rows] >= np.searchsorted(values, threshold, side="right")
    return above if large else ~above
