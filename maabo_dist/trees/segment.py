"""Segments: the trees of a stretch of a search in one file, as a scheduler leaves them in the store.

    magic | frame | frame | …        frame: subsets, subset size, length of the trees | subsets | packed trees

A frame without trees stands for subsets whose trees could not be had. The file is read as a stream, frame by frame, so
that a pool of any size needs the memory of one frame.
"""

import struct
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from maabo_dist.atomic import replacing
from maabo_dist.errors import FormatError
from maabo_dist.trees.forest import Forest, failed_forest
from maabo_dist.trees.wire import MAX_TREES, unpack_forest

_MAGIC = b"MSEG0001"
_FRAME = struct.Struct("<IIQ")
_MOST_BYTES = 1 << 31
_PIECE = 1 << 20
GATHERED = 4096
"""Frames may be of one tree each; what is done with trees is done faster with many."""

Frame = tuple[npt.NDArray[np.int32], bytes]
"""Subsets and their trees as `pack_forest` gives them; no bytes if the trees could not be had."""


def write_segment(path: Path, frames: Iterable[Frame]) -> str:
    """Write a segment, whole or not at all; returns the digest of the file, which names it."""
    digest = sha256()
    with replacing(path) as file:
        for piece in _pieces(frames):
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def read_segment(path: Path, max_depth: int, classes: int) -> Iterator[Forest]:
    """The trees of a segment in their order, some thousand at a time. Raises FormatError where it is damaged."""
    gathered: list[Forest] = []
    for forest in _frames(path, max_depth, classes):
        gathered.append(forest)
        if sum(map(len, gathered)) >= GATHERED:
            yield Forest.joined(gathered)
            gathered = []
    if gathered:
        yield Forest.joined(gathered)


def read_frames(
    path: Path, number: int, wanted: Callable[[range], bool], max_depth: int, classes: int
) -> Generator[tuple[int, Forest], None, int]:
    """The frames of a segment whose first tree has this number, each with the number of its own first tree.

    Frames whose trees' numbers are not wanted are passed over. Returns the number of the tree after the last one.
    """
    with _opened(path) as file:
        while head := file.read(_FRAME.size):
            count, size, length = _frame(head)
            if wanted(range(number, number + count)):
                yield number, _forest(file, head, max_depth, classes)
            else:
                file.seek(4 * count * size + length, 1)
            number += count
    return number


def _frames(path: Path, max_depth: int, classes: int) -> Iterator[Forest]:
    with _opened(path) as file:
        while head := file.read(_FRAME.size):
            yield _forest(file, head, max_depth, classes)


def file_digest(path: Path) -> str:
    """The digest that names a segment."""
    digest = sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def _pieces(frames: Iterable[Frame]) -> Iterator[bytes]:
    yield _MAGIC
    for subsets, trees in frames:
        yield _FRAME.pack(*subsets.shape, len(trees))
        yield subsets.astype("<i4").tobytes()
        yield trees


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise FormatError(f"{path.name} is not a segment of trees that this version reads.")
        yield file


def _frame(head: bytes) -> tuple[int, int, int]:
    """Subsets, subset size, and bytes of the trees."""
    if len(head) != _FRAME.size:
        raise FormatError("A segment of trees is truncated.")
    count, size, length = _FRAME.unpack(head)
    if count > MAX_TREES or length > _MOST_BYTES or not 0 < size <= _PIECE:
        raise FormatError(f"A segment of trees is damaged: a frame of {count} subsets and {length} bytes.")
    return count, size, length


def _forest(file: BinaryIO, head: bytes, max_depth: int, classes: int) -> Forest:
    count, size, length = _frame(head)
    subsets = np.frombuffer(_exactly(file, 4 * count * size), "<i4").reshape(count, size).astype(np.int32)
    trees = _exactly(file, length)
    return unpack_forest(trees, subsets) if length else failed_forest(subsets, max_depth, classes)


def _exactly(file: BinaryIO, length: int) -> bytes:
    data = file.read(length)
    if len(data) != length:
        raise FormatError("A segment of trees is truncated.")
    return data
