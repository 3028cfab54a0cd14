"""Count and rate triples of features, 16 third features at a time.

For a pair of features, the four combinations of their cuts are ANDed once. They then stay in the cache while the third
features pass. These are stored in lanes.

Most triples are far too weak. A bound that takes a few operations on the counts removes them, all lanes at once. It is
computed in single precision with a margin that covers the rounding. The few triples that pass are counted again and
rated exactly, in integers and double precision, so the result does not depend on the bound.
"""

from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from maabo_dist._util.jit import kernel, popcount
from maabo_dist.screens.lanes import FLOATS, I32, I64, INTS, LANES, Lanes, code, vector

# The combinations of the cuts of three features, and of two.
TRIPLE_COUNTS, PAIR_COUNTS = 8, 4
# Sides of two features: each above or not above one of its two cuts.
SIDES = 16
# Each of the conditions has to bear its part of a box's strength.
CONDITIONS = 3
# A strength in single precision is at least this share of the exact one: for counts up to 2²⁴ errors are far smaller.
MARGIN = 0.9

# The numbers of a pair and a class that the bounds need. For each side: the share of the class, the factors of the
# variance, the rows, and the class's rows beyond its share in the table, also in the unit of the bound of boxes. Then
# those of all rows and of the interaction.
SHARE, SPREAD, SLOPE, ROWS, BEYOND, SCALED = range(0, 6 * SIDES, SIDES)
TABLE_SHARE, TABLE_SPREAD, TABLE_SLOPE = range(6 * SIDES, 6 * SIDES + 3)
# The same for the bound of boxes, in its unit: see `_fill_bound`.
SCALE, SCALED_SHARE, SCALED_SLOPE, ROOM = range(TABLE_SLOPE + 1, TABLE_SLOPE + 5)
INTERACTION = ROOM + 1
PAIR_NUMBERS = INTERACTION + 18

# The addresses of what the tests read: the counts of all rows (of the triples, of the first and third feature, of the
# second and third, and of the third), the same of the rows of a class, the numbers above, and the scales of the thirds.
NUMBERS, SCALES, ADDRESSES = 8, 9, 10


class _TripleLanes(Lanes):
    """Builds the instructions that triples need."""

    def addresses(self, address: Any) -> list[Any]:
        pointer = self.build.inttoptr(address, I64.as_pointer())
        return [self.build.load(self.build.gep(pointer, [I32(k)])) for k in range(ADDRESSES)]

    def counts(self, address: Any) -> list[Any]:
        """The counts of a triple, as floats."""
        return [self.build.sitofp(self.load(address, i, INTS), FLOATS) for i in range(TRIPLE_COUNTS)]

    def sides(self, counts: list[list[Any]], cut: int, row: int) -> Any:
        """The counts of four sides of two features, of one side of the first, above a cut of the third.

        `counts` are those of the triple, of the first and third feature, of the second and third, and of the third.
        """
        triple, first, second, third = counts
        minus, a = self.build.fsub, row % 2
        own = [first[2 * a + cut], triple[4 * a + cut], triple[4 * a + 2 + cut]]
        if row >= 2:
            own = [*map(minus, [third[cut], second[cut], second[2 + cut]], own)]
        return own[1], own[2], minus(own[0], own[1]), minus(own[0], own[2])


def _count(lanes: Lanes, combinations: int, values: Any) -> None:
    """Store, for each combination of `left` and each cut of the third features, the rows that both have."""
    left, *others = values

    def place(word: Any, combination: int) -> Any:
        return lanes.build.add(lanes.build.mul(word, I64(combinations)), I64(combination))

    lanes.count(combinations, lambda word, k: lanes.load(left, place(word, k), I32), *others)


@vector
def count_triples(_context: Any, _left: Any, _third: Any, _start: Any, _stop: Any, _counts: Any) -> Any:
    """(8, lanes): rows above the cuts of a pair, ANDed before, and of 16 third features, in words start … stop − 1."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        _count(Lanes(builder), 4, values)
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 5), generate


@vector
def _count_pairs(_context: Any, _left: Any, _third: Any, _start: Any, _stop: Any, _counts: Any) -> Any:
    """(4, lanes): rows above the cuts of one feature and of 16 others, in words start … stop − 1."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        _count(Lanes(builder), 2, values)
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 5), generate


