"""Forests as bytes, for messages and files: some 150 bytes per tree, no pickle, fully checked on reading.

Derived values are left out. Nodes are in order of their level, so that the children of the k-th split are nodes 2k + 1
and 2k + 2; the counts of an inner node are the sum of its children's, except that weighted counts are rounded: then the
differences are sent. The subsets are not sent: the receiver requested the trees and knows them.

    header | depths | tree sizes | scores | node: position in the subset, or LEAF | thresholds of splits | leaf counts
           | differences of the splits' counts, unless all are 0
"""

import hashlib
import struct
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from maabo_dist._util.files import atomic_write
from maabo_dist._util.jit import kernel
from maabo_dist.errors import FormatError
from maabo_dist.trees.forest import Forest, failed_forest
from maabo_dist.trees.growth import LEAF

VERSION = 1
_HEADER = struct.Struct("<4sHHIHHQQ")  # magic, version, classes, trees, subset size, max depth, nodes, CRC of the body
_MAGIC = b"MFOR"
MAX_TREES = 1 << 20
MAX_NODES = 1 << 28


def pack_forest(forest: Forest) -> bytes:
    """Pack a forest without its subsets."""
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
    differences = _count_differences(forest, is_split, trees)
    if differences.any():
        parts.append(differences.astype("<i4"))
    body = b"".join(part.tobytes() for part in parts)
    classes, depth = forest.counts.shape[1], forest.scores.shape[1]
    return _HEADER.pack(_MAGIC, VERSION, classes, count, size, depth, len(positions), zlib.crc32(body)) + body


def _count_differences(
    forest: Forest, is_split: npt.NDArray[np.bool_], trees: npt.NDArray[np.int64]
) -> npt.NDArray[np.int32]:
    """(splits, classes): the counts of each inner node, less those of its children."""
    first = forest.offsets[trees[is_split]] + forest.left[is_split]
    differences: npt.NDArray[np.int32] = forest.counts[is_split] - forest.counts[first] - forest.counts[first + 1]
    return differences


def unpack_forest(data: bytes, subsets: npt.NDArray[np.int32]) -> Forest:
    """Unpack the forest of these subsets. Raises FormatError for data that is damaged or of another version."""
    classes, count, size, depth, nodes, body = _parse_header(data)
    if (count, size) != subsets.shape:
        raise FormatError(f"Expected trees for subsets of shape {subsets.shape}, got {count} trees on {size} features.")
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
    differences = reader.take("<i4", splits * classes if reader.has_more else 0)
    reader.check_end()
    if count and (depths.min() < 1 or depths.max() > depth or sizes.min() < 1):
        raise FormatError("A forest is damaged: a tree's depth or size is out of range.")
    if splits and positions[is_split].max() >= size:
        raise FormatError("A forest is damaged: a split names a feature that its subset does not have.")
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
    if len(differences):
        counts[is_split] = differences.reshape(-1, classes)
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


def _parse_header(data: bytes) -> tuple[int, int, int, int, int, bytes]:
    if len(data) < _HEADER.size:
        raise FormatError(f"A forest is truncated: {len(data)} bytes.")
    magic, version, classes, count, size, depth, nodes, checksum = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise FormatError("These bytes are not a forest.")
    if version != VERSION:
        raise FormatError(f"The forest has format version {version}; this program reads version {VERSION}.")
    if count > MAX_TREES or nodes > MAX_NODES or not (classes and size and depth):
        raise FormatError(f"A forest is damaged: {count} trees, {nodes} nodes.")
    body = data[_HEADER.size :]
    if zlib.crc32(body) != checksum:
        raise FormatError("A forest is damaged: its checksum does not match.")
    return classes, count, size, depth, nodes, body


