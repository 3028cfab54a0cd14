"""Boxes: rules on a subset of features that its tree may miss.

A tree splits on one feature after another, each time where that alone helps most. Where features say something only
together, as in a parity, or only far out in their tails, its first splits are arbitrary. So boxes are tried too, on the
subsets that a search begins with. In a box at least two features of the subset are above, or not above, one of a few
cuts near fixed parts of the training rows.

The strength of a box is that of its class among all training rows, and each of its k conditions must bear a k-th part
of it among the rows of the others; the screen of triples rates three features in the same way. The strongest box of
each combination of directions is a candidate, and the strongest candidates of each class have their thresholds fitted.
They become leaves of the tree that was grown on their subset.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel
from maabo_dist._util.subset_rows import rows_by_size
from maabo_dist.data.weights import UNIT, count_classes
from maabo_dist.rules.leaves import Leaves, leaf_gini
from maabo_dist.rules.matching import covered_rows
from maabo_dist.rules.refitting import between, refit
from maabo_dist.rules.rule import NO_LITERAL, Rule
from maabo_dist.screens.blocks import SIXTHS, TENTHS, THIRDS
from maabo_dist.screens.conjunctions import excess_strength
from maabo_dist.screens.pairs import find_cut
from maabo_dist.screens.triples import LN_2
from maabo_dist.study import Study

# The most boxes of each class and number of conditions.
MAX_BOXES = 100
# The most subsets that are tried where no screen chose the first ones.
MAX_SUBSETS = 2000
# The most features of a subset, and of one whose features are also cut in their tails: it has 13ᵏ boxes.
MAX_SIZE, MAX_FINE_SIZE = 5, 3
# Subsets whose boxes are rated at a time.
CHUNK = 64
# What a feature does in a combination of directions: at most a cut, above a cut, or nothing.
DIRECTIONS = 3

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def add_boxes(leaves: Leaves, study: Study, subsets: npt.NDArray[np.int32], scores: Floats) -> Leaves:
    """Add the strongest boxes of the first of these subsets, on which trees with these scores were grown."""
    tried = np.arange(min(len(subsets), _count_tried(study)))
    tried = tried[~np.isnan(scores[tried])]  # others have no tree
    table, width = LevelTable.build(study, subsets[tried]), leaves.logic.shape[1]
    parts = [Boxes.none(width)]
    for size, selection, rows in rows_by_size(subsets[tried], study.plan.sizes):
        if 1 < size <= min(width, MAX_SIZE):
            trees = tried[selection]
            parts += [table.rate(rows[i : i + CHUNK], trees[i : i + CHUNK], width) for i in range(0, len(rows), CHUNK)]
    boxes = Boxes.concatenate(parts).strongest(_least_strength(study.columns.count))
    if not len(boxes):
        return leaves
    return Leaves.concatenate([leaves, refit(table.to_leaves(boxes, study, scores), study)])


def weakest_strengths(rules: Sequence[Rule], study: Study) -> dict[int, float]:
    """Return the strength of the weakest rule of each class that has one, among the rows that trees are grown on."""
    rows = study.tree_split.train
    labels, weakest = study.columns.labels[rows], dict[int, float]()
    for rule in rules:
        literals = np.array([[2 * feature + large] for feature, large in rule.logic], np.int32)
        holds = covered_rows(study.columns, rows, literals, np.array(rule.bounds)[:, None])
        without = [np.delete(holds, place, axis=0).all(axis=0) for place in range(len(holds))]
        covered = np.array([holds.all(axis=0), np.ones(len(rows), np.bool_), *without])
        sizes, hits = covered.sum(axis=1), covered[:, labels == rule.label].sum(axis=1)
        part, wholes = (int(sizes[0]), int(hits[0])), zip(sizes[1:].tolist(), hits[1:].tolist(), strict=True)
        among_all, *borne = (excess_strength(*part, *whole) for whole in wholes)
        weakest[rule.label] = min(among_all, len(holds) * min(borne), weakest.get(rule.label, inf))
    return weakest


def _count_tried(study: Study) -> int:
    """The first subsets are those that the screens chose; without screens, a small space is tried as a whole."""
    plan = study.plan
    if plan.screened:
        return plan.initial
    return plan.trees if plan.trees == plan.space_size <= MAX_SUBSETS else 0


def _least_strength(features: int) -> float:
    """The strength that the best of as many useless features might reach."""
    return features.bit_length() * LN_2


@dataclass(frozen=True, slots=True)
class Boxes:
    """The strongest box of each subset and combination of directions."""

    # (boxes, width): ascending literals, then NO_LITERAL; and the rank of the last value below the cut of each.
    logic: npt.NDArray[np.int32]
    cuts: Ints
    labels: Ints
    trees: Ints
    strengths: Floats

    @classmethod
    def none(cls, width: int) -> "Boxes":
        """Return no boxes."""
        empty = np.empty(0, np.int64)
        return cls(np.empty((0, width), np.int32), np.empty((0, width), np.int64), empty, empty, np.empty(0))

    @classmethod
    def concatenate(cls, parts: "list[Boxes]") -> "Boxes":
        """Put all parts together."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def __len__(self) -> int:
        return len(self.labels)

    def strongest(self, floor: float) -> "Boxes":
        """Return the strongest of each class and length, and none that is not stronger than `floor`; no rule twice."""
        kinds = self.labels * (self.logic.shape[1] + 1) + (self.logic != NO_LITERAL).sum(axis=1)
        order = np.lexsort([self.trees, -self.strengths, kinds])
        order = order[self.strengths[order] > floor]
        rules = np.column_stack([self.labels, self.logic, self.cuts])[order]
        order = order[np.sort(np.unique(rules, axis=0, return_index=True)[1])]
        kinds = kinds[order]
        best = order[np.arange(len(order)) - np.searchsorted(kinds, kinds) < MAX_BOXES]
        return Boxes(*(getattr(self, field.name)[best] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class LevelTable:
    """The training rows, with the number of cuts below each value."""

    # (D, cuts): ranks, ascending; of features in use.
    cuts: Ints
    # (D, rows): the ranks of the values.
    codes: npt.NDArray[Any]
    labels: Ints
    # (rows): units of weight; None if each row counts as one.
    units: Ints | None
    classes: int

    @classmethod
    def build(cls, study: Study, subsets: npt.NDArray[np.int32]) -> "LevelTable":
        """Find the cuts of the features of these subsets."""
        table, parts = study.table, _parts(study)
        cuts = np.full((len(table.train_codes), len(parts)), -1)
        for feature in np.unique(subsets).tolist():
            codes = table.train_codes[feature]
            counts = np.bincount(codes)
            cuts[feature] = [find_cut(counts, len(codes), part, whole) for part, whole in parts]
        labels = study.columns.labels[study.tree_split.train].astype(np.int64)
        units = table.units if len(table.units) else None
        return cls(cuts, table.train_codes, labels, units, len(table.weights))

    def rate(self, subsets: npt.NDArray[np.int32], trees: Ints, width: int) -> Boxes:
        """Rate the boxes of subsets of one size k: the strongest of each combination of directions and each subset."""
        count, k = subsets.shape
        cuts = self.cuts if k <= MAX_FINE_SIZE else self.cuts[:, _thirds(self.cuts.shape[1])]
        hits = self._count_boxes(subsets, cuts)
        sides = hits.shape[1]
        best = np.zeros((count, DIRECTIONS**k))
        places, labels = np.zeros(best.shape, np.int64), np.zeros(best.shape, np.int64)
        _rate(hits.reshape(count, -1, self.classes), sides, k, best, places, labels)
        subset, direction = np.nonzero(best)
        logic, ranks = _decode(places[subset, direction], subsets[subset], cuts, width)
        return Boxes(logic, ranks, labels[subset, direction], trees[subset], best[subset, direction])

    def _count_boxes(self, subsets: npt.NDArray[np.int32], cuts: Ints) -> Floats:
        """(subsets, sides, …, sides, C): rows of each class on these sides of the features.

        The sides of a feature are: at most each cut, above each cut, and all.
        """
        count, k = subsets.shape
        levels = cuts.shape[1] + 1
        cells = np.empty((count, levels**k * self.classes))
        binned = {f: np.searchsorted(cuts[f], self.codes[f], side="left") for f in np.unique(subsets).tolist()}
        for number, subset in enumerate(subsets.tolist()):
            cell = binned[subset[0]]
            for feature in subset[1:]:
                cell = cell * levels + binned[feature]
            cells[number] = np.bincount(cell * self.classes + self.labels, self.units, cells.shape[1])
        hits: Floats = cells.reshape(count, *(levels,) * k, self.classes) / (1 if self.units is None else UNIT)
        for axis in range(1, k + 1):
            below, all_rows = np.split(np.cumsum(hits, axis=axis), [levels - 1], axis=axis)
            hits = np.concatenate([below, all_rows - below, all_rows], axis=axis)
        return hits

    def to_leaves(self, boxes: Boxes, study: Study, scores: Floats) -> Leaves:
        """Return the boxes as leaves, their thresholds at the cuts."""
        table = study.table
        bounds, counts = np.zeros(boxes.logic.shape), np.empty((len(boxes), self.classes), np.int32)
        for number, (literals, ranks) in enumerate(zip(boxes.logic.tolist(), boxes.cuts.tolist(), strict=True)):
            covered = np.ones(len(self.labels), np.bool_)
            for place, (literal, rank) in enumerate(zip(literals, ranks, strict=True)):
                if literal == NO_LITERAL:
                    break
                covered &= (self.codes[literal // 2] > rank) == literal % 2
                value = table.offsets[literal // 2] + rank
                bounds[number, place] = between(table.values[value], table.values[value + 1])
            units = None if self.units is None else self.units[covered]
            counts[number] = count_classes(self.labels[covered], units, self.classes)
        return Leaves(
            logic=boxes.logic,
            bounds=bounds,
            counts=counts,
            gini=leaf_gini(counts, table.weights),
            tree=boxes.trees,
            score=scores[boxes.trees],
            seen=0,
            large=0,
        )


def _decode(places: Ints, features: npt.NDArray[np.int32], cuts: Ints, width: int) -> tuple[Any, Ints]:
    """The literals of boxes at these places of their features, and the ranks of their cuts."""
    number, k = cuts.shape[1], features.shape[1]
    sides = places[:, None] // (2 * number + 1) ** np.arange(k - 1, -1, -1) % (2 * number + 1)
    used = sides < 2 * number
    literals = np.where(used, 2 * features + (sides >= number), NO_LITERAL)
    ranks = np.where(used, cuts[features, sides % number], 0)
    order = np.argsort(literals, axis=1, kind="stable")
    logic = np.full((len(places), width), NO_LITERAL, np.int32)
    limits = np.zeros((len(places), width), np.int64)
    logic[:, :k], limits[:, :k] = (np.take_along_axis(each, order, axis=1) for each in (literals, ranks))
    return logic, limits


def _parts(study: Study) -> tuple[tuple[int, int], ...]:
    """The parts of the rows near which features are cut, ascending; in their tails if screens count there too."""
    nested = (TENTHS, SIXTHS, THIRDS) if study.plan.tenths else (THIRDS,)
    return (*(cuts[0] for cuts in nested), *(cuts[1] for cuts in reversed(nested)))


def _thirds(cuts: int) -> slice:
    """Which of so many cuts are the thirds: the two in the middle."""
    return slice(cuts // 2 - 1, cuts // 2 + 1)


@kernel
def _rate(hits: Any, sides: int, k: int, best: Any, places: Any, labels: Any) -> None:
    """Write the strength, place and class of the strongest box of each subset and combination of directions.

    A place is a number with a digit for each feature, its side; the last side is all of it.
    """
    conditions, directions, wider = _describe_places(hits.shape[1], sides, k)
    rows = np.empty(hits.shape[1])
    for subset in range(len(hits)):
        for place in range(len(rows)):
            rows[place] = hits[subset, place].sum()
        for place in range(len(rows)):
            direction = directions[place]
            if rows[place] <= 0 or conditions[place] < 2:
                continue
            for c in range(hits.shape[2]):
                least = best[subset, direction]
                strength = _strength(rows, hits[subset], place, c, wider[place], conditions[place], least)
                if strength > least:
                    best[subset, direction], places[subset, direction], labels[subset, direction] = strength, place, c


@kernel
def _describe_places(count: int, sides: int, k: int) -> Any:
    """(places): the number of conditions, and that of the combination of directions; (places, k): without each one.

    A feature that is not used has −1 instead of a place without its condition.
    """
    every = sides - 1
    conditions, directions = np.zeros(count, np.int64), np.zeros(count, np.int64)
    wider = np.full((count, k), -1)
    for place in range(count):
        power = 1
        for axis in range(k):
            side = place // power % sides
            if side != every:
                conditions[place] += 1
                wider[place, axis] = place + (every - side) * power
            directions[place] = DIRECTIONS * directions[place] + 2 * side // every
            power *= sides
    return conditions, directions, wider


@kernel
def _strength(rows: Any, hits: Any, place: int, label: int, wider: Any, conditions: int, least: float) -> float:
    """The strength of a box, or something less than what it needs."""
    strength = _excess(rows, hits, place, len(rows) - 1, label)
    for axis in range(len(wider)):
        if wider[axis] >= 0 and strength > least:
            strength = min(strength, conditions * _excess(rows, hits, place, wider[axis], label))
    return strength


@kernel
def _excess(rows: Any, hits: Any, part: int, whole: int, label: int) -> float:
    """The strength of a class in a part of the whole; see `excess_strength`."""
    share = hits[whole, label] / rows[whole]
    expected = share * rows[part]
    excess = hits[part, label] - expected
    if excess <= 1e-9 or share >= 1:
        return 0.0
    return float(excess * excess / (2 * (1 - share) * (expected + excess / 3)))
