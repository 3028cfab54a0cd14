"""Tests of the conditions of published findings, each against the rule's other conditions."""

from math import comb

import numpy as np
import numpy.typing as npt

from maabo_dist.contract.conditions import ConditionTest
from maabo_dist.data.columns import FeatureKind
from maabo_dist.data.groups import effective_counts
from maabo_dist.data.weights import UNIT
from maabo_dist.findings.rowbits import Ints
from maabo_dist.rules.conditions import condition_literals
from maabo_dist.rules.matching import covered_rows
from maabo_dist.rules.rule import Rule
from maabo_dist.rules.statistics import combine_p_values, fisher_test
from maabo_dist.study import Study

# More choices than this make any p-value 1.
MAX_CHOICES = 10**300

Masks = npt.NDArray[np.bool_]


def condition_tests(rule: Rule, study: Study) -> tuple[ConditionTest, ...]:
    """Test the rows of a rule against those that satisfy all of its conditions but one, for each of them.

    The training rows chose the condition: their p-value is multiplied by the number of conditions that they could have
    chosen on its column. The combined p-value is multiplied by the number of features.
    """
    literals = [2 * feature + large for feature, large in rule.logic]
    groups = condition_literals(study.columns.features, literals, rule.bounds)
    training, validation = (
        _p_values(rule, groups, study, rows) for rows in (study.split.train, study.split.validation)
    )
    training = np.minimum(1.0, training * [_count_choices(rule, group, study) for group in groups])
    p_values = np.minimum(1.0, study.columns.count * combine_p_values(training * validation))
    tests = zip(training.tolist(), validation.tolist(), p_values.tolist(), strict=True)
    return tuple(ConditionTest(training=first, validation=second, p=p) for first, second, p in tests)


def _p_values(rule: Rule, groups: list[tuple[int, ...]], study: Study, rows: Ints) -> npt.NDArray[np.float64]:
    holds = np.array([_rows_of(rule, group, study, rows) for group in groups])
    of_class = study.columns.labels[rows] == rule.label
    failed = (~holds).sum(axis=0)
    inside, outside = failed == 0, (failed == 1) & ~holds
    weights, effect = study.columns.weights, study.design_effect
    units = np.ones(len(rows), np.int64) if weights is None else weights[rows]
    hits, misses, other_hits, other_misses = (
        effective_counts(np.atleast_1d((covered & part) @ units), effect if weights is None else effect * UNIT)
        for covered in (inside, outside)
        for part in (of_class, ~of_class)
    )
    return fisher_test(
        *(np.broadcast_to(each, len(groups)).astype(np.int32) for each in (hits, hits + misses)),
        *(each.astype(np.int32) for each in (other_hits, other_hits + other_misses)),
    )


def _rows_of(rule: Rule, group: tuple[int, ...], study: Study, rows: Ints) -> Masks:
    """(rows): True where the literals of one condition hold."""
    logic = np.array([[2 * rule.logic[each][0] + rule.logic[each][1] for each in group]], np.int32)
    bounds = np.array([[rule.bounds[each] for each in group]])
    holds: Masks = covered_rows(study.columns, rows, logic, bounds)[0]
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
