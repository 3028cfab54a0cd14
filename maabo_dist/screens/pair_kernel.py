"""Count and rate pairs of features, 16 second features at a time.

A bound removes the pairs that are too weak to be among the strongest, all lanes at once. It is computed in single
precision, with a margin for its rounding. The few pairs that pass are counted again and rated exactly, in integers and
double precision, so the result does not depend on the bound.
"""

from itertools import pairwise
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from maabo_dist._util.jit import kernel, popcount
from maabo_dist.screens.lanes import FLOATS, I32, I64, INTS, LANES, Lanes, code, vector

# Combinations of the cuts of two features, and cells of their bins.
COUNTS, CELLS = 4, 9
# First features that stay in the cache while the second ones pass.
TILE = 16
# The margin of the bound: a share of χ², and an amount for each row.
#
# With n rows in a cell, a share p of the class and r rows beyond n p, the rounding of r is at most about
# 2⁻²³ (n p + |r|), so that of r²/(n p) is at most about 2⁻²² |r| + 2⁻²² r²/(n p). By Cauchy's inequality the sum of |r|
# is at most √(χ² rows), which is at most 2¹⁰ χ² + 2⁻¹² rows. Together: 2⁻¹² χ² + 2⁻²² χ² + 2⁻³⁴ rows.
SHARE_MARGIN, ROW_MARGIN = 1e-3, 1e-8


@vector
def count_pairs(_context: Any, _first: Any, _words: Any, _block: Any, _start: Any, _stop: Any, _counts: Any) -> Any:
    """(4, lanes): rows above the cuts of one feature and of 16 others, in words start … stop − 1.

    A feature has `words` words above its first cut, and then as many above the second.
    """

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        lanes = Lanes(builder)
        first, words, *others = values

        def left(word: Any, cut: int) -> Any:
            return lanes.load(first, builder.add(word, words) if cut else word, I32)

        lanes.count(2, left, *others)
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 6), generate


def _load_cells(lanes: Lanes, counts: list[Any], first: Any, second: Any, rows: Any) -> list[Any]:
    """The rows of the nine cells: below, between and above the cuts of the first feature, and of the second."""
    minus = lanes.build.sub
    f = [lanes.fill(lanes.load(first, cut, I32)) for cut in range(2)]
    g = [lanes.load(second, cut, INTS) for cut in range(2)]
    above = [[rows, *g], [f[0], *counts[:2]], [f[1], *counts[2:]]]
    bins = [[*map(minus, low, high)] for low, high in pairwise(above)] + [above[2]]
    return [cell for row in bins for cell in (minus(row[0], row[1]), minus(row[1], row[2]), row[2])]


@vector
def _bound(
    _context: Any, _counts: Any, _first: Any, _second: Any, _classes: Any, _ranges: Any, _singles: Any, _least: Any
) -> Any:
    """The lanes where χ² of the pair may be `least` more than that of the second feature.

    `first` and `second` are rows above the cuts, of each class. `classes` and `ranges` are those of `PairTable`.
    """

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        lanes = Lanes(builder)
        counts, first, second, classes, ranges, singles, least = values
        ends = builder.inttoptr(ranges, I64.as_pointer())
        start, stop, count = (builder.load(builder.gep(ends, [I32(k)])) for k in range(3))

        def cells_of(c: Any) -> list[Any]:
            own = builder.add(counts, builder.mul(c, I64(4 * LANES * COUNTS)))
            f, g = builder.add(first, builder.mul(c, I64(8))), builder.add(second, builder.mul(c, I64(8 * LANES)))
            rows = lanes.fill(lanes.load(classes, builder.mul(c, I64(3)), I32))
            return _load_cells(lanes, [lanes.load(own, k, INTS) for k in range(COUNTS)], f, g, rows)

        sizes, squares = lanes.accumulators(CELLS, INTS), lanes.accumulators(CELLS, FLOATS)
        with code.for_range(builder, count) as loop:
            for variable, cell in zip(sizes, cells_of(loop.index), strict=True):
                lanes.add_to(variable, cell)
        rows = [builder.sitofp(builder.load(variable), FLOATS) for variable in sizes]
        with code.for_range_slice(builder, start, stop, I64(1), I64) as (c, _):
            place = builder.mul(c, I64(3))
            share, weight = (lanes.number(classes, builder.add(place, I64(k))) for k in (1, 2))
            for variable, size, cell in zip(squares, rows, cells_of(c), strict=True):
                beyond = builder.fsub(builder.sitofp(cell, FLOATS), builder.fmul(share, size))
                lanes.add_to(variable, builder.fmul(builder.fmul(beyond, beyond), weight))
        one = ir.Constant(FLOATS, [FLOATS.element(1.0)] * LANES)
        parts = []
        for variable, size in zip(squares, rows, strict=True):
            divisor = builder.select(builder.fcmp_ordered(">", size, one), size, one)
            parts.append(builder.fdiv(builder.load(variable), divisor))
        needed = builder.fadd(lanes.load(singles, 0, FLOATS), lanes.fill(least))
        return lanes.mask(builder.fcmp_unordered(">=", lanes.total(parts), needed))

    return types.int64(*(types.int64,) * 6, types.float32), generate


