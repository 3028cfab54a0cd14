"""Searches on shuffled labels as bytes, for answers of workers, the ledger and the store; they are checked on reading.

    each search:  rules, width: two uint32 | statistics, float64 | literals of each rule, then −1: width int32 each

All little-endian. The number of searches is known to the reader.
"""

from collections.abc import Iterable

import numpy as np

from maabo_dist.errors import FormatError
from maabo_dist.findings.certificate import MAX_REPORTED, ShuffledSearch

HEAD_BYTES = 8
# A rule has fewer conditions.
MAX_WIDTH = 1 << 10


def pack_searches(searches: Iterable[ShuffledSearch]) -> bytes:
    """Pack searches, in order."""
    return b"".join(map(_pack, searches))


def _pack(search: ShuffledSearch) -> bytes:
    width = max(map(len, search.logic), default=0)
    literals = np.full((len(search.logic), width), -1, "<i4")
    for row, logic in zip(literals, search.logic, strict=True):
        row[: len(logic)] = logic
    head = np.array(literals.shape, "<u4")
    return head.tobytes() + np.array(search.statistics, "<f8").tobytes() + literals.tobytes()


def unpack_searches(data: bytes, count: int) -> tuple[ShuffledSearch, ...]:
    """Unpack so many searches."""
    searches, start = [], 0
    for _ in range(count):
        search, start = _unpack(data, start)
        searches.append(search)
    if start != len(data):
        raise FormatError(f"Packed searches are {len(data)} bytes long; expected {start} for {count} searches.")
    return tuple(searches)


def _unpack(data: bytes, start: int) -> tuple[ShuffledSearch, int]:
    body = start + HEAD_BYTES
    rules, width = np.frombuffer(data[start:body], "<u4").tolist() if body <= len(data) else (0, MAX_WIDTH + 1)
    end = body + rules * (8 + 4 * width)
    if rules > MAX_REPORTED or width > MAX_WIDTH or end > len(data):
        raise FormatError(f"A packed search at byte {start} of {len(data)} is too long or cut off.")
    statistics = np.frombuffer(data, "<f8", rules, body)
    literals = np.frombuffer(data, "<i4", rules * width, body + 8 * rules).reshape(rules, width)
    if not np.isfinite(statistics).all() or (np.diff(statistics) < 0).any():
        raise FormatError("A packed search has statistics that are not finite or not in order.")
    logic = tuple(tuple(row[row >= 0].tolist()) for row in literals)
    ascending = all(tuple(sorted(each)) == each for each in logic)
    if not ascending or len(set(logic)) < rules or not all(logic):
        raise FormatError("A packed search has a rule without conditions, conditions out of order, or a rule twice.")
    return ShuffledSearch(tuple(statistics.tolist()), logic), end
