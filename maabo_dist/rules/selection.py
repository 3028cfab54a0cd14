"""GS-MRM: of all reliable leaves, a list in which each is pure and no two are similar.

Two facts keep it cheap, and neither changes the outcome. Leaves with the same logic set have similarity 1, so that only
the best of each logic set can be chosen. And similarity to the chosen only grows, so that a leaf that has reached δ can
never come back and is dropped immediately.

By logic there is a third: only leaves that share a literal with the chosen one are affected by the choice. They are
found in lists by literal, from which displaced leaves are dropped on the way; and as Gini index plus similarity only
grows, a heap whose entries are brought up to date when they come to the top always has the next choice there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel
from maabo_dist.rules.leaves import Leaves
from maabo_dist.rules.rule import NO_LITERAL

# similarity(chosen, others): v between one leaf and each of the others, by their indices.
Similarity = Callable[[int, npt.NDArray[np.int64]], npt.NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Selection:
    """The outcome over a list of distinct leaves."""

    # Indices of the chosen leaves, in the order of choice.
    chosen: npt.NDArray[np.int64]
    # For each leaf the number (in `chosen`) of the rule that displaced it; −1 for chosen ones.
    displaced_by: npt.NDArray[np.int64]
    # For each displaced leaf, its similarity to that rule.
    similarity: npt.NDArray[np.float64]


def distinct_leaves(leaves: Leaves, *, by_bounds: bool = False) -> Leaves:
    """Keep one leaf per logic set, in canonical order: larger first, then by logic.

    With `by_bounds`, leaves that differ in a threshold are different. Of equals the purest stays, then the largest,
    then the one with lower thresholds, then the one from the better tree, then the earlier one. The outcome does not
    depend on the order in which trees arrive.
    """
    slots = 1 << max(4, (2 * len(leaves)).bit_length())
    indices = _group(
        np.full(slots, -1, np.int64),
        (leaves.logic, leaves.bounds, leaves.counts, leaves.gini, leaves.tree, leaves.score),
        by_bounds,
    )
    leaves_kept = leaves.take(indices)
    keys = [*(leaves_kept.bounds.T[::-1] if by_bounds else ()), *leaves_kept.logic.T[::-1], -leaves_kept.sizes]
    return leaves_kept.take(np.lexsort(keys))


def select_rules(gini: npt.NDArray[np.float64], similarity: Similarity, limit: float) -> Selection:
    """Algorithm 2 over distinct leaves in canonical order, which breaks its ties. `limit` is δ."""
    displaced_by = np.full(len(gini), -1, np.int64)
    similar = np.zeros(len(gini))
    chosen: list[int] = []
    open_leaves = np.arange(len(gini))
    nearest = np.zeros(len(gini))
    while len(open_leaves):
        best = int(np.argmin(gini[open_leaves] + nearest))
        index = int(open_leaves[best])
        open_leaves, nearest = np.delete(open_leaves, best), np.delete(nearest, best)
        values = similarity(index, open_leaves)
        gone = values >= limit
        displaced_by[open_leaves[gone]] = len(chosen)
        similar[open_leaves[gone]] = values[gone]
        open_leaves, nearest = open_leaves[~gone], np.maximum(nearest, values)[~gone]
        chosen.append(index)
    return Selection(np.array(chosen, np.int64), displaced_by, similar)


def select_by_logic(gini: npt.NDArray[np.float64], logic: npt.NDArray[np.int32], limit: float) -> Selection:
    """The same as `select_rules` with `by_logic`, without a pass over all leaves for every choice."""
    sizes = (logic != NO_LITERAL).sum(axis=1)
    chosen, displaced_by, similar = np.empty(len(gini), np.int64), np.full(len(gini), -1, np.int64), np.zeros(len(gini))
    count = _select(
        (gini, logic, sizes, limit), _leaves_by_literal(logic), _heap(gini), (chosen, displaced_by, similar)
    )
    return Selection(chosen[:count].copy(), displaced_by, similar)


def _leaves_by_literal(logic: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The start of each literal's list, and the lists, one after another."""
    indices, columns = np.nonzero(logic != NO_LITERAL)
    literals = logic[indices, columns]
    sizes = np.bincount(literals)
    return np.concatenate([[0], np.cumsum(sizes)]), indices[np.argsort(literals, kind="stable")]


