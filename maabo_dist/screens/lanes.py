"""Vector code: bits of 16 features side by side.

Features are stored in lanes, one word of each of 16 features beside the others, so that one instruction works on all 16
and no sum has to be taken across a register:

    lanes[block, word, cut] = | feature 0 | feature 1 | … | feature 15 |        32 rows of each

The code is written as LLVM instructions, which the compiler turns into what the processor has.

The compiled kernels of other modules contain this code, and numba does not notice when it changes (see `jit`): delete
the cached kernels after a change here.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 16

I32, I64, F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()
INTS, FLOATS = ir.VectorType(I32, LANES), ir.VectorType(F32, LANES)

code: Any = cgutils

T = TypeVar("T", bound=np.generic)


def in_lanes(values: npt.NDArray[T]) -> npt.NDArray[T]:
    """(D, …) as (blocks, …, lanes); the features past the last are all 0."""
    padded = np.zeros((-(-len(values) // LANES) * LANES, *values.shape[1:]), values.dtype)
    padded[: len(values)] = values
    return np.ascontiguousarray(np.moveaxis(padded.reshape(-1, LANES, *values.shape[1:]), 1, -1))


def vector(function: Any) -> Any:
    """A function that is vector code; kernels call it without its first argument."""
    return intrinsic(function)


class Lanes:
    """Builds vector instructions."""

    def __init__(self, builder: Any) -> None:
        self.build = builder

    def load(self, address: Any, index: Any, kind: Any) -> Any:
        """The value at address[index], of a scalar or a vector type of 32 bits each."""
        size = 4 * LANES if isinstance(kind, ir.VectorType) else 4
        offset = I64(size * index) if isinstance(index, int) else self.build.mul(index, I64(size))
        return self.build.load(self.build.inttoptr(self.build.add(address, offset), kind.as_pointer()), align=4)

    def store(self, value: Any, address: Any, index: int) -> None:
        """Store a vector at address[index]."""
        pointer = self.build.inttoptr(self.build.add(address, I64(4 * LANES * index)), value.type.as_pointer())
        self.build.store(value, pointer, align=4)

    def fill(self, value: Any) -> Any:
        """A vector of one value."""
        vector = ir.VectorType(value.type, LANES)
        first = self.build.insert_element(ir.Constant(vector, ir.Undefined), value, I32(0))
        return self.build.shuffle_vector(first, ir.Constant(vector, ir.Undefined), ir.Constant(INTS, [0] * LANES))

    def zeros(self, kind: Any) -> Any:
        """A vector of zeros."""
        return ir.Constant(kind, [kind.element(0)] * LANES)

    def floats(self, address: Any, count: int) -> list[Any]:
        """The first vectors at an address."""
        return [self.load(address, i, FLOATS) for i in range(count)]

    def number(self, address: Any, index: Any) -> Any:
        """A vector of the number at address[index]."""
        return self.fill(self.load(address, index, F32))

    def call(self, name: str, *values: Any) -> Any:
        """Call a function of LLVM, whose result is of the type of its arguments."""
        kind = values[0].type
        function = code.get_or_insert_function(self.build.module, ir.FunctionType(kind, [kind] * len(values)), name)
        return self.build.call(function, values)

    def multiply_add(self, one: Any, other: Any, more: Any) -> Any:
        """One · other + more, in one instruction where the processor has it: only for bounds, not for results."""
        return self.call("llvm.fmuladd.v16f32", one, other, more)

    def magnitude(self, value: Any) -> Any:
        """Absolute values."""
        return self.call("llvm.fabs.v16f32", value)

    def negative(self, value: Any) -> Any:
        """Floats with the other sign."""
        return self.build.fneg(value)

    def larger(self, one: Any, other: Any) -> Any:
        """The larger of two floats in each lane."""
        return self.build.select(self.build.fcmp_ordered(">", one, other), one, other)

    def weigh(self, *terms: tuple[Any, Any]) -> Any:
        """The sum of products, for bounds."""
        halves = [terms[: len(terms) // 2], terms[len(terms) // 2 :]] if len(terms) > 3 else [terms]
        sums = []
        for (a, b), *others in halves:
            value = self.build.fmul(a, b)
            for one, other in others:
                value = self.multiply_add(one, other, value)
            sums.append(value)
        return self.total(sums)

    def total(self, values: list[Any]) -> Any:
        """The sum of floats, in pairs."""
        while len(values) > 1:
            values = [*map(self.build.fadd, values[::2], values[1::2]), *values[len(values) & ~1 :]]
        return values[0]

    def mask(self, bits: Any) -> Any:
        """One bit for each lane."""
        return self.build.zext(self.build.bitcast(bits, ir.IntType(LANES)), I64)

    def accumulators(self, count: int, kind: Any) -> list[Any]:
        """Variables that begin with zeros."""
        variables = [code.alloca_once(self.build, kind) for _ in range(count)]
        for variable in variables:
            self.build.store(self.zeros(kind), variable)
        return variables

    def add_to(self, variable: Any, value: Any) -> None:
        """Add a vector to a variable."""
        add = self.build.add if value.type == INTS else self.build.fadd
        self.build.store(add(self.build.load(variable), value), variable)

    def count(
        self, combinations: int, left: Callable[[Any, int], Any], block: Any, start: Any, stop: Any, counts: Any
    ) -> None:
        """Store, for each combination of `left` and each cut of a block of features, the rows that both have.

        `left(word, combination)` is a word of 32 rows; words start … stop − 1 are counted.
        """
        build, sums = self.build, self.accumulators(2 * combinations, INTS)
        with code.for_range_slice(build, start, stop, I64(1), I64) as (word, _):
            first = build.mul(word, I64(2))
            others = [self.load(block, build.add(first, I64(cut)), INTS) for cut in range(2)]
            for k in range(combinations):
                bits = self.fill(left(word, k))
                for cut in range(2):
                    self.add_to(sums[2 * k + cut], self.call("llvm.ctpop.v16i32", build.and_(bits, others[cut])))
        for k, variable in enumerate(sums):
            self.store(build.load(variable), counts, k)