def _load_counts(lanes: _TripleLanes, triple: Any, first: Any, second: Any, third: Any) -> list[list[Any]]:
    return [lanes.counts(triple), lanes.floats(first, 4), lanes.floats(second, 4), lanes.floats(third, 2)]


def _test_sides(lanes: _TripleLanes, addresses: Any, test: Any) -> Any:
    """The lanes where `test` holds for some side of the first two features and some cut of the third."""
    builder, numbers = lanes.build, addresses[NUMBERS]
    of_all, of_class = _load_counts(lanes, *addresses[:4]), _load_counts(lanes, *addresses[4:8])
    passed = ir.Constant(ir.VectorType(ir.IntType(1), LANES), [0] * LANES)
    for cut in range(2):
        for row in range(4):
            counts = zip(lanes.sides(of_all, cut, row), lanes.sides(of_class, cut, row), strict=True)
            for side, (rows, own) in enumerate(counts, start=4 * row):
                share = lanes.number(numbers, SHARE + side)
                residual = builder.fsub(own, builder.fmul(share, rows))
                others = builder.fsub(lanes.number(numbers, ROWS + side), rows)
                passed = builder.or_(passed, test(side, rows, others, own, residual))
    return lanes.mask(passed)


def _adds_to_side(lanes: _TripleLanes, numbers: Any, side: int, rows: Any, others: Any, residual: Any) -> Any:
    """True where the condition on the third feature, or its opposite, may be strong among the rows of the side."""
    builder = lanes.build
    size = lanes.magnitude(residual)
    fewer = builder.select(builder.fcmp_ordered("<", others, rows), others, rows)
    slope, spread = lanes.number(numbers, SLOPE + side), lanes.number(numbers, SPREAD + side)
    return builder.fcmp_ordered(">", builder.fmul(size, builder.fsub(size, slope)), builder.fmul(spread, fewer))


def _find_strong_boxes(lanes: _TripleLanes, numbers: Any, counts: Any, both: bool) -> Any:
    """The lanes where some box may be strong among all rows."""
    minus, (of_all, of_class) = lanes.build.fsub, counts
    scale, share, slope, room = (lanes.number(numbers, n) for n in (SCALE, SCALED_SHARE, SCALED_SLOPE, ROOM))
    beyond = [
        [lanes.multiply_add(own, scale, lanes.build.fmul(rows, share)) for own, rows in zip(part, whole, strict=True)]
        for part, whole in zip(of_class, of_all, strict=True)
    ]
    best = [room] * 4  # each waits for its last value only
    for cut in range(2):
        for row in range(4):
            boxes = zip(lanes.sides(of_all, cut, row), lanes.sides(beyond, cut, row), strict=True)
            for side, (rows, above) in enumerate(boxes, start=4 * row):
                below = minus(lanes.number(numbers, SCALED + side), above)
                others = minus(lanes.number(numbers, ROWS + side), rows)
                for d, n in ((above, rows), (below, others)):
                    size = lanes.magnitude(d) if both else lanes.larger(d, lanes.zeros(FLOATS))
                    value = lanes.multiply_add(size, minus(size, slope), lanes.negative(n))
                    best = [*best[1:], lanes.larger(value, best[0])]
    return lanes.build.fcmp_unordered(">", reduce(lanes.larger, best), room)


