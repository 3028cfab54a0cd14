"""Pruning: a condition stays in a rule only if the rows show that the rule is worse without it.

For a rule and one of its conditions, two groups of rows are compared: those that satisfy all conditions, and those that
satisfy all but this one. The evidence that the rule's class is more frequent in the first group is twofold. Validation
rows did not choose the condition, so their one-sided Fisher test is taken as it is. Training rows chose its threshold
as the best of many: their p-value is multiplied by the number of cuts that the feature has. Both are valid and
independent, and are combined by Fisher's method.

Many conditions of many leaves are tested, in two steps:

    features     A feature matters if its conditions, over all leaves, are supported: their p-values by the method of
                 Simes, and over all features of the table by that of Benjamini and Hochberg. Conditions on features
                 that do not matter are dropped first. In a wide table this step removes most chance findings.
    conditions   On features that matter, the least supported condition of a rule is dropped first, until each one left
                 is supported so well that in all leaves together less than one would be by chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from maabo_dist._util.jit import kernel
from maabo_dist.contract.conditions import ConditionTest
from maabo_dist.data.groups import effective_counts
from maabo_dist.data.weights import UNIT, to_rows
from maabo_dist.rules.conditions import conditions_of
from maabo_dist.rules.leaves import LeafFilter, Leaves, heaviest_classes, leaf_gini
from maabo_dist.rules.rule import NO_LITERAL, Rule
from maabo_dist.rules.statistics import benjamini_hochberg, combine_p_values, fisher_test, largest_significant_product
from maabo_dist.study import Study

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Multiplicity:
    """Corrections for multiple testing."""

    # (D): the false discovery rate at which each feature begins to matter.
    feature_q: Floats
    # The p-value of a condition is multiplied by this before it is compared with the level of significance.
    factor: float

    def adjust(self, feature: int, p: float) -> float:
        """The p-value of a condition on a feature, made comparable with the level of significance."""
        return max(float(self.feature_q[feature]), min(1.0, self.factor * p))


@dataclass(frozen=True, slots=True)
class Pruned:
    """Leaves without their unsupported conditions."""

    # Those that are still large and pure.
    leaves: Leaves
    # (leaves): the index of each among the leaves before pruning.
    source: Ints
    # Conditions dropped from these.
    dropped: int
    # Leaves that are no longer reliable.
    lost: int
    multiplicity: Multiplicity


def prune(leaves: Leaves, study: Study) -> Pruned:
    """Drop the conditions that the rows do not support at the settings' level of significance."""
    level, limits = study.settings.significance, LeafFilter.of(study)
    labels = heaviest_classes(leaves.counts, study.table.shares)
    present = leaves.logic != NO_LITERAL
    products = np.prod(_p_values(leaves.logic, leaves.bounds, labels, _bits(present), study), axis=0)
    p_values = combine_p_values(products)
    feature_q = feature_q_values(leaves.logic, p_values, study.columns.count)
    multiplicity = Multiplicity(feature_q, max(1.0, level * len(leaves)))
    matters = np.append(feature_q <= level, False)[_features(leaves.logic)]
    masks = _supported(leaves, labels, _bits(matters), largest_significant_product(level / multiplicity.factor), study)
    units = np.zeros(leaves.counts.shape, np.int64)
    _count_classes(
        (leaves.logic, leaves.bounds, masks), _rows(study, study.table.train_codes, study.split.train), units
    )
    counts = to_rows(units, study.columns.weights).astype(np.int32)
    gini = leaf_gini(counts, limits.weights)
    same_class = heaviest_classes(counts, study.table.shares) == labels
    source = np.flatnonzero((masks > 0) & same_class & limits.accepts(counts, gini))
    logic, bounds = _without_dropped(leaves, masks)
    pruned = replace(leaves, logic=logic, bounds=bounds, counts=counts, gini=gini).take(source)
    dropped = int(present[source].sum() - (pruned.logic != NO_LITERAL).sum())
    return Pruned(pruned, source, dropped, len(leaves) - len(source), multiplicity)


def with_condition_tests(
    rules: Sequence[Rule], published: Leaves, before: Leaves, pruned: Pruned, study: Study
) -> tuple[Rule, ...]:
    """Add to each rule the p-values of its conditions, and the conditions that its leaf lost with theirs.

    `published` are the leaves of the rules, of those in `pruned`; `before` are the leaves before pruning. A dropped
    condition is tested as one more condition of the rule as it is published. Dropped probes are not mentioned.
    """
    return tuple(
        _with_tests(rule, published.take(np.array([number])), before, pruned, study)
        for number, rule in enumerate(rules)
    )


