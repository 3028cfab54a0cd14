"""What speaks for each condition of a published rule, and for each that its leaf lost: leaves in, p-values out.

The test is that of `pruning`: of the rows in which all other conditions hold, is the rule's class more frequent where
this one holds too? A condition that was dropped is tested as one more condition of the rule as it is published.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from maabo_dist.data.columns import Columns
from maabo_dist.data.split import Split
from maabo_dist.rules.leaves import NO_LITERAL, Leaves
from maabo_dist.rules.matching import covered_rows
from maabo_dist.rules.pruning import Multiplicity, Pruned, combined, cut_counts
from maabo_dist.rules.rule import ConditionTest
from maabo_dist.study import Study

Premise = list[tuple[int, float]]
"""Literals and their thresholds."""


@dataclass(frozen=True, slots=True)
class Reasons:
    """Of one rule: a test for each condition, and what was dropped with a test for each."""

    tests: tuple[ConditionTest, ...]
    dropped: Premise
    dropped_tests: tuple[ConditionTest, ...]


def reasons(pruned: Pruned, before: Leaves, kept: Leaves, labels: Sequence[int], study: Study) -> list[Reasons]:
    """For leaves `kept` of the pruned ones, with the class of each; `before` they were pruned, they demanded more."""
    columns, split = study.columns, study.split
    return [_reasons(pruned, before, kept, number, label, columns, split) for number, label in enumerate(labels)]


def condition_test(
    columns: Columns,
    split: Split,
    label: int,
    others: Premise,
    this: tuple[int, float],
    multiplicity: Multiplicity,
) -> ConditionTest:
    """What the rows say of a condition beside others: validation rows as it is, training rows corrected."""
    training = fisher(*_groups(columns, split.train, label, others, this))
    validation = fisher(*_groups(columns, split.validation, label, others, this))
    feature = this[0] // 2
    training = min(1.0, float(cut_counts(columns)[feature]) * training)
    both = float(combined(np.array([training * validation]))[0])
    return ConditionTest(training, validation, multiplicity.adjusted(feature, both))


def fisher(hits: int, rows: int, other_hits: int, other_rows: int) -> float:
    """One-sided Fisher test: how likely so many hits among `rows`, or more, if both groups were alike."""
    from scipy.special import gammaln

    total, most = hits + other_hits, min(rows, hits + other_hits)
    least = max(0, total - other_rows)
    if hits <= least:
        return 1.0
    x = np.arange(hits, most + 1)
    chosen = gammaln(rows + 1) - gammaln(x + 1) - gammaln(rows - x + 1)
    rest = gammaln(other_rows + 1) - gammaln(total - x + 1) - gammaln(other_rows - total + x + 1)
    everything = gammaln(rows + other_rows + 1) - gammaln(total + 1) - gammaln(rows + other_rows - total + 1)
    return float(min(1.0, np.exp(chosen + rest - everything).sum()))


def _reasons(
    pruned: Pruned, before: Leaves, kept: Leaves, number: int, label: int, columns: Columns, split: Split
) -> Reasons:
    premise, many = _premise(kept, number), pruned.multiplicity
    held = {literal for literal, _ in premise}
    dropped = [part for part in _premise(before, _origin(pruned, kept, number)) if part[0] not in held]
    return Reasons(
        tests=tuple(condition_test(columns, split, label, _without(premise, part), part, many) for part in premise),
        dropped=dropped,
        dropped_tests=tuple(condition_test(columns, split, label, premise, part, many) for part in dropped),
    )


def _origin(pruned: Pruned, kept: Leaves, number: int) -> int:
    """The place, among the leaves before pruning, of the one that a kept leaf was."""
    same = pruned.leaves.tree == kept.tree[number]
    same &= (pruned.leaves.logic == kept.logic[number]).all(axis=1)
    same &= (pruned.leaves.bounds == kept.bounds[number]).all(axis=1)
    return int(pruned.source[np.flatnonzero(same)[0]])


def _premise(leaves: Leaves, place: int) -> Premise:
    literals, bounds = leaves.logic[place].tolist(), leaves.bounds[place].tolist()
    return [(literal, bound) for literal, bound in zip(literals, bounds, strict=True) if literal != NO_LITERAL]


def _without(premise: Premise, part: tuple[int, float]) -> Premise:
    return [other for other in premise if other is not part]


def _groups(
    columns: Columns, rows: npt.NDArray[np.int64], label: int, others: Premise, this: tuple[int, float]
) -> tuple[int, int, int, int]:
    """Hits and rows where all conditions hold, and where all but this one do."""
    both, one = _holding(columns, rows, [*others, this]), _holding(columns, rows, others)
    right = columns.labels[rows] == label
    hits, count = int((both & right).sum()), int(both.sum())
    return hits, count, int((one & right).sum()) - hits, int(one.sum()) - count


def _holding(columns: Columns, rows: npt.NDArray[np.int64], premise: Premise) -> npt.NDArray[np.bool_]:
    logic = np.array([[literal for literal, _ in premise]], np.int32)
    bounds = np.array([[bound for _, bound in premise]], np.float64)
    covered: npt.NDArray[np.bool_] = covered_rows(columns, rows, logic, bounds)[0]
    return covered
