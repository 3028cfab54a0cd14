"""Forests as bytes, for queues and ledgers: some 150 bytes a tree, no pickle, nothing trusted on reading.

What can be derived is left out. Nodes stand level by level, so that the children of the k-th split are nodes 2k + 1 and
2k + 2; the counts of an inner node are the sum of its children's. The subsets are not sent: whoever asked for the trees
knows them.

    header | depths | tree sizes | scores | node: position in the subset, or LEAF | thresholds of splits | leaf counts
"""

import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist.errors import FormatError
from maabo_dist.kernels import kernel
from maabo_dist.trees.forest import Forest
from maabo_dist.trees.growth import LEAF

VERSION = 1
_HEADER = struct.Struct("<4sHHIHHQQ")  # magic, version, classes, trees, subset size, max depth, nodes, CRC of the body
_MAGIC = b"MFOR"
MAX_TREES = 1 << 20
MAX_NODES = 1 << 28


def pack_forest(forest: Forest) -> bytes:
    """The forest without its subsets."""
    count, size = forest.subsets.shape
    is_split = forest.feature != LEAF
    trees = np.repeat(np.arange(count), np.diff(forest.offsets))
    position_type = _position_type(size)
    positions = np.full(len(forest.feature), position_type.max, position_type.dtype)
    owners = forest.subsets[trees[is_split]]
    positions[is_split] = (owners == forest.feature[is_split, None]).argmax(axis=1)
    parts: list[npt.NDArray[Any]] = [
        forest.depths.astype("<u1"),
        np.diff(forest.offsets).astype("<u4"),
        forest.scores.astype("<f8"),
        positions,
        forest.threshold[is_split].astype("<f8"),
        forest.counts[~is_split].astype("<u4"),
    ]
    body = b"".join(part.tobytes() for part in parts)
    header = _HEADER.pack(
        _MAGIC,
        VERSION,
        forest.counts.shape[1],
        count,
        size,
        forest.scores.shape[1],
        len(positions),
        zlib.crc32(body),
    )
    return header + body


def unpack_forest(data: bytes, subsets: npt.NDArray[np.int32]) -> Forest:
    """The forest of these subsets. Raises FormatError for anything that is not one, truncated or of another version."""
    classes, count, size, depth, nodes, body = _opened(data)
    if (count, size) != subsets.shape:
        raise FormatError(f"A forest of {count} trees on {size} features came for {subsets.shape} subsets.")
    reader = _Reader(body)
    depths = reader.take("<u1", count).astype(np.int32)
    sizes = reader.take("<u4", count).astype(np.int64)
    scores = reader.take("<f8", count * depth).reshape(count, depth)
    position_type = _position_type(size)
    positions = reader.take(position_type.dtype.str, nodes)
    is_split = positions != position_type.max
    splits = int(is_split.sum())
    thresholds = reader.take("<f8", splits)
    leaves = reader.take("<u4", (nodes - splits) * classes).reshape(-1, classes)
    reader.done()
    _check_shape(depths, sizes, depth, positions[is_split], size)
    if sizes.sum() != nodes:
        raise FormatError("A forest is damaged: its nodes do not match its trees.")

    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    trees = np.repeat(np.arange(count), sizes)
    feature = np.full(nodes, LEAF, np.int32)
    feature[is_split] = subsets[trees[is_split], positions[is_split]]
    threshold = np.zeros(nodes)
    threshold[is_split] = thresholds
    counts = np.zeros((nodes, classes), np.int32)
    counts[~is_split] = leaves
    left = np.full(nodes, LEAF, np.int32)
    if not _link(offsets, is_split, left, counts):
        raise FormatError("A forest is damaged: the nodes of a tree do not form a tree.")
    return Forest(
        subsets=np.ascontiguousarray(subsets, np.int32),
        scores=scores,
        depths=depths,
        offsets=offsets,
        feature=feature,
        threshold=threshold,
        left=left,
        counts=counts,
    )


def _opened(data: bytes) -> tuple[int, int, int, int, int, bytes]:
    if len(data) < _HEADER.size:
        raise FormatError(f"A forest is truncated: {len(data)} bytes.")
    magic, version, classes, count, size, depth, nodes, checksum = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise FormatError("These bytes are not a forest.")
    if version != VERSION:
        raise FormatError(f"A forest of format version {version} came; this program reads version {VERSION}.")
    if count > MAX_TREES or nodes > MAX_NODES or not (classes and size and depth):
        raise FormatError(f"A forest is damaged: {count} trees, {nodes} nodes.")
    body = data[_HEADER.size :]
    if zlib.crc32(body) != checksum:
        raise FormatError("A forest is damaged: its checksum does not match.")
    return classes, count, size, depth, nodes, body


class _Reader:
    """Takes arrays off a byte string, and never more than there is."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def take(self, dtype: str, count: int) -> npt.NDArray[Any]:
        length = count * np.dtype(dtype).itemsize
        if self._position + length > len(self._data):
            raise FormatError("A forest is truncated.")
        array = np.frombuffer(self._data, dtype, count, self._position)
        self._position += length
        return array

    def done(self) -> None:
        if self._position != len(self._data):
            raise FormatError(f"A forest has {len(self._data) - self._position} bytes too many.")


def _position_type(size: int) -> "np.iinfo[Any]":
    """The type of a position in a subset; its greatest value marks a leaf."""
    return np.iinfo("<u1" if size < 255 else "<u4")


def _check_shape(
    depths: npt.NDArray[np.int32],
    sizes: npt.NDArray[np.int64],
    max_depth: int,
    positions: npt.NDArray[Any],
    size: int,
) -> None:
    if len(depths) and (depths.min() < 1 or depths.max() > max_depth or sizes.min() < 1):
        raise FormatError("A forest is damaged: a tree's depth or size is out of range.")
    if len(positions) and positions.max() >= size:
        raise FormatError("A forest is damaged: a split names a feature that its subset does not have.")


@kernel
def _link(offsets: Any, is_split: Any, left: Any, counts: Any) -> bool:
    """Number the children and sum the counts upwards; False if a tree's nodes do not add up."""
    for t in range(len(offsets) - 1):
        start, stop = offsets[t], offsets[t + 1]
        child = 1
        for node in range(start, stop):
            if is_split[node]:
                left[node] = child
                child += 2
        if child != stop - start:
            return False
        for node in range(stop - 1, start - 1, -1):
            if is_split[node]:
                first = start + left[node]
                if first <= node:
                    return False
                for c in range(counts.shape[1]):
                    counts[node, c] = counts[first, c] + counts[first + 1, c]
    return True
