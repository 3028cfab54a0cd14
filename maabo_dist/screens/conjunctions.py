"""Conjunctions that are grown condition by condition: for sizes of which not all sets of features can be counted.

A conjunction begins with one condition, a feature above or not above one of its cuts, and is extended by the
conditions that raise the share of its class most. Every extension of a conjunction by any feature is counted. The
strongest ones are extended further, and their features are sets to try: a beam search, for each class.

The strength of a conjunction is that of its class among all training rows; and each of its k conditions must have borne
a k-th part of it among the rows that it was added to (see `triples`, where all combinations are counted).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel, popcount
from maabo_dist.screens.pairs import BitTable

# Conjunctions of each class that are extended further, and the most that one of them contributes.
BEAM, MAX_CHILDREN = 100, 10
# Sets of features of each size.
MAX_SETS = 100
Floats = npt.NDArray[np.float64]
Sets = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Beam:
    """Conjunctions of one class, strongest first."""

    # (conjunctions, k): in the order in which they were added.
    features: Sets
    # (conjunctions, words): the rows that they cover.
    rows: npt.NDArray[np.uint64]
    # (conjunctions, C): how many of them are of each class.
    counts: npt.NDArray[np.int64]
    # (conjunctions): the strength of the condition that bore least.
    weakest: Floats


def grow_conjunctions(tables: Sequence[BitTable], sizes: tuple[int, ...]) -> dict[int, Sets]:
    """Return sets of features of each of these sizes, the strongest of every class first.

    The tables are of the same rows with different cuts.
    """
    if not sizes:
        return {}
    bits = tables[0].bits if len(tables) == 1 else np.concatenate([table.bits for table in tables], axis=1)
    table = tables[0]._replace(bits=bits)
    found: dict[int, list[Sets]] = {size: [] for size in sizes}
    for label in range(len(table.totals)):
        beam = _everything(table)
        for size in range(1, min(max(sizes, default=0), table.features) + 1):
            beam = _extend(table, beam, label)
            if size in found:
                found[size].append(np.sort(beam.features, axis=1))
    return {size: _take_turns(parts, size) for size, parts in found.items()}


def _everything(table: BitTable) -> _Beam:
    """The conjunction without conditions."""
    rows = np.zeros((1, table.bits.shape[2]), np.uint64)
    for label, count in enumerate(table.totals.tolist()):
        full, rest = divmod(count, 64)
        start = int(table.starts[label])
        rows[0, start : start + full] = ~np.uint64(0)
        if rest:
            rows[0, start + full] = (np.uint64(1) << np.uint64(rest)) - np.uint64(1)
    return _Beam(np.empty((1, 0), np.int32), rows, table.totals[None, :].copy(), np.full(1, np.inf))


def _extend(table: BitTable, beam: _Beam, label: int) -> _Beam:
    """Return the strongest conjunctions with one condition more."""
    k, counts = beam.features.shape[1] + 1, _count(table, beam)
    strengths, weakest = _rate(table, beam, counts, label)
    order = _strongest_first(strengths)
    parents, features, conditions = np.unravel_index(order, strengths.shape)
    chosen, known, children = [], set(), np.zeros(len(strengths), np.int64)
    for place, (parent, feature) in enumerate(zip(parents.tolist(), features.tolist(), strict=True)):
        own = frozenset([*beam.features[parent].tolist(), feature])
        if own not in known and children[parent] < (MAX_CHILDREN if k > 1 else BEAM):
            known.add(own)
            children[parent] += 1
            chosen.append(place)
            if len(chosen) == BEAM:
                break
    parents, features, conditions = parents[chosen], features[chosen], conditions[chosen]
    cuts = table.bits.shape[1]
    bits, above = table.bits[features, conditions % cuts], conditions >= cuts
    rows = beam.rows[parents] & np.where(above[:, None], bits, ~bits)
    return _Beam(
        np.column_stack([beam.features[parents], features]).astype(np.int32).reshape(len(chosen), k),
        rows,
        counts[parents, features, conditions],
        weakest[parents, features, conditions],
    )


def _count(table: BitTable, beam: _Beam) -> npt.NDArray[np.int64]:
    """(conjunctions, D, conditions, C): rows of each class, with one condition more."""
    above = np.zeros((len(beam.rows), table.features, table.bits.shape[1], len(table.totals)), np.int64)
    _count_above(table.bits, table.starts, beam.rows, above)
    return np.concatenate([beam.counts[:, None, None, :] - above, above], axis=2)


@kernel
def _count_above(bits: Any, starts: Any, rows: Any, out: Any) -> None:
    for i in range(len(rows)):
        for feature in range(len(bits)):
            for cut in range(bits.shape[1]):
                for c in range(len(starts) - 1):
                    count = np.uint64(0)
                    for word in range(starts[c], starts[c + 1]):
                        count += popcount(rows[i, word] & bits[feature, cut, word])
                    out[i, feature, cut, c] = count


def _rate(table: BitTable, beam: _Beam, counts: npt.NDArray[np.int64], label: int) -> tuple[Floats, Floats]:
    """(conjunctions, D, conditions): strengths, and what the condition that bears least bears."""
    rows, hits = counts.sum(axis=3), counts[..., label]
    own = excess_strength(rows, hits, beam.counts.sum(axis=1)[:, None, None], beam.counts[:, None, None, label])
    weakest = np.minimum(own, beam.weakest[:, None, None])
    everything, of_class = int(table.totals.sum()), int(table.totals[label])
    size = beam.features.shape[1] + 1
    strengths = np.minimum(excess_strength(rows, hits, np.array(everything), np.array(of_class)), size * weakest)
    for place in range(size - 1):  # no feature twice
        strengths[np.arange(len(strengths)), beam.features[:, place]] = 0.0
    return strengths, weakest


def excess_strength(
    part: npt.NDArray[Any], part_hits: npt.NDArray[Any], whole: npt.NDArray[Any], whole_hits: npt.NDArray[Any]
) -> Floats:
    """Bernstein's bound of −ln P(at least so many rows of a class in a part of the whole); 0 if there are not more."""
    share = whole_hits / np.maximum(whole, 1e-9)
    expected = share * part
    excess = part_hits - expected
    likely = 2 * (1 - share) * (expected + np.maximum(excess, 0) / 3)
    return np.where((excess > 1e-9) & (likely > 0), excess * excess / np.where(likely > 0, likely, 1.0), 0.0)


def _strongest_first(strengths: Floats) -> npt.NDArray[np.int64]:
    """Indices of positive strengths, as many as may be needed for a beam; ties in their order."""
    flat = strengths.ravel()
    spare = len(flat) - 20 * BEAM * MAX_CHILDREN
    least = np.partition(flat, spare)[spare] if spare > 0 else 0.0
    possible = np.flatnonzero((flat >= least) & (flat > 0))
    return possible[np.argsort(-flat[possible], kind="stable")]


def _take_turns(parts: list[Sets], size: int) -> Sets:
    """The first set of each class, then the second of each, and so on; each set once."""
    parts = [np.empty((0, size), np.int32), *parts]
    turns = np.concatenate([np.arange(len(part)) for part in parts])
    sets = np.concatenate(parts)[np.argsort(turns, kind="stable")]
    first = np.sort(np.unique(sets, axis=0, return_index=True)[1])
    return sets[first][:MAX_SETS]
