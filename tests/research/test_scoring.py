"""The scorer on a table constructed by hand.

`a` and `b` run over a grid of 0 … 19; the planted rule is a > 9.5 and b <= 9.5 → yes, a quarter of the rows.
"""

import json

import numpy as np
import pandas as pd
import pytest

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.errors import DatasetError, SettingsError
from maabo_dist.research.synthetic.generation import PlantedRule, Truth, generate
from maabo_dist.research.synthetic.recipe import Recipe
from maabo_dist.research.synthetic.scoring import MinedRule, score
from tests.report.handmade import make_document, make_rule

A, B = Condition("a", Op.ABOVE, 9.5), Condition("b", Op.AT_MOST, 9.5)
NOISE = Condition("noise", Op.ABOVE, 3.5)


def at(condition, value, *, or_missing=False):
    return Condition(condition.feature, condition.op, value, or_missing)


def grid(*, gaps=()):
    values = np.arange(400)
    frame = pd.DataFrame({"a": values // 20, "b": values % 20, "noise": values % 7, "decoy": values // 20 + 1.0})
    frame["color"] = np.where(frame["a"] > 9, "red", "blue")
    frame["y"] = np.where((frame["a"] > 9.5) & (frame["b"] <= 9.5), "yes", "no")
    return frame.assign(a=frame["a"].where(~frame.index.isin(gaps)))


def planted(*conditions, label="yes"):
    return PlantedRule(
        id="P1",
        structure="conjunction 1",
        conditions=conditions,
        label=label,
        n=100,
        coverage=0.25,
        precision=1,
    )


def truth(*rules):
    return Truth(
        target="y",
        classes=("no", "yes"),
        rows=400,
        rules=rules or (planted(A, B),),
        informative=("a", "b", "color"),
        decoys={"decoy": "a"},
    )


def mined(*rules, label="yes"):
    return [MinedRule(f"R{number}", tuple(conditions), label) for number, conditions in enumerate(rules, start=1)]


def verdict(*conditions, label="yes", frame=None, planted_rules=()):
    (finding,) = score(mined(conditions, label=label), truth(*planted_rules), frame).planted
    return finding.verdict.value


def test_the_same_literals_and_class_are_an_exact_find():
    assert verdict(A, B) == "exact"
    assert verdict(B, A, frame=grid()) == "exact"


def test_one_literal_more_is_a_find_with_an_extra_one():
    assert verdict(A, B, NOISE, frame=grid()) == "extra"
    assert verdict(A, B, Condition("b", Op.ABOVE, 1.5), frame=grid()) == "extra"


def test_two_literals_more_or_one_less_are_a_miss():
    assert verdict(A, B, NOISE, Condition("b", Op.ABOVE, 1.5), frame=grid()) == "missed"
    assert verdict(A, frame=grid()) == "missed"


def test_another_class_or_direction_is_a_miss():
    assert verdict(A, B, label="no") == "missed"
    assert verdict(A, Condition("b", Op.ABOVE, 9.5)) == "missed"


def test_a_decoy_in_place_of_its_original_is_a_miss():
    assert verdict(Condition("decoy", Op.ABOVE, 10.5), B, frame=grid()) == "missed"


def test_thresholds_are_compared_by_the_rows_they_select():
    """b <= 7.5 picks 80 of the 100 rows, b <= 6.5 picks 70."""
    assert verdict(A, at(B, 7.5), frame=grid()) == "exact"
    assert verdict(A, at(B, 6.5), frame=grid()) == "missed"
    assert verdict(A, at(B, 6.5)) == "exact"


def test_the_threshold_of_an_extra_literal_does_not_count():
    assert verdict(A, B, at(NOISE, 5.5), frame=grid()) == "extra"
    assert verdict(A, at(B, 6.5), NOISE, frame=grid()) == "missed"


def test_the_side_of_missing_cells_does_not_count():
    gaps = range(0, 400, 3)

    assert verdict(at(A, 9.5, or_missing=True), B, frame=grid(gaps=gaps)) == "exact"


def test_levels_are_literals():
    red, not_blue = Condition("color", Op.IS, "red"), Condition("color", Op.IS_NOT, "blue")
    rules = (planted(red, B),)

    assert verdict(red, B, frame=grid(), planted_rules=rules) == "exact"
    assert verdict(not_blue, B, frame=grid(), planted_rules=rules) == "missed"
    assert verdict(Condition("color", Op.IS, "blue"), B, planted_rules=rules) == "missed"


def test_an_exact_find_is_preferred_to_one_with_an_extra_literal():
    result = score(mined((A, B, NOISE), (A, B), (B, A)), truth())

    assert (result.planted[0].verdict, result.planted[0].by) == ("exact", "R2")
    assert [rule.finds for rule in result.mined] == [(), ("P1",), ()]


def test_noise_columns_and_decoys_are_counted_separately():
    decoy = Condition("decoy", Op.ABOVE, 10.5)
    result = score(mined((A, NOISE, at(NOISE, 5.5)), (decoy, B), (A, decoy, NOISE)), truth(), grid())

    assert [rule.noise for rule in result.mined] == [("noise",), (), ("noise",)]
    assert [rule.decoys for rule in result.mined] == [(), ("decoy",), ("decoy",)]
    assert (result.totals["with_noise"], result.totals["noise_literals"], result.totals["with_decoys"]) == (2, 2, 2)


def test_a_rule_that_covers_the_rows_of_an_earlier_one_is_redundant():
    """R2 covers 95 of R1's 100 rows, R3 85."""
    shifted = Condition("b", Op.ABOVE, 0.5)
    rules = [
        *mined((A, B), (at(A, 9.7), B), (A, B, shifted, at(shifted, 1.5)), (Condition("decoy", Op.ABOVE, 10.5), B)),
        MinedRule("R5", (A, B), "no"),
    ]

    result = score(rules, truth(), grid())

    assert [rule.repeats for rule in result.mined] == [None, "R1", None, "R1", None]
    assert result.totals["redundant"] == 2


def test_redundancy_is_unknown_without_a_table():
    result = score(mined((A, B), (A, B)), truth())

    assert result.totals["redundant"] is None
    assert {rule.repeats for rule in result.mined} == {None}


def test_no_rules_find_nothing():
    totals = score([], truth(), grid()).totals

    assert (totals["mined"], totals["missed"], totals["fresh_precision"]) == (0, 1, None)


def test_a_truth_without_a_recipe_gives_no_fresh_rows():
    (rule,) = score(mined((A, B)), truth()).mined

    assert (rule.fresh_n, rule.fresh_precision) == (None, None)


def test_the_planted_rules_match_themselves_and_hold_in_new_rows():
    recipe = Recipe(rows=3000, features=30, conjunctions=(2, 3), xor=2, categorical=0.3, missing=0.1, classes=3)
    frame, known = generate(recipe)
    rules = [MinedRule(rule.id, rule.conditions, rule.label) for rule in known.rules]

    result = score(rules, known, frame)

    assert result.totals["exact"] == len(known.rules) == 10
    assert (result.totals["with_noise"], result.totals["redundant"]) == (0, 0)
    for rule, judged in zip(known.rules, result.mined, strict=True):
        assert judged.fresh_precision == pytest.approx(rule.precision, abs=0.1)
        assert judged.fresh_n / 10_000 == pytest.approx(rule.coverage, abs=0.02)


def test_no_fresh_rows_are_drawn_on_request_or_if_the_recipe_gives_other_rules():
    known = generate(Recipe(rows=100, features=6)).truth
    rules = [MinedRule(rule.id, rule.conditions, rule.label) for rule in known.rules]
    stale = known.model_copy(update={"recipe": Recipe(rows=100, features=6, seed=1)})

    assert score(rules, known).totals["fresh_precision"] > 0.8
    assert score(rules, known, fresh=0).totals["fresh_precision"] is None
    assert score(rules, stale).totals["fresh_precision"] is None


def test_a_result_document_is_read_and_the_score_is_plain_json():
    document = make_document(make_rule(A, B), make_rule(A, NOISE, number=2), classes=("no", "yes"), target="y")

    plain = json.loads(json.dumps(score(document, truth(), grid()).to_json()))

    assert plain["planted"] == [{"planted": "P1", "verdict": "exact", "by": "R1"}]
    assert plain["totals"]["with_noise"] == 1
    assert [rule["rule"] for rule in plain["mined"]] == ["R1", "R2"]


def test_rules_tables_and_truths_that_do_not_match_are_rejected():
    foreign = Condition("age", Op.ABOVE, 1.0)

    with pytest.raises(DatasetError, match="'maybe'"):
        score(mined((A, B), label="maybe"), truth())
    with pytest.raises(DatasetError, match="'age'"):
        score(mined((foreign,)), truth(), grid())
    with pytest.raises(SettingsError, match="'age'"):
        score([MinedRule("R1", (foreign,), "c0")], generate(Recipe(rows=100, features=6)).truth)
