"""Better thresholds: against their slow twin, and the rows of moved conditions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.data.preparation import prepare
from maabo_dist.findings.candidates import find_candidates, support
from maabo_dist.findings.evidence import NO_CONDITION
from maabo_dist.findings.threshold_search import add_better_thresholds
from maabo_dist.rules.leaves import LeafFilter, reliable_leaves
from maabo_dist.rules.rule import NO_LITERAL
from maabo_dist.settings import TableSettings
from maabo_dist.trees.training import depth_search
from tests import factories
from tests.findings.test_readable_conditions import a_frame
from tests.reference import findings as slow
from tests.reference.pruning import all_hold

SIGNIFICANCE = 0.05


def supported_rules(columns, split):
    """The supported rules of all trees on up to two features."""
    study = factories.make_study(columns, split, min_samples=5, gini=1.0, significance=SIGNIFICANCE)
    forest = depth_search(study.table, factories.every_subset(columns.count, 2), 3, whole=True)
    candidates, table = find_candidates(reliable_leaves(forest, LeafFilter.of(study)), study)
    return support(candidates, table, SIGNIFICANCE), table, study


def conditions_of(indices, table):
    """The conditions as (literal, bound) each; every one has one literal."""
    own = indices[indices != NO_CONDITION]
    return list(zip(table.literals[own, 0].tolist(), table.bounds[own, 0].tolist(), strict=True))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 3))
def test_the_best_threshold_of_every_condition_is_that_of_the_slow_twin(seed, classes):
    rng = np.random.default_rng(seed)
    matrix = rng.integers(0, 60, (3, 300)).astype(float)
    score = matrix[0] + 0.5 * matrix[1] + rng.normal(0, 12, 300)
    labels = np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))
    columns = factories.columns_of(matrix, labels, classes)
    rules, table, study = supported_rules(columns, factories.make_split(rng, 300))

    found, extended = add_better_thresholds(rules, table, study)

    mined = np.sort(table.mined.rows)
    described = [conditions_of(each, extended) for each in found.conditions]
    covered = {
        (label, frozenset(slow.rows_of(columns, mined, rule)))
        for label, rule in zip(found.labels.tolist(), described, strict=True)
    }
    limit = np.log(SIGNIFICANCE) - table.choices.log_independent
    allowances = [0.0, 0.0, 1.6, 6.2]

    def is_supported(rule, label):
        kept, closest = slow.supported(columns, mined, rule, label, dict.fromkeys(rule, limit), allowances)
        return kept == rule and closest > 1e-9

    for conditions, label in zip(rules.conditions[:12], rules.labels[:12].tolist(), strict=True):
        rule = conditions_of(conditions, table)
        assert (label, frozenset(slow.rows_of(columns, mined, rule))) in covered, "no rule is lost"
        for best in slow.better_thresholds(columns, mined, rule, label):
            if all(is_supported(each, label) for each in best):
                assert any((label, frozenset(slow.rows_of(columns, mined, each))) in covered for each in best)


def test_moved_conditions_hold_in_the_rows_that_their_literals_say():
    columns = prepare(a_frame(4), TableSettings(target="y")).columns
    rules, table, study = supported_rules(columns, factories.make_split(np.random.default_rng(0), columns.rows))

    _, extended = add_better_thresholds(rules, table, study)

    assert len(extended.literals) > len(table.literals) + 100
    bits = extended.mined.unpack(extended.bits)
    several = 0
    for literals, bounds, rows in zip(extended.literals, extended.bounds, bits, strict=True):
        own = [(int(each), float(bound)) for each, bound in zip(literals, bounds, strict=True) if each != NO_LITERAL]
        several += len(own) > 1
        assert (all_hold(study.columns, extended.mined.rows, own) == rows).all()
    assert several > 100, "conditions on columns with missing cells exclude them"


def test_a_rule_with_its_threshold_far_from_the_best_one_gets_it():
    """The class is frequent above 70 of 100, but the tree cuts at 40, where another one becomes rare."""
    rng = np.random.default_rng(0)
    values = np.arange(2000) % 100
    shares = np.select([values < 40, values < 70], [0.02, 0.35], 0.9)
    columns = factories.columns_of(values[None].astype(float), rng.random(2000) < shares)
    study = factories.make_study(columns, factories.make_split(rng, 2000), min_samples=5, gini=1.0)
    forest = depth_search(study.table, factories.every_subset(1, 1), 1, whole=True)
    candidates, table = find_candidates(reliable_leaves(forest, LeafFilter.of(study)), study)
    rules = support(candidates, table, SIGNIFICANCE)

    found, extended = add_better_thresholds(rules, table, study)

    best = int(np.argmax(np.where(found.labels == 1, found.hits / found.rows, 0)))
    assert max(rules.hits[rules.labels == 1] / rules.rows[rules.labels == 1]) < 0.75
    assert found.hits[best] / found.rows[best] > 0.85
    ((_, bound),) = conditions_of(found.conditions[best], extended)
    assert 66 <= bound <= 74
