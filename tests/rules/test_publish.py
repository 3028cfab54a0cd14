"""Published rules: the rows they cover, the leaves they displaced, and their digest."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from maabo_dist.contract.conditions import Op
from maabo_dist.contract.rules import HoldoutRecord, SupportRecord, Verdict
from maabo_dist.data.preparation import prepare
from maabo_dist.data.split import split_rows
from maabo_dist.rules.leaves import LeafFilter, reliable_leaves
from maabo_dist.rules.matching import covered_rows
from maabo_dist.rules.publishing import (
    TreeRecords,
    add_holdout_tests,
    judge,
    measure_support,
    publish,
    rules_digest,
    select_leaves,
)
from maabo_dist.rules.selection import distinct_leaves
from maabo_dist.rules.statistics import benjamini_hochberg, fisher_test, wilson
from maabo_dist.settings import TableSettings
from maabo_dist.trees.training import depth_search
from tests import factories
from tests.reference import gs_mrm


def a_frame(rng, rows=160):
    """Return numbers, two levels and several levels, with missing cells in all columns."""
    age, fare = rng.normal(40, 12, rows).round(), rng.exponential(30, rows)
    sex, port = rng.choice(["female", "male"], rows), rng.choice(["C", "Q", "S"], rows)
    survived = (sex == "female") ^ (age < 25) ^ (rng.random(rows) < 0.12)
    frame = pd.DataFrame({"age": age, "fare": fare, "sex": sex, "port": port, "survived": survived.astype(str)})
    for column in ("age", "sex", "port"):
        frame.loc[rng.random(rows) < 0.1, column] = None
    return frame


def published(seed=0, *, by="logic", holdout=0.25, **settings):
    """Return (frame, columns, split, leaves, selection, rules) of all trees over a small table with all kinds."""
    frame = a_frame(np.random.default_rng(seed))
    columns = prepare(frame, TableSettings(target="survived", missing_indicator=True)).columns
    split = split_rows(columns.labels, test_size=0.3, seed=seed, holdout=holdout)
    study = factories.make_study(columns, split, similarity_by=by, **{"similarity": 0.7, **settings})
    forest = depth_search(study.table, factories.every_subset(columns.count, 3), 4)
    leaves = distinct_leaves(reliable_leaves(forest, LeafFilter(6, 0.3, study.table.weights)), by_bounds=by == "rows")
    selection = select_leaves(leaves, study)
    rules = publish(leaves, selection, study, TreeRecords(forest.subsets, forest.depths, forest.best_scores))
    return frame, study.columns, split, leaves, selection, rules


def holds(condition, value):
    """True if a cell of the table, None if missing, satisfies a condition."""
    if condition.op is Op.IS_MISSING:
        return value is None
    if condition.op is Op.IS_PRESENT:
        return value is not None
    if value is None:
        return condition.or_missing
    match condition.op:
        case Op.AT_MOST:
            return value <= condition.value
        case Op.ABOVE:
            return value > condition.value
        case Op.AT_LEAST:
            return value >= condition.value
        case Op.IS:
            return value == condition.value
        case Op.IS_NOT:
            return value != condition.value
        case Op.IN:
            return value in condition.value
        case Op.NOT_IN:
            return value not in condition.value


def rows_of(rule, frame, rows):
    """Return the positions among `rows` where every condition of the rule holds in the table itself."""
    cells = frame.astype(object).where(frame.notna(), None)
    return {row for row in rows if all(holds(c, cells[c.feature].iloc[row]) for c in rule.conditions)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("by", ["logic", "rows"])
def test_the_counts_of_a_rule_are_those_of_the_rows_that_satisfy_it(seed, by):
    frame, columns, split, _, _, rules = published(seed, by=by)

    assert rules
    for rule in rules:
        for part, stated in (
            (split.train, rule.train),
            (split.validation, rule.validation),
            (split.holdout, rule.holdout),
        ):
            inside = rows_of(rule, frame, part.tolist())
            labels = columns.labels[sorted(inside)].tolist()
            assert (stated.rows, stated.n) == (len(part), len(inside))
            assert tuple(stated.counts.values()) == tuple(labels.count(c) for c in range(2))
        assert (rule.n, rule.counts) == (rule.train.n, tuple(rule.train.counts.values()))


@pytest.mark.parametrize("seed", range(4))
def test_unique_rows_are_those_that_no_other_rule_covers(seed):
    frame, _, split, _, _, rules = published(seed)
    covered = [rows_of(rule, frame, split.train.tolist()) for rule in rules]

    for number, rule in enumerate(rules):
        others = set().union(*(rows for other, rows in enumerate(covered) if other != number))
        assert rule.unique == len(covered[number] - others)


@pytest.mark.parametrize("by", ["logic", "rows"])
def test_each_rule_shows_the_purest_of_the_leaves_it_displaced(by):
    _, columns, split, leaves, selection, rules = published(1, by=by, similarity=0.5)
    covered = covered_rows(columns, split.train, leaves.logic, leaves.bounds)
    rows = [set(np.flatnonzero(mask).tolist()) for mask in covered]
    references = factories.reference_leaves(leaves)

    def similarity(a, b):
        return gs_mrm.simpson(rows[a], rows[b]) if by == "rows" else gs_mrm.by_logic(references[a], references[b])

    assert sum(rule.displaced_total for rule in rules) == len(leaves) - len(rules) > 0
    for number, rule in enumerate(rules):
        mine = []
        for index in range(len(leaves)):
            alike = [similarity(index, int(chosen)) >= 0.5 for chosen in selection.chosen]
            if index not in selection.chosen and alike.index(True) == number:
                mine.append(index)
        purest = sorted(mine, key=lambda index: leaves.gini[index])[:5]
        assert rule.displaced_total == len(mine)
        assert [leaf.gini for leaf in rule.displaced] == [leaves.gini[index] for index in purest]
        assert [leaf.n for leaf in rule.displaced] == [leaves.sizes[index] for index in purest]
        chosen = int(selection.chosen[number])
        assert [leaf.similarity for leaf in rule.displaced] == [similarity(index, chosen) for index in purest]
        assert all(leaf.similarity >= 0.5 for leaf in rule.displaced)


def test_the_most_similar_rule_is_the_first_of_the_most_similar_by_logic():
    *_, rules = published(2)
    logics = [frozenset(rule.logic) for rule in rules]

    assert any(rule.most_similar for rule in rules)
    for number, rule in enumerate(rules):
        values = [
            -1 if other == number else gs_mrm.simpson(logics[number], logic) for other, logic in enumerate(logics)
        ]
        nearest = values.index(max(values))
        expected = (f"R{nearest + 1}", values[nearest]) if values[nearest] > 0 else (None, 0.0)
        assert (rule.most_similar, rule.most_similar_by) == expected


def test_rules_name_their_source_and_carry_their_logic():
    _, columns, _, leaves, selection, rules = published(3)

    assert [rule.id for rule in rules] == [f"R{number + 1}" for number in range(len(rules))]
    for rule, leaf in zip(rules, leaves.take(selection.chosen).logic, strict=True):
        names = {columns.features[feature].name for feature, _ in rule.logic}
        assert names <= set(rule.source.subset)
        assert [2 * feature + large for feature, large in rule.logic] == leaf[: len(rule.logic)].tolist()
        assert len(rule.bounds) == len(rule.logic) >= len(rule.conditions)


def test_the_class_of_a_rule_is_the_heaviest_not_the_most_frequent():
    rng = np.random.default_rng(4)
    labels = (rng.random(200) < 0.1).astype(int)
    matrix = np.array([(labels == 1) | (rng.random(200) < 0.15), rng.random(200)], float)
    columns, split = factories.columns_of(matrix, labels), factories.make_split(rng, 200)
    study = factories.make_study(columns, split)
    forest = depth_search(study.table, np.array([[0]]), 1)
    leaves = distinct_leaves(reliable_leaves(forest, LeafFilter(5, 0.49, study.table.weights)))
    selection = select_leaves(leaves, study)
    rules = publish(leaves, selection, study, TreeRecords(forest.subsets, forest.depths, forest.best_scores))

    (rare,) = [rule for rule in rules if rule.logic == ((0, True),)]

    assert rare.counts[0] > rare.counts[1]
    assert rare.label == 1


def test_without_held_out_rows_rules_have_no_holdout():
    *_, rules = published(0, holdout=0.0)

    assert [rule.holdout for rule in rules] == [None] * len(rules)


CLASSES = ("no", "yes")


def changed_condition(rule, **change):
    return replace(rule, conditions=(replace(rule.conditions[0], **change), *rule.conditions[1:]))


@pytest.mark.parametrize(
    "change",
    [
        lambda rule: changed_condition(rule, feature="other"),
        lambda rule: changed_condition(rule, op=Op.IS_MISSING),
        lambda rule: changed_condition(rule, value=1e-300),
        lambda rule: changed_condition(rule, or_missing=not rule.conditions[0].or_missing),
        lambda rule: replace(rule, conditions=rule.conditions[1:]),
        lambda rule: replace(rule, conditions=(*rule.conditions, rule.conditions[0])),
        lambda rule: replace(rule, label=1 - rule.label),
        lambda rule: replace(rule, counts=(rule.counts[0] + 1, rule.counts[1])),
    ],
    ids=["feature", "op", "value", "or missing", "fewer", "more", "class", "counts"],
)
def test_the_digest_changes_with_every_part_of_a_rule(change):
    *_, rules = published(0)

    for index, rule in enumerate(rules):
        others = (*rules[:index], change(rule), *rules[index + 1 :])
        assert rules_digest(others, CLASSES) != rules_digest(rules, CLASSES)


def test_the_digest_changes_with_the_order_the_number_and_the_names_of_classes():
    *_, rules = published(0)
    digest = rules_digest(rules, CLASSES)

    assert rules_digest(rules[::-1], CLASSES) != digest
    assert rules_digest(rules[:-1], CLASSES) != digest
    assert rules_digest(rules, ("no", "Yes")) != digest
    assert rules_digest(rules, CLASSES) == digest


def test_the_digest_does_not_change_with_the_evidence():
    *_, rules = published(0)
    bare = [
        replace(
            rule,
            id="R99",
            validation=rule.train,
            holdout=None,
            unique=0,
            most_similar=None,
            most_similar_by=0.0,
            source=rule.source.model_copy(update={"tree": 0, "score": 0.0}),
            displaced=(),
            displaced_total=0,
        )
        for rule in rules
    ]

    assert rules_digest(bare, CLASSES) == rules_digest(rules, CLASSES)


def test_the_difference_of_two_neighbouring_thresholds_is_in_the_digest():
    *_, rules = published(0)
    (index, rule), *_ = [(p, r) for p, r in enumerate(rules) if isinstance(r.conditions[0].value, float)]
    moved = changed_condition(rule, value=float(np.nextafter(rule.conditions[0].value, np.inf)))

    assert rules_digest([*rules[:index], moved, *rules[index + 1 :]], CLASSES) != rules_digest(rules, CLASSES)


def test_support_equals_a_manual_count():
    rng = np.random.default_rng(2)
    for _ in range(100):
        rows, classes = int(rng.integers(1, 30)), int(rng.integers(2, 5))
        labels = rng.integers(0, classes, rows).astype(np.int32)
        covered = rng.random(rows) < rng.choice([0.0, 0.1, 0.6, 1.0])
        label = int(rng.integers(0, classes))

        support = measure_support(covered, labels, label, [f"c{number}" for number in range(classes)])

        inside = [int(y) for y, is_in in zip(labels, covered, strict=True) if is_in]
        of_class = labels.tolist().count(label)
        assert (support.rows, support.n) == (rows, len(inside))
        assert support.counts == {f"c{number}": inside.count(number) for number in range(classes)}
        precision = inside.count(label) / len(inside) if inside else None
        assert support.precision == precision
        assert support.recall == (inside.count(label) / of_class if of_class else None)
        if precision is None or not of_class:
            assert support.lift is None
        else:
            assert support.lift == pytest.approx(precision / (of_class / rows))


def test_held_out_rules_carry_their_interval_and_are_corrected_together():
    labels = np.array([0] * 10 + [1] * 10, np.int32)
    masks = [np.arange(20) < 6, np.arange(20) >= 9, np.arange(20) % 2 == 0, np.zeros(20, bool)]
    predicted = [0, 1, 0, 1]
    supports = [measure_support(mask, labels, label, "ab") for mask, label in zip(masks, predicted, strict=True)]

    names = ["ab"[label] for label in predicted]
    tested = add_holdout_tests(supports, names, np.array([10] * 4))

    hits = np.array([part.counts[name] for part, name in zip(supports, names, strict=True)])
    covered = np.array([part.n for part in supports])
    p_values = fisher_test(hits, covered, 10 - hits, 20 - covered)
    assert [part.p for part in tested] == p_values.tolist()
    assert [part.q for part in tested] == benjamini_hochberg(p_values).tolist()
    for part, before, name in zip(tested, supports, names, strict=True):
        assert (part.rows, part.n, part.counts, part.recall) == (before.rows, before.n, before.counts, before.recall)
        assert (part.precision_low, part.precision_high) == wilson(before.counts[name], before.n)


@pytest.mark.parametrize(("hits", "n", "verdict"), [(30, 30, Verdict.HELD_UP), (2, 2, Verdict.NOT_TESTED)])
def test_a_rule_without_exceptions_holds_up_if_enough_unseen_rows_have_none(hits, n, verdict):
    mined = SupportRecord(rows=300, n=90, counts={"no": 0, "yes": 90}, precision=1.0, recall=0.6, lift=2.0)
    low, high = wilson(hits, n)
    unseen = HoldoutRecord(
        rows=100,
        n=n,
        counts={"no": n - hits, "yes": hits},
        precision=hits / n,
        recall=0.6,
        lift=2.0,
        precision_low=low,
        precision_high=high,
        p=0.0,
        q=0.0,
    )

    assert judge(unseen, mined, mined, "yes") is verdict
