"""Random draws that are the same on every machine and under every version of NumPy: SplitMix64.

A stream is one 64-bit number. The stream of a step depends on the seed, the step and the purpose alone, so that a
search has no generator state to save: the observations and the number of steps taken are enough.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def stream(seed: int, step: int, purpose: int) -> int:
    """The stream for one purpose of one step of a search."""
    state = seed
    for part in (step, purpose):
        state = mix((state * GOLDEN + part + 1) & MASK)
    return state


def substream(of_stream: int, part: int, *, parts: int) -> int:
    """The stream for one of several parts of a step; a single part has the whole stream."""
    return of_stream if parts == 1 else stream(of_stream, part, 0)


def mix(value: int) -> int:
    """SplitMix64's finaliser."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def keys(start: int, count: int) -> npt.NDArray[np.uint64]:
    """The first `count` numbers of a stream."""
    values: Any = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN) + np.uint64(start)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: npt.NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return result