@kernel
def screen(table: Any, start: int, stop: int, counts: Any, strengths: Any, features: Any) -> int:
    """Fill a heap with the strongest pairs, the weakest on top; return their number."""
    filled, rows = 0, table.totals.sum()
    for first in range(start, stop, TILE):
        for block in range((first + 1) // LANES, len(table.lanes)):
            for f in range(first, min(first + TILE, stop, LANES * (block + 1) - 1)):
                weakest = strengths[0] if filled == len(strengths) else -np.inf
                lanes = _test_block(table, f, block, weakest - ROW_MARGIN * rows, counts)
                if lanes:
                    filled = _rate_lanes(table, f, block, lanes, strengths, features, filled)
    return filled


@kernel
def _test_block(table: Any, f: int, block: int, weakest: float, counts: Any) -> Any:
    """Count a feature with 16 others; return the lanes of those that may be stronger together than the weakest pair."""
    classes, words = len(table.totals), 2 * table.bits.shape[2]
    first, second = table.bits.ctypes.data + 8 * words * f, table.lanes.ctypes.data + 8 * LANES * words * block
    base = counts.ctypes.data
    for c in range(classes):
        own = base + 4 * LANES * COUNTS * c
        count_pairs(first, words, second, 2 * table.starts[c], 2 * table.starts[c + 1], own)
    return _bound(
        base,
        table.rows_above.ctypes.data + 8 * classes * f,
        table.lanes_above.ctypes.data + 8 * LANES * classes * block,
        table.classes.ctypes.data,
        table.ranges.ctypes.data,
        table.lane_singles.ctypes.data + 4 * LANES * block,
        np.float32(weakest + table.singles[f]),
    )


@kernel
def _rate_lanes(table: Any, f: int, block: int, lanes: int, strengths: Any, features: Any, filled: int) -> int:
    """Rate the pairs of some lanes, and put the strong ones into the heap; return how many it has then."""
    for lane in range(LANES):
        g = LANES * block + lane
        if not (lanes >> lane) & 1 or g <= f or g >= len(table.bits):
            continue
        strength = rate(table, f, g)
        if filled < len(strengths):
            _sift_up(strengths, features, filled, strength, f, g)
            filled += 1
        elif _is_weaker(strengths, features, 0, strength, f, g):
            _sift_down(strengths, features, strength, f, g)
    return filled


@kernel
def rate(table: Any, f: int, g: int) -> float:
    """χ² of the pair beyond that of either feature."""
    squares, sizes = np.zeros(CELLS), np.zeros(CELLS, np.int64)
    for c in range(len(table.totals)):
        _add_class(table, f, g, c, table.weights[c], squares, sizes)
    return float(_chi_squared(squares, sizes, table.totals.sum()) - table.singles[f] - table.singles[g])


@kernel
def _add_class(table: Any, f: int, g: int, c: int, weight: float, squares: Any, sizes: Any) -> None:
    """Count a class's rows in the nine cells. The counts above both cuts give the bins: below, between, above."""
    low_low = low_high = high_low = high_high = np.uint64(0)
    bits = table.bits
    for word in range(table.starts[c], table.starts[c + 1]):
        f_low, f_high, g_low, g_high = bits[f, 0, word], bits[f, 1, word], bits[g, 0, word], bits[g, 1, word]
        low_low += popcount(f_low & g_low)
        low_high += popcount(f_low & g_high)
        high_low += popcount(f_high & g_low)
        high_high += popcount(f_high & g_high)
    ll, lh, hl, hh = np.int64(low_low), np.int64(low_high), np.int64(high_low), np.int64(high_high)
    fl, fh = table.above[f, 0, c], table.above[f, 1, c]
    gl, gh = table.above[g, 0, c], table.above[g, 1, c]
    _add_cell(0, table.totals[c] - gl - (fl - ll), weight, squares, sizes)
    _add_cell(1, (gl - gh) - (ll - lh), weight, squares, sizes)
    _add_cell(2, gh - lh, weight, squares, sizes)
    _add_cell(3, (fl - ll) - (fh - hl), weight, squares, sizes)
    _add_cell(4, (ll - lh) - (hl - hh), weight, squares, sizes)
    _add_cell(5, lh - hh, weight, squares, sizes)
    _add_cell(6, fh - hl, weight, squares, sizes)
    _add_cell(7, hl - hh, weight, squares, sizes)
    _add_cell(8, hh, weight, squares, sizes)


@kernel
def _add_cell(cell: int, count: Any, weight: float, squares: Any, sizes: Any) -> None:
    squares[cell] += count * count * weight
    sizes[cell] += count


@kernel
def _chi_squared(squares: Any, sizes: Any, rows: int) -> float:
    """Σ (observed − expected)² / expected = Σ observed² / expected − rows, over cells and classes."""
    value = -float(rows)
    for cell in range(len(sizes)):
        if sizes[cell] > 0:
            value += squares[cell] / sizes[cell]
    return value


@kernel
def _is_weaker(strengths: Any, features: Any, place: int, strength: float, f: int, g: int) -> bool:
    """True if the pair at `place` comes after the pair of f and g. No two pairs are equal."""
    if strengths[place] != strength:
        return bool(strengths[place] < strength)
    return bool(features[place, 0] > f or (features[place, 0] == f and features[place, 1] > g))


@kernel
def _sift_up(strengths: Any, features: Any, place: int, strength: float, f: int, g: int) -> None:
    while place > 0:
        parent = (place - 1) // 2
        if _is_weaker(strengths, features, parent, strength, f, g):
            break
        strengths[place] = strengths[parent]
        features[place, 0], features[place, 1] = features[parent, 0], features[parent, 1]
        place = parent
    strengths[place] = strength
    features[place, 0], features[place, 1] = f, g


@kernel
def _sift_down(strengths: Any, features: Any, strength: float, f: int, g: int) -> None:
    place, size = 0, len(strengths)
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        other, first, second = child + 1, features[child, 0], features[child, 1]
        if other < size and _is_weaker(strengths, features, other, strengths[child], first, second):
            child = other
        if not _is_weaker(strengths, features, child, strength, f, g):
            break
        strengths[place] = strengths[child]
        features[place, 0], features[place, 1] = features[child, 0], features[child, 1]
        place = child
    strengths[place] = strength
    features[place, 0], features[place, 1] = f, g
