"""Counts and tests of candidate rules: equal to the slow twin, and right about planted conditions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.findings import evidence, rowbits
from maabo_dist.findings.candidates import find_candidates, support
from maabo_dist.findings.evidence import NO_CONDITION
from maabo_dist.findings.rowbits import MinedRows, condition_bits
from maabo_dist.rules.leaves import LeafFilter, reliable_leaves
from maabo_dist.trees.training import depth_search
from tests import factories
from tests.reference import findings as slow
from tests.reference.pruning import rules_of


def indexed(leaves, columns, mined):
    """The conditions of leaves, their bits, and the rules as indices of conditions."""
    rules = rules_of(leaves)
    distinct = sorted({condition for rule in rules for condition in rule})
    width = leaves.logic.shape[1]
    indices = np.full((len(rules), width), NO_CONDITION, np.int32)
    for number, rule in enumerate(rules):
        indices[number, : len(rule)] = [distinct.index(condition) for condition in rule]
    literals = np.array([literal for literal, _ in distinct], np.int32)
    bounds = np.array([bound for _, bound in distinct])
    return rules, distinct, condition_bits(columns, mined, literals, bounds), indices


@settings(max_examples=200)
@given(st.integers(1, 300), st.data())
def test_tails_are_those_of_the_hypergeometric_distribution(all_rows, data):
    all_hits = data.draw(st.integers(0, all_rows))
    rows = data.draw(st.integers(0, all_rows))
    hits = data.draw(st.integers(max(0, rows + all_hits - all_rows), min(rows, all_hits)))
    counts = (np.array([count]) for count in (hits, rows, all_hits, all_rows))

    (value,) = evidence.log_p_values(*counts, evidence.log_factorials(all_rows))

    assert value == pytest.approx(slow.log_p(hits, rows, all_hits, all_rows), rel=1e-9, abs=1e-9)


def test_the_tail_of_a_large_table_is_finite():
    counts = (np.array([count]) for count in (90_000, 100_000, 200_000, 1_000_000))

    (value,) = evidence.log_p_values(*counts, evidence.log_factorials(1_000_000))

    assert value == pytest.approx(float(slow.log_p(90_000, 100_000, 200_000, 1_000_000)), rel=1e-6)
    assert value < -100_000


def test_factorials_beyond_the_table_are_those_of_stirling():
    counts = [np.array([count]) for count in (9_000, 40_000, 60_000, 400_000)]

    (long,), (short,) = (evidence.log_p_values(*counts, evidence.log_factorials(most)) for most in (400_000, 2_000))

    assert short == pytest.approx(long, rel=1e-9)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(3, 200))
def test_rows_of_rules_are_those_that_satisfy_all_conditions(seed, classes, rows):
    rng = np.random.default_rng(seed)
    columns = factories.make_columns(rng, rows + 20, 4, classes)
    split = factories.make_split(rng, rows + 20)
    rows_mined = np.sort(np.concatenate([split.train, split.validation]))
    mined = MinedRows.build(columns.labels, rows_mined, classes)
    leaves = factories.make_rules(rng, columns, split, 8, weights=np.ones(classes))
    rules, _, bits, indices = indexed(leaves, columns, mined)

    covered = mined.unpack(evidence.cover(bits, mined, indices))
    counts = evidence.count_rows(bits, mined, indices)

    for number, rule in enumerate(rules):
        expected = slow.rows_of(columns, rows_mined, rule)
        assert set(mined.rows[covered[number]].tolist()) == expected
        labels = columns.labels[sorted(expected)]
        assert counts[number].tolist() == np.bincount(labels, minlength=classes).tolist()


@settings(max_examples=40)
@given(
    st.integers(0, 10**6),
    st.integers(2, 4),
    st.sampled_from([-0.5, -3.0, -8.0]),
    st.tuples(*[st.sampled_from([0.0, 0.7, 1.6, 4.6])] * 4),
)
def test_the_conditions_that_stay_are_those_that_the_slow_twin_keeps(seed, classes, limit, steps):
    allowances = np.cumsum([0.0, *steps])
    rng = np.random.default_rng(seed)
    columns, split = factories.make_planted(rng, 150, 4, classes, signal=0.9), factories.make_split(rng, 150)
    rows_mined = np.sort(np.concatenate([split.train, split.validation]))
    mined = MinedRows.build(columns.labels, rows_mined, classes)
    leaves = factories.make_rules(rng, columns, split, 10, weights=np.ones(classes))
    rules, distinct, bits, indices = indexed(leaves, columns, mined)
    labels = rng.integers(0, classes, len(rules))
    factorials = evidence.log_factorials(len(rows_mined))

    limits = limit - rng.integers(0, 3, len(distinct)).astype(float)
    kept = evidence.drop_unsupported(bits, mined, indices, labels, limits, factorials, allowances=allowances)

    by_condition = dict(zip(distinct, limits, strict=True))
    for rule, label, indices_kept in zip(rules, labels.tolist(), kept.tolist(), strict=True):
        expected, closest = slow.supported(columns, rows_mined, rule, label, by_condition, allowances)
        if closest > 1e-9:
            assert [distinct[index] for index in indices_kept if index != NO_CONDITION] == expected


def planted_rules(seed):
    """The supported rules of a table with one planted rule, on the first two of its eight features."""
    rng = np.random.default_rng(seed)
    matrix = rng.random((8, 1500))
    planted = (matrix[0] > 0.6) & (matrix[1] <= 0.5)
    labels = rng.random(1500) < np.where(planted, 0.8, 0.3)
    columns = factories.columns_of(matrix, labels)
    study = factories.make_study(columns, factories.make_split(rng, 1500), min_samples=5, gini=1.0)
    forest = depth_search(study.table, factories.every_subset(8, 3), 4, whole=True)
    candidates, table = find_candidates(reliable_leaves(forest, LeafFilter.of(study)), study)
    rules = support(candidates, table, 0.05)
    features = [set((table.literals[rule[rule != NO_CONDITION], 0] >> 1).tolist()) for rule in rules.conditions]
    return rules, table, features


def test_planted_conditions_stay_and_noise_goes():
    strong, noisy = 0, 0
    for seed in range(8):
        rules, _, features = planted_rules(seed)
        assert features[int(np.argmin(rules.log_p))] == {0, 1}
        own = np.flatnonzero(rules.log_p <= -25)
        strong, noisy = strong + len(own), noisy + sum(not features[rule] <= {0, 1} for rule in own)

    assert strong > 100
    assert noisy <= 0.05 * strong, "each condition is tested at 5 %"


def test_no_two_rules_of_a_class_cover_the_same_rows():
    rules, table, _ = planted_rules(3)

    covered = evidence.cover(table.bits, table.mined, rules.conditions)

    keys = {(label, bits.tobytes()) for label, bits in zip(rules.labels.tolist(), covered, strict=True)}
    assert len(keys) == len(rules)


@pytest.mark.parametrize("distinct", [1 << 16, (1 << 16) + 1])
def test_a_bound_outside_of_all_values_holds_for_every_row_or_none(distinct):
    columns = factories.columns_of(np.arange(float(distinct))[None], np.arange(distinct) % 2)
    mined = MinedRows.build(columns.labels, np.arange(distinct), 2)
    literals, bounds = np.array([0, 1, 0, 1, 1], np.int32), np.array([1e9, 1e9, -1.0, -1.0, distinct - 2.0])

    holds = mined.unpack(condition_bits(columns, mined, literals, bounds))

    assert holds.sum(axis=1).tolist() == [distinct, 0, 0, distinct, 1]
    assert mined.rows[holds[4]].tolist() == [distinct - 1]


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(1, 200), st.sampled_from([1, 200, 1 << 22]))
def test_bits_are_the_rows_in_which_a_condition_holds(seed, classes, rows, at_a_time):
    rng = np.random.default_rng(seed)
    columns = factories.make_columns(rng, rows + 20, 3, classes)
    mined_rows = np.sort(rng.choice(rows + 20, rows, replace=False))
    mined = MinedRows.build(columns.labels, mined_rows, classes)
    literals = rng.integers(0, 6, 20).astype(np.int32)
    bounds = np.array([rng.choice(columns.column(literal // 2)) + rng.choice([-0.5, 0, 0.5]) for literal in literals])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rowbits, "CHUNK_BITS", at_a_time)
        bits = condition_bits(columns, mined, literals, bounds)

    assert not (bits & ~mined.everything).any()
    for literal, bound, holds in zip(literals.tolist(), bounds.tolist(), mined.unpack(bits), strict=True):
        assert set(mined.rows[holds].tolist()) == slow.rows_of(columns, mined_rows, [(literal, bound)])
