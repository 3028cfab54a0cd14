"""The target: classes of a column of texts or whole numbers, or of a number that is cut."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from maabo_dist._util.text import format_names
from maabo_dist.data.cells import finite_numbers, holds_numbers, levels
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings

# A numeric target with more distinct values than this is a quantity, not a class.
MAX_NUMERIC_CLASSES = 20
MAX_CLASSES = 100

Numbers = npt.NDArray[np.float64]


class Target(NamedTuple):
    """The class of every row."""

    # Index into `classes`, row by row.
    labels: npt.NDArray[np.int32]
    classes: tuple[str, ...]
    # The predicted quantity, as displayed: `survived`, `progression above 152.133`.
    text: str
    notes: tuple[str, ...] = ()


def encode_target(cells: pd.Series, settings: TableSettings) -> Target:
    """Return the classes that the settings ask for, at least two of which have rows. No cell is missing."""
    if holds_numbers(cells, remedy="Convert it to text or numbers, or name another --target."):
        target = _encode_numbers(cells, settings)
    else:
        target = _encode_levels(cells, settings)
    _check_class_count(cells, target)
    return target


def _encode_numbers(cells: pd.Series, settings: TableSettings) -> Target:
    name, values = str(cells.name), finite_numbers(cells, remedy="Correct them or leave their rows out.")
    if settings.target_above is not None:
        return _split_above(name, values, settings.target_above)
    if settings.target_quantiles is not None:
        return _split_quantiles(name, values, settings.target_quantiles)
    return _encode_whole_numbers(name, values)


def _encode_levels(cells: pd.Series, settings: TableSettings) -> Target:
    coded = levels(cells)
    if settings.target_above is None and settings.target_quantiles is None:
        notes = _similar_class_notes(str(cells.name), coded.texts)
        return Target(coded.codes.astype(np.int32), coded.texts, str(cells.name), notes)
    option = "--target-quantiles" if settings.target_above is None else "--target-above"
    raise DatasetError(
        f"{option} needs a numeric target; column '{cells.name}' holds {format_names(coded.texts)}. "
        f"Leave {option} out, or convert the column to numbers."
    )


def _similar_class_notes(name: str, texts: Sequence[str]) -> tuple[str, ...]:
    """Point out classes that may be meant to be one."""
    spellings: dict[str, list[str]] = {}
    for text in texts:
        spellings.setdefault(" ".join(text.casefold().split()), []).append(text)
    similar = [format_names(group) for group in spellings.values() if len(group) > 1]
    if not similar:
        return ()
    listed = "; ".join(similar)
    return (
        f"Classes of {name!r} differ only in spaces or capital letters: {listed}. Write them alike if they are one.",
    )


def _encode_whole_numbers(name: str, values: Numbers) -> Target:
    distinct, labels = np.unique(values, return_inverse=True)
    if len(distinct) > 1 and (len(distinct) > MAX_NUMERIC_CLASSES or np.any(distinct % 1)):
        return _split_by_default(name, values, distinct)
    return Target(labels.astype(np.int32), tuple(str(int(value)) for value in distinct), name)


def _split_by_default(name: str, values: Numbers, distinct: Numbers) -> Target:
    """Split at the median, or below it if no value is above."""
    median = float(np.median(values))
    at = median if median < distinct[-1] else float(distinct[-2])
    cut = "its median" if at == median else f"{at:g}, as no value is above its median"
    target = _split_above(name, values, at)
    note = (
        f"The target {name!r} is a number with {len(distinct):,} distinct values and is cut at {cut}: {target.text}. "
        "Use --target-above NUMBER or --target-quantiles 3 to cut it elsewhere."
    )
    return target._replace(notes=(note,))


def _split_above(name: str, values: Numbers, at: str | float) -> Target:
    """Make class 1 of the values strictly above the threshold, class 0 of the others."""
    center = np.mean if at == "mean" else np.median
    edges = np.array([center(values) if isinstance(at, str) else at])
    (threshold,) = _format_edges(edges, values)
    return Target(count_below(edges, values), _range_names(name, [threshold]), f"{name} above {threshold}")


def _split_quantiles(name: str, values: Numbers, count: int) -> Target:
    edges = np.quantile(values, np.arange(1, count) / count)
    labels = count_below(edges, values)
    present = len(np.unique(labels))
    if present < count:
        raise DatasetError(
            f"--target-quantiles {count} gives {present} classes of column '{name}' instead of {count}: too many of "
            "its values are equal. Give a smaller number, or use --target-above."
        )
    classes = _range_names(name, _format_edges(edges, values))
    return Target(labels, classes, f"{name} in {count} quantile classes")


def class_edges(classes: Sequence[str]) -> Numbers | None:
    """Return the edges between classes of a number that was cut, from their names; None if it was not."""
    name, sign, first = classes[0].rpartition(" ≤ ")
    texts = [first, *(text.rpartition(" ≤ ")[2] for text in classes[1:-1])]
    if not sign or tuple(classes) != _range_names(name, texts):
        return None
    try:
        return np.array(texts, dtype=np.float64)
    except ValueError:  # levels that look like ranges
        return None


def _range_names(name: str, edges: Sequence[str]) -> tuple[str, ...]:
    between = (f"{low} < {name} ≤ {high}" for low, high in pairwise(edges))
    return (f"{name} ≤ {edges[0]}", *between, f"{name} > {edges[-1]}")


def count_below(edges: Numbers, values: Numbers) -> npt.NDArray[np.int32]:
    """Return the number of edges strictly below each value."""
    return np.searchsorted(edges, values, side="left").astype(np.int32)


def _format_edges(edges: Numbers, values: Numbers) -> list[str]:
    """Format the edges with six digits, or as many more as it takes for the text to be true of every row."""
    labels = count_below(edges, values)
    for digits in range(6, 17):
        texts = [f"{edge:.{digits}g}" for edge in edges]
        if np.array_equal(count_below(np.array(texts, dtype=np.float64), values), labels):
            return texts
    return [repr(float(edge)) for edge in edges]


def _check_class_count(cells: pd.Series, target: Target) -> None:
    present = np.unique(target.labels)
    if len(present) < 2:
        raise DatasetError(
            f"Target column '{cells.name}' has 1 class ({target.classes[present[0]]!r}); mining needs at least 2."
        )
    if len(present) > MAX_CLASSES:
        raise DatasetError(
            f"Target column '{cells.name}' has {len(present):,} classes, such as {format_names(target.classes)}; at "
            f"most {MAX_CLASSES} can be mined. It looks like an identifier or a number: name another --target, or "
            "convert it to numbers and use --target-above."
        )
