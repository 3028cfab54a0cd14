"""Count and rate triples of features, 16 third features at a time.

For a pair of features, the four combinations of their cuts are ANDed once. They then stay in the cache while the third
features pass. These are stored in lanes, one word of each of 16 features side by side, so that one instruction works on
all 16 and no sum has to be taken across a register:

    lanes[block, word, cut] = | feature 0 | feature 1 | … | feature 15 |        32 rows of each

Most triples are far too weak. A bound that takes a few operations on the counts removes them, all lanes at once. It is
computed in single precision with a margin that covers the rounding. The few triples that pass are counted again and
rated exactly, in integers and double precision, so the result does not depend on the bound.

The vector code is written as LLVM instructions, which the compiler turns into what the processor has.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from maabo_dist._util.jit import kernel, popcount

LANES = 16
# The combinations of the cuts of three features, and of two.
TRIPLE_COUNTS, PAIR_COUNTS = 8, 4
# Sides of two features: each above or not above one of its two cuts.
SIDES = 16
# Each of the conditions has to bear its part of a box's strength.
CONDITIONS = 3
# A strength in single precision is at least this share of the exact one: for counts up to 2²⁴ errors are far smaller.
MARGIN = 0.9

# The numbers of a pair and a class that the bounds need. For each side: the share of the class, the factors of the
# variance, the rows, and the class's rows beyond its share in the table. Then those of all rows and of the interaction.
SHARE, SPREAD, SLOPE, ROWS, BEYOND = range(0, 5 * SIDES, SIDES)
TABLE_SHARE, TABLE_SPREAD, TABLE_SLOPE = range(5 * SIDES, 5 * SIDES + 3)
INTERACTION = TABLE_SLOPE + 1
PAIR_NUMBERS = INTERACTION + 18

# The addresses of what the tests read: the counts of all rows (of the triples, of the first and third feature, of the
# second and third, and of the third), the same of the rows of a class, the numbers above, and the scales of the thirds.
NUMBERS, SCALES, ADDRESSES = 8, 9, 10

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
_INTS, _FLOATS = ir.VectorType(_I32, LANES), ir.VectorType(_F32, LANES)


_code: Any = cgutils


def vector(function: Any) -> Any:
    """A function that is vector code; kernels call it without its first argument."""
    return intrinsic(function)


class _Lanes:
    """Builds vector instructions."""

    def __init__(self, builder: Any) -> None:
        self.build = builder

    def load(self, address: Any, index: Any, kind: Any) -> Any:
        """The value at address[index], of a scalar or a vector type of 32 bits each."""
        size = 4 * LANES if isinstance(kind, ir.VectorType) else 4
        offset = _I64(size * index) if isinstance(index, int) else self.build.mul(index, _I64(size))
        return self.build.load(self.build.inttoptr(self.build.add(address, offset), kind.as_pointer()), align=4)

    def store(self, value: Any, address: Any, index: int) -> None:
        pointer = self.build.inttoptr(self.build.add(address, _I64(4 * LANES * index)), value.type.as_pointer())
        self.build.store(value, pointer, align=4)

    def fill(self, value: Any) -> Any:
        """A vector of one value."""
        vector = ir.VectorType(value.type, LANES)
        first = self.build.insert_element(ir.Constant(vector, ir.Undefined), value, _I32(0))
        return self.build.shuffle_vector(first, ir.Constant(vector, ir.Undefined), ir.Constant(_INTS, [0] * LANES))

    def addresses(self, address: Any) -> list[Any]:
        pointer = self.build.inttoptr(address, _I64.as_pointer())
        return [self.build.load(self.build.gep(pointer, [_I32(k)])) for k in range(ADDRESSES)]

    def floats(self, address: Any, count: int) -> list[Any]:
        return [self.load(address, i, _FLOATS) for i in range(count)]

    def counts(self, address: Any) -> list[Any]:
        """The counts of a triple, as floats."""
        return [self.build.sitofp(self.load(address, i, _INTS), _FLOATS) for i in range(TRIPLE_COUNTS)]

    def number(self, address: Any, index: int) -> Any:
        """A vector of the number at address[index]."""
        return self.fill(self.load(address, index, _F32))

    def call(self, name: str, value: Any) -> Any:
        kind = value.type
        function = _code.get_or_insert_function(self.build.module, ir.FunctionType(kind, [kind]), name)
        return self.build.call(function, [value])

    def magnitude(self, value: Any) -> Any:
        return self.call("llvm.fabs.v16f32", value)

    def weigh(self, *terms: tuple[Any, Any]) -> Any:
        """The sum of products."""
        return self.total([self.build.fmul(a, b) for a, b in terms])

    def total(self, values: list[Any]) -> Any:
        while len(values) > 1:
            values = [*map(self.build.fadd, values[::2], values[1::2]), *values[len(values) & ~1 :]]
        return values[0]

    def mask(self, bits: Any) -> Any:
        """One bit for each lane."""
        return self.build.zext(self.build.bitcast(bits, ir.IntType(LANES)), _I64)

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


def _count(lanes: _Lanes, combinations: int, values: Any) -> None:
    """Store, for each combination of `left` and each cut of the third features, the rows that both have."""
    build, (left, lanes_of_third, start, stop, counts) = lanes.build, values
    sums = [_code.alloca_once_value(build, ir.Constant(_INTS, [0] * LANES)) for _ in range(2 * combinations)]
    for accumulator in sums:
        build.store(ir.Constant(_INTS, [0] * LANES), accumulator)
    with _code.for_range_slice(build, start, stop, _I64(1), _I64) as (word, _):
        first = build.mul(word, _I64(2))
        thirds = [lanes.load(lanes_of_third, build.add(first, _I64(cut)), _INTS) for cut in range(2)]
        row = build.mul(word, _I64(combinations))
        for k in range(combinations):
            bits = lanes.fill(lanes.load(left, build.add(row, _I64(k)), _I32))
            for cut in range(2):
                ones = lanes.call("llvm.ctpop.v16i32", build.and_(bits, thirds[cut]))
                build.store(build.add(build.load(sums[2 * k + cut]), ones), sums[2 * k + cut])
    for k, accumulator in enumerate(sums):
        lanes.store(build.load(accumulator), counts, k)


@vector
def count_triples(_context: Any, _left: Any, _third: Any, _start: Any, _stop: Any, _counts: Any) -> Any:
    """(8, lanes): rows above the cuts of a pair, ANDed before, and of 16 third features, in words start … stop − 1."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        _count(_Lanes(builder), 4, values)
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 5), generate


