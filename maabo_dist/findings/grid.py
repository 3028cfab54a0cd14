"""A sharper bound for rules with thresholds: how strong they are with thresholds on a grid.

A column of numbers has as many cuts as values, and the bound of `certificate` counts all of them, although neighbouring
cuts separate nearly the same rows. Each feature therefore has a grid of at most 35 cuts, chosen without the labels:
32nds of the mined rows, and 1 and 2 of 128 at both ends, for narrow tails. A rule with its thresholds moved to
neighbouring cuts of the grid covers nearly the same rows, and there are far fewer such rules. Whatever search found the
rule, under the null hypothesis chance makes any rule on the grid this strong no more often than the bound says.
"""

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist._util.scratch import each_block, each_of
from maabo_dist.data.columns import Columns
from maabo_dist.data.recoding import MISSING_VALUE
from maabo_dist.data.weights import UNIT
from maabo_dist.findings.candidates import CandidateRules, measure
from maabo_dist.findings.conditions import Choices, ConditionTable, is_gapped, is_text
from maabo_dist.findings.evidence import NO_CONDITION, Floats
from maabo_dist.findings.rowbits import Ints, condition_bits
from maabo_dist.rules.rule import NO_LITERAL

# The parts of 128 of the mined rows that are below a cut.
PARTS = np.array(sorted({*range(4, 128, 4), 1, 2, 126, 127}))


def grid_cuts(codes: npt.NDArray[np.int64], units: Ints | None = None) -> Ints:
    """Return the cuts of a feature with these codes, ascending: a code is below a cut if it is less.

    `units` are the weights of the rows, if they have any.
    """
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    if units is None:
        places = len(ordered) * PARTS // 128
    else:
        sums = np.cumsum(units[order])
        places = np.searchsorted(sums, sums[-1] // UNIT * PARTS // 128 * UNIT, side="right")
    cuts: Ints = np.unique(ordered[places]).astype(np.int64)
    inner: Ints = cuts[cuts > ordered[0]]
    return inner


def feature_cuts(table: ConditionTable, columns: Columns, feature: int) -> Ints:
    """Return the cuts of a feature in the mined rows of a table."""
    mined = table.mined
    return grid_cuts(columns.codes[feature][mined.rows], None if mined.units is None else mined.units[mined.positions])


def grid_choices(table: ConditionTable, columns: Columns) -> Choices:
    """Return the number of conditions on the grid."""
    features = np.flatnonzero(~is_text(columns))
    counted = [
        len(feature_cuts(table, columns, feature))
        for block in each_block(columns.codes)
        for feature in features[(features >= block.start) & (features < block.stop)].tolist()
    ]
    sizes = np.array(counted, np.int64)
    gapped, of_text = is_gapped(columns)[features], table.choices.singles[len(features) :]
    # With missing cells, `≤ cut` may hold in them or not; and a column may be missing, or not.
    singles = np.where(gapped, 3 * sizes + 2, 2 * sizes)
    return Choices(
        np.concatenate([np.maximum(2, singles), of_text]),
        np.concatenate([sizes * (sizes - 1) // 2, np.zeros(len(of_text), np.int64)]),
        table.choices.sets,
    )


def log_p_on_grid(rules: CandidateRules, table: ConditionTable, columns: Columns) -> Floats:
    """(rules): ln p of the strongest of the rules with thresholds on the grid right below or right above their own."""
    bits, near = _move_thresholds(table, columns, np.unique(rules.conditions[rules.conditions != NO_CONDITION]))
    present, on_grid, best = rules.conditions != NO_CONDITION, replace(table, bits=bits), np.zeros(len(rules))
    for sides in product((0, 1), repeat=rules.conditions.shape[1]):
        moved = np.where(present, near[rules.conditions, sides], NO_CONDITION).astype(np.int32)
        best = np.minimum(best, measure(moved, rules.labels, rules.trees, on_grid).log_p)
    return best


class Thresholds(NamedTuple):
    """The conditions among some that have one threshold."""

    # (thresholds): the condition, and the place of the threshold among its literals.
    conditions: Ints
    places: Ints
    # (thresholds): the literal and bound there.
    literals: npt.NDArray[np.int32]
    bounds: Floats
    # (thresholds): True if another literal excludes missing cells.
    strict: npt.NDArray[np.bool_]


def find_thresholds(table: ConditionTable, columns: Columns, used: Ints) -> Thresholds:
    """Return the used conditions that have one threshold, and perhaps exclude missing cells."""
    literals, bounds = table.literals[used], table.bounds[used]
    features = np.where(literals == NO_LITERAL, 0, literals >> 1)
    is_presence = is_gapped(columns)[features] & (bounds == MISSING_VALUE)
    is_threshold = (literals != NO_LITERAL) & ~is_text(columns)[features] & ~is_presence
    movable = np.flatnonzero(is_threshold.sum(axis=1) == 1)
    places = is_threshold[movable].argmax(axis=1)
    return Thresholds(
        used[movable],
        places,
        literals[movable, places],
        bounds[movable, places],
        is_presence[movable].any(axis=1),
    )


def _move_thresholds(table: ConditionTable, columns: Columns, used: Ints) -> tuple[npt.NDArray[np.uint64], Ints]:
    """Return the bits of conditions and of those on the grid; for each condition the indices of its two neighbours."""
    near = np.stack([np.arange(len(table.literals))] * 2, axis=1)
    thresholds = find_thresholds(table, columns, used)
    if not len(thresholds.conditions):
        return table.bits, near
    own, own_bounds = thresholds.literals, thresholds.bounds
    moved_bounds = np.stack([own_bounds, own_bounds], axis=1)
    for feature in each_of(np.unique(own >> 1).tolist(), columns.codes, columns.values):
        values = columns.distinct_values(feature)
        grid = feature_cuts(table, columns, feature)
        mine = np.flatnonzero(own >> 1 == feature)
        if len(grid):
            cuts = np.searchsorted(values, own_bounds[mine], side="right")
            below, above = np.searchsorted(grid, cuts, side="right") - 1, np.searchsorted(grid, cuts)
            sides = np.stack([np.maximum(below, 0), np.minimum(above, len(grid) - 1)], axis=1)
            moved_bounds[mine] = values[grid[sides] - 1]
    strict = thresholds.strict
    present = table.bits[table.is_present[thresholds.conditions]]
    parts = [table.bits]
    for side in (0, 1):
        bits = condition_bits(columns, table.mined, own, moved_bounds[:, side])
        bits[strict] &= present[strict]
        near[thresholds.conditions, side] = sum(len(part) for part in parts) + np.arange(len(own))
        parts.append(bits)
    return np.concatenate(parts), near
