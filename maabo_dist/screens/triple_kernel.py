"""Count and rate triples of features, 16 third features at a time.

For a pair of features, the four combinations of their cuts are ANDed once. They then stay in the cache while the third
features pass. These are stored in lanes.

Most triples are far too weak. Bounds that take a few operations on the counts remove them, all lanes at once: one of
boxes in 16-bit integers (`box_bound`), then one of boxes and their conditions, and one of interactions, in single
precision. The few triples that pass are counted again and rated exactly, in integers and double precision, so the
result does not depend on the bounds.

In single precision, no triple is removed that is strong enough. With u = 2⁻²⁴, N rows and K rows of a class:

    Boxes: n rows with d rows of the class beyond the expected n p have a strength of L or more if d (d − slope) ≥
    spread · n, see `box_bound`. Counts up to 2²⁴ are exact, n p is wrong by at most 2 u K, its difference to a count by
    u K more, and the difference of two of those by 2 u K more: 8 u K in all. The test is of d + 16 u K (`SLACK`), and
    if d ≥ slope, as it is in a strong box, the left side grows with d. Where the sign of a residual is within the
    slack, both signs are tried.

    Interactions: a size S and a sum of squares Q have a strength of L or more if S² ≥ s Q + t S, with
    s = 2 L p (1 − p) and t = 2 L/3; so S ≥ t. S is a sum of products of counts and of the scales of three features. The
    scales of a feature, with their signs removed, sum up to at most 3, and the products to 27 K. Each of up to 15
    roundings on the way adds at most 27 u K, so that S is wrong by less than e = 512 u K (`SLACK_OF_SUMS`). Likewise, Q
    is wrong by less than f = 512 u N. The test is S² > s Q + t' S with t' = t − 2 e − 2 s f/t. If e ≤ t/2, whatever S
    and Q are read as, the left side exceeds the right one: with S − e and Q + f, the difference is at least
    (S − e) (2 e + 2 s f/t) − 2 e S + e² + e t − s f ≥ 0, as S − e ≥ t/2. If e > t/2, all triples pass.

What remains are the roundings of the factors and of the comparison itself, some 15 u: L is lowered by a thousandth.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from maabo_dist._util.jit import kernel, popcount
from maabo_dist.screens.box_bound import (
    PARAMETERS,
    SIDES,
    bound_boxes_of_both,
    bound_boxes_of_class,
    prepare_boxes_of_both,
    prepare_boxes_of_class,
    store_pair_halves,
)
from maabo_dist.screens.lanes import FLOATS, I32, I64, INTS, LANES, Lanes, code, vector

# The combinations of the cuts of three features, and of two.
TRIPLE_COUNTS, PAIR_COUNTS = 8, 4
# Each of the conditions has to bear its part of a box's strength.
CONDITIONS = 3
# See above: for the roundings of the comparison, of the rows beyond the expectation, and of the sums of an interaction.
MARGIN, SLACK, SLACK_OF_SUMS = 0.999, 2.0**-20, 2.0**-15

# The numbers of a pair and a class that the tests need. For each side: the share of the class, the factors of the
# variance, the rows, and the class's rows beyond its share in the table. Then those of all rows and of the interaction.
SHARE, SPREAD, SLOPE, ROWS, BEYOND = range(0, 5 * SIDES, SIDES)
TABLE_SHARE, TABLE_SPREAD, TABLE_SLOPE, TABLE_SLACK = range(5 * SIDES, 5 * SIDES + 4)
INTERACTION = TABLE_SLACK + 1
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
    size = builder.fadd(lanes.magnitude(residual), lanes.number(numbers, TABLE_SLACK))
    fewer = builder.select(builder.fcmp_ordered("<", others, rows), others, rows)
    slope, spread = lanes.number(numbers, SLOPE + side), lanes.number(numbers, SPREAD + side)
    return builder.fcmp_ordered(">", builder.fmul(size, builder.fsub(size, slope)), builder.fmul(spread, fewer))


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
        zero, slack = ir.Constant(FLOATS, [0.0] * LANES), lanes.number(numbers, TABLE_SLACK)

        def is_strong(beyond: Any, rows: Any) -> Any:
            beyond = builder.fadd(builder.select(builder.fcmp_ordered(">", beyond, zero), beyond, zero), slack)
            return builder.fcmp_ordered(">", times(beyond, minus(beyond, slope)), times(spread, rows))

        def test(side: int, rows: Any, others: Any, own: Any, residual: Any) -> Any:
            # Where the condition has more rows of the class than expected, its opposite has more of the others.
            above = minus(own, times(share, rows))
            below = minus(lanes.number(numbers, BEYOND + side), above)
            more = builder.fcmp_ordered(">", residual, zero)
            is_sure = builder.fcmp_ordered(">", lanes.magnitude(residual), slack)
            signed = builder.select(more, above, minus(zero, above)), builder.select(more, minus(zero, below), below)
            above, below = (
                builder.select(is_sure, one, lanes.magnitude(two))
                for one, two in zip(signed, (above, below), strict=True)
            )
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
def _store_floats(_context: Any, _counts: Any, _target: Any) -> Any:
    """Store the counts of pairs as floats."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        lanes = Lanes(builder)
        for k in range(PAIR_COUNTS):
            lanes.store(builder.sitofp(lanes.load(values[0], k, INTS), FLOATS), values[1], k)
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 2), generate


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
    thirds, skipped = len(table.lanes), scratch.skipped
    for g in range(start, stop):
        _fill_pairs(
            table, scratch, g, (g + 1) // LANES, scratch.second, scratch.second_halves, g - start, (g - start) % 2
        )
    _set_least(table, scratch, floors, heaps)
    skipped[:] = True
    for f in range(stop - 1):
        first = max(start, f + 1)
        _fill_pairs(table, scratch, f, first // LANES, scratch.first, scratch.first_halves, 0, 2)
        skipped[: first - start] = True
        _prepare_pairs(table, scratch, f, start, stop)
        for block in range((first + 1) // LANES, thirds):
            places = (first - start) // 2 * 2, min(stop, LANES * (block + 1) - 1) - start
            _screen_block(table, scratch, f, start, places, block, floors, heaps)


@kernel
def _screen_block(
    table: Any, scratch: Any, f: int, start: int, places: tuple[int, int], block: int, floors: Any, heaps: Any
) -> None:
    """Count a first feature with second ones, two at a time, and 16 third ones; rate those that may be strong.

    Tests get addresses, since views of arrays would take longer than the counting.
    """
    classes, rated, words = len(table.totals), len(table.rated), table.words.shape[1]
    third, lefts = table.lanes.ctypes.data + 4 * 2 * LANES * block * words, scratch.left.ctypes.data
    size, pair = 4 * TRIPLE_COUNTS * LANES, 4 * PAIR_COUNTS * LANES
    counts, total, at = scratch.counts.ctypes.data, scratch.total.ctypes.data, scratch.addresses
    one = scratch.first.ctypes.data + pair * (1 + rated) * block
    single = table.singles.ctypes.data + pair // 2 * (1 + rated) * block
    seconds = scratch.second.ctypes.data + pair * (1 + rated) * scratch.second.shape[1] * block
    one_halves = scratch.first_halves.ctypes.data + size * rated * block
    single_halves = table.single_halves.ctypes.data + size // 2 * rated * block
    second_halves = scratch.second_halves.ctypes.data + size * rated * scratch.second_halves.shape[1] * block
    all_numbers, box_numbers = scratch.numbers.ctypes.data, scratch.box_numbers.ctypes.data
    to = scratch.bound_inputs
    all_pass = SLACK_OF_SUMS * table.totals.max() > scratch.least[rated] / 3
    at[SCALES] = table.lane_scales.ctypes.data + 4 * 4 * LANES * block
    for place in range(places[0], places[1], 2):
        if scratch.skipped[place] and scratch.skipped[place + 1]:
            continue
        for half in range(2):
            left, own = lefts + 4 * 4 * words * (place + half), counts + size * classes * half
            for c in range(classes):
                count_triples(left, third, 2 * table.starts[c], 2 * table.starts[c + 1], own + size * c)
            _add_classes(own, classes, total + size * half)
        found = np.int64(0)
        for q in range(rated):
            own, pairs = counts + size * table.rated[q], rated * (place // 2) + q
            to[0], to[1], to[2], to[3] = table.shares[q], table.bits_of_scale, own, own + size * classes
            to[4], to[5], to[6], to[7] = total, total + size, one_halves + size * q, second_halves + size * pairs
            to[8], to[9] = single_halves + size // 2 * q, box_numbers + 4 * 4 * SIDES * pairs
            boxes = _bound_boxes(to, classes == 2)
            for half in range(2):
                at[0], at[4] = total + size * half, counts + size * (classes * half + table.rated[q])
                at[1], at[5] = one, one + pair * (1 + q)
                at[2] = seconds + pair * (1 + rated) * (place + half)
                at[6] = at[2] + pair * (1 + q)
                at[3], at[7] = single, single + pair // 2 * (1 + q)
                at[NUMBERS] = all_numbers + 4 * PAIR_NUMBERS * (rated * (place + half) + q)
                lanes = np.int64((1 << LANES) - 1) if all_pass else _test_interactions(at.ctypes.data)
                if boxes & (0x55555555 << half):
                    _fill_sides(
                        scratch.sides[place + half],
                        q,
                        scratch.parameters[q],
                        classes == 2,
                        scratch.numbers[place + half, q],
                    )
                    lanes |= _test_conjunctions(at.ctypes.data)
                found |= 0 if scratch.skipped[place + half] else lanes << (LANES * half)
        if found:
            _rate_lanes(table, scratch, f, start + place, block, found, floors, heaps)


@kernel
def _bound_boxes(inputs: Any, both: bool) -> Any:
    """The halves of lanes where some box may be strong among all rows: all of them, if the rows are too many."""
    if inputs[1] < 0:
        return np.int64(0xFFFFFFFF)
    return bound_boxes_of_both(inputs.ctypes.data) if both else bound_boxes_of_class(inputs.ctypes.data)


@kernel
def _rate_lanes(table: Any, scratch: Any, f: int, g: int, block: int, lanes: Any, floors: Any, heaps: Any) -> None:
    """Rate the triples of some lanes, of two second features from g on, and put the strong ones into the heaps."""
    for lane in range(2 * LANES):
        second, h = g + lane // LANES, LANES * block + lane % LANES
        if (lanes >> lane) & 1 and second < h < len(table.words):
            rate(table, f, second, h, scratch.grid, scratch.boxes, scratch.strengths)
            for kind in range(len(floors)):
                _offer(heaps, kind, floors[kind], scratch.strengths[kind], f, second, h)
    _set_least(table, scratch, floors, heaps)


@kernel
def _set_least(table: Any, scratch: Any, floors: Any, heaps: Any) -> None:
    """Set the strengths that a triple must have now, for each rated class and for the interaction; see `box_bound`."""
    rated, classes, least, rows = len(table.rated), len(table.totals), scratch.least, table.totals.sum()
    least[rated] = MARGIN * _weakest(floors, heaps, classes)
    for q in range(rated):
        least[q] = MARGIN * _weakest(floors, heaps, table.rated[q])
        share = table.totals[table.rated[q]] / max(1, rows)
        rest, least_d = 1 - share, 2 * (share + (1 - share) / 3)
        if classes == 2:  # the second of two classes is rated for both
            least[q] = min(least[q], np.float32(MARGIN * _weakest(floors, heaps, 0)))
            rest, least_d = min(share, rest), min(least_d, 2 * (rest + share / 3))
        value = float(least[q])
        slope, spread, least_d = value * 2 * rest / 3, value * 2 * share * (1 - share), value * least_d
        least_n = least_d * (least_d - slope) / spread if spread > 0 else 0.0
        numbers = scratch.parameters[q]
        numbers[0], numbers[1], numbers[2], numbers[3], numbers[4] = share, slope, spread, least_d, least_n
        numbers[5], numbers[6] = value, 1 << max(0, table.bits_of_scale)


@kernel
def _weakest(floors: Any, heaps: Any, kind: int) -> float:
    return float(heaps.strengths[kind, 0] if heaps.counts[kind] == heaps.strengths.shape[1] else floors[kind])


@kernel
def _fill_pairs(
    table: Any, scratch: Any, feature: int, first: int, pairs: Any, halves: Any, place: int, half: int
) -> None:
    """Count a feature with blocks of others from `first` on: rows of all classes, then those of each rated class."""
    words, rated, size = table.words.shape[1], len(table.rated), 4 * TRIPLE_COUNTS * LANES
    left, bits = table.words.ctypes.data + 8 * feature * words, table.bits_of_scale
    counts, total = scratch.counts.ctypes.data, scratch.total.ctypes.data
    for block in range(first, len(table.lanes)):
        third = table.lanes.ctypes.data + 8 * LANES * block * words
        for c in range(len(table.totals)):
            _count_pairs(left, third, 2 * table.starts[c], 2 * table.starts[c + 1], counts + size * c)
        _add_classes(counts, len(table.totals), total)
        target = pairs.ctypes.data + size // 2 * (1 + rated) * (pairs.shape[1] * block + place)
        target_halves = halves.ctypes.data + size * rated * (halves.shape[1] * block + place // 2)
        _store_floats(total, target)
        for q in range(rated):
            own = counts + size * table.rated[q]
            _store_floats(own, target + size // 2 * (1 + q))
            if bits >= 0:
                store_pair_halves(own, total, table.shares[q], bits, target_halves + size * q, half)


@kernel
def _prepare_pairs(table: Any, scratch: Any, f: int, start: int, stop: int) -> None:
    """AND the cuts of a feature and of later ones, and compute what the bounds need.

    Pairs are skipped if no triple of theirs can be strong.
    """
    rated, classes, rows, cells = len(table.rated), len(table.totals), table.totals.sum(), scratch.cells
    row = 4 * SIDES
    all_sides, all_numbers = scratch.sides.ctypes.data, scratch.box_numbers.ctypes.data
    parameters = scratch.parameters.ctypes.data
    for g in range(max(start, f + 1), stop):
        place = g - start
        _and_cuts(table.words, f, g, scratch.left, place)
        for q in range(1 + rated):
            _fill_cells(
                table.singles, scratch.first, f, g, q, rows if q == 0 else table.totals[table.rated[q - 1]], cells
            )
            _count_sides(cells, q, scratch.sides, place)
        least = scratch.least[rated]
        useful = _fill_interaction(table, f, g, cells, least, scratch.numbers, place) >= least
        for q in range(rated):
            sides, numbers = all_sides + row * (1 + rated) * place, all_numbers + 4 * row * (rated * (place // 2) + q)
            own, of_class = sides + row * (1 + q), parameters + 4 * PARAMETERS * q
            if classes == 2:
                useful |= prepare_boxes_of_both(sides, own, of_class, numbers, place % 2) != 0
            else:
                useful |= prepare_boxes_of_class(sides, own, of_class, numbers, place % 2) != 0
        scratch.skipped[place] = not useful


@kernel
def _and_cuts(words: Any, f: int, g: int, left: Any, place: int) -> None:
    for word in range(words.shape[1]):
        for a in range(2):
            for b in range(2):
                left[place, word, 2 * a + b] = words[f, word, a] & words[g, word, b]


@kernel
def _fill_cells(singles: Any, pairs: Any, f: int, g: int, q: int, rows: int, cells: Any) -> None:
    """(3, 3): the rows above the cuts of two features, where 0 is all rows; of all classes (0) or a rated one."""
    one, two, f, g = f // LANES, g // LANES, f % LANES, g % LANES
    cells[q, 0, 0] = rows
    for a in range(2):
        cells[q, 1 + a, 0], cells[q, 0, 1 + a] = singles[one, q, a, f], singles[two, q, a, g]
        for b in range(2):
            cells[q, 1 + a, 1 + b] = pairs[two, 0, q, 2 * a + b, g]


@kernel
def _count_sides(cells: Any, q: int, sides: Any, place: int) -> None:
    """The rows on each side of two features, of the rows above their cuts."""
    for a in range(2):
        for b in range(2):
            above, both = cells[q, 1 + a, 0], cells[q, 1 + a, 1 + b]
            other, rest = cells[q, 0, 1 + b] - both, cells[q, 0, 0] - above
            sides[place, q, 4 * a + b], sides[place, q, 4 * a + 2 + b] = both, above - both
            sides[place, q, 8 + 4 * a + b], sides[place, q, 8 + 4 * a + 2 + b] = other, rest - other


@kernel
def _fill_sides(sides: Any, q: int, parameters: Any, both: bool, numbers: Any) -> None:
    """Fill in what the test of conjunctions needs."""
    one, p, least = np.float32(1), parameters[0], parameters[5]
    numbers[TABLE_SHARE], numbers[TABLE_SLOPE], numbers[TABLE_SPREAD] = p, parameters[1], parameters[2]
    part = least * np.float32(2 / CONDITIONS)
    # Four of the sides have all rows of the class.
    numbers[TABLE_SLACK] = np.float32(SLACK) * (sides[1 + q, 0] + sides[1 + q, 2] + sides[1 + q, 8] + sides[1 + q, 10])
    for side in range(SIDES):
        rows, own = sides[0, side], sides[1 + q, side]
        share = own / max(rows, one)
        rest = min(share, one - share) if both else one - share  # of two classes, whichever a condition is about
        numbers[SHARE + side] = share
        numbers[SPREAD + side] = part * share * (one - share)
        numbers[SLOPE + side] = part * rest * np.float32(1 / 3)
        numbers[ROWS + side] = rows
        numbers[BEYOND + side] = own - p * rows


@kernel
def _fill_interaction(table: Any, f: int, g: int, cells: Any, least: float, numbers: Any, place: int) -> float:
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
        numbers[place, q, k], numbers[place, q, k + 1], numbers[place, q, k + 2], numbers[place, q, k + 3] = (
            af * ag,
            af * bg,
            bf * ag,
            bf * bg,
        )
        numbers[place, q, k + 4], numbers[place, q, k + 5] = af * ag * both - af * bg * first - bf * ag * second, share
        for a in range(2):
            for b in range(2):
                numbers[place, q, k + 6 + 2 * a + b] = s[f, 2 + a] * s[g, 2 + b]
            numbers[place, q, k + 10 + a], numbers[place, q, k + 12 + a] = bg * bg * s[f, 2 + a], bf * bf * s[g, 2 + a]
        numbers[place, q, k + 14], numbers[place, q, k + 15] = bf * bf * bg * bg, squares
        spread, slope = 2 * least * share * (1 - share), 2 * least / 3
        slack = 2 * SLACK_OF_SUMS * rows * (share + (spread / slope if slope > 0 else 0.0))
        numbers[place, q, k + 16], numbers[place, q, k + 17] = spread, slope - slack
    return 1.5 * _sum_of_products(cells, af, bf, ag, bg)


@kernel
def _sum_of_products(cells: Any, af: float, bf: float, ag: float, bg: float) -> float:
    """The sum of the magnitudes of the products of two centred features."""
    total = 0.0
    for a in range(3):
        for b in range(3):
            cell = cells[0, a, b]
            if a < 2:
                cell -= cells[0, a + 1, b]
            if b < 2:
                cell -= cells[0, a, b + 1]
            if a < 2 and b < 2:
                cell += cells[0, a + 1, b + 1]
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