@vector
def _count_pairs(_context: Any, _left: Any, _third: Any, _start: Any, _stop: Any, _counts: Any) -> Any:
    """(4, lanes): rows above the cuts of one feature and of 16 others, in words start … stop − 1."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        _count(_Lanes(builder), 2, values)
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 5), generate


def _load_counts(lanes: _Lanes, triple: Any, first: Any, second: Any, third: Any) -> list[list[Any]]:
    return [lanes.counts(triple), lanes.floats(first, 4), lanes.floats(second, 4), lanes.floats(third, 2)]


def _test_sides(lanes: _Lanes, addresses: Any, test: Any) -> Any:
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


def _adds_to_side(lanes: _Lanes, numbers: Any, side: int, rows: Any, others: Any, residual: Any) -> Any:
    """True where the condition on the third feature, or its opposite, may be strong among the rows of the side."""
    builder = lanes.build
    size = lanes.magnitude(residual)
    fewer = builder.select(builder.fcmp_ordered("<", others, rows), others, rows)
    slope, spread = lanes.number(numbers, SLOPE + side), lanes.number(numbers, SPREAD + side)
    return builder.fcmp_ordered(">", builder.fmul(size, builder.fsub(size, slope)), builder.fmul(spread, fewer))


@vector
def _bound_conjunctions(_context: Any, _addresses: Any) -> Any:
    """The lanes where a condition on the third feature may be strong beside some conditions on the other two.

    The condition, or its opposite, must be strong among the rows that meet the two others.
    """

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        lanes = _Lanes(builder)
        addresses = lanes.addresses(*values)

        def test(side: int, rows: Any, others: Any, _own: Any, residual: Any) -> Any:
            return _adds_to_side(lanes, addresses[NUMBERS], side, rows, others, residual)

        return _test_sides(lanes, addresses, test)

    return types.int64(types.int64), generate


@vector
def _test_conjunctions(_context: Any, _addresses: Any) -> Any:
    """The lanes of `_bound_conjunctions` where the same box may also be strong among all rows."""

    def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        lanes, minus, times = _Lanes(builder), builder.fsub, builder.fmul
        addresses = lanes.addresses(*values)
        numbers = addresses[NUMBERS]
        share, spread, slope = (lanes.number(numbers, n) for n in (TABLE_SHARE, TABLE_SPREAD, TABLE_SLOPE))
        zero = ir.Constant(_FLOATS, [0.0] * LANES)

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
        lanes = _Lanes(builder)
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
        lanes, zero = _Lanes(builder), ir.Constant(_INTS, [0] * LANES)
        sums = [_code.alloca_once(builder, _INTS) for _ in range(TRIPLE_COUNTS)]
        for accumulator in sums:
            builder.store(zero, accumulator)
        with _code.for_range(builder, values[1]) as loop:
            first = builder.mul(loop.index, _I64(TRIPLE_COUNTS))
            for k, accumulator in enumerate(sums):
                own = lanes.load(values[0], builder.add(first, _I64(k)), _INTS)
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
            if _bound_conjunctions(at.ctypes.data):
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
    for side in range(SIDES):
        rows, part = _side(all_rows, side // 4, side % 4), _side(of_class, side // 4, side % 4)
        share = part / rows if rows > 0 else 0.0
        rest = min(share, 1 - share) if both else 1 - share  # of two classes, whichever a condition is about
        numbers[SHARE + side] = share
        numbers[SPREAD + side] = least / CONDITIONS * 2 * share * (1 - share)
        numbers[SLOPE + side] = least / CONDITIONS * 2 * rest / 3
        numbers[ROWS + side] = rows
        numbers[BEYOND + side] = part - p * rows
        reach = max(reach, _reach(part, share, p))
        if both:
            reach = max(reach, _reach(rows - part, 1 - share, 1 - p))
    return reach


@kernel
def _reach(own: float, share: float, table_share: float) -> float:
    """The most that a part of a side can reach: with all its rows of the class and no others."""
    of_table = own * (1 - table_share) / (2 * (table_share + (1 - table_share) / 3))
    return min(of_table, CONDITIONS * own * (1 - share) / (2 * (share + (1 - share) / 3)))


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
    af, bf, ag, bg = table.scales[f, 0], table.scales[f, 1], table.scales[g, 0], table.scales[g, 1]
    wf, wg, rows = table.scales[f, 2:], table.scales[g, 2:], cells[0]
    squares = bf * bf * bg * bg * rows[0, 0]
    for a in range(2):
        squares += wf[a] * bg * bg * rows[1 + a, 0] + bf * bf * wg[a] * rows[0, 1 + a]
        for b in range(2):
            squares += wf[a] * wg[b] * rows[1 + a, 1 + b]
    for q in range(len(table.rated)):
        c = table.rated[q]
        share, part, out = table.totals[c] / rows[0, 0], cells[1 + q], numbers[q, INTERACTION:]
        both = part[1:, 1:].sum() - share * rows[1:, 1:].sum()
        first, second = part[1:, 0].sum() - share * rows[1:, 0].sum(), part[0, 1:].sum() - share * rows[0, 1:].sum()
        out[0], out[1], out[2], out[3] = af * ag, af * bg, bf * ag, bf * bg
        out[4], out[5] = af * ag * both - af * bg * first - bf * ag * second, share
        for a in range(2):
            for b in range(2):
                out[6 + 2 * a + b] = wf[a] * wg[b]
            out[10 + a], out[12 + a] = bg * bg * wf[a], bf * bf * wg[a]
        out[14], out[15] = bf * bf * bg * bg, squares
        out[16], out[17] = 2 * least * share * (1 - share), 2 * least / 3
    return 1.5 * _sum_of_products(rows, af, bf, ag, bg)


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
