"""A bound of the boxes of triples in 16-bit integers: two second features and 16 third ones at a time.

A box has n rows and d rows of a class beyond those expected, n p. With a strength of L or more,

    d² ≥ spread · n + slope · d,    spread = 2 L p (1 − p),    slope = 2 L (1 − p)/3,

so d is at least φ(n), the larger solution. And d ≥ d* = 2 L (p + (1 − p)/3), since a box has no more rows of the class
than rows. φ is concave: between n*, where it is d*, and the N rows of a side of the first two features, it is nowhere
below the straight line from (n*, d*) to (N, φ(N)), and where n < n*, the line is below d*. A box that is strong is
therefore above the line α + β n of its side. That takes a few operations on integers, and no division.

The counts are scaled by a power of two to at most 2¹⁵. A register holds 32 of them: those of one second feature in the
lower half of each lane, and those of the next one in the upper half. The rounding of the integers is at most a few
units, by which the lines are lowered: see `_ROUNDING`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types

from maabo_dist.screens.lanes import F32, FLOATS, I32, I64, INTS, LANES, Lanes, code, vector

# Sides of two features: each above or not above one of its two cuts.
SIDES = 16
# Tables with more rows are not tested: there, counting takes much longer than any test.
MAX_ROWS = 2**15 - 1
# What the bound needs of a pair and a class, for each side: the rows of the class beyond the expectation, β as a share
# of 2¹⁶, α, and α + β N.
NUMBERS = 4
# What the bound reads: the share of the class, the bits that counts are scaled by, and addresses: of the counts of the
# class for two second features, of those of all rows for both, of those of the first and third feature, of the second
# and third, and of the third, and of the numbers.
INPUTS = 10
# The numbers of a class: its share, the slope and the spread of φ, d*, n*, the strength, and the scale of the counts.
PARAMETERS = 7

_I16 = ir.IntType(16)
_HALVES = ir.VectorType(_I16, 2 * LANES)
# Scaled, d is own − ⌊n p⌋, where p is a multiple of 2⁻¹⁶: too large by −¼ to 1¼. That of a side is one of those, or the
# difference of two, or of two differences.
_ROUNDING = [(1.25, 1.5, 3.0)[(side >= 8) + (side % 4 >= 2)] for side in range(SIDES)]
# That of β n, of the numbers of a side, and of single precision.
_ROUNDING_OF_LINE, _ROUNDING_OF_OPPOSITE = 0.25, 2.5
# More than any scaled d, which is at most 2¹³. β is at most 0.26, so that no sum exceeds 16 bits.
_UNREACHABLE = 16000.0


def scale_bits(rows: int) -> int:
    """The power of two that counts are scaled by; −1 if the rows are too many."""
    return (MAX_ROWS // max(1, rows)).bit_length() - 1 if rows <= MAX_ROWS else -1


def share_of_words(part: int, rows: int) -> int:
    """A share as a multiple of 2⁻¹⁶."""
    return min(2**16 - 1, round(2**16 * part / max(1, rows)))


def in_both_halves(own: npt.NDArray[np.int64], whole: npt.NDArray[np.int64], share: int, bits: int) -> Any:
    """(2, …): the counts, and those of the class beyond the expectation, scaled, in both halves of words."""
    rows = whole << max(0, bits)
    beyond = (own << max(0, bits)) - (rows * share >> 16)
    values = np.stack([rows, beyond]).astype(np.uint16).astype(np.uint32)
    return (values | values << 16).view(np.int32)


def _integers(value: int) -> Any:
    return ir.Constant(INTS, [I32(value)] * LANES)


def _constants(values: list[float]) -> Any:
    return ir.Constant(FLOATS, [F32(value) for value in values])


def _store_half(lanes: Lanes, values: list[Any], address: Any, half: Any) -> None:
    """Store words in the lower halves (0), add them in the upper halves (1), or store them in both (2)."""
    build = lanes.build
    low, high = (build.icmp_signed("!=", half, I64(other)) for other in (1, 0))
    nothing = I32(0)
    factor = build.or_(build.select(low, I32(1), nothing), build.select(high, I32(1 << 16), nothing))
    kept = lanes.fill(build.select(low, nothing, I32(0xFFFF)))
    for index, value in enumerate(values):
        word = build.mul(build.and_(value, _integers(0xFFFF)), lanes.fill(factor))
        lanes.store(build.or_(build.and_(lanes.load(address, index, INTS), kept), word), address, index)


@vector
def store_pair_halves(_context: Any, _own: Any, _whole: Any, _share: Any, _bits: Any, _target: Any, _half: Any) -> Any:
    """(2, 4, lanes): the counts of pairs, and those of the class beyond the expectation, scaled, in half words."""

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        lanes = Lanes(builder)
        own, whole, share, bits, target, half = values
        shift, factor = (lanes.fill(builder.trunc(value, I32)) for value in (bits, share))
        rows = [builder.shl(lanes.load(whole, k, INTS), shift) for k in range(4)]
        parts = [builder.shl(lanes.load(own, k, INTS), shift) for k in range(4)]
        expected = [builder.lshr(builder.mul(row, factor), _integers(16)) for row in rows]
        _store_half(lanes, [*rows, *map(builder.sub, parts, expected)], target, half)
        return context.get_dummy_value()

    return types.void(*(types.int64,) * 6), generate


def _prepare_boxes(both: bool) -> Any:
    """Vector code that fills in the numbers of all sides of a pair, in half words.

    It returns the sides, as bits, where some third feature could reach the strength. With `both`, boxes with fewer
    rows of the class than expected count as well: they are strong for the other of two classes.
    """

    def prepare(_context: Any, _rows: Any, _own: Any, _parameters: Any, _target: Any, _half: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            lanes = Lanes(builder)
            rows, own = (lanes.load(address, 0, FLOATS) for address in values[:2])
            share, slope, spread, least_d, least_n, least, scale = (
                lanes.number(values[2], k) for k in range(PARAMETERS)
            )
            _store_half(
                lanes, _side_numbers(lanes, rows, own, (share, slope, spread, least_d, least_n, scale)), *values[3:]
            )
            return lanes.mask(builder.fcmp_unordered(">=", _reach(lanes, rows, own, share, both), least))

        return types.int64(*(types.int64,) * 5), generate

    return vector(prepare)


def _side_numbers(lanes: Lanes, rows: Any, own: Any, parameters: Any) -> list[Any]:
    """See `NUMBERS`."""
    build = lanes.build
    share, slope, spread, least_d, least_n, scale = parameters
    plus, minus, times = build.fadd, build.fsub, build.fmul

    def same(value: float) -> Any:
        return _constants([value] * LANES)

    def whole(value: Any, most: float) -> Any:
        """Round down, at least −64 and at most `most`."""
        value = build.select(build.fcmp_unordered(">", value, same(most)), same(most), value)
        value = lanes.larger(value, same(-64.0))
        return build.sub(build.fptosi(plus(value, same(64.0)), INTS), _integers(64))

    root = lanes.call("llvm.sqrt.v16f32", plus(times(slope, slope), times(times(same(4.0), spread), rows)))
    line = times(same(0.5), plus(slope, root))
    beyond_least = minus(rows, least_n)
    # Where N is hardly more than n*, the line is flat: the quotient would not be exact enough.
    steep = build.fcmp_ordered(">", beyond_least, plus(times(same(1 / 16), least_n), same(1.0)))
    rise = build.fdiv(minus(line, least_d), build.select(steep, beyond_least, same(1.0)))
    rise = build.select(steep, lanes.larger(rise, same(0.0)), same(0.0))
    start = minus(least_d, times(rise, least_n))
    end = plus(start, times(rise, rows))
    rounding = _constants(_ROUNDING)
    beyond = times(scale, minus(own, times(share, rows)))
    return [
        build.sub(build.fptosi(plus(beyond, same(16384.5)), INTS), _integers(16384)),
        build.fptosi(times(rise, same(65536.0)), INTS),
        whole(minus(minus(times(scale, start), rounding), same(_ROUNDING_OF_LINE)), _UNREACHABLE),
        whole(minus(minus(times(scale, end), rounding), same(_ROUNDING_OF_OPPOSITE)), _UNREACHABLE),
    ]


def _reach(lanes: Lanes, rows: Any, own: Any, share: Any, both: bool) -> Any:
    """The most that a part of each side could reach: with all its rows of the class and no others."""
    build = lanes.build
    minus, times = build.fsub, build.fmul
    one = _constants([1.0] * LANES)

    def most(share: Any) -> Any:
        """The most that a row of a class can add to a strength among rows with this share of the class."""
        rest = minus(one, share)
        third = times(rest, _constants([1 / 3] * LANES))
        return build.fdiv(times(rest, _constants([0.5] * LANES)), build.fadd(share, third))

    def smaller(a: Any, b: Any) -> Any:
        return build.select(build.fcmp_ordered("<", a, b), a, b)

    def reach(own: Any, among_all: Any, among_side: Any) -> Any:
        return times(own, smaller(most(among_all), times(most(among_side), _constants([3.0] * LANES))))

    of_side = build.fdiv(own, lanes.larger(rows, one))
    value = reach(own, share, of_side)
    if both:
        value = lanes.larger(value, reach(minus(rows, own), minus(one, share), minus(one, of_side)))
    return times(value, _constants([1.0001] * LANES))


prepare_boxes_of_class, prepare_boxes_of_both = _prepare_boxes(both=False), _prepare_boxes(both=True)


class _Halves(Lanes):
    """Builds instructions on half words."""

    def words(self, address: Any, count: int) -> list[Any]:
        return [self.build.bitcast(self.load(address, k, INTS), _HALVES) for k in range(count)]

    def number(self, address: Any, index: Any) -> Any:
        return self.build.bitcast(self.fill(self.load(address, index, I32)), _HALVES)

    def join(self, low: Any, high: Any, bits: Any) -> Any:
        """The counts of two features, scaled."""
        build = self.build
        upper = build.shl(high, build.add(bits, _integers(16)))
        return build.bitcast(build.or_(build.shl(low, bits), upper), _HALVES)

    def part(self, value: Any, share: Any) -> Any:
        """⌊value · share/2¹⁶⌋, both without a sign."""
        build, wide = self.build, ir.VectorType(I32, 2 * LANES)
        product = build.mul(build.zext(value, wide), build.zext(share, wide))
        return build.trunc(build.lshr(product, ir.Constant(wide, [I32(16)] * (2 * LANES))), _HALVES)

    def size(self, value: Any) -> Any:
        kind = ir.FunctionType(_HALVES, [_HALVES, ir.IntType(1)])
        function = code.get_or_insert_function(self.build.module, kind, "llvm.abs.v32i16")
        return self.build.call(function, [value, ir.IntType(1)(0)])

    def larger(self, one: Any, other: Any) -> Any:
        return self.build.select(self.build.icmp_signed(">", one, other), one, other)


def _sides(lanes: _Halves, counts: list[list[Any]], row: int) -> list[tuple[Any, Any]]:
    """The counts of four sides of two features, of one side of the first, above both cuts of the third."""
    triple, first, second, third = counts
    minus, a = lanes.build.sub, row % 2
    out = []
    for cut in range(2):
        own = [first[2 * a + cut], triple[4 * a + cut], triple[4 * a + 2 + cut]]
        if row >= 2:
            own = [*map(minus, [third[cut], second[cut], second[2 + cut]], own)]
        out.append((own[1], own[2], minus(own[0], own[1]), minus(own[0], own[2])))
    return [*zip(*out, strict=True)]


def _bound_boxes(both: bool) -> Any:
    """Vector code for the halves of lanes, as bits, where some box may be strong among all rows.

    `both` is that of `_prepare_boxes`.
    """

    def bound(_context: Any, _inputs: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, values: Any) -> Any:
            pointer = builder.inttoptr(values[0], I64.as_pointer())
            values = [builder.load(builder.gep(pointer, [I32(k)])) for k in range(INPUTS)]
            lanes = _Halves(builder)
            size: Callable[[Any], Any] = lanes.size if both else lambda value: value
            best = _test_boxes(lanes, *_load_counts(lanes, values[:9]), values[9], size)
            passed = builder.icmp_signed(">", best, ir.Constant(_HALVES, [_I16(0)] * (2 * LANES)))
            return builder.zext(builder.bitcast(passed, I32), I64)

        return types.int64(types.int64), generate

    return vector(bound)


def _load_counts(lanes: _Halves, values: Any) -> tuple[list[list[Any]], list[list[Any]]]:
    """The rows, and those of the class beyond the expectation.

    Each of the triple, of the first and third feature, of the second and third, and of the third.
    """
    build = lanes.build
    share, bits, own, next_own, whole, next_whole, first, second, third = values
    bits = lanes.fill(build.trunc(bits, I32))
    share = build.bitcast(lanes.fill(build.mul(build.trunc(share, I32), I32(0x10001))), _HALVES)

    def join(low: Any, high: Any) -> list[Any]:
        return [lanes.join(lanes.load(low, k, INTS), lanes.load(high, k, INTS), bits) for k in range(8)]

    rows = join(whole, next_whole)
    beyond = [build.sub(part, lanes.part(row, share)) for part, row in zip(join(own, next_own), rows, strict=True)]
    pairs = [lanes.words(address, 2 * count) for address, count in ((first, 4), (second, 4), (third, 2))]
    return [rows, *(words[: len(words) // 2] for words in pairs)], [
        beyond,
        *(words[len(words) // 2 :] for words in pairs),
    ]


def _test_boxes(
    lanes: _Halves, rows: list[list[Any]], beyond: list[list[Any]], numbers: Any, size: Callable[[Any], Any]
) -> Any:
    """More than 0 where a box is above the line of its side."""
    build = lanes.build
    best: list[Any] = []
    for row in range(4):
        sides = zip(_sides(lanes, rows, row), _sides(lanes, beyond, row), strict=True)
        for side, (counts, excesses) in enumerate(sides, start=4 * row):
            of_side, rise, start, end = (lanes.number(numbers, SIDES * k + side) for k in range(NUMBERS))
            rises = [lanes.part(n, rise) for n in counts]
            above = [build.sub(size(d), line) for d, line in zip(excesses, rises, strict=True)]
            below = [build.add(size(build.sub(of_side, d)), line) for d, line in zip(excesses, rises, strict=True)]
            values = [build.sub(lanes.larger(*above), start), build.sub(lanes.larger(*below), end)]
            best = [lanes.larger(*pair) for pair in zip(best, values, strict=True)] if best else values
    return lanes.larger(*best)


bound_boxes_of_class, bound_boxes_of_both = _bound_boxes(both=False), _bound_boxes(both=True)
