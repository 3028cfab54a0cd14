"""Repeats on draws of the rows: stability and consensus rules."""

import json
from dataclasses import asdict
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from maabo_dist.contract.conditions import Condition, Op, RuleKey
from maabo_dist.contract.result import ResultDocument, StopReason, load_schema
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.columns import Feature, FeatureKind
from maabo_dist.data.preparation import prepare
from maabo_dist.errors import DatasetError
from maabo_dist.mining.local import mine
from maabo_dist.mining.repeats import check_repeats, mine_repeats, repeat_settings
from maabo_dist.report.coverage import with_coverage
from maabo_dist.report.diff import diff_documents
from maabo_dist.report.document import result_document
from maabo_dist.report.stability import mine_with_repeats, with_repeats
from maabo_dist.rules.conditions import conditions_of
from maabo_dist.settings import MiningSettings, RepeatSettings, TableSettings
from maabo_dist.study import split_for
from tests import factories
from tests.documents import document_json, holdout_json, rule_json, support_json
from tests.reference import stability as slow

QUICK = MiningSettings(trees=30, min_samples=40)


@cache
def breast_cancer():
    return prepare(*load_bundled("breast_cancer")).columns


def condition(feature, op="<=", value=1.0, **more):
    return {"feature": feature, "op": op, "value": value, **more}


def a_rule(*conditions, name="R1", label="yes", train=10, held=(10, 9)):
    return rule_json(
        *conditions,
        id=name,
        **{"class": label},
        train=support_json(train),
        validation=support_json(5, 4),
        holdout=holdout_json(*held),
    )


def a_document(*rules, seed=0):
    return document_json(*rules, settings={"split_seed": seed})


def rule_key(rule):
    conditions = [Condition(each["feature"], Op(each["op"]), each["value"]) for each in rule["conditions"]]
    return RuleKey.of(rule["class"], conditions)


@cache
def small_table():
    """40 rows: numbers that order them in different ways, a column with gaps, and a text."""
    draw = np.random.default_rng(1)
    frame = pd.DataFrame({name: draw.permutation(40) + 0.5 for name in "abcde"})  # whole numbers would be identifiers
    frame["near_a"] = frame["a"] + draw.choice([-1, 0, 1], 40)
    frame["colour"] = draw.choice(["red", "blue", "green"], 40)
    return frame.assign(y=np.where(np.arange(40) % 3, "no", "yes"))


@cache
def small_columns():
    return prepare(small_table(), TableSettings(target="y")).columns


def combined(document, repeated, threshold=0.5, requested=None):
    settings = RepeatSettings(repeats=len(repeated) if requested is None else requested, consensus=threshold)
    documents = list(map(ResultDocument.parse, repeated))
    return with_repeats(ResultDocument.parse(document), documents, settings, small_columns()).to_json()


def consensus_of(document):
    return [entry["text"] for entry in document["repeats"]["consensus"]]


def test_a_repeat_searches_half_of_the_rows_and_requires_half_as_many_in_a_rule():
    repeats = repeat_settings(MiningSettings(min_samples=51, min_samples_leaf=4), 3, rows=569)

    splits = [split_for(breast_cancer(), settings) for settings in repeats]
    assert {len(split.train) + len(split.validation) for split in splits} == {284}
    assert {(settings.min_samples, settings.min_samples_leaf) for settings in repeats} == {(26, 2)}
    assert len({split.train.tobytes() for split in splits}) == 3


def test_with_rows_held_out_a_repeat_searches_half_of_the_others():
    (settings,) = repeat_settings(MiningSettings(holdout=0.2), 1, rows=569)

    assert settings.holdout == pytest.approx(0.6)


@pytest.mark.parametrize(("preset", "rows", "holdout"), [("auto", 999, 0.5), ("auto", 1000, 0.6), ("paper", 1000, 0.5)])
def test_a_repeat_halves_what_the_preset_does_not_hold_out(preset, rows, holdout):
    (settings,) = repeat_settings(MiningSettings(preset=preset), 1, rows)

    assert settings.holdout == pytest.approx(holdout)


def test_repeats_are_certified_by_the_bound_alone():
    assert [each.certify for each in repeat_settings(MiningSettings(certify=100), 2, rows=569)] == ["off", "off"]


def test_draws_depend_only_on_the_split_seed_and_more_repeats_start_with_the_same():
    few, many = (repeat_settings(MiningSettings(seed=4), count, rows=569) for count in (3, 7))

    assert many[:3] == few
    assert [each.split_seed for each in repeat_settings(MiningSettings(seed=9, split_seed=4), 3, rows=569)] == [
        each.split_seed for each in few
    ]
    assert not {each.split_seed for each in many} & {
        each.split_seed for each in repeat_settings(MiningSettings(seed=5), 7, rows=569)
    }


