"""`kernel`, the decorator of all kernels: compiled without the GIL, cached on disk, with IEEE arithmetic.

`fastmath` stays off: without it LLVM neither reorders sums nor fuses multiply and add, so that a kernel gives the same
bits on every machine. "Same seed, same rules" depends on it.

numba's cache depends only on the file that defines a kernel. A kernel therefore calls only kernels of its own module;
otherwise an upgrade of the callee would leave stale machine code in the caller's cache.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` on first use; the machine code is cached next to its module, or in NUMBA_CACHE_DIR.

    Where neither of these nor the user's cache directory can be written, it is compiled in every process.
    """
    try:
        return _compiled(function, cache=True)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        return _compiled(function, cache=False)


def _compiled(function: F, *, cache: bool) -> F:
    return cast("F", numba.njit(nogil=True, cache=cache, error_model="numpy")(function))


def _count_bits(_context: Any, _word: Any) -> Any:
    def generate(_target: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return numba.types.uint64(numba.types.uint64), generate


# The bits that are set in a 64-bit word, as one instruction. Kernels of any module may use it: it never changes.
popcount: Any = intrinsic(_count_bits)
