import json

import pydantic
import pytest
from handmade import (
    AGE,
    make_displaced,
    make_document,
    make_held_out,
    make_record,
    make_repeated,
    make_result,
    make_rule,
    make_search,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError

from maabo_dist.contract.conditions import Condition, ConditionTest, Op
from maabo_dist.contract.result import ResultDocument, load_schema
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.errors import FormatError
from maabo_dist.mining.local import mine
from maabo_dist.report.document import result_document
from maabo_dist.settings import MiningSettings

VALIDATOR = Draft202012Validator(load_schema())

bounds = st.builds(
    Condition,
    st.text(),
    st.sampled_from([Op.AT_MOST, Op.ABOVE]),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)
levels = st.builds(Condition, st.text(), st.sampled_from([Op.IS, Op.IS_NOT]), st.text(), st.booleans())
absences = st.builds(Condition, st.text(), st.sampled_from([Op.IS_MISSING, Op.IS_PRESENT]), st.none())
premises = st.lists(bounds | levels | absences, max_size=5)


def test_the_schema_is_a_schema():
    Draft202012Validator.check_schema(load_schema())


def test_the_document_of_a_mined_table_follows_the_schema():
    frame, table_settings = load_bundled("diabetes")
    table = prepare(frame, table_settings)
    result = mine(table.columns, MiningSettings(holdout=0.2, min_samples=30, trees=60))

    document = result_document(result, {"name": "diabetes", "settings": table_settings.model_dump(mode="json")})

    VALIDATOR.validate(json.loads(document.to_text()))
    assert document.rules
    assert document.dataset.rows == len(frame)


@given(premises, st.lists(st.integers(0, 10**6), min_size=2, max_size=2), st.text(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_rule_makes_a_document_that_follows_the_schema_and_reads_back(premise, counts, name, tested):
    rule = make_rule(
        *premise, counts=counts, holdout=make_held_out() if tested else None, displaced=[make_displaced(*premise)]
    )

    document = json.loads(make_document(rule, classes=(f"a{name}", f"b{name}"), name=name).to_text())

    VALIDATOR.validate(document)
    assert ResultDocument.parse(document).rules[0].premise == tuple(premise)


def test_the_size_of_a_huge_space_stays_an_exact_integer():
    document = make_document(features=10_000, subset_size=8)

    assert json.loads(document.to_text())["space"]["size"] == document.space.size > 2**53


@pytest.mark.parametrize("size", [3, "2-4"])
def test_a_size_is_a_number_and_mixed_sizes_are_a_range(size):
    document = json.loads(make_document(subset_size=size).to_text())

    assert document["space"]["subset_size"] == document["settings"]["subset_size"] == size
    VALIDATOR.validate(document)


def test_rules_contain_no_numbers_that_json_lacks():
    with pytest.raises(pydantic.ValidationError, match="finite number"):
        make_held_out(q=float("nan"))


def test_a_search_without_a_tree_still_makes_a_document():
    result = make_result()
    object.__setattr__(result, "search", make_search(result.plan, result.settings, 0, 0, None, 0.0, "interrupted"))

    document = result_document(result, {"name": "x"})

    assert document.search.best_score is None
    VALIDATOR.validate(document.to_json())


def test_a_rule_lists_displaced_leaves_and_similar_rules():
    document = make_document(make_rule(AGE), make_rule(AGE, number=2, displaced=[make_displaced(AGE)]))

    first, second = document.rules
    assert first.most_similar is None
    assert second.most_similar.to_json() == {"rule": "R1", "similarity": 1 / 3}
    assert second.displaced[0].text == "age ≤ 27.5"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: document.update(extra=1),
        lambda document: document["rules"][0].pop("counts"),
        lambda document: document["rules"][0]["conditions"][0].update(value="27.5"),
        lambda document: document["rules"][0]["train"].update(surprise=1),
        lambda document: document.update(digest="short"),
    ],
)
def test_the_schema_refuses_a_spoiled_document(spoil):
    document = make_document(make_rule(AGE)).to_json()

    spoil(document)

    with pytest.raises(ValidationError):
        VALIDATOR.validate(document)


def test_a_document_with_repeats_follows_the_schema():
    document = make_repeated(make_document(make_rule(AGE)), 9, consensus=("R1", None)).to_json()

    assert list(VALIDATOR.iter_errors(document)) == []


@pytest.mark.parametrize("damage", [{"format": "maabo-rules/2"}, {"rules": [{}]}, {"rules": 7}, {"digest": "short"}])
def test_a_damaged_document_is_refused(damage):
    with pytest.raises(FormatError, match=r"^run is (not a result document|damaged: (rules|digest))"):
        ResultDocument.parse(make_document(make_rule(AGE)).to_json() | damage, "run")


def test_a_document_reads_back_as_it_was_written():
    tested = {"tests": (make_record(ConditionTest, 0.01, 0.02, 0.001),)}
    rule = make_rule(AGE, holdout=make_held_out(), displaced=[make_displaced(AGE)], **tested)
    document = make_repeated(make_document(rule, holdout=20), 9, consensus=("R1", None))

    assert ResultDocument.parse_text(document.to_text()) == document
    assert ResultDocument.parse_text(document.to_text()).to_text() == document.to_text()


def test_fields_of_a_newer_version_are_ignored():
    document = make_document(make_rule(AGE)).to_json()
    newer = document | {"colour": 1, "rules": [document["rules"][0] | {"size": 7}]}

    assert ResultDocument.parse(newer).to_json() == document


def test_a_key_of_a_rule_holds_neither_thresholds_nor_missing_cells():
    one, other = make_document(make_rule(AGE)), make_document(make_rule(Condition("age", Op.AT_MOST, 5.0, True)))

    assert one.rules[0].key == other.rules[0].key