def _bound_boxes(both: bool) -> Any:
    """Vector code for the lanes where some box may be strong among all rows.

    With `both`, boxes with fewer rows of the class than expected count as well: they are strong for the other class.
    """

    def bound(_context: Any, _addresses: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            lanes = _TripleLanes(builder)
            addresses = lanes.addresses(*values)
            counts = _load_counts(lanes, *addresses[:4]), _load_counts(lanes, *addresses[4:8])
            return lanes.mask(_find_strong_boxes(lanes, addresses[NUMBERS], counts, both))

        return types.int64(types.int64), generate

    return vector(bound)


_bound_boxes_of_class, _bound_boxes_of_both = _bound_boxes(both=False), _bound_boxes(both=True)


@vector
def _test_conjunctions(_context: Any, _addresses: Any) -> Any:
    """The lanes where a box may be strong among all rows, and its condition on the third feature beside the others.

    That condition must be strong among the rows that meet the two others.
    """

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        lanes, minus, times = _TripleLanes(builder), builder.fsub, builder.fmul
        addresses = lanes.addresses(*values)
        numbers = addresses[NUMBERS]
        share, spread, slope = (lanes.number(numbers, n) for n in (TABLE_SHARE, TABLE_SPREAD, TABLE_SLOPE))
        zero = ir.Constant(FLOATS, [0.0] * LANES)

        def is_strong(beyond: Any, rows: Any) -> Any:
            beyond = builder.select(builder.fcmp_ordered(">", beyond, zero), beyond, zero)
            return builder.fcmp_ordered(">", times(beyond, minus(beyond, slope)), times(spread, rows))

        def test(side: int, rows: Any, others: Any, own: Any, residual: Any) -> Any:
            # Where the condition has more rows of the class than expected, its opposite has more of the others.
            above = minus(own, times(share, rows))
            below = minus(lanes.number(numbers, BEYOND + side), above)
            more = builder.fcmp_ordered(">", residual, zero)
            above = builder.select(more, above, minus(zero, above))
            below = builder.select(more, minus(zero, below), below)
            strong = builder.or_(is_strong(above, rows), is_strong(below, others))
            return builder.and_(strong, _adds_to_side(lanes, numbers, side, rows, others, residual))

        return _test_sides(lanes, addresses, test)

    return types.int64(types.int64), generate


@vector
def _test_interactions(_context: Any, _addresses: Any) -> Any:
    """The lanes where the interaction of the three features may have a strength of `least`."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        lanes = _TripleLanes(builder)
        addresses = lanes.addresses(*values)
        n = [lanes.number(addresses[NUMBERS], INTERACTION + k) for k in range(18)]
        a, b, w1, w2 = lanes.floats(addresses[SCALES], 4)
        triple, first, second, single = _load_counts(lanes, *addresses[:4])
        of_class = _load_counts(lanes, *addresses[4:8])
        sums = [
            builder.fsub(lanes.total(part), builder.fmul(n[5], lanes.total(whole)))
            for part, whole in zip(of_class, (triple, first, second, single), strict=True)
        ]
        above = builder.fsub(
            lanes.weigh((n[0], sums[0]), (n[3], sums[3])), lanes.weigh((n[1], sums[1]), (n[2], sums[2]))
        )
        size = lanes.magnitude(builder.fsub(builder.fmul(a, above), builder.fmul(b, n[4])))
        squares = [
            lanes.weigh(
                *zip(n[6:10], triple[cut::2], strict=True),
                *zip(n[10:12], first[cut::2], strict=True),
                *zip(n[12:14], second[cut::2], strict=True),
                (n[14], single[cut]),
            )
            for cut in range(2)
        ]
        spread = lanes.weigh((w1, squares[0]), (w2, squares[1]), (builder.fmul(b, b), n[15]))
        least = lanes.weigh((spread, n[16]), (size, n[17]))
        return lanes.mask(builder.fcmp_ordered(">", builder.fmul(size, size), least))

    return types.int64(types.int64), generate


@vector
def _add_classes(_context: Any, _counts: Any, _classes: Any, _total: Any) -> Any:
    """Store the sum of the counts of all classes."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        lanes, zero = Lanes(builder), ir.Constant(INTS, [0] * LANES)
        sums = [code.alloca_once(builder, INTS) for _ in range(TRIPLE_COUNTS)]
        for accumulator in sums:
            builder.store(zero, accumulator)
        with code.for_range(builder, values[1]) as loop:
            first = builder.mul(loop.index, I64(TRIPLE_COUNTS))
            for k, accumulator in enumerate(sums):
                own = lanes.load(values[0], builder.add(first, I64(k)), INTS)
                builder.store(builder.add(builder.load(accumulator), own), accumulator)
        for k, accumulator in enumerate(sums):
            lanes.store(builder.load(accumulator), values[2], k)
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 3), generate