def condition_tests(
    logic: npt.NDArray[np.int32], bounds: Floats, label: int, multiplicity: Multiplicity, study: Study
) -> tuple[ConditionTest, ...]:
    """Test each condition of a rule that predicts class `label` against its other conditions."""
    mask = np.array([(1 << len(logic)) - 1])
    training, validation = _p_values(logic[None], bounds[None], np.array([label]), mask, study)[:, 0]
    p_values = combine_p_values(training * validation).tolist()
    features = (logic >> 1).tolist()
    adjusted = [multiplicity.adjust(feature, p) for feature, p in zip(features, p_values, strict=True)]
    return tuple(
        ConditionTest(training=on_training, validation=on_validation, p=p)
        for on_training, on_validation, p in zip(training.tolist(), validation.tolist(), adjusted, strict=True)
    )


def _with_tests(rule: Rule, leaf: Leaves, before: Leaves, pruned: Pruned, study: Study) -> Rule:
    many, count = pruned.multiplicity, len(rule.logic)
    logic, bounds = leaf.logic[0, :count], leaf.bounds[0, :count]
    original = before.take(pruned.source[[_index_of(leaf, pruned.leaves)]])
    lost = ~np.isin(original.logic[0], [*logic, NO_LITERAL]) & (original.logic[0] >> 1 < study.table_columns.count)
    literals, thresholds = original.logic[0, lost], original.bounds[0, lost]
    dropped_tests = [
        condition_tests(np.append(logic, literal), np.append(bounds, threshold), rule.label, many, study)[-1]
        for literal, threshold in zip(literals, thresholds, strict=True)
    ]
    return replace(
        rule,
        tests=condition_tests(logic, bounds, rule.label, many, study),
        dropped=conditions_of(study.columns.features, literals.tolist(), thresholds.tolist()),
        dropped_tests=tuple(dropped_tests),
    )


def _index_of(leaf: Leaves, leaves: Leaves) -> int:
    """The index of the first of `leaves` that is this one."""
    same = (leaves.tree == leaf.tree) & (leaves.logic == leaf.logic).all(axis=1)
    return int(np.flatnonzero(same & (leaves.bounds == leaf.bounds).all(axis=1))[0])


def _p_values(logic: npt.NDArray[np.int32], bounds: Floats, labels: Ints, masks: Ints, study: Study) -> Floats:
    """(2, leaves, K): p-values on training rows, corrected for the number of cuts, and on validation rows.

    Only conditions whose bits are set in `masks` count; the p-value of others is 1.
    """
    cuts = np.append(np.maximum(1, np.diff(study.columns.offsets) - 1), 1).astype(np.float64)
    rules = (logic, bounds, masks)
    effect = study.design_effect
    training = _fisher(rules, labels, _rows(study, study.table.train_codes, study.split.train), effect)
    validation = _fisher(rules, labels, _rows(study, study.table.validation_codes, study.split.validation), effect)
    return np.stack([np.minimum(1.0, cuts[_features(logic)] * training), validation])


def _fisher(rules: tuple[Any, ...], labels: Ints, rows: tuple[Any, ...], effect: float) -> Floats:
    """(leaves, K): Fisher's test of rows where all conditions hold against those where all but one do.

    `effect` rows are worth one.
    """
    leaves, width = rules[0].shape
    hits, counts = np.zeros((2, leaves, width + 1), np.int64)
    _count_hits(rules, labels, rows, hits, counts)
    if len(rows[-1]):  # weights in units
        effect *= UNIT
    if effect != 1:
        misses = effective_counts(counts - hits, effect)
        hits = effective_counts(hits, effect)
        counts = hits + misses
    return fisher_test(hits[:, width:], counts[:, width:], hits[:, :width], counts[:, :width])


def _supported(leaves: Leaves, labels: Ints, masks: Ints, limit: float, study: Study) -> Ints:
    """Drop the condition of the greatest product of p-values, one after another, while it is above the limit."""
    masks, active = masks.copy(), np.flatnonzero(masks)
    while len(active):
        logic, bounds = leaves.logic[active], leaves.bounds[active]
        products = np.prod(_p_values(logic, bounds, labels[active], masks[active], study), axis=0)
        products[~_bit_matrix(masks[active], logic.shape[1])] = -1.0
        worst = products.argmax(axis=1)
        above = products[np.arange(len(active)), worst] > limit
        active = active[above]
        masks[active] &= ~(1 << worst[above])
        active = active[masks[active] != 0]
    return masks