def test_a_table_too_small_for_repeats_is_refused_before_anything_is_mined():
    columns = factories.columns_of(np.arange(36.0).reshape(3, 12), np.array([1] + [0] * 11, np.int32))

    with pytest.raises(DatasetError, match=r"^--repeats: half of the rows are too few\. .*training rows are of"):
        check_repeats(columns, repeat_settings(MiningSettings(), 10, rows=12))


def test_rules_are_equal_if_class_columns_signs_and_levels_agree_at_any_thresholds():
    rule = a_rule(condition("a"), condition("b", "=", "red"))
    same = a_rule(
        condition("b", "=", "red", or_missing=True),
        condition("a", value=7.0),
    )
    others = [
        a_rule(condition("a"), condition("b", "=", "red"), label="no"),
        a_rule(condition("a", ">"), condition("b", "=", "red")),
        a_rule(condition("a"), condition("b", "=", "blue")),
        a_rule(condition("a")),
        a_rule(condition("a"), condition("b", "=", "red"), condition("a", ">")),
    ]

    assert rule_key(rule) == rule_key(same)
    assert rule_key(rule) not in {rule_key(other) for other in others}


def test_a_threshold_that_crosses_the_imputed_value_makes_no_other_rule():
    age = Feature("age", "age", FeatureKind.NUMBER, missing=7, fill=40.0)
    below, above = (conditions_of([age], [0], [bound]) for bound in (39.5, 40.5))
    assert (below[0].or_missing, above[0].or_missing) == (False, True)
    one, other = (
        a_document(a_rule(*({**asdict(each), "op": each.op.value} for each in conditions)))
        for conditions in (below, above)
    )

    difference = diff_documents(ResultDocument.parse(one), ResultDocument.parse(other))

    assert (len(difference["moved"]), difference["only_in_one"], difference["only_in_other"]) == (1, [], [])


def test_each_rule_has_its_share_of_repeats_and_its_precision_on_their_unused_rows():
    first, second = a_rule(condition("a", value=20.0)), a_rule(condition("b", value=20.0), name="R2")
    repeated = [
        a_document(a_rule(condition("a", value=17.0), held=(10, 9))),
        a_document(a_rule(condition("near_a", value=22.0), held=(30, 21)), a_rule(condition("c", value=3.0))),
        a_document(),
        a_document(a_rule(condition("a", ">", value=20.0)), a_rule(condition("a", value=20.0), label="no")),
    ]

    document = combined(a_document(first, second), repeated)

    assert [rule["stability"] for rule in document["rules"]] == [
        {"share": 0.5, "returns": 2, "repeats": 4, "precision": 0.75},
        {"share": 0.0, "returns": 0, "repeats": 4, "precision": None},
    ]
    assert document["repeats"]["same_rows"] == 0.5


def test_consensus_rules_are_the_simplest_first_then_those_of_most_rows_the_tables_own_or_not():
    repeated = [
        a_document(
            a_rule(condition("a", value=30.0), condition("b", value=30.0)),
            a_rule(condition("c", value=9.0)),
            a_rule(condition("d", value=12.0)),
            *([a_rule(condition("e", ">", value=35.0))] if number == 0 else []),
        )
        for number in range(4)
    ]
    own = a_rule(condition("e", ">", value=35.0)), a_rule(condition("c", value=10.0), name="R2")

    document = combined(a_document(*own), repeated)

    assert [(entry["rule"], entry["text"], entry["rows"]) for entry in document["repeats"]["consensus"]][:2] == [
        (None, "IF d ≤ 12 THEN y = yes", 12),
        ("R2", "IF c ≤ 10 THEN y = yes", 10),
    ]
    assert document["repeats"]["consensus"][2]["text"] == "IF a ≤ 30 AND b ≤ 30 THEN y = yes"


def test_a_consensus_rule_is_the_most_typical_of_those_that_came_back():
    repeated = [a_document(a_rule(condition("a", value=value))) for value in (14.0, 20.0, 21.0, 27.0)]

    (entry,) = combined(a_document(), repeated)["repeats"]["consensus"]

    assert (entry["text"], entry["rows"], entry["stability"]["returns"]) == ("IF a ≤ 21 THEN y = yes", 21, 4)


@pytest.mark.parametrize(("threshold", "is_stable"), [(0.3, True), (0.31, False)])
def test_a_share_at_the_threshold_is_enough(threshold, is_stable):
    repeated = [a_document(a_rule(condition("a"))) if number < 3 else a_document() for number in range(10)]

    assert bool(consensus_of(combined(a_document(), repeated, threshold))) is is_stable


def test_rules_on_the_same_rows_come_back_as_the_same_rule_once_per_run():
    twice = a_document(a_rule(condition("a", value=20.0)), a_rule(condition("a", value=22.0), name="R2"))

    document = combined(twice, [twice, a_document()])

    assert [rule["stability"]["returns"] for rule in document["rules"]] == [1, 1]
    assert [entry["rule"] for entry in document["repeats"]["consensus"]] == ["R2", "R1"]