@kernel
def screen_tile(table: Any, scratch: Any, start: int, stop: int, floors: Any, heaps: Any) -> None:
    """Add to the heaps the strongest triples whose second feature is one of start … stop − 1.

    The counts of these features with all later ones are computed once. The first features take turns, and for each of
    them the third ones.
    """
    thirds = len(table.lanes)
    for g in range(start, stop):
        for block in range((g + 1) // LANES, thirds):
            _fill_pairs(table, g, block, scratch.counts, scratch.second[g - start, block])
    _set_least(table, floors, heaps, scratch.least)
    for f in range(stop - 1):
        first = max(start, f + 1)
        for block in range(first // LANES, thirds):
            _fill_pairs(table, f, block, scratch.counts, scratch.first[block])
        for g in range(first, stop):
            scratch.skipped[g - start] = not _prepare_pair(table, scratch, f, g, g - start)
        for block in range((first + 1) // LANES, thirds):
            _screen_block(table, scratch, f, (start, stop), block, floors, heaps)


@kernel
def _screen_block(
    table: Any, scratch: Any, f: int, seconds: tuple[int, int], block: int, floors: Any, heaps: Any
) -> None:
    """Count a first feature with later second ones and 16 third ones; rate those that may be strong.

    Tests get addresses, since views of arrays would take longer than the counting.
    """
    classes, rated, words, thirds = len(table.totals), len(table.rated), table.words.shape[1], len(table.lanes)
    counts, total, at = scratch.counts.ctypes.data, scratch.total.ctypes.data, scratch.addresses
    third = table.lanes.ctypes.data + 4 * 2 * LANES * block * words
    single = table.singles.ctypes.data + 4 * 2 * LANES * (1 + rated) * block
    scales = table.lane_scales.ctypes.data + 4 * 4 * LANES * block
    size = 4 * PAIR_COUNTS * LANES
    one = scratch.first.ctypes.data + size * (1 + rated) * block
    for g in range(max(seconds[0], f + 1), min(seconds[1], LANES * (block + 1) - 1)):
        place = g - seconds[0]
        if scratch.skipped[place]:
            continue
        left = scratch.left.ctypes.data + 4 * 4 * words * place
        two = scratch.second.ctypes.data + size * (1 + rated) * (thirds * place + block)
        for c in range(classes):
            count_triples(left, third, 2 * table.starts[c], 2 * table.starts[c + 1], counts + 4 * 8 * LANES * c)
        _add_classes(counts, classes, total)
        lanes, at[0], at[1], at[2], at[3], at[SCALES] = np.int64(0), total, one, two, single, scales
        for q in range(rated):
            at[4], at[5] = counts + 4 * 8 * LANES * table.rated[q], one + size * (1 + q)
            at[6], at[7] = two + size * (1 + q), single + 4 * 2 * LANES * (1 + q)
            at[NUMBERS] = scratch.numbers.ctypes.data + 4 * PAIR_NUMBERS * (rated * place + q)
            boxes = _bound_boxes_of_both(at.ctypes.data) if classes == 2 else _bound_boxes_of_class(at.ctypes.data)
            if boxes:
                lanes |= _test_conjunctions(at.ctypes.data)
            lanes |= _test_interactions(at.ctypes.data)
        if lanes:
            _rate_lanes(table, scratch, f, g, block, lanes, floors, heaps)


@kernel
def _rate_lanes(table: Any, scratch: Any, f: int, g: int, block: int, lanes: Any, floors: Any, heaps: Any) -> None:
    """Rate the triples of some lanes, and put the strong ones into the heaps."""
    for lane in range(LANES):
        h = LANES * block + lane
        if (lanes >> lane) & 1 and g < h < len(table.words):
            rate(table, f, g, h, scratch.grid, scratch.boxes, scratch.strengths)
            for kind in range(len(floors)):
                _offer(heaps, kind, floors[kind], scratch.strengths[kind], f, g, h)
    _set_least(table, floors, heaps, scratch.least)


@kernel
def _set_least(table: Any, floors: Any, heaps: Any, least: Any) -> None:
    """Set the strengths that a triple must have now: for each rated class, and for the interaction."""
    rated, classes = len(table.rated), len(table.totals)
    for q in range(rated):
        least[q] = MARGIN * _weakest(floors, heaps, table.rated[q])
        if classes == 2:  # the second of two classes is rated for both
            least[q] = min(least[q], np.float32(MARGIN * _weakest(floors, heaps, 0)))
    least[rated] = MARGIN * _weakest(floors, heaps, classes)


@kernel
def _weakest(floors: Any, heaps: Any, kind: int) -> float:
    return float(heaps.strengths[kind, 0] if heaps.counts[kind] == heaps.strengths.shape[1] else floors[kind])


@kernel
def _fill_pairs(table: Any, feature: int, block: int, counts: Any, pairs: Any) -> None:
    """Count a feature with a block of others: the rows of all classes, then those of each rated class."""
    left = table.words.ctypes.data + 8 * feature * table.words.shape[1]
    third = table.lanes.ctypes.data + 128 * block * table.words.shape[1]
    pairs[0] = 0.0
    for c in range(len(table.totals)):
        _count_pairs(left, third, 2 * table.starts[c], 2 * table.starts[c + 1], counts[c].ctypes.data)
        pairs[0] += counts[c, :PAIR_COUNTS]
    for q in range(len(table.rated)):
        pairs[1 + q] = counts[table.rated[q], :PAIR_COUNTS]


@kernel
def _prepare_pair(table: Any, scratch: Any, f: int, g: int, place: int) -> bool:
    """AND the cuts of two features, and compute what the bounds need. False if no triple of theirs can be strong."""
    left, cells = scratch.left[place], scratch.cells
    for word in range(table.words.shape[1]):
        for a in range(2):
            for b in range(2):
                left[word, 2 * a + b] = table.words[f, word, a] & table.words[g, word, b]
    counted = scratch.first[g // LANES]
    _fill_cells(
        table.singles[f // LANES, 0], table.singles[g // LANES, 0], counted[0], f, g, table.totals.sum(), cells[0]
    )
    for q in range(len(table.rated)):
        rows = table.totals[table.rated[q]]
        singles = table.singles[f // LANES, 1 + q], table.singles[g // LANES, 1 + q]
        _fill_cells(singles[0], singles[1], counted[1 + q], f, g, rows, cells[1 + q])
    least = scratch.least[len(table.rated)]
    useful = _fill_interaction(table, f, g, cells, least, scratch.numbers[place]) >= least
    for q in range(len(table.rated)):
        least = scratch.least[q]
        reach = _fill_sides(cells[0], cells[1 + q], len(table.totals) == 2, least, scratch.numbers[place, q])
        useful |= reach >= least
    return bool(useful)


@kernel
def _fill_cells(first: Any, second: Any, both: Any, f: int, g: int, rows: int, cells: Any) -> None:
    """(3, 3): the rows above the cuts of two features, where 0 is all rows."""
    f, g = f % LANES, g % LANES
    cells[0, 0] = rows
    for a in range(2):
        cells[1 + a, 0], cells[0, 1 + a] = first[a, f], second[a, g]
        for b in range(2):
            cells[1 + a, 1 + b] = both[2 * a + b, g]


@kernel
def _fill_sides(all_rows: Any, of_class: Any, both: bool, least: float, numbers: Any) -> float:
    """Fill in what the bound of conjunctions needs; return the most that any third feature could reach.

    d rows beyond the expectation are strong if d² > least · 2 (1 − p) (n p + d/3). They are among n ≥ d/(1 − p) rows:
    the strength is at most d/(2 (p + (1 − p)/3)).
    """
    p, reach = of_class[0, 0] / all_rows[0, 0], 0.0
    numbers[TABLE_SHARE], numbers[TABLE_SPREAD] = p, least * 2 * p * (1 - p)
    numbers[TABLE_SLOPE] = least * 2 * (min(p, 1 - p) if both else 1 - p) / 3
    scale = _fill_bound(all_rows[0, 0], numbers)
    most, most_of_others = _most(p), _most(1 - p)
    for side in range(SIDES):
        rows, part = _side(all_rows, side // 4, side % 4), _side(of_class, side // 4, side % 4)
        share = part / rows if rows > 0 else 0.0
        rest = min(share, 1 - share) if both else 1 - share  # of two classes, whichever a condition is about
        numbers[SHARE + side] = share
        numbers[SPREAD + side] = least / CONDITIONS * 2 * share * (1 - share)
        numbers[SLOPE + side] = least / CONDITIONS * 2 * rest / 3
        numbers[ROWS + side] = rows
        numbers[BEYOND + side] = part - p * rows
        numbers[SCALED + side] = scale * (part - p * rows)
        # A part of a side reaches most with all its rows of the class and no others.
        reach = max(reach, part * min(most, CONDITIONS * _most(share)))
        if both:
            reach = max(reach, (rows - part) * min(most_of_others, CONDITIONS * _most(1 - share)))
    return reach


@kernel
def _most(share: float) -> float:
    """The most that a row of a class can add to a strength among rows with this share of the class."""
    return (1 - share) / (2 * (share + (1 - share) / 3))


@kernel
def _fill_bound(rows: float, numbers: Any) -> float:
    """Fill in what the bound of boxes needs; return its unit: d rows beyond the expectation are scale · d there.

    d (d − slope) > spread · n is then d (d − slope) > n. The rounding of d is at most e, since that of each of the five
    counts that d is made of is at most 2⁻²² of all rows: d may be e larger.
    """
    scale = 1 / np.sqrt(max(numbers[TABLE_SPREAD], 1e-12))
    e = rows * scale * 2.0**-19
    numbers[SCALE], numbers[SCALED_SHARE] = scale, -scale * numbers[TABLE_SHARE]
    numbers[SCALED_SLOPE], numbers[ROOM] = scale * numbers[TABLE_SLOPE] - 2 * e, -e * e
    return float(scale)


@kernel
def _side(counts: Any, first: int, second: int) -> float:
    """The rows on a side of two features, of the rows above their cuts."""
    a, b = 1 + first % 2, 1 + second % 2
    whole, part = counts[a, 0], counts[a, b]
    if first >= 2:
        whole, part = counts[0, 0] - whole, counts[0, b] - part
    return float(part if second < 2 else whole - part)


@kernel
def _fill_interaction(table: Any, f: int, g: int, cells: Any, least: float, numbers: Any) -> float:
    """Fill in what the bound of interactions needs; return the most that any third feature could reach."""
    s, k = table.scales, INTERACTION
    af, bf, ag, bg = s[f, 0], s[f, 1], s[g, 0], s[g, 1]
    rows = cells[0, 0, 0]
    squares = bf * bf * bg * bg * rows
    for a in range(2):
        squares += s[f, 2 + a] * bg * bg * cells[0, 1 + a, 0] + bf * bf * s[g, 2 + a] * cells[0, 0, 1 + a]
        for b in range(2):
            squares += s[f, 2 + a] * s[g, 2 + b] * cells[0, 1 + a, 1 + b]
    for q in range(len(table.rated)):
        share = table.totals[table.rated[q]] / rows
        both = first = second = 0.0
        for a in range(1, 3):
            first += cells[1 + q, a, 0] - share * cells[0, a, 0]
            second += cells[1 + q, 0, a] - share * cells[0, 0, a]
            for b in range(1, 3):
                both += cells[1 + q, a, b] - share * cells[0, a, b]
        numbers[q, k], numbers[q, k + 1], numbers[q, k + 2], numbers[q, k + 3] = af * ag, af * bg, bf * ag, bf * bg
        numbers[q, k + 4], numbers[q, k + 5] = af * ag * both - af * bg * first - bf * ag * second, share
        for a in range(2):
            for b in range(2):
                numbers[q, k + 6 + 2 * a + b] = s[f, 2 + a] * s[g, 2 + b]
            numbers[q, k + 10 + a], numbers[q, k + 12 + a] = bg * bg * s[f, 2 + a], bf * bf * s[g, 2 + a]
        numbers[q, k + 14], numbers[q, k + 15] = bf * bf * bg * bg, squares
        numbers[q, k + 16], numbers[q, k + 17] = 2 * least * share * (1 - share), 2 * least / 3
    return 1.5 * _sum_of_products(cells[0], af, bf, ag, bg)


@kernel
def _sum_of_products(rows: Any, af: float, bf: float, ag: float, bg: float) -> float:
    """The sum of the magnitudes of the products of two centred features."""
    total = 0.0
    for a in range(3):
        for b in range(3):
            cell = rows[a, b]
            if a < 2:
                cell -= rows[a + 1, b]
            if b < 2:
                cell -= rows[a, b + 1]
            if a < 2 and b < 2:
                cell += rows[a + 1, b + 1]
            total += cell * abs((af * a - bf) * (ag * b - bg))
    return total


@kernel
def rate(table: Any, f: int, g: int, h: int, grid: Any, boxes: Any, strengths: Any) -> None:
    """Compute the strength of a triple for each class, and of its interaction."""
    _fill_grid(table, f, g, h, grid)
    classes = len(table.totals)
    for c in range(classes + 1):
        _fill_boxes(grid[c], boxes[c])
    for c in range(classes):
        strengths[c] = _conjunction(boxes[0], boxes[1 + c])
    strengths[classes] = 0.0
    for c in range(classes):
        strengths[classes] = max(strengths[classes], _interaction(table, f, g, h, grid, c))


@kernel
def _fill_grid(table: Any, f: int, g: int, h: int, grid: Any) -> None:
    """(C + 1, 3, 3, 3): rows above cut i − 1 of each feature; 0 is all rows. First of all classes, then of each."""
    bits, above = table.bits, table.above
    grid[:] = 0
    for c in range(len(table.totals)):
        own = grid[1 + c]
        own[0, 0, 0] = table.totals[c]
        for i in range(2):
            own[1 + i, 0, 0], own[0, 1 + i, 0], own[0, 0, 1 + i] = above[f, i, c], above[g, i, c], above[h, i, c]
        for word in range(table.starts[c], table.starts[c + 1]):
            for i in range(2):
                for j in range(2):
                    both = bits[f, i, word] & bits[g, j, word]
                    own[1 + i, 1 + j, 0] += np.int64(popcount(both))
                    own[1 + i, 0, 1 + j] += np.int64(popcount(bits[f, i, word] & bits[h, j, word]))
                    own[0, 1 + i, 1 + j] += np.int64(popcount(bits[g, i, word] & bits[h, j, word]))
                    for k in range(2):
                        own[1 + i, 1 + j, 1 + k] += np.int64(popcount(both & bits[h, k, word]))
        grid[0] += own


@kernel
def _fill_boxes(grid: Any, boxes: Any) -> None:
    """(5, 5, 5): rows in all boxes. For each feature: all rows, above its cuts, not above its cuts."""
    for i in range(5):
        for j in range(5):
            for k in range(5):
                rows = 0
                for x in range(2 if i > 2 else 1):
                    for y in range(2 if j > 2 else 1):
                        for z in range(2 if k > 2 else 1):
                            part = grid[
                                (i - 2 if x else 0) if i > 2 else i,
                                (j - 2 if y else 0) if j > 2 else j,
                                (k - 2 if z else 0) if k > 2 else k,
                            ]
                            rows += -part if (x + y + z) % 2 else part
                boxes[i, j, k] = rows


@kernel
def _conjunction(all_rows: Any, of_class: Any) -> float:
    """The strength of the best box: among all rows, or three times that of a condition among the rows of the others."""
    best, rows, total = 0.0, all_rows[0, 0, 0], of_class[0, 0, 0]
    for i in range(1, 5):
        for j in range(1, 5):
            for k in range(1, 5):
                n, own = all_rows[i, j, k], of_class[i, j, k]
                value = _bernstein(own, n, total, rows)
                if value > best:
                    value = min(value, CONDITIONS * _bernstein(own, n, of_class[i, j, 0], all_rows[i, j, 0]))
                if value > best:
                    value = min(value, CONDITIONS * _bernstein(own, n, of_class[i, 0, k], all_rows[i, 0, k]))
                if value > best:
                    best = max(best, min(value, CONDITIONS * _bernstein(own, n, of_class[0, j, k], all_rows[0, j, k])))
    return best


@kernel
def _bernstein(own: int, n: int, total: int, rows: int) -> float:
    """−ln of a bound of the probability that n of `rows` rows, drawn at random, have so many rows of the class.

    d²/(2 (1 − p) (n p + d/3)) for d rows beyond n p (Bernstein; Hoeffding for draws without replacement).
    """
    excess = own * rows - n * total
    if excess <= 0:
        return 0.0
    d = excess / rows
    return d * d / (2.0 * ((rows - total) / rows) * (n * total / rows + d / 3.0))


@kernel
def _interaction(table: Any, f: int, g: int, h: int, grid: Any, c: int) -> float:
    """The strength of the product of the three features, each centred, in one class against the others.

    A feature's value is 0 to 2, the number of cuts below it, less its mean and scaled to at most 1. The sum of the
    products in the class, beyond the class's share of all, has a bound by Bernstein as a conjunction has.
    """
    s, rows, total = table.scales, grid[0, 0, 0, 0], grid[1 + c, 0, 0, 0]
    beyond, squares = 0.0, 0.0
    for i in range(3):
        for j in range(3):
            for k in range(3):
                value = rows * grid[1 + c, i, j, k] - total * grid[0, i, j, k]
                factors = (s[f, 0] if i else -s[f, 1]) * (s[g, 0] if j else -s[g, 1]) * (s[h, 0] if k else -s[h, 1])
                beyond += factors * value
                first = s[f, 1 + i] if i else s[f, 1] * s[f, 1]
                second = s[g, 1 + j] if j else s[g, 1] * s[g, 1]
                third = s[h, 1 + k] if k else s[h, 1] * s[h, 1]
                squares += first * second * third * grid[0, i, j, k]
    beyond, share = abs(beyond) / rows, total / rows
    variance = share * (1.0 - share) * max(squares, 0.0) + beyond / 3.0
    return beyond * beyond / (2.0 * variance) if variance > 0 else 0.0


@kernel
def _offer(heaps: Any, kind: int, floor: float, strength: float, f: int, g: int, h: int) -> None:
    """Put a triple into a heap, the weakest on top, if it is stronger than the floor and, once full, than the top."""
    strengths, features, count = heaps.strengths[kind], heaps.features[kind], heaps.counts[kind]
    if not strength > floor:
        return
    if count < len(strengths):
        place = count
        heaps.counts[kind] += 1
        while place > 0:
            parent = (place - 1) // 2
            if _comes_after(strengths, features, parent, strength, f, g, h):
                break
            _move(strengths, features, parent, place)
            place = parent
    elif count == 0 or not _comes_after(strengths, features, 0, strength, f, g, h):
        return
    else:
        place = _sift_down(strengths, features, strength, f, g, h)
    strengths[place] = strength
    features[place, 0], features[place, 1], features[place, 2] = f, g, h


@kernel
def _sift_down(strengths: Any, features: Any, strength: float, f: int, g: int, h: int) -> int:
    place, size = 0, len(strengths)
    while 2 * place + 1 < size:
        child, other = 2 * place + 1, 2 * place + 2
        if other < size:
            a, b, c = features[child, 0], features[child, 1], features[child, 2]
            if _comes_after(strengths, features, other, strengths[child], a, b, c):
                child = other
        if not _comes_after(strengths, features, child, strength, f, g, h):
            break
        _move(strengths, features, child, place)
        place = child
    return place


@kernel
def _move(strengths: Any, features: Any, source: int, target: int) -> None:
    strengths[target] = strengths[source]
    for i in range(3):
        features[target, i] = features[source, i]


@kernel
def _comes_after(strengths: Any, features: Any, place: int, strength: float, f: int, g: int, h: int) -> bool:
    """True if the triple at `place` comes after f, g, h: weaker, or as strong and later. No two are equal."""
    if strengths[place] != strength:
        return bool(strengths[place] < strength)
    if features[place, 0] != f:
        return bool(features[place, 0] > f)
    return bool(features[place, 1] > g or (features[place, 1] == g and features[place, 2] > h))