def feature_q_values(logic: npt.NDArray[np.int32], p_values: Floats, features: int) -> Floats:
    """(D): Simes over the conditions on each feature, then Benjamini–Hochberg over the features; 1 for unused ones."""
    present = logic != NO_LITERAL
    feature, p = logic[present] >> 1, p_values[present]
    order = np.lexsort([p, feature])
    feature, p = feature[order], p[order]
    starts = np.flatnonzero(np.diff(feature, prepend=-1))
    counts = np.diff(np.append(starts, len(feature)))
    ranks = np.arange(len(feature)) - np.repeat(starts, counts) + 1
    by_feature = np.ones(features)
    if len(starts):
        simes = np.minimum.reduceat(p * np.repeat(counts, counts) / ranks, starts)
        by_feature[feature[starts]] = np.minimum(1.0, simes)
    return benjamini_hochberg(by_feature)


def _features(logic: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """(leaves, K): the feature of each literal; −1 where there is none."""
    return np.where(logic == NO_LITERAL, -1, logic >> 1)


def _bits(conditions: npt.NDArray[np.bool_]) -> Ints:
    """(leaves): a bit for each condition that is True."""
    bits: Ints = (conditions * (np.int64(1) << np.arange(conditions.shape[1]))).sum(axis=1, dtype=np.int64)
    return bits


def _bit_matrix(masks: Ints, width: int) -> npt.NDArray[np.bool_]:
    """The inverse of `_bits`."""
    matrix: npt.NDArray[np.bool_] = (masks[:, None] >> np.arange(width)) & 1 == 1
    return matrix


def _rows(study: Study, codes: npt.NDArray[Any], rows: Ints) -> tuple[Any, ...]:
    """A part of the rows, by their codes in the training table, as the kernels take it."""
    columns = study.columns
    units = np.empty(0, np.int64) if columns.weights is None else columns.weights[rows]
    return codes, columns.labels[rows].astype(np.int64), study.table.values, study.table.offsets, units


def _without_dropped(leaves: Leaves, masks: Ints) -> tuple[npt.NDArray[np.int32], Floats]:
    """Logic and bounds of the literals whose bits are set in `masks`, moved up to close the gaps."""
    stays = _bit_matrix(masks, leaves.logic.shape[1])
    order = np.argsort(~stays, axis=1, kind="stable")
    logic = np.take_along_axis(np.where(stays, leaves.logic, NO_LITERAL), order, axis=1).astype(np.int32)
    bounds = np.take_along_axis(np.where(stays, leaves.bounds, 0.0), order, axis=1)
    return logic, bounds


@kernel
def _count_hits(rules: Any, labels: Any, rows: Any, hits: Any, counts: Any) -> None:
    """For each leaf, count rows and those of its class: at j where all conditions but j hold, at K where all do."""
    masks, classes, units = rules[2], rows[1], rows[4]
    weighted = len(units) > 0
    satisfied, last = np.empty(len(classes), np.int64), hits.shape[1] - 1
    for leaf in range(len(masks)):
        mask = masks[leaf]
        _mark(rules, leaf, rows, satisfied)
        for row in range(len(satisfied)):
            missing = mask & ~satisfied[row]
            if missing & (missing - 1) == 0:  # none, or one
                place = last
                if missing != 0:
                    place = 0
                    while missing >> place != 1:
                        place += 1
                weight = units[row] if weighted else 1
                counts[leaf, place] += weight
                hits[leaf, place] += weight * (classes[row] == labels[leaf])


@kernel
def _count_classes(rules: Any, rows: Any, counts: Any) -> None:
    """For each leaf, count the rows of each class where all its conditions hold; none for a leaf without conditions.

    Units are counted if rows have weights.
    """
    masks, classes, units = rules[2], rows[1], rows[4]
    weighted = len(units) > 0
    satisfied = np.empty(len(classes), np.int64)
    for leaf in range(len(masks)):
        if masks[leaf] != 0:
            _mark(rules, leaf, rows, satisfied)
            for row in range(len(satisfied)):
                if satisfied[row] == masks[leaf]:
                    counts[leaf, classes[row]] += units[row] if weighted else 1


@kernel
def _mark(rules: Any, leaf: int, rows: Any, satisfied: Any) -> None:
    """Set bit j of each row in which condition j of the leaf holds, of those in its mask."""
    logic, bounds, masks = rules
    codes, _, values, offsets, _ = rows
    satisfied[:] = 0
    for j in range(logic.shape[1]):
        if masks[leaf] >> j & 1:
            feature, large = logic[leaf, j] >> 1, logic[leaf, j] & 1
            cut = np.searchsorted(values[offsets[feature] : offsets[feature + 1]], bounds[leaf, j], side="right")
            ranks = codes[feature]
            for row in range(len(satisfied)):
                satisfied[row] |= np.int64((ranks[row] >= cut) == large) << j
