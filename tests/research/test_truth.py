import json

import pytest
from hypothesis import given, settings

from maabo_dist.errors import FormatError, SettingsError
from maabo_dist.research.synthetic.generation import Truth, generate
from maabo_dist.research.synthetic.recipe import Recipe
from tests.research.recipes import recipes


@settings(max_examples=10)
@given(recipes(rows=100))
def test_a_truth_survives_json_unchanged(recipe):
    truth = generate(recipe).truth

    assert Truth.from_json(json.loads(truth.dump())) == truth


def without(name):
    return lambda data: data.pop(name)


def changed(**fields):
    return lambda data: data.update(fields)


def rule_changed(**fields):
    return lambda data: data["rules"][0].update(fields)


def condition_changed(**fields):
    return lambda data: data["rules"][0]["conditions"][0].update(fields)


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (without("format"), "format"),
        (changed(format="maabo-truth/2"), "maabo-truth/2"),
        (without("rules"), "rules"),
        (changed(rows="many"), "rows"),
        (changed(classes=["c0"]), "classes"),
        (changed(surprise=1), "surprise"),
        (changed(informative=["x0"]), "informative"),
        (changed(decoys={"x0": "nowhere"}), "nowhere"),
        (rule_changed(**{"class": "c9"}), "c9"),
        (rule_changed(precision=1.5), "precision"),
        (rule_changed(n=-1), "rules.0.n"),
        (rule_changed(id="P2"), "two rules have the id P2"),
        (rule_changed(conditions=[]), "conditions"),
        (condition_changed(op="~"), "op"),
        (condition_changed(value="text"), "'text'"),
        (condition_changed(value=None), "None"),
        (lambda data: data["recipe"].update(rows=0), "recipe.rows"),
    ],
)
def test_a_damaged_truth_is_rejected_with_the_field(damage, word):
    data = generate(Recipe(rows=100, features=8)).truth.to_json()
    damage(data)

    with pytest.raises(FormatError, match=r"truth|Truth") as refusal:
        Truth.from_json(data, source="table.truth.json")

    assert word in str(refusal.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff\xfe", b'{"format": "maabo-truth/1"}', b"[" * 100_000])
def test_a_file_that_is_not_a_truth_is_rejected_with_its_name(content, tmp_path):
    path = tmp_path / "table.truth.json"
    path.write_bytes(content)

    with pytest.raises(FormatError, match=r"table\.truth\.json"):
        Truth.load(path)


def test_a_file_that_does_not_exist_is_rejected_with_its_name(tmp_path):
    with pytest.raises(FormatError, match="No such file"):
        Truth.load(tmp_path / "nowhere.json")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"features": 4}, ["--features 4", "at least 5"]),
        ({"features": 6, "decoys": 2}, ["--decoys 2", "at least 7"]),
        ({"features": 8, "xor": 1, "parity": 2}, ["--features 8"]),
        ({"features": 10, "xor": 2, "categorical": "0.9"}, ["--categorical 0.9", "only 5 can be text"]),
        ({"coverage": ["0.4"], "conjunctions": ["2", "2", "2"]}, ["--coverage 0.4", "maximum is 0.272"]),
        ({"coverage": ["0.2", "0.1"]}, ["--coverage 0.2,0.1", "smaller share first"]),
        ({"coverage": ["0.1", "0.2", "0.3"]}, ["--coverage", "at most 2"]),
        ({"coverage": ["0.001"], "rows": "100"}, ["less than one row"]),
        ({"classes": "11"}, ["--classes '11'", "less than or equal to 10"]),
        ({"classes": 4, "imbalance": 0.2}, ["--imbalance 0.2", "at least 0.25"]),
        ({"conjunctions": ["2", "x"]}, ["--conjunctions 'x'", "integer"]),
        ({"conjunctions": ["9"]}, ["--conjunctions '9'"]),
        ({"label_noise": "nan"}, ["--label-noise 'nan'"]),
        ({"missing": 0.9}, ["--missing 0.9"]),
    ],
)
def test_an_impossible_recipe_is_rejected_with_a_remedy(fields, words):
    with pytest.raises(SettingsError) as refusal:
        Recipe.parse(fields)

    assert all(word in str(refusal.value) for word in words), str(refusal.value)


def test_the_maximum_coverage_in_the_message_is_accepted():
    frame, truth = generate(Recipe.parse({"coverage": ["0.272"], "conjunctions": ["2", "2", "2"], "features": 6}))

    assert sum(rule.n for rule in truth.rules) < len(frame)


def test_an_empty_recipe_plants_two_conjunctions_and_one_with_xor_none():
    assert Recipe().sizes == (2, 3)
    assert Recipe(xor=1).sizes == ()
    assert (Recipe(xor=1).informative, Recipe(xor=1, xor_share=0.5).informative, Recipe(xor=2).informative) == (2, 3, 5)
