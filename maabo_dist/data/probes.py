"""Probes: permuted copies of columns, which contain no information on the class.

A rule that uses a probe is due to chance, so that probes show how often chance makes a rule of a useless feature. They
come after the features of the table and have a kind of their own; they are never published.
"""

from dataclasses import replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from maabo_dist._util import draws
from maabo_dist.data.columns import Columns, Feature, FeatureKind


class _Purpose(IntEnum):
    """The purposes of streams of draws; the search numbers its own from 0."""

    WHICH_COLUMNS = 100
    WHICH_ROWS = 101


def add_probes(columns: Columns, count: int, seed: int) -> Columns:
    """Add `count` probes: copies of distinct columns, and of each one more when all have been copied.

    The draws are the project's own, so that any machine derives the same table.
    """
    if not count:
        return columns
    order = np.argsort(draws.keys(draws.stream(seed, 0, _Purpose.WHICH_COLUMNS), columns.count), kind="stable")
    sources = order[np.arange(count) % columns.count]
    sizes = np.diff(columns.offsets)[sources]
    copied = [columns.values[columns.offsets[source] : columns.offsets[source + 1]] for source in sources]
    codes = np.empty((columns.count + count, columns.rows), columns.codes.dtype)
    codes[: columns.count] = columns.codes
    for number, source in enumerate(sources):
        codes[columns.count + number] = columns.codes[source][_permutation(seed, number, columns.rows)]
    return replace(
        columns,
        codes=codes,
        values=np.concatenate([columns.values, *copied]),
        offsets=np.concatenate([columns.offsets, columns.offsets[-1] + np.cumsum(sizes)]).astype(np.int64),
        features=(*columns.features, *_probe_features(columns, count)),
    )


def remove_probes(columns: Columns) -> Columns:
    """Return the columns without the probes."""
    own = columns.count - int(probe_mask(columns).sum())
    if own == columns.count:
        return columns
    return replace(
        columns,
        codes=columns.codes[:own],
        values=columns.values[: columns.offsets[own]],
        offsets=columns.offsets[: own + 1],
        features=columns.features[:own],
    )


def probe_mask(columns: Columns) -> npt.NDArray[np.bool_]:
    """(D): True for probes."""
    return np.array([feature.kind is FeatureKind.PROBE for feature in columns.features], np.bool_)


def _permutation(seed: int, number: int, rows: int) -> npt.NDArray[np.int64]:
    """No two numbers of a stream are equal, so that any sort gives the same permutation."""
    return np.argsort(draws.keys(draws.stream(seed, number, _Purpose.WHICH_ROWS), rows), kind="stable")


def _probe_features(columns: Columns, count: int) -> list[Feature]:
    """Make features with names that no column has."""
    mark = "\0probe"
    while any(mark in feature.name or mark in feature.column for feature in columns.features):
        mark = f"\0{mark}"
    names = [f"{mark} {number + 1}" for number in range(count)]
    return [Feature(name, name, FeatureKind.PROBE) for name in names]
