"""One file that holds named arrays and a JSON description, without pickle, memory-mapped on reading.

    magic (8 bytes) | header length (8 bytes, little-endian) | header (JSON, UTF-8) | array | padding | array …

Every array starts on a 64-byte boundary. The header lists dtype, shape and offset of each array, and the caller's own
description (`meta`). Reading checks all of it against the length of the file before it maps an array.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util.files import atomic_write
from maabo_dist._util.scratch import each_block
from maabo_dist.errors import FormatError

MAGIC = b"MAABOAF1"
ALIGNMENT = 64
MAX_HEADER_BYTES = 1 << 28
# Little-endian plain numbers only: a header can never ask for Python objects.
DTYPES = frozenset({"|u1", "|i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f4", "<f8"})

Arrays = Mapping[str, npt.NDArray[Any]]


def fingerprint(kind: str, arrays: Arrays, meta: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the content: the same arrays and description give the same digest on every machine."""
    digest = hashlib.sha256()
    digest.update(canonical_json({"kind": kind, "meta": meta}))
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(canonical_json([name, _dtype_name(array), list(array.shape)]))
        for part in _bytes(array):
            digest.update(part)
    return digest.hexdigest()


def canonical_json(value: object) -> bytes:
    """Return one byte string per value: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def write(path: Path, kind: str, arrays: Arrays, meta: Mapping[str, Any]) -> None:
    """Write the file atomically."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header, offsets = _header(kind, contiguous, meta)
    with atomic_write(path) as file:
        file.write(MAGIC + len(header).to_bytes(8, "little") + header)
        for name, array in contiguous.items():
            file.seek(offsets[name])
            for part in _bytes(array):
                file.write(part)
        file.truncate(max(file.tell(), 16 + len(header)))


def read(
    path: Path, kind: str, required: Iterable[str] = (), *, writable: bool = False, verify: bool = False
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Map the arrays of the file, among them the `required` ones; return them with the description.

    They are read-only unless `writable`; then a write changes only this process's copy. `verify` reads all of them once
    and compares checksums.
    """
    header, start = _read_header(path, kind)
    length = path.stat().st_size
    arrays = {}
    for name, entry in header["arrays"].items():
        dtype, shape, offset = _check_entry(path, name, entry, start, length)
        if 0 in shape:  # an empty map is not allowed by the operating system
            arrays[name] = np.empty(shape, dtype)
            continue
        mapped = np.memmap(path, dtype=dtype, mode="c" if writable else "r", shape=shape, offset=offset)
        # A plain ndarray over the map: numba would compile every kernel once more for the memmap subclass.
        arrays[name] = np.asarray(mapped).view(np.ndarray)
        if verify and _checksum(arrays[name]) != entry.get("crc"):
            raise FormatError(f"{path} is damaged: array {name!r} fails its checksum. Recreate the file.")
    for name in required:
        if name not in arrays:
            raise FormatError(f"{path} is damaged: array {name!r} is missing.")
    return arrays, header["meta"]


def _dtype_name(array: npt.NDArray[Any]) -> str:
    name = array.dtype.str
    if name not in DTYPES:
        raise FormatError(f"An array of dtype {array.dtype} cannot be stored; use one of {sorted(DTYPES)}.")
    return name


def _header(kind: str, arrays: Arrays, meta: Mapping[str, Any]) -> tuple[bytes, dict[str, int]]:
    """Return the header and the offset of each array. Offsets depend on the header's length: room is reserved first."""
    entries: dict[str, dict[str, Any]] = {
        name: {"dtype": _dtype_name(array), "shape": list(array.shape), "offset": 0, "crc": _checksum(array)}
        for name, array in arrays.items()
    }
    draft = canonical_json({"kind": kind, "meta": meta, "arrays": entries})
    position = _aligned(16 + len(draft) + 24 * len(arrays))
    body = position
    for name, array in arrays.items():
        entries[name]["offset"] = position
        position = _aligned(position + array.nbytes)
    header = canonical_json({"kind": kind, "meta": meta, "arrays": entries})
    return header.ljust(body - 16), {name: int(entries[name]["offset"]) for name in arrays}


def _checksum(array: npt.NDArray[Any]) -> int:
    crc = 0
    for part in _bytes(array):
        crc = zlib.crc32(part, crc)
    return crc


def _bytes(array: npt.NDArray[Any]) -> Iterator[memoryview]:
    """Yield the content of an array; one that is mapped is in memory only part by part."""
    content = array.reshape(-1).view(np.uint8)
    for part in each_block(content):
        yield content[part].data


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def _read_header(path: Path, kind: str) -> tuple[dict[str, Any], int]:
    try:
        with path.open("rb") as file:
            start = file.read(16)
            size = int.from_bytes(start[8:16], "little")
            if len(start) < 16 or start[:8] != MAGIC or size > MAX_HEADER_BYTES:
                raise FormatError(f"{path} is not an array file of this program.")
            header = json.loads(file.read(size))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FormatError(f"{path} is damaged: its header cannot be parsed ({error}). Recreate the file.") from error
    stored_kind = header.get("kind") if isinstance(header, dict) else None
    if stored_kind != kind:
        raise FormatError(f"{path} holds {stored_kind!r}, not {kind!r}.")
    if not isinstance(header.get("arrays"), dict) or not isinstance(header.get("meta"), dict):
        raise FormatError(f"{path} is damaged: its header lacks the list of arrays or the description.")
    return header, 16 + size


def _check_entry(
    path: Path, name: str, entry: Any, start: int, length: int
) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    try:
        dtype_name, shape, offset = entry["dtype"], tuple(entry["shape"]), entry["offset"]
        plain = all(type(n) is int and n >= 0 for n in (*shape, offset))
    except (TypeError, KeyError) as error:
        raise FormatError(f"{path} is damaged: the entry of array {name!r} is incomplete.") from error
    if not isinstance(dtype_name, str) or dtype_name not in DTYPES or not plain:
        raise FormatError(f"{path} is damaged: array {name!r} has dtype {dtype_name!r} and shape {shape!r}.")
    dtype = np.dtype(dtype_name)
    size = dtype.itemsize * prod(shape)
    if offset < start or offset % ALIGNMENT or offset + size > length:
        raise FormatError(f"{path} is truncated: array {name!r} ends at byte {offset + size}, the file at {length}.")
    return dtype, shape, offset
