"""The choice of findings: every class has one, no two share most of their rows, and each adds evidence."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.findings import evidence
from maabo_dist.findings.candidates import find_candidates, support
from maabo_dist.findings.confirmation import FEWER_ROWS, Strength
from maabo_dist.findings.rowbits import MinedRows
from maabo_dist.findings.selection import (
    CONDITION_DISCOUNT,
    DIFFERENT_Z,
    NEARLY_SAME_GAIN,
    SAME_ROWS,
    choose_findings,
    contain_each_other,
    have_same_rows,
    jaccard,
    wilson_low,
)
from maabo_dist.rules.leaves import LeafFilter, reliable_leaves
from maabo_dist.rules.statistics import wilson
from maabo_dist.trees.training import depth_search
from tests import factories


def candidate_rules(seed, classes=3, rows=400):
    """The supported rules of all trees of a table in which every class has rows of its own."""
    rng = np.random.default_rng(seed)
    matrix = rng.random((4, rows))
    labels = np.minimum((matrix[0] * classes).astype(int), (matrix[1] * 2 * classes).astype(int))
    labels = np.where(rng.random(rows) < 0.8, labels, rng.integers(0, classes, rows))
    return supported_rules(matrix, labels, classes, factories.make_split(rng, rows), width=3)


def supported_rules(matrix, labels, classes, split, width):
    study = factories.make_study(factories.columns_of(matrix, labels, classes), split, min_samples=5, gini=1.0)
    forest = depth_search(study.table, factories.every_subset(len(matrix), width), 4, whole=True)
    candidates, table = find_candidates(reliable_leaves(forest, LeafFilter.of(study)), study)
    return support(candidates, table, 0.05), table


def all_strong(rules):
    return np.full(len(rules), Strength.STRONG, np.int8)


@given(st.integers(0, 10**6), st.integers(1, 20))
def test_shared_and_added_rows_are_counted_as_by_hand(seed, count):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 150)
    mined = MinedRows.build(labels.astype(np.int32), rng.permutation(150), 3)
    masks, free = rng.random((count, 150)) < 0.3, rng.random(150) < 0.5
    bits, chosen = np.stack([mined.pack(mask) for mask in masks]), rng.permutation(count)[: count // 2 + 1]

    shared, either = evidence.count_shared(bits[0], bits)
    rows, hits = evidence.count_added(mined, bits, chosen, mined.pack(free), 1)

    assert shared.tolist() == (masks[0] & masks).sum(axis=1).tolist()
    assert either.tolist() == (masks[0] | masks).sum(axis=1).tolist()
    assert rows.tolist() == (masks[chosen] & free).sum(axis=1).tolist()
    assert hits.tolist() == (masks[chosen] & free & (labels[mined.rows] == 1)).sum(axis=1).tolist()


def test_rules_on_few_rows_are_the_same_finding_at_a_smaller_overlap():
    few, many = np.zeros((2, 60), bool), np.zeros((2, 6000), bool)
    few[0, :40], few[1, 20:] = True, True  # a third of the rows of either
    many[0, :4000], many[1, 2000:] = True, True
    layouts = [MinedRows.build(np.zeros(len(masks[0]), np.int32), np.arange(len(masks[0])), 1) for masks in (few, many)]
    few_bits, many_bits = (
        np.stack([mined.pack(mask) for mask in masks]) for mined, masks in zip(layouts, (few, many), strict=True)
    )

    assert jaccard(few_bits[0], few_bits[1:])[0] == jaccard(many_bits[0], many_bits[1:])[0] == pytest.approx(1 / 3)
    assert have_same_rows(few_bits[0], few_bits[1:])[0]
    assert not have_same_rows(many_bits[0], many_bits[1:])[0]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4), st.sampled_from(["balanced", "precision", "coverage"]))
def test_findings_of_a_class_cover_different_rows_and_every_class_with_rules_has_one(seed, classes, prefer):
    rules, table = candidate_rules(seed, classes)
    ranks = np.argsort(np.argsort(-rules.log_p))
    strengths = np.digitize(ranks, [len(rules) // 2, len(rules) * 3 // 4]).astype(np.int8)

    groups = choose_findings(rules, strengths, table, prefer)

    heads = [group.head for group in groups]
    base = table.mined.totals / table.mined.totals.sum()
    better = wilson_low(rules.hits, rules.rows) > base[rules.labels]
    assert set(rules.labels[heads].tolist()) == set(rules.labels[better].tolist())
    covered = evidence.cover(table.bits, table.mined, rules.conditions)
    for group in groups:
        same_class = [head for head in heads if head != group.head and rules.labels[head] == rules.labels[group.head]]
        similarity = jaccard(covered[group.head], covered[same_class])
        either = np.bitwise_count(covered[group.head] | covered[same_class]).sum(axis=1)
        error = np.sqrt(similarity * (1 - similarity) * FEWER_ROWS / np.maximum(either, 1))
        assert (similarity + DIFFERENT_Z * error < SAME_ROWS).all()
        assert not contain_each_other(covered[group.head], covered[same_class]).any()
        assert (rules.labels[list(group.others)] == rules.labels[group.head]).all()
        assert have_same_rows(covered[group.head], covered[list(group.others)]).all()
    tentative = (strengths[heads] < Strength.STRONG).tolist()
    assert tentative == sorted(tentative), "tentative findings are last"
    for head in (head for head in heads if strengths[head] == Strength.WEAK):
        assert (strengths[rules.labels == rules.labels[head]] == Strength.WEAK).all()
        assert (rules.labels[heads] == rules.labels[head]).sum() == 1
    members = [index for group in groups for index in (group.head, *group.others)]
    assert len(members) == len(set(members))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 3), st.sampled_from(["balanced", "coverage"]))
def test_further_findings_add_a_share_of_what_the_first_adds_and_half_of_it_in_a_class_of_most_rows(
    seed, classes, prefer
):
    rules, table = candidate_rules(seed, classes)
    mined = table.mined
    labels = np.repeat(np.arange(classes), mined.totals)
    covered = np.stack([mined.unpack(bits) for bits in evidence.cover(table.bits, mined, rules.conditions)])

    heads = [group.head for group in choose_findings(rules, all_strong(rules), table, prefer)]

    for label in np.unique(rules.labels[heads]).tolist():
        base, free, first = mined.totals[label] / mined.totals.sum(), np.ones(len(labels), bool), None
        for head in (head for head in heads if rules.labels[head] == label):
            added = covered[head] & free
            low, _ = wilson(int((labels[added] == label).sum()), int(added.sum()))
            excess = np.sqrt(added.sum()) * (low - base)
            first = first or excess
            share = 0.5 if base > 0.5 and prefer == "balanced" else 0.2
            assert excess >= share * first * (1 - 1e-9)
            free &= ~covered[head]


def test_the_only_finding_of_a_class_with_weak_rules_has_the_most_evidence_whatever_its_precision():
    rules, table = candidate_rules(7, 2)

    groups = choose_findings(rules, np.zeros(len(rules), np.int8), table, "precision")

    base = table.mined.totals / table.mined.totals.sum()
    low = wilson_low(rules.hits, rules.rows)
    evidence_of = np.sqrt(rules.rows) * (low - base[rules.labels]) * CONDITION_DISCOUNT**rules.lengths
    for group in groups:
        best = evidence_of[rules.labels == rules.labels[group.head]].max()
        assert evidence_of[group.head] >= NEARLY_SAME_GAIN * best


@pytest.mark.parametrize(
    ("rows", "prefer", "first"),
    [
        (1_000, "balanced", 0.4),
        (50_000, "balanced", 0.1),
        (50_000, "coverage", 0.4),
    ],
)
def test_precision_counts_more_the_more_rows_there_are(rows, prefer, first):
    """One rule covers 40 % of the rows with a precision of 0.8, another one 10 % with 0.88."""
    position = np.arange(rows) % 1000
    group = np.digitize(position, [400, 500])
    rank = position - np.array([0, 400, 500])[group]
    labels = (rank < np.array([320, 88, 92])[group]).astype(int)
    matrix = np.stack([group == 0, group == 1]).astype(float)
    split = factories.make_split(np.random.default_rng(0), rows)
    rules, table = supported_rules(matrix, labels, 2, split, width=1)

    groups = choose_findings(rules, all_strong(rules), table, prefer)

    heads = [group.head for group in groups if rules.labels[group.head] == 1]
    assert rules.rows[heads[0]] / table.mined.totals.sum() == pytest.approx(first, rel=0.1)


@given(st.integers(0, 10**4))
@settings(max_examples=10, deadline=None)
def test_a_limit_keeps_the_best_finding_of_every_class(seed):
    rules, table = candidate_rules(seed, 3)
    every = choose_findings(rules, all_strong(rules), table)
    classes = len({int(rules.labels[group.head]) for group in every})

    limited = choose_findings(rules, all_strong(rules), table, max_rules=classes)

    assert len({int(rules.labels[group.head]) for group in limited}) == classes
    assert {group.head for group in limited} <= {group.head for group in every}


@given(st.integers(0, 500), st.data())
def test_the_lower_wilson_limit_is_that_of_the_interval(rows, data):
    hits = data.draw(st.integers(0, rows))

    (low,) = wilson_low(np.array([hits]), np.array([rows]))

    assert low == pytest.approx(wilson(hits, rows)[0] or 0.0)
