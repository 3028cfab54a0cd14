"""Arrays of very wide tables: in files on disk that are mapped, so that memory holds only the columns in use.

The operating system reads a mapped array as it is used and may drop it at any time. A pass over all of it, block by
block, releases each block behind itself; a search then keeps in memory only the columns that it tries.

The files have no names. They need no clean-up: each is gone when nothing refers to its array, however the process ends.
"""

import mmap
import os
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from math import prod
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from maabo_dist.errors import DatasetError

Array = npt.NDArray[Any]

# A table of this many cells takes more than a gigabyte with all of its columns in memory.
LARGE_CELLS = 1 << 26
# A pass over a mapped array has about as much of it in memory.
BLOCK_BYTES = 1 << 24
# The operating system reads some pages around each that is used: up to 64 kB for a column.
FEW_COLUMNS = 256
# For large temporary files; on many systems, /tmp is in memory.
DIRECTORY = "/var/tmp"  # noqa: S108 - the files have no names that others could guess  # nosec B108
_SUPPORTED = hasattr(os, "posix_fallocate") and hasattr(mmap, "MADV_DONTNEED")


def is_large(features: int, rows: int) -> bool:
    """True if a table has so many columns that most of them are better kept on disk."""
    return _SUPPORTED and features > rows and features * rows >= LARGE_CELLS


def empty(shape: tuple[int, ...], dtype: npt.DTypeLike, *, on_disk: bool) -> Array:
    """Return an array to be filled, in memory or on disk."""
    size = prod(shape) * np.dtype(dtype).itemsize
    if not on_disk or not size:
        return np.empty(shape, dtype)
    with _open_file() as file, _explain_errors():
        # Reserved at once: a write to a mapped file on a full disk would end the process.
        os.posix_fallocate(file.fileno(), 0, size)
        return _map(file, shape, np.dtype(dtype))


def copy(array: Array, *, on_disk: bool) -> Array:
    """Return a copy of an array, in memory or on disk."""
    copied = empty(array.shape, array.dtype, on_disk=on_disk)
    for block in each_block(array, copied):
        copied[block] = array[block]
    return copied


class ArrayBuilder:
    """Joins blocks along their first axis, in memory or on disk; the dtype is one that holds all of them."""

    def __init__(self, *, on_disk: bool) -> None:
        self._file = _open_file() if on_disk else None
        self._blocks: deque[Array] = deque()
        # Of what is in the file.
        self._shape: tuple[int, ...] = (0,)
        self._dtype: np.dtype[Any] | None = None

    def add(self, block: Array) -> None:
        """Add a block."""
        if self._file is None:
            self._blocks.append(block)
            return
        if self._dtype is not None and (wider := np.result_type(self._dtype, block.dtype)) != self._dtype:
            self._convert(wider)
        self._dtype = self._dtype or block.dtype
        with _explain_errors():
            self._file.write(np.ascontiguousarray(block, self._dtype).data)
        self._shape = (self._shape[0] + len(block), *block.shape[1:])

    def finish(self) -> Array:
        """Return the array of all blocks; nothing can be added to it."""
        if self._file is not None:
            with self._file, _explain_errors():
                self._file.flush()
                return _map(self._file, self._shape, self._dtype or np.dtype(np.uint8))
        if len(self._blocks) == 1:
            return self._blocks.pop()
        rows, width = sum(len(block) for block in self._blocks), self._blocks[0].shape[1:]
        array, start = np.empty((rows, *width), np.result_type(*self._blocks)), 0
        while self._blocks:  # each is dropped when it is copied; memory that nothing was written to is not in use yet
            block = self._blocks.popleft()
            array[start : start + len(block)] = block
            start += len(block)
        return array

    def _convert(self, dtype: np.dtype[Any]) -> None:
        """Write the file anew with a wider dtype."""
        stored, self._file, self._dtype, self._shape = self.finish(), _open_file(), dtype, (0,)
        for block in each_block(stored):
            self.add(stored[block])


def each_block(*arrays: Array) -> Iterator[slice]:
    """Yield slices of the first axis of the first array, and release the memory of all arrays behind each."""
    first = arrays[0]
    length = max(1, BLOCK_BYTES * len(first) // max(1, first.nbytes))
    for start in range(0, len(first), length):
        yield slice(start, min(start + length, len(first)))
        if length < len(first):
            release(*arrays)


def each_of(indices: Iterable[int], *arrays: Array) -> Iterator[int]:
    """Yield these indices, and release the memory of the arrays behind every few of them."""
    for number, index in enumerate(indices, start=1):
        yield index
        if number % FEW_COLUMNS == 0:
            release(*arrays)


def release(*arrays: Array) -> None:
    """Release the memory of arrays that are mapped; they are read again when they are used.

    What was written to an array of `empty` stays. An array of `arrayfile.read` must not have been written to.
    """
    for array in arrays:
        base: object = array
        while isinstance(base, np.ndarray | memoryview):
            base = base.base if isinstance(base, np.ndarray) else base.obj
        if isinstance(base, mmap.mmap):
            base.madvise(mmap.MADV_DONTNEED)


def _directory() -> str:
    named = os.environ.get("TMPDIR")
    return named or (DIRECTORY if os.access(DIRECTORY, os.W_OK) else tempfile.gettempdir())


def _open_file() -> IO[bytes]:
    with _explain_errors():
        return tempfile.TemporaryFile(dir=_directory())


def _map(file: IO[bytes], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Map the file; the map remains when the file is closed."""
    if not prod(shape):
        return np.empty(shape, dtype)
    return np.frombuffer(mmap.mmap(file.fileno(), 0), dtype).reshape(shape)


@contextmanager
def _explain_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DatasetError(
            f"The table is kept on disk while it is mined, and cannot be written to {_directory()}: {error.strerror}. "
            "Set TMPDIR to a directory on a disk with enough space: some 20 bytes for each cell of the table."
        ) from error
