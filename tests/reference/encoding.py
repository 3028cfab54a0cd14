"""Slow twin of the encoding of a block of columns: cell by cell, in plain Python."""

import datetime as dt

from maabo_dist.data.columns import FeatureKind


def is_missing(cell):
    return cell is None or cell != cell  # NaN and NaT differ from themselves


def feature_value(feature, cell):
    """The value of a feature for one cell."""
    if feature.kind is FeatureKind.MISSING:
        return float(is_missing(cell))
    if is_missing(cell):
        return feature.fill
    match feature.kind:
        case FeatureKind.NUMBER:
            return float(cell)
        case FeatureKind.PAIR:
            return float(feature.levels.index(cell))
        case FeatureKind.LEVEL:
            return float(feature.levels == (cell,))
        case FeatureKind.OTHER:
            return float(cell not in feature.levels)
        case _:
            return float(date_part(feature, cell))


def date_part(feature, cell):
    part, _, first = feature.levels
    if part == "weekday":
        return cell.isoweekday()
    return (cell.date() - dt.date.fromisoformat(first)).days if part == "days" else getattr(cell, part)


def encode_block(features, cells):
    """Return the features that are kept, their values in each row, and why others are not.

    `cells` are those of each column. Of those that are left out, a constant one has no reason, a copy the name of the
    feature that has the same values.
    """
    kept, left_out = {}, {}
    for feature in features:
        values = [feature_value(feature, cell) for cell in cells[feature.column]]
        same = [other.name for other, known in kept.items() if known == values]
        if len(set(values)) == 1:
            left_out[feature.name] = None
        elif same:
            left_out[feature.name] = same[0]
        else:
            kept[feature] = values
    return kept, left_out


def raw_codes(features, cells):
    """Return for each column with text or missing cells its levels, and the code of each row."""
    by_column = {}
    for feature in features:
        by_column.setdefault(feature.column, []).append(feature)
    codes = {}
    for column, own in by_column.items():
        levels = [feature.levels[0] for feature in own if feature.kind is FeatureKind.LEVEL]
        gaps = [is_missing(cell) for cell in cells[column]]
        if own[0].kind in {FeatureKind.LEVEL, FeatureKind.OTHER} and (len(own) > 1 or any(gaps)):
            ranks = {level: rank for rank, level in enumerate(levels, start=1)}
            values = [
                0 if gap else ranks.get(cell, len(levels) + 1) for cell, gap in zip(cells[column], gaps, strict=True)
            ]
            codes[column] = levels, values
        elif own[0].kind in {FeatureKind.NUMBER, FeatureKind.DATE} and any(gaps):
            codes[column] = [], [int(not gap) for gap in gaps]
    return codes