class _Reader:
    """Reads arrays from a byte string, one after another."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    def take(self, dtype: str, count: int) -> npt.NDArray[Any]:
        length = count * np.dtype(dtype).itemsize
        if self._position + length > len(self._data):
            raise FormatError("A forest is truncated.")
        array = np.frombuffer(self._data, dtype, count, self._position)
        self._position += length
        return array

    @property
    def has_more(self) -> bool:
        return self._position < len(self._data)

    def check_end(self) -> None:
        if self._position != len(self._data):
            raise FormatError(f"A forest has {len(self._data) - self._position} trailing bytes.")


def _position_type(size: int) -> "np.iinfo[Any]":
    """Return the type of a position in a subset; its greatest value marks a leaf."""
    return np.iinfo("<u1" if size < 255 else "<u4")


@kernel
def _link(offsets: Any, is_split: Any, left: Any, counts: Any) -> bool:
    """Number the children and sum the counts upwards; return False if the nodes do not form trees."""
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
                    counts[node, c] += counts[first, c] + counts[first + 1, c]
    return True


_SEGMENT_MAGIC = b"MSEG0001"
_FRAME = struct.Struct("<IIQ")
_MAX_FRAME_BYTES = 1 << 31
_MAX_SUBSET_SIZE = 1 << 20
# Frames may have one tree each; larger forests are processed faster.
MIN_FOREST = 4096

# Subsets and their packed trees; no bytes if the trees could not be grown.
Frame = tuple[npt.NDArray[np.int32], bytes]


def write_segment(path: Path, frames: Iterable[Frame]) -> str:
    """Write a segment atomically; return the digest of the file, which is its name."""
    digest = hashlib.sha256()
    with atomic_write(path) as file:
        for piece in _pieces(frames):
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def pack_segment(frames: Iterable[Frame]) -> tuple[bytes, str]:
    """Return the content of a small segment, and its digest."""
    data = b"".join(_pieces(frames))
    return data, hashlib.sha256(data).hexdigest()


def read_segment(path: Path, max_depth: int, classes: int) -> Iterator[Forest]:
    """Yield the trees of a segment in their order, some thousand at a time. Raises FormatError if it is damaged."""
    forests: list[Forest] = []
    for _, forest in read_frames(path, 0, lambda _: True, max_depth, classes):
        forests.append(forest)
        if sum(map(len, forests)) >= MIN_FOREST:
            yield Forest.concatenate(forests)
            forests = []
    if forests:
        yield Forest.concatenate(forests)


def read_frames(
    path: Path, number: int, select: Callable[[range], bool], max_depth: int, classes: int
) -> Generator[tuple[int, Forest], None, int]:
    """Yield the frames of a segment whose first tree has this number, each with the number of its first tree.

    Frames whose numbers of trees `select` rejects are skipped. Returns the number of the tree after the last one.
    """
    with path.open("rb") as file:
        if file.read(len(_SEGMENT_MAGIC)) != _SEGMENT_MAGIC:
            raise FormatError(f"{path.name} is not a segment of trees that this version reads.")
        while head := file.read(_FRAME.size):
            count, size, length = _parse_frame(head)
            if select(range(number, number + count)):
                packed = _read_exactly(file, 4 * count * size)
                subsets = np.frombuffer(packed, "<i4").reshape(count, size).astype(np.int32)
                trees = _read_exactly(file, length)
                yield number, unpack_forest(trees, subsets) if trees else failed_forest(subsets, max_depth, classes)
            else:
                file.seek(4 * count * size + length, 1)
            number += count
    return number


def _pieces(frames: Iterable[Frame]) -> Iterator[bytes]:
    yield _SEGMENT_MAGIC
    for subsets, trees in frames:
        yield _FRAME.pack(*subsets.shape, len(trees))
        yield subsets.astype("<i4").tobytes()
        yield trees


def _parse_frame(head: bytes) -> tuple[int, int, int]:
    """Return the number of subsets, their size, and the bytes of the trees."""
    if len(head) != _FRAME.size:
        raise FormatError("A segment of trees is truncated.")
    count, size, length = _FRAME.unpack(head)
    if count > MAX_TREES or length > _MAX_FRAME_BYTES or not 0 < size <= _MAX_SUBSET_SIZE:
        raise FormatError(f"A segment of trees is damaged: a frame of {count} subsets and {length} bytes.")
    return count, size, length


def _read_exactly(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) != length:
        raise FormatError("A segment of trees is truncated.")
    return data
