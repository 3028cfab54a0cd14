"""Hashes of rows by what is in them: the same wherever a row is stored, and whatever other rows there are.

A row's hash depends on the values of its cells and on nothing else: not on the file, the position in it, or the rows
before. `RowNumbers` tells identical rows apart: it counts how often each hash has come. The numbers of identical rows
are 1, 2, … in any order of the files.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from maabo_dist._util import draws
from maabo_dist._util.jit import kernel

Hashes = npt.NDArray[np.uint64]

# The hash of a missing cell.
_MISSING = 0x5851F42D4C957F2D


def hash_rows(cells: pa.RecordBatch) -> Hashes:
    """(rows): the hashes of the rows; columns are distinguished by their order in the batch."""
    hashes = np.zeros(cells.num_rows, np.uint64)
    for number, column in enumerate(cells.columns):
        salt = np.uint64(draws.stream(number, 0, 0))
        if pa.types.is_dictionary(column.type):
            missing = np.uint64(_MISSING)
            values = np.append(_hash_texts(column.dictionary), missing)
            codes = column.indices.fill_null(len(column.dictionary)).to_numpy(zero_copy_only=False)
            _add_cells(hashes, values[codes], salt)
        elif pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
            values = column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
            _add_numbers(hashes, values, values.view(np.uint64), np.uint64(_MISSING), salt)
        else:
            _add_cells(hashes, _cell_bits(column), salt)
    return hashes


def draw_uniform(hashes: Hashes, numbers: npt.NDArray[np.uint32], stream: int) -> Hashes:
    """(rows): a number between 0 and 2⁶⁴ for each row and number, uniform and independent of other streams."""
    out = np.empty_like(hashes)
    _draw(hashes, numbers, np.uint64(stream), out)
    return out


class RowNumbers:
    """Numbers identical rows 1, 2, …; a table of as many hashes as there is room for."""

    def __init__(self, capacity: int) -> None:
        # At most two thirds full.
        size = 1 << max(10, int(capacity * 3 // 2).bit_length())
        self._keys, self._counts = np.zeros(size, np.uint64), np.zeros(size, np.uint32)

    def count(self, hashes: Hashes, counted: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint32]:
        """(rows): how often each hash has come, this time included; 0 for rows that are not to be counted."""
        numbers = np.zeros(len(hashes), np.uint32)
        _count_hashes(self._keys, self._counts, hashes, counted, numbers)
        return numbers

    def add(self, hashes: Hashes, counts: npt.NDArray[np.uint32]) -> None:
        """Count rows that come elsewhere; the hashes are distinct, and none has come yet."""
        _add_counts(self._keys, self._counts, hashes, counts)

    def items(self) -> tuple[Hashes, npt.NDArray[np.uint32]]:
        """Return the hashes that have come, ascending, and how often each has."""
        used = np.flatnonzero(self._counts)
        order = used[np.argsort(self._keys[used])]
        return self._keys[order], self._counts[order]


def _cell_bits(column: Any) -> Hashes:
    """(rows): 64 bits for each cell that is no fraction, equal for equal cells."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), _MISSING, np.uint64)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        whole = column.cast(pa.int64(), safe=False)
    elif pa.types.is_temporal(kind):
        whole = column.view(pa.int64()) if kind.bit_width == 64 else column.view(pa.int32()).cast(pa.int64())
    else:  # lists and other cells that are no features
        return np.zeros(len(column), np.uint64)
    bits: Hashes = whole.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    if not column.null_count:
        return bits
    return np.where(column.is_null().to_numpy(zero_copy_only=False), np.uint64(_MISSING), bits)


def _hash_texts(texts: Any) -> Hashes:
    """(texts): the hash of each text's bytes."""
    if not pa.types.is_string(texts.type):
        texts = texts.cast(pa.string())
    out = np.empty(len(texts), np.uint64)
    if len(texts):
        _, offsets, data = texts.buffers()
        positions = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
        _hash_bytes(content, positions, out)
    return out


@kernel
def _mix(value: Any) -> Any:
    """SplitMix64's finaliser; as `draws.mix`."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@kernel
def _add_cells(hashes: Any, bits: Any, salt: Any) -> None:
    for row in range(len(hashes)):
        hashes[row] = _mix((hashes[row] ^ bits[row]) * np.uint64(0x9E3779B97F4A7C15) + salt)


@kernel
def _add_numbers(hashes: Any, values: Any, bits: Any, missing: Any, salt: Any) -> None:
    """As `_add_cells`, for floating-point numbers: all NaN are one value, and so are 0.0 and −0.0."""
    for row in range(len(hashes)):
        cell = bits[row]
        if values[row] != values[row]:
            cell = missing
        elif values[row] == 0.0:
            cell = np.uint64(0)
        hashes[row] = _mix((hashes[row] ^ cell) * np.uint64(0x9E3779B97F4A7C15) + salt)


@kernel
def _hash_bytes(content: Any, positions: Any, out: Any) -> None:
    """FNV-1a, mixed at the end."""
    for index in range(len(out)):
        value = np.uint64(0xCBF29CE484222325)
        for at in range(positions[index], positions[index + 1]):
            value = (value ^ np.uint64(content[at])) * np.uint64(0x100000001B3)
        out[index] = _mix(value)


@kernel
def _draw(hashes: Any, numbers: Any, stream: Any, out: Any) -> None:
    for row in range(len(hashes)):
        out[row] = _mix(hashes[row] ^ _mix(np.uint64(numbers[row]) * np.uint64(0x9E3779B97F4A7C15) + stream))


@kernel
def _count_hashes(keys: Any, counts: Any, hashes: Any, counted: Any, numbers: Any) -> None:
    """Open addressing with linear probing. A count of 0 marks a free slot."""
    mask = np.uint64(len(keys) - 1)
    for row in range(len(hashes)):
        if not counted[row]:
            continue
        slot = _mix(hashes[row]) & mask
        while counts[slot] != 0 and keys[slot] != hashes[row]:
            slot = (slot + np.uint64(1)) & mask
        keys[slot] = hashes[row]
        counts[slot] += np.uint32(1)
        numbers[row] = counts[slot]


@kernel
def _add_counts(keys: Any, counts: Any, hashes: Any, added: Any) -> None:
    mask = np.uint64(len(keys) - 1)
    for row in range(len(hashes)):
        slot = _mix(hashes[row]) & mask
        while counts[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        keys[slot], counts[slot] = hashes[row], added[row]