def test_a_note_reports_fewer_repeats_than_requested():
    document = combined(a_document(a_rule(condition("a"))), [a_document(a_rule(condition("a")))], requested=4)
    without = combined(a_document(a_rule(condition("a"))), [], requested=4)

    assert document["notes"] == ["Only 1 of 4 repeats were done; stability is based on these."]
    assert document["rules"][0]["stability"]["share"] == 1.0
    assert without["rules"][0]["stability"] == {"share": None, "returns": 0, "repeats": 0, "precision": None}
    assert without["repeats"]["rows"] is None


conditions = st.one_of(
    st.builds(
        condition,
        st.sampled_from(["a", "near_a", "b", "c"]),
        st.sampled_from(["<=", ">"]),
        st.sampled_from([4.5, 12.0, 20.0, 28.5, 36.0]),
    ),
    st.builds(condition, st.just("colour"), st.sampled_from(["=", "!="]), st.sampled_from(["red", "blue", "green"])),
)
rules_of_a_run = st.lists(
    st.builds(
        lambda premise, label: a_rule(*premise, label=label),
        st.lists(conditions, max_size=2),
        st.sampled_from(["no", "yes"]),
    ),
    max_size=4,
)


@given(rules_of_a_run, st.lists(rules_of_a_run, max_size=4), st.sampled_from([0.2, 0.5, 0.6, 1.0]))
@settings(max_examples=100, deadline=None)
def test_shares_and_consensus_equal_a_comparison_of_sets_of_rows(own, runs, threshold):
    own = [rule | {"id": f"R{number}"} for number, rule in enumerate(own, 1)]
    table = small_table().to_dict("records")

    document = combined(a_document(*own), [a_document(*run) for run in runs], threshold)

    assert [rule["stability"]["returns"] for rule in document["rules"]] == [
        sum(slow.comes_back(rule, run, table) is not None for run in runs) for rule in own
    ]
    found = [
        (entry["rule"], frozenset(slow.rows_of(entry, table)), entry["stability"]["returns"])
        for entry in document["repeats"]["consensus"]
    ]
    assert sorted(map(str, found)) == sorted(map(str, slow.consensus(own, runs, table, threshold)))
    assert [entry["rows"] for entry in document["repeats"]["consensus"]] == [len(rows) for _, rows, _ in found]


def test_findings_come_back_in_other_words():
    """Of two columns that say the same, each repeat may choose another."""
    draw = np.random.default_rng(4)
    x = draw.normal(size=600)
    frame = pd.DataFrame({f"x{number}": x + draw.normal(size=600) / 20 for number in range(6)})
    frame["noise"] = draw.normal(size=600)
    table = frame.assign(y=np.where((x > 0.3) ^ (draw.random(600) < 0.05), "yes", "no"))

    _, document = mine_with_repeats(
        prepare(table, TableSettings(target="y")).columns, MiningSettings(), RepeatSettings(repeats=6)
    )

    assert [rule.stability.returns for rule in document.rules] == [6] * len(document.rules)
    assert len(document.rules) == 2


@pytest.mark.parametrize("holdout", [None, 0.2])
def test_the_document_follows_the_schema_and_has_the_digest_of_the_table_itself(holdout):
    columns = prepare(*load_bundled("wine")).columns
    settings = MiningSettings(trees=50, holdout=holdout)

    result, document = mine_with_repeats(columns, settings, RepeatSettings(repeats=3))

    Draft202012Validator(load_schema()).validate(json.loads(document.to_text()))
    assert document.digest == result.digest == mine(columns, settings).digest
    assert document.repeats.done == 3
    assert {entry.rule for entry in document.repeats.consensus} >= {"R1", "R2", "R3"}


def test_the_number_of_threads_changes_nothing():
    documents = [mine_with_repeats(breast_cancer(), QUICK, RepeatSettings(repeats=2), jobs=n)[1] for n in (1, 2)]

    one, other = (
        document.model_copy(update={"search": document.search.model_copy(update={"seconds": 0.0})})
        for document in documents
    )
    assert one == other


def test_a_stopped_repeat_does_not_count_and_ends_them():
    repeats = repeat_settings(QUICK, 4, rows=569)

    def stop_in_the_third(run, progress):
        return run == 3 and progress.trees > 10

    results = list(mine_repeats(breast_cancer(), repeats, progress=stop_in_the_third))

    assert [each.settings.split_seed for each in results] == [each.split_seed for each in repeats[:2]]


def test_a_stop_of_the_table_itself_leaves_out_the_repeats():
    _, document = mine_with_repeats(
        breast_cancer(), QUICK, RepeatSettings(repeats=2), progress=lambda run, progress: progress.trees > 10
    )

    assert document.search.stopped is StopReason.REQUESTED
    assert document.repeats.done == 0


def test_without_repeats_the_document_is_that_of_the_result():
    columns = breast_cancer()
    result, document = mine_with_repeats(columns, QUICK, RepeatSettings())

    assert document == with_coverage(result_document(result, {"name": "table"}), columns)
    assert document.repeats is None
