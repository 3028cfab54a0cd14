"""Tests of the conditions of published findings, each against the rule's other conditions."""

from collections.abc import Sequence
from math import comb

import numpy as np
import numpy.typing as npt

from maabo_dist.contract.conditions import ConditionTest
from maabo_dist.data.columns import FeatureKind
from maabo_dist.data.groups import effective_counts
from maabo_dist.data.split import Part
from maabo_dist.findings.rowbits import Ints
from maabo_dist.rules.conditions import condition_literals
from maabo_dist.rules.counting import RowCounter
from maabo_dist.rules.matching import Floats, Logic, Mask, covered_rows
from maabo_dist.rules.rule import NO_LITERAL, Rule
from maabo_dist.rules.statistics import combine_p_values, fisher_test
from maabo_dist.study import Study

# More choices than this make any p-value 1.
MAX_CHOICES = 10**300


def condition_tests(rules: Sequence[Rule], study: Study, counter: RowCounter) -> list[tuple[ConditionTest, ...]]:
    """Test the rows of each rule against those that satisfy all of its conditions but one, for each of them.

    The training rows chose the condition: their p-value is multiplied by the number of conditions that they could have
    chosen on its column. The combined p-value is multiplied by the number of features.
    """
    groups = [_condition_groups(rule, study) for rule in rules]
    # All rules at once: each call may be a pass over a dataset.
    counts = counter.count(*_shorter_rules(rules, groups))
    ends = np.cumsum([1 + len(each) for each in groups])
    return [
        _test(rule, own, counts[end - 1 - len(own) : end], study, counter)
        for rule, own, end in zip(rules, groups, ends.tolist(), strict=True)
    ]


def _test(
    rule: Rule, groups: list[tuple[int, ...]], counts: Ints, study: Study, counter: RowCounter
) -> tuple[ConditionTest, ...]:
    training, validation = (_p_values(counts[:, part], rule.label, counter) for part in (Part.TRAIN, Part.VALIDATION))
    training = np.minimum(1.0, training * [_count_choices(rule, group, study) for group in groups])
    p_values = np.minimum(1.0, study.columns.count * combine_p_values(training * validation))
    tests = zip(training.tolist(), validation.tolist(), p_values.tolist(), strict=True)
    return tuple(ConditionTest(training=first, validation=second, p=p) for first, second, p in tests)


def _condition_groups(rule: Rule, study: Study) -> list[tuple[int, ...]]:
    """Return the positions of the literals of each condition."""
    literals = [2 * feature + large for feature, large in rule.logic]
    return condition_literals(study.columns.features, literals, rule.bounds)


def _shorter_rules(rules: Sequence[Rule], groups: Sequence[list[tuple[int, ...]]]) -> tuple[Logic, Floats]:
    """Return the literals and bounds of each rule, followed by those of it without each of its conditions."""
    width = max((len(rule.logic) for rule in rules), default=1)
    count = sum(1 + len(own) for own in groups)
    logic, bounds, number = np.full((count, width), NO_LITERAL, np.int32), np.zeros((count, width)), 0
    for rule, own in zip(rules, groups, strict=True):
        for group in ((), *own):
            kept = [position for position in range(len(rule.logic)) if position not in group]
            logic[number, : len(kept)] = [2 * rule.logic[each][0] + rule.logic[each][1] for each in kept]
            bounds[number, : len(kept)] = [rule.bounds[each] for each in kept]
            number += 1
    return logic, bounds


def _p_values(counts: Ints, label: int, counter: RowCounter) -> npt.NDArray[np.float64]:
    """(conditions): p-values, from the rows of each class that the rule and the shorter rules cover."""
    inside, outside = counts[:1], counts[1:] - counts[:1]
    hits, misses, other_hits, other_misses = (
        effective_counts(part, counter.effect * counter.unit)
        for part in (
            inside[:, label],
            inside.sum(axis=1) - inside[:, label],
            outside[:, label],
            outside.sum(axis=1) - outside[:, label],
        )
    )
    return fisher_test(
        *(np.broadcast_to(each, len(outside)).astype(np.int32) for each in (hits, hits + misses)),
        *(each.astype(np.int32) for each in (other_hits, other_hits + other_misses)),
    )


def _rows_of(rule: Rule, group: tuple[int, ...], study: Study, rows: Ints) -> Mask:
    """(rows): True where the literals of one condition hold."""
    logic = np.array([[2 * rule.logic[each][0] + rule.logic[each][1] for each in group]], np.int32)
    bounds = np.array([[rule.bounds[each] for each in group]])
    holds: Mask = covered_rows(study.columns, rows, logic, bounds)[0]
    return holds


def _count_choices(rule: Rule, group: tuple[int, ...], study: Study) -> int:
    """Return the number of cuts of a feature; for levels, the number of sets of this size."""
    feature = rule.logic[group[0]][0]
    entry, cuts = study.columns.features[feature], int(np.diff(study.columns.offsets[feature : feature + 2])[0]) - 1
    if entry.kind is not FeatureKind.SET:
        return max(1, cuts)
    everything = np.arange(study.columns.rows)
    codes = study.columns.codes[feature]
    size = len(np.unique(codes[_rows_of(rule, group, study, everything)]))
    return min(comb(cuts + 1, min(size, cuts + 1 - size)), MAX_CHOICES)