def _heap(gini: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Keys and indices in ascending order, which is a heap; of equal keys the first index comes first."""
    indices = np.argsort(gini, kind="stable")
    return gini[indices], indices


def by_logic(logic: npt.NDArray[np.int32]) -> Similarity:
    """The Simpson coefficient of logic sets: shared literals over those of the smaller set."""
    leaves, columns = np.nonzero(logic != NO_LITERAL)
    literals, numbers = np.unique(logic[leaves, columns], return_inverse=True)
    uses = np.zeros((len(logic), len(literals)), np.bool_)
    uses[leaves, numbers] = True
    return by_rows(uses)


def by_rows(covered: npt.NDArray[np.bool_]) -> Similarity:
    """The Simpson coefficient of covered rows; `covered` is (leaves, rows). Empty sets are similar to everything."""
    bits = np.packbits(covered, axis=1)
    sizes = covered.sum(axis=1)

    def similarity(index: int, others: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        shared = np.bitwise_count(bits[others] & bits[index]).sum(axis=1, dtype=np.int64)
        return _simpson(shared, sizes[others], sizes[index])

    return similarity


def _simpson(shared: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64], size: np.int64) -> npt.NDArray[np.float64]:
    """|A ∩ B| / min(|A|, |B|); 1 where either is empty."""
    values = np.ones(len(shared))
    smaller = np.minimum(sizes, size)
    np.divide(shared, smaller, out=values, where=smaller > 0)
    return values


@kernel
def _select(leaves: Any, lists: Any, heap: Any, out: Any) -> int:
    """Choose until no leaf is open, and return how many were chosen."""
    gini, _, sizes, limit = leaves
    keys, indices = heap
    chosen, displaced_by, similar = out
    is_open, nearest = np.ones(len(gini), np.bool_), np.zeros(len(gini))
    shared, touched = np.zeros(len(gini), np.int64), np.empty(len(gini), np.int64)
    ends = lists[0][1:].copy()
    count, waiting = 0, len(gini)
    while waiting > 0:
        index = indices[0]
        if is_open[index] and keys[0] < gini[index] + nearest[index]:
            keys[0] = gini[index] + nearest[index]
            _sink(keys, indices, waiting)
            continue
        waiting -= 1
        keys[0], indices[0] = keys[waiting], indices[waiting]
        _sink(keys, indices, waiting)
        if not is_open[index]:
            continue
        is_open[index] = False
        for i in range(_affected(index, count == 0, leaves, lists, ends, is_open, shared, touched)):
            other = touched[i]
            smaller = min(sizes[other], sizes[index])
            value = shared[other] / smaller if smaller > 0 else 1.0
            shared[other] = 0
            if value >= limit:
                is_open[other] = False
                displaced_by[other], similar[other] = count, value
            elif value > nearest[other]:
                nearest[other] = value
        chosen[count] = index
        count += 1
    return count


@kernel
def _affected(
    index: int, is_first: bool, leaves: Any, lists: Any, ends: Any, is_open: Any, shared: Any, touched: Any
) -> int:
    """List the open leaves that are similar to the chosen one, with the literals they share, and return how many."""
    _, logic, sizes, _ = leaves
    begins, members = lists
    count = 0
    if is_first or sizes[index] == 0:  # a leaf without conditions is similar to everything, and in no list
        for other in range(len(sizes)):
            if is_open[other] and (sizes[index] == 0 or sizes[other] == 0):
                touched[count] = other
                count += 1
    for k in range(sizes[index]):
        literal = logic[index, k]
        end = begins[literal]
        for i in range(begins[literal], ends[literal]):
            other = members[i]
            if is_open[other]:
                members[end] = other
                end += 1
                if shared[other] == 0:
                    touched[count] = other
                    count += 1
                shared[other] += 1
        ends[literal] = end
    return count


@kernel
def _sink(keys: Any, indices: Any, size: int) -> None:
    """Move the top of the heap down to its position."""
    key, index, i = keys[0], indices[0], 0
    while 2 * i + 1 < size:
        child = 2 * i + 1
        if child + 1 < size and _comes_first(keys, indices, child + 1, keys[child], indices[child]):
            child += 1
        if not _comes_first(keys, indices, child, key, index):
            break
        keys[i], indices[i] = keys[child], indices[child]
        i = child
    if size > 0:
        keys[i], indices[i] = key, index


@kernel
def _comes_first(keys: Any, indices: Any, i: int, key: float, index: int) -> bool:
    return bool(keys[i] < key or (keys[i] == key and indices[i] < index))


@kernel
def _group(table: Any, leaves: Any, by_bounds: bool) -> Any:
    """The indices of the best leaf of each group, by hashing."""
    logic, bounds, counts, gini, tree, score = leaves
    mask = np.uint64(len(table) - 1)
    best = np.empty(len(gini), np.int64)
    groups = 0
    for leaf in range(len(gini)):
        value = np.uint64(0x9E3779B97F4A7C15)
        for k in range(logic.shape[1]):
            value = (value ^ np.uint64(logic[leaf, k])) * np.uint64(0xBF58476D1CE4E5B9)
            value ^= value >> np.uint64(32)
        slot = value & mask
        while table[slot] >= 0 and not _same(logic, bounds, best[table[slot]], leaf, by_bounds):
            slot = (slot + np.uint64(1)) & mask
        if table[slot] < 0:
            table[slot] = groups
            best[groups] = leaf
            groups += 1
        elif _precedes(leaf, best[table[slot]], bounds, counts, gini, tree, score):
            best[table[slot]] = leaf
    return best[:groups].copy()


@kernel
def _same(logic: Any, bounds: Any, a: int, b: int, by_bounds: bool) -> bool:
    for k in range(logic.shape[1]):
        if logic[a, k] != logic[b, k] or (by_bounds and bounds[a, k] != bounds[b, k]):
            return False
    return True


@kernel
def _precedes(a: int, b: int, bounds: Any, counts: Any, gini: Any, tree: Any, score: Any) -> bool:
    """True if leaf a is the better representative of the logic set that both have."""
    if gini[a] != gini[b]:
        return bool(gini[a] < gini[b])
    rows = 0
    for c in range(counts.shape[1]):
        rows += counts[a, c] - counts[b, c]
    if rows != 0:
        return rows > 0
    for k in range(bounds.shape[1]):
        if bounds[a, k] != bounds[b, k]:
            return bool(bounds[a, k] < bounds[b, k])
    if score[a] != score[b]:
        return bool(score[a] > score[b])
    return bool(tree[a] < tree[b])
