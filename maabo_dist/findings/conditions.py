"""The conditions of candidate rules, each once, with the rows in which it holds.

A leaf has literals: a feature is at most, or above, a bound. Here they become the conditions that a person reads:

    sets      All literals on one text column are one condition: that its level is in a set.
    missing   `age ≤ 42` is two literals, as missing cells are below every number (see `recoding`): not missing, and at
              most 42. A leaf that does not separate missing cells gives this condition; the one that includes them
              becomes a candidate of its own if the missing cells support it.

A condition is charged for the conditions that could stand in its place. Sets of two and more levels are many, and are
therefore charged by themselves, those of each size for all of that size, so that they cost other conditions little.
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util.scratch import each_block, each_of
from maabo_dist.data.columns import Columns
from maabo_dist.data.recoding import MISSING_VALUE
from maabo_dist.findings import evidence
from maabo_dist.findings.evidence import NO_CONDITION, ConditionIndices, Floats
from maabo_dist.findings.rowbits import Bits, Ints, MinedRows, condition_bits
from maabo_dist.rules.leaves import Leaves
from maabo_dist.rules.rule import NO_LITERAL
from maabo_dist.rules.statistics import portable_log

# Ends the indices of a group of literals.
_NONE = -1


@dataclass(frozen=True, slots=True)
class Choices:
    """The number of conditions that the table allows, by which p-values are adjusted."""

    # (groups): conditions on one feature or text column, sets of several levels aside.
    singles: Ints
    # (groups): intervals between two bounds.
    intervals: Ints
    # Text columns with sets of several levels.
    sets: int

    @property
    def log_singles(self) -> float:
        """Ln of the number of conditions, sets of several levels aside."""
        return _log(float(self.singles.sum())) + self.log_families

    @property
    def log_independent(self) -> float:
        """Ln of the number of independent conditions, sets of several levels aside.

        Cuts of one feature are nested, and so are the rows that they divide: the best of k of them is about as strong
        as the best of (log₂(k + 1))² independent ones.
        """
        singles = self.singles.astype(np.float64)
        doublings = portable_log(singles / 2 + 1) / portable_log(np.array([2.0]))
        return _log(float(np.minimum(singles, 2 * doublings * doublings).sum())) + self.log_families

    @property
    def log_families(self) -> float:
        """Ln of the number of kinds of conditions that share the level of significance."""
        return _log(2.0) if self.sets else 0.0

    def log_sets(self, levels: int, size: int) -> float:
        """Ln of the number of sets of so many of a column's levels, or of all but so many, on any text column."""
        return _log_subsets(levels, size) + _log(2.0 * self.sets * (levels // 2 - 1))


@dataclass(frozen=True)
class ConditionTable:
    """The distinct conditions of all candidates, and the rows in which each holds."""

    # (conditions, W): ascending literals, 2 · feature, plus 1 if the value is above the bound; then NO_LITERAL.
    literals: npt.NDArray[np.int32]
    bounds: Floats
    bits: Bits
    mined: MinedRows
    choices: Choices
    # (conditions): for a set of several levels ln of the number of sets that could stand in its place, else 0.
    log_sets: Floats
    # (conditions): the conditions that missing cells satisfy too, that they alone satisfy, and that all others do; or
    # NO_CONDITION. The first two are known for conditions of leaves that did not separate missing cells.
    or_missing: Ints
    is_missing: Ints
    is_present: Ints
    # The number of rows that are worth one independent row.
    effect: float = 1.0

    @cached_property
    def factorials(self) -> Floats:
        """Ln k! for every number of rows."""
        # Counts of weighted rows are rounded class by class.
        most = max(len(self.mined.rows), int(self.mined.totals.sum()))
        return evidence.log_factorials(most + len(self.mined.totals) + 1)

    @property
    def log_choices(self) -> Floats:
        """(conditions): ln of the number of independent conditions that could stand in the place of this one."""
        families = self.choices.log_families
        return np.where(self.log_sets > 0, self.log_sets + families, self.choices.log_independent)

    def with_moved(self, origins: Ints, bounds: Floats, bits: Bits) -> "ConditionTable":
        """Return the table with further conditions, each with other bounds than the one that it comes from."""
        none = np.full(len(origins), NO_CONDITION, np.int64)
        return replace(
            self,
            literals=np.concatenate([self.literals, self.literals[origins]]),
            bounds=np.concatenate([self.bounds, bounds]),
            bits=np.concatenate([self.bits, bits]),
            log_sets=np.concatenate([self.log_sets, np.zeros(len(origins))]),
            or_missing=np.concatenate([self.or_missing, none]),
            is_missing=np.concatenate([self.is_missing, none]),
            is_present=np.concatenate([self.is_present, self.is_present[origins]]),
        )


def index_conditions(leaves: Leaves, columns: Columns, mined: MinedRows) -> tuple[ConditionTable, ConditionIndices]:
    """Return the distinct conditions of the leaves, and for each leaf the indices of its own.

    None of these holds in missing cells beside others.
    """
    builder = _Builder(columns, mined)
    present = leaves.logic != NO_LITERAL
    literals = leaves.logic[present].astype(np.int64)
    keys, which = np.unique(literals << 32 | builder.cuts(literals, leaves.bounds[present]), return_inverse=True)
    builder.add_literals((keys >> 32).astype(np.int32), keys & 0xFFFFFFFF)
    indices = np.full(leaves.logic.shape, NO_CONDITION, np.int64)
    indices[present] = which.ravel()
    features = np.where(present, leaves.logic >> 1, 0)
    conditions = builder.merge_levels(indices, np.where(present, builder.groups[features], _NONE))
    return builder.finish(conditions)


def raw_columns(columns: Columns) -> Ints:
    """(D): the raw column of each feature; −1 if it has none."""
    positions = {raw.column: index for index, raw in enumerate(columns.raw)}
    return np.array([positions.get(each.column, _NONE) for each in columns.features], np.int64)


def is_text(columns: Columns) -> npt.NDArray[np.bool_]:
    """(D): True for the features of text columns."""
    has_levels = np.array([bool(raw.levels) for raw in columns.raw] + [False])
    of_text: npt.NDArray[np.bool_] = has_levels[raw_columns(columns)]
    return of_text


def is_gapped(columns: Columns) -> npt.NDArray[np.bool_]:
    """(D): True for the features in which missing cells are below every number."""
    return np.array([each.fill == MISSING_VALUE for each in columns.features])


class _Builder:
    def __init__(self, columns: Columns, mined: MinedRows) -> None:
        self.columns, self.mined = columns, mined
        # (D): the raw column of each feature; of text columns alone.
        self.raw = raw_columns(columns)
        self.groups = np.where(is_text(columns), self.raw, _NONE)
        self.gapped = is_gapped(columns)
        # For each text column the levels in use, one bit each; missing cells have the lowest.
        self.universe = {
            int(group): sum(1 << int(code) for code in np.unique(columns.raw_codes[group]))
            for group in np.unique(self.groups[self.groups >= 0])
        }
        # Conditions that are not one literal each: their literals and bounds.
        self.others: list[tuple[tuple[int, float], ...]] = []
        self.bits: list[Bits] = []
        self.log_sets: list[float] = []
        self.or_missing: list[int] = []
        self.is_missing: list[int] = []
        self.is_present: list[int] = []
        self.choices = _count_choices(columns, mined, self.groups, self.gapped, self.universe)
        self._missing_of: dict[int, int] = {}
        self._present_of: dict[int, int] = {}
        self._set_of: dict[tuple[int, int], int] = {}
        # For each text column the codes of its levels, and a row that has each.
        self._levels_of: dict[int, tuple[npt.NDArray[Any], npt.NDArray[Any]]] = {}

    def cuts(self, literals: Ints, bounds: Floats) -> Ints:
        """Return the number of the feature's values that are at most the bound."""
        cuts, columns = np.empty(len(literals), np.int64), self.columns
        order = np.argsort(literals >> 1, kind="stable")
        features, starts = np.unique(literals[order] >> 1, return_index=True)
        parts = np.split(order, starts[1:])
        for feature, own in zip(each_of(features.tolist(), columns.values), parts, strict=False):
            cuts[own] = np.searchsorted(columns.distinct_values(feature), bounds[own], side="right")
        return cuts

    def add_literals(self, literals: npt.NDArray[np.int32], cuts: Ints) -> None:
        """Take the distinct literals, and make conditions of those that are not on text columns."""
        columns, features = self.columns, literals >> 1
        self.literals, self.literal_cuts = literals, cuts
        places = columns.offsets[features] + cuts - 1
        self.literal_bounds = np.array([columns.values[place] for place in each_of(places.tolist(), columns.values)])
        self.literal_bits = condition_bits(columns, self.mined, literals, self.literal_bounds)
        gapped, large, of_text = self.gapped[features], literals & 1 == 1, self.groups[features] != _NONE
        self.is_presence = gapped & (cuts == 1) & large & ~of_text
        with_missing = gapped & ~large & ~of_text
        self.plain = np.flatnonzero(~with_missing & ~of_text)
        self.condition_of = np.full(len(literals), NO_CONDITION, np.int64)
        self.condition_of[self.plain] = np.arange(len(self.plain))
        for index in np.flatnonzero(with_missing).tolist():
            feature, pair = int(features[index]), (int(literals[index]), float(self.literal_bounds[index]))
            self.condition_of[index] = (
                self._missing(feature)
                if cuts[index] == 1
                else self._add_both((pair,), self.literal_bits[index], feature)
            )

    def merge_levels(self, indices: Ints, groups: Ints) -> ConditionIndices:
        """Return the conditions of leaves, from the indices of their literals and the text columns of these."""
        conditions = np.where(indices >= 0, self.condition_of[indices], NO_CONDITION)
        # `> MISSING_VALUE` beside `≤ bound` of the same feature, which comes right before it, says nothing more.
        same_feature = self.literals[indices[:, 1:]] >> 1 == self.literals[indices[:, :-1]] >> 1
        present = (indices[:, 1:] >= 0) & (groups[:, 1:] == _NONE) & self.is_presence[indices[:, 1:]]
        conditions[:, 1:][same_feature & present] = NO_CONDITION
        in_group = groups >= 0
        starts = in_group.copy()
        starts[:, 1:] &= groups[:, 1:] != groups[:, :-1]
        if in_group.any():
            run = (np.cumsum(starts.ravel()) - 1).reshape(starts.shape)[in_group]
            first = np.flatnonzero(np.diff(run, prepend=-1))
            place = np.arange(len(run)) - first[run]
            runs = np.full((len(first), indices.shape[1]), _NONE)
            runs[run, place] = indices[in_group]
            distinct, which = np.unique(runs, axis=0, return_inverse=True)
            sets = np.array([self._add_set([index for index in each if index >= 0]) for each in distinct.tolist()])
            conditions[starts] = sets[which.ravel()]
        return -np.sort(-conditions, axis=1).astype(np.int32)

    def finish(self, conditions: ConditionIndices) -> tuple[ConditionTable, ConditionIndices]:
        """Return the table, and the indices of each leaf's conditions in it."""
        above = self.gapped[self.literals >> 1] & (self.literals & 1 == 1) & ~self.is_presence
        present = np.full(len(self.plain), NO_CONDITION, np.int64)
        for index in np.flatnonzero(above[self.plain]).tolist():
            present[index] = self._present(int(self.literals[self.plain[index]] >> 1))
        count, width = len(self.plain) + len(self.others), max([1, *(len(each) for each in self.others)])
        literals, bounds = np.full((count, width), NO_LITERAL, np.int32), np.zeros((count, width))
        literals[: len(self.plain), 0] = self.literals[self.plain]
        bounds[: len(self.plain), 0] = self.literal_bounds[self.plain]
        for index, each in enumerate(self.others, start=len(self.plain)):
            literals[index, : len(each)], bounds[index, : len(each)] = zip(*sorted(each), strict=True)
        none = np.full(len(self.plain), NO_CONDITION, np.int64)
        table = ConditionTable(
            literals,
            bounds,
            np.concatenate([self.literal_bits[self.plain], *(each[None] for each in self.bits)]),
            self.mined,
            self.choices,
            np.concatenate([np.zeros(len(self.plain)), self.log_sets]),
            np.concatenate([none, np.array(self.or_missing, np.int64)]),
            np.concatenate([none, np.array(self.is_missing, np.int64)]),
            np.concatenate([present, np.array(self.is_present, np.int64)]),
        )
        return table, conditions

    def _add(self, literals: tuple[tuple[int, float], ...], bits: Bits, log_sets: float = 0.0) -> int:
        self.others.append(literals)
        self.bits.append(bits)
        self.log_sets.append(log_sets)
        self.or_missing.append(NO_CONDITION)
        self.is_missing.append(NO_CONDITION)
        self.is_present.append(NO_CONDITION)
        return len(self.plain) + len(self.others) - 1

    def _add_both(
        self, literals: tuple[tuple[int, float], ...], bits: Bits, feature: int, log_sets: tuple[float, float] = (0, 0)
    ) -> int:
        """Add a condition that missing cells satisfy too, and the same without them, which is returned."""
        missing, loose = self._missing(feature), self._add(literals, bits, log_sets[0])
        plain, presence = len(self.plain), (2 * feature + 1, MISSING_VALUE)
        strict = self._add((*literals, presence), bits & ~self.bits[missing - plain], log_sets[1])
        self.or_missing[strict - plain], self.is_missing[strict - plain] = loose, missing
        self.is_present[strict - plain] = self._present(feature)
        return strict

    def _missing(self, feature: int) -> int:
        """Return the condition that the feature's column is missing."""
        raw = int(self.raw[feature])
        if raw not in self._missing_of:
            missing = self.mined.pack(self.columns.raw_codes[raw][self.mined.rows] == 0)
            self._missing_of[raw] = self._add(((2 * feature, MISSING_VALUE),), missing)
        return self._missing_of[raw]

    def _present(self, feature: int) -> int:
        """Return the condition that the feature's column is not missing."""
        raw = int(self.raw[feature])
        if raw not in self._present_of:
            present = self.mined.pack(self.columns.raw_codes[raw][self.mined.rows] != 0)
            self._present_of[raw] = self._add(((2 * feature + 1, MISSING_VALUE),), present)
        return self._present_of[raw]

    def _add_set(self, literals: list[int]) -> int:
        """Return the condition that all these literals on one text column are, without missing cells beside others."""
        group = int(self.groups[self.literals[literals[0]] >> 1])
        mask = self.universe[group]
        for literal in literals:
            mask &= self._levels(literal)
        if (group, mask) in self._set_of:
            return self._set_of[group, mask]
        pairs = tuple((int(self.literals[each]), float(self.literal_bounds[each])) for each in literals)
        bits = np.bitwise_and.reduce(self.literal_bits[literals], axis=0)
        gapped = [literal >> 1 for literal, _ in pairs if self.gapped[literal >> 1]]
        if mask == 1 and gapped:
            condition = self._missing(gapped[0])
        elif mask & 1 and gapped:
            costs = self._log_sets(group, mask), self._log_sets(group, mask & ~1)
            condition = self._add_both(pairs, bits, gapped[0], costs)
        else:
            condition = self._add(pairs, bits, self._log_sets(group, mask))
            if gapped:
                self.is_present[condition - len(self.plain)] = self._present(gapped[0])
        self._set_of[group, mask] = condition
        return condition

    def _levels(self, index: int) -> int:
        """Return the levels for which a literal holds, as bits."""
        feature, cut = int(self.literals[index] >> 1), int(self.literal_cuts[index])
        raw = int(self.raw[feature])
        if raw not in self._levels_of:
            self._levels_of[raw] = np.unique(self.columns.raw_codes[raw], return_index=True)
        levels, rows = self._levels_of[raw]
        holds = (self.columns.codes[feature][rows] >= cut) == bool(self.literals[index] & 1)
        return sum(1 << code for code in levels[holds].tolist())

    def _log_sets(self, group: int, mask: int) -> float:
        levels = self.universe[group].bit_count()
        size = min(mask.bit_count(), levels - mask.bit_count())
        return self.choices.log_sets(levels, size) if size > 1 else 0.0


def _count_choices(
    columns: Columns, mined: MinedRows, groups: Ints, gapped: npt.NDArray[np.bool_], universe: dict[int, int]
) -> Choices:
    cuts = np.array(
        [
            np.count_nonzero(np.bincount(codes[mined.rows])) - 1
            for block in each_block(columns.codes)
            for codes in columns.codes[block]
        ],
        np.int64,
    )
    cuts = np.maximum(1, cuts)[groups == _NONE]
    levels = np.array([mask.bit_count() for mask in universe.values()], np.int64)
    return Choices(
        # With missing cells, `≤ bound` may hold in them or not.
        np.concatenate([np.where(gapped[groups == _NONE], 3, 2) * cuts, 2 * levels]),
        np.concatenate([cuts * (cuts - 1) // 2, np.zeros(len(levels), np.int64)]),
        int((levels >= 4).sum()),
    )


@cache
def _log_subsets(count: int, size: int) -> float:
    """Ln of the number of subsets of this size."""
    factorials = evidence.log_factorials(count)
    return float(factorials[count] - factorials[size] - factorials[count - size])


@lru_cache(maxsize=256)
def _log(value: float) -> float:
    return float(portable_log(np.array([value]))[0])
