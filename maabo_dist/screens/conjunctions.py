"""Conjunctions that are grown condition by condition: for sizes of which not all sets of features can be counted.

A conjunction begins with one condition, a feature above or not above one of its cuts, and is extended by the
conditions that raise the share of its class most. Every extension of a conjunction by any feature is counted. The
strongest ones are extended further, and their features are sets to try: a beam search, for each class.

The strength of a conjunction is that of its class among all training rows; and each of its k conditions must have borne
a k-th part of it among the rows that it was added to (see `triples`, where all combinations are counted).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel, popcount
from maabo_dist.screens.pairs import BitTable

# Conjunctions of each class that are extended further, and the most that one of them contributes.
BEAM, MAX_CHILDREN = 100, 10
# Sets of features of each size.
MAX_SETS = 100
# Extensions of a beam that are rated at a time.
BLOCK_EXTENSIONS = 1 << 20
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
    k, cuts = beam.features.shape[1] + 1, table.bits.shape[1]
    found = _find_extensions(table, beam, label)
    parents, features, conditions = np.unravel_index(found.places, (len(beam.rows), table.features, 2 * cuts))
    chosen, known, children = [], set(), np.zeros(len(beam.rows), np.int64)
    for place, (parent, feature) in enumerate(zip(parents.tolist(), features.tolist(), strict=True)):
        own = frozenset([*beam.features[parent].tolist(), feature])
        if own not in known and children[parent] < (MAX_CHILDREN if k > 1 else BEAM):
            known.add(own)
            children[parent] += 1
            chosen.append(place)
            if len(chosen) == BEAM:
                break
    parents, features, conditions = parents[chosen], features[chosen], conditions[chosen]
    bits, above = table.bits[features, conditions % cuts], conditions >= cuts
    rows = beam.rows[parents] & np.where(above[:, None], bits, ~bits)
    counted = np.bitwise_count(rows).astype(np.int64)
    classes = list(pairwise(table.starts.tolist()))
    return _Beam(
        np.column_stack([beam.features[parents], features]).astype(np.int32).reshape(len(chosen), k),
        rows,
        np.column_stack([counted[:, start:stop].sum(axis=1) for start, stop in classes]),
        found.weakest[chosen],
    )


class _Extensions(NamedTuple):
    """Conjunctions with one condition more."""

    # The number of each among all (conjunction, feature, condition): features not above each cut, then above each.
    places: npt.NDArray[np.int64]
    strengths: Floats
    # What the condition that bears least bears.
    weakest: Floats

    def strongest(self, count: int) -> "_Extensions":
        """The strongest, in their order, and all that tie with the last of them."""
        if len(self.places) <= count:
            return self
        spare = len(self.places) - count
        return self.take(np.flatnonzero(self.strengths >= np.partition(self.strengths, spare)[spare]))

    def take(self, indices: npt.NDArray[np.int64]) -> "_Extensions":
        """Return some of them, in this order."""
        return _Extensions(self.places[indices], self.strengths[indices], self.weakest[indices])


def _find_extensions(table: BitTable, beam: _Beam, label: int) -> _Extensions:
    """Return as many of the strongest as may be needed for a beam, strongest first; ties in the order of their places.

    Features are rated in blocks: a wide table has many times more extensions than there is memory.
    """
    conditions, wanted = 2 * table.bits.shape[1], 20 * BEAM * MAX_CHILDREN
    found, least = _Extensions(np.empty(0, np.int64), np.empty(0), np.empty(0)), 0.0
    length = max(1, BLOCK_EXTENSIONS // max(1, len(beam.rows) * conditions))
    for first in range(0, table.features, length):
        bits = table.bits[first : first + length]
        strengths, weakest = np.empty((2, len(beam.rows), len(bits), conditions))
        conjunctions = (beam.features, beam.rows, beam.counts, beam.weakest)
        _rate(bits, table.starts, table.totals, conjunctions, (first, label), strengths, weakest)
        parents, features, sides = np.nonzero((strengths > 0) & (strengths >= least))
        places = (parents * table.features + first + features) * conditions + sides
        found = _Extensions(
            np.concatenate([found.places, places]),
            np.concatenate([found.strengths, strengths[parents, features, sides]]),
            np.concatenate([found.weakest, weakest[parents, features, sides]]),
        )
        if len(found.places) > 2 * wanted:
            found = found.strongest(wanted)
            least = float(found.strengths.min())
    found = found.strongest(wanted)
    return found.take(np.lexsort([found.places, -found.strengths]))


@kernel
def _rate(bits: Any, starts: Any, totals: Any, beam: Any, which: Any, strengths: Any, weakest: Any) -> None:
    """Write the strength of every extension by a condition on these features, and what its weakest condition bears."""
    features, covered, counts, weakest_of = beam
    first, label = which
    everything, cuts = totals.sum(), bits.shape[1]
    for i in range(len(covered)):
        rows, hits = counts[i].sum(), counts[i, label]
        for feature in range(len(bits)):
            used = False
            for place in range(features.shape[1]):
                used |= features[i, place] == first + feature
            for cut in range(cuts):
                above, above_hits = np.int64(0), np.int64(0)
                for c in range(len(starts) - 1):
                    count = np.uint64(0)
                    for word in range(starts[c], starts[c + 1]):
                        count += popcount(covered[i, word] & bits[feature, cut, word])
                    above += np.int64(count)
                    if c == label:
                        above_hits = np.int64(count)
                for side in range(2):
                    part, part_hits = (above, above_hits) if side else (rows - above, hits - above_hits)
                    borne = min(excess_strength(part, part_hits, rows, hits), weakest_of[i])
                    among_all = excess_strength(part, part_hits, everything, totals[label])
                    strength = 0.0 if used else min(among_all, (features.shape[1] + 1) * borne)
                    strengths[i, feature, side * cuts + cut] = strength
                    weakest[i, feature, side * cuts + cut] = borne


@kernel
def excess_strength(part: Any, part_hits: Any, whole: Any, whole_hits: Any) -> float:
    """Bernstein's bound of −ln P(at least so many rows of a class in a part of the whole); 0 if there are not more."""
    share = whole_hits / max(float(whole), 1e-9)
    expected = share * part
    excess = part_hits - expected
    likely = 2 * (1 - share) * (expected + max(excess, 0.0) / 3)
    return float(excess * excess / likely) if excess > 1e-9 and likely > 0 else 0.0


def _take_turns(parts: list[Sets], size: int) -> Sets:
    """The first set of each class, then the second of each, and so on; each set once."""
    parts = [np.empty((0, size), np.int32), *parts]
    turns = np.concatenate([np.arange(len(part)) for part in parts])
    sets = np.concatenate(parts)[np.argsort(turns, kind="stable")]
    first = np.sort(np.unique(sets, axis=0, return_index=True)[1])
    return sets[first][:MAX_SETS]
