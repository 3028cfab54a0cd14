"""Columns as a search for findings reads them: missing cells by themselves, and levels in the order of their classes.

    missing   A missing cell is below every number, instead of a filled-in number among them. `age ≤ 42` then includes
              missing cells unless `age` is also above MISSING_VALUE, and `age ≤ MISSING_VALUE` says that it is missing.
    sets      Some of a text column's features become ranks of its levels, ordered by the share that a class has among
              the training rows of each level. A cut between two ranks is a condition on a set of levels. With two
              classes one order is enough: it has the best set of levels among its cuts.

The number of features and their indices stay as they are. The orders depend on the training labels, and are made again
wherever labels are shuffled.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util import scratch
from maabo_dist.data.columns import OTHER_LEVELS, Columns, Feature, FeatureKind, RawColumn
from maabo_dist.data.weights import UNIT, count_units

# Below every number of a table.
MISSING_VALUE = float(np.finfo(np.float64).min)
# A level's class share is that of its rows and of this many average ones, so that rare levels do not come first.
AVERAGE_ROWS = 5
# Whole numbers below this have whole numbers next to them.
LARGEST_WHOLE = 2.0**53

Codes = npt.NDArray[np.unsignedinteger[Any]]
Ints = npt.NDArray[np.int64]
_LEVELS = frozenset({FeatureKind.LEVEL, FeatureKind.OTHER})
_NUMBERS = frozenset({FeatureKind.NUMBER, FeatureKind.DATE})


def raw_columns(features: Sequence[Feature], matrix: npt.NDArray[np.float64]) -> tuple[tuple[RawColumn, ...], Codes]:
    """Return the columns with text or missing cells, and their codes.

    The matrix has the values of all features of these columns, NaN for missing numbers and dates.
    """
    by_column: dict[str, list[int]] = {}
    for index, feature in enumerate(features):
        by_column.setdefault(feature.column, []).append(index)
    raw, codes = [], []
    for column, indices in by_column.items():
        first = features[indices[0]]
        if first.kind in _LEVELS and (len(indices) > 1 or first.missing):
            levels = [index for index in indices if features[index].kind in _LEVELS]
            texts = tuple(features[index].levels[0] for index in levels if features[index].kind is FeatureKind.LEVEL)
            raw.append(RawColumn(column, texts))
            codes.append((np.arange(1, len(levels) + 1) @ matrix[levels]).astype(np.uint16))
        elif first.kind in _NUMBERS and first.missing:
            raw.append(RawColumn(column))
            codes.append((~np.isnan(matrix[indices[0]])).astype(np.uint16))
    largest = max((each.other for each in raw), default=0)
    raw_codes = np.array(codes, np.uint16).reshape(len(raw), matrix.shape[1])
    return tuple(raw), raw_codes.astype(np.uint8) if largest < 1 << 8 else raw_codes


def recode(columns: Columns, train: Ints) -> Columns:
    """Put missing cells by themselves and make the sets of levels, ordered by the labels of the training rows."""
    columns = _mark_whole(columns)
    if not columns.raw:
        return columns
    positions = {raw.column: index for index, raw in enumerate(columns.raw)}
    sets = _choose_sets(columns)
    features, sizes = list(columns.features), []
    codes, values = (scratch.ArrayBuilder(on_disk=columns.is_large) for _ in range(2))
    for block in scratch.each_block(columns.codes, columns.values):
        for index in range(block.start, block.stop):
            feature, raw = features[index], positions.get(features[index].column)
            own_codes, own_values = columns.codes[index], columns.distinct_values(index)
            if raw is None or feature.kind in {FeatureKind.MISSING, FeatureKind.PROBE}:
                pass
            elif index in sets:
                features[index] = feature = _set_feature(columns, raw, sets[index])
                own_codes = columns.raw_codes[raw]  # put in order below
                ranks = np.arange(len(feature.levels), dtype=np.float64)
                own_values = np.append(MISSING_VALUE, ranks) if feature.missing else ranks
            elif feature.missing:
                own_codes, own_values = _separate(own_codes, own_values, columns.raw_codes[raw] == 0)
                features[index] = replace(feature, fill=MISSING_VALUE)
            codes.add(own_codes[None].astype(np.uint16 if len(own_values) <= 1 << 16 else np.uint32))
            values.add(own_values)
            sizes.append(len(own_values))
    recoded = replace(
        columns,
        codes=codes.finish(),
        values=values.finish(),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        features=tuple(features),
    )
    return order_sets(recoded, train)


def order_sets(columns: Columns, train: Ints) -> Columns:
    """Put the levels of all sets in order, by the labels of the training rows."""
    sets = set_features(columns)
    if not sets:
        return columns
    positions = {raw.column: index for index, raw in enumerate(columns.raw)}
    codes = scratch.copy(columns.codes, on_disk=columns.is_large)
    features, made = list(columns.features), dict.fromkeys(positions, 0)
    for index in sets:
        feature = features[index]
        raw = positions[feature.column]
        label = 1 if len(columns.classes) == 2 else made[feature.column]
        made[feature.column] += 1
        cells = columns.raw_codes[raw]
        units = None if columns.weights is None else columns.weights[train]
        order = _order_levels(cells[train], columns.labels[train] == label, len(feature.levels), units)
        ranks = np.zeros(len(order) + 1, codes.dtype)
        ranks[order] = np.arange(len(order)) + (1 if feature.missing else 0)
        codes[index] = ranks[cells]
        texts = [*columns.raw[raw].levels, OTHER_LEVELS]
        features[index] = replace(feature, levels=tuple(texts[code - 1] for code in order.tolist()))
    return replace(columns, codes=codes, features=tuple(features))


def set_features(columns: Columns) -> list[int]:
    """Return the indices of the sets."""
    return [index for index, feature in enumerate(columns.features) if feature.kind is FeatureKind.SET]


def _choose_sets(columns: Columns) -> dict[int, int]:
    """Return the features that become sets, each with its number among those of its column.

    With more than two classes there is one order for each. They take the place of the rarest levels, which are part of
    a set more often than conditions of their own.
    """
    orders = 1 if len(columns.classes) == 2 else len(columns.classes)
    by_column: dict[str, list[int]] = {}
    for index, feature in enumerate(columns.features):
        if feature.kind in _LEVELS:
            by_column.setdefault(feature.column, []).append(index)
    chosen: dict[int, int] = {}
    for raw in columns.raw:
        levels = by_column.get(raw.column, [])
        rows = {index: np.count_nonzero(columns.column(index) == 1) for index in levels}
        slots = sorted(sorted(levels, key=lambda index: (rows[index], index))[:orders])
        chosen |= {index: number for number, index in enumerate(slots)}
    return chosen


def _set_feature(columns: Columns, raw: int, number: int) -> Feature:
    column, cells = columns.raw[raw], columns.raw_codes[raw]
    has_other = bool((cells == column.other).any())
    missing = int((cells == 0).sum())
    name = column.column if len(columns.classes) == 2 else f"{column.column} by {columns.classes[number]}"
    texts = (*column.levels, *([OTHER_LEVELS] if has_other else []))
    return Feature(name, column.column, FeatureKind.SET, texts, MISSING_VALUE if missing else None, missing)


def _order_levels(cells: Codes, hits: npt.NDArray[np.bool_], levels: int, units: Ints | None) -> Ints:
    """Return the codes of the levels, ascending by the share of hits among their rows, which may have weights."""
    if units is not None:
        rows, found = (count_units(cells[of], units[of], levels + 1)[1:] for of in (slice(None), hits))
        average = AVERAGE_ROWS * UNIT
        weighted = (found + average * (int(units[hits].sum()) / int(units.sum()))) / (rows + average)
        return np.argsort(weighted, kind="stable").astype(np.int64) + 1
    rows = np.bincount(cells, minlength=levels + 1)[1:]
    found = np.bincount(cells[hits], minlength=levels + 1)[1:]
    # In whole numbers up to the one division, so that equal shares tie everywhere.
    shares = (found * len(cells) + AVERAGE_ROWS * int(hits.sum())) / ((rows + AVERAGE_ROWS) * len(cells))
    return np.argsort(shares, kind="stable").astype(np.int64) + 1


def _separate(codes: Codes, values: npt.NDArray[np.float64], missing: npt.NDArray[np.bool_]) -> tuple[Codes, Any]:
    """Give missing cells the lowest code, and the others the codes of the values that they have."""
    used = np.bincount(codes[~missing], minlength=len(values)) > 0
    ranks = np.cumsum(used)
    recoded = np.where(missing, 0, ranks[codes]).astype(np.uint32)
    return recoded, np.append(MISSING_VALUE, values[used])


def _mark_whole(columns: Columns) -> Columns:
    """Mark the numbers that are all whole."""
    features = []
    for block in scratch.each_block(columns.codes, columns.values):
        for index in range(block.start, block.stop):
            feature, values = columns.features[index], columns.distinct_values(index)
            if feature.kind is FeatureKind.NUMBER:
                whole = bool(((values % 1 == 0) & (np.abs(values) < LARGEST_WHOLE)).all())
                feature = replace(feature, whole=True) if whole else feature
            features.append(feature)
    return replace(columns, features=tuple(features))
