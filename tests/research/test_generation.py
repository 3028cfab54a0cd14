from itertools import combinations
from math import sqrt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, spearmanr

from maabo_dist.errors import SettingsError
from maabo_dist.research.synthetic.generation import draw, generate, match_frame
from maabo_dist.research.synthetic.recipe import Recipe
from tests.research.recipes import recipes, slowly_covered

SIGMAS = 5
CHANCE = 1e-5


def near(count, trials, low, high):
    """True if a count is within sampling error of a share between `low` and `high`."""
    below, above = (1 + SIGMAS * sqrt(trials * share * (1 - share)) for share in (low, high))
    return low * trials - below <= count <= high * trials + above


def columns_of(truth, structure):
    """Return the columns that belong to one structure only: the gate is excluded."""
    own, others = set(), set()
    for rule in truth.rules:
        (own if rule.structure == structure else others).update(condition.feature for condition in rule.conditions)
    return sorted(own - others)


def p_value_of_difference(frame, sides):
    """Return the p-value of the test that these groups of rows have equal class shares."""
    return chi2_contingency(pd.crosstab(sides, frame["y"].to_numpy())).pvalue


@settings(max_examples=12)
@given(recipes())
def test_a_conjunction_has_the_requested_coverage_and_purity(recipe):
    frame, truth = generate(recipe)
    low, high = recipe.coverages

    for rule in truth.rules:
        if rule.structure.startswith("conjunction"):
            present_share = (1 - recipe.missing) ** len(rule.conditions)
            assert near(rule.n, recipe.rows, low * present_share, high * present_share)
            assert near(round((rule.precision or 0) * rule.n), rule.n, 1 - recipe.label_noise, 1 - recipe.label_noise)
    assert len(frame) == recipe.rows


@settings(max_examples=12)
@given(recipes(conjunctions=(), xor=1, parity=1))
def test_cells_divide_their_share_of_the_rows_evenly_and_are_pure(recipe):
    _, truth = generate(recipe)

    for rule in truth.rules:
        order = 2 if rule.structure.startswith("xor") else 3
        literals = len({condition.feature for condition in rule.conditions})
        share = recipe.xor_share / 2 / 2**order * (1 - recipe.missing) ** literals
        assert near(rule.n, recipe.rows, share, share)
        assert near(round((rule.precision or 0) * rule.n), rule.n, 1 - recipe.label_noise, 1 - recipe.label_noise)


@settings(max_examples=12)
@given(recipes(missing=0.0))
def test_no_row_satisfies_two_conjunctions(recipe):
    frame, truth = generate(recipe)

    masks = [match_frame(frame, rule.conditions) for rule in truth.rules if rule.structure.startswith("conjunction")]
    assert not masks or np.sum(masks, axis=0).max() <= 1


@settings(max_examples=8)
@given(recipes())
def test_the_truth_counts_the_rows_that_a_slow_reader_of_the_csv_counts(recipe):
    frame, truth = generate(recipe)
    text = frame.to_csv(index=False)

    for rule in truth.rules:
        rows = slowly_covered(text, rule.conditions)
        right = sum(frame["y"].tolist()[row] == rule.label for row in rows)
        assert rule.n == len(rows)
        assert rule.coverage == len(rows) / recipe.rows
        assert rule.precision == (right / len(rows) if rows else None)


@settings(max_examples=5)
@given(recipes(xor=1, parity=1, label_noise=0.0, missing=0.1))
def test_a_single_column_of_an_xor_or_parity_is_independent_of_the_class(recipe):
    truth = generate(recipe).truth
    names = columns_of(truth, "xor 1") + columns_of(truth, "parity 1")
    frame = draw(recipe, 30_000, 1, only=names)

    assert len(names) == 5
    for name in names:
        assert (
            p_value_of_difference(frame, (frame[name].rank(method="first", pct=True) * 4).fillna(-1).astype(int))
            > CHANCE
        )
        assert p_value_of_difference(frame, frame[name].isna()) > CHANCE


@settings(max_examples=10)
@given(recipes(conjunctions=(2,), xor=0, parity=1, xor_share=1.0, missing=0.0))
def test_two_columns_of_a_parity_are_independent_of_the_class_and_three_decide_it(recipe):
    truth = generate(recipe).truth
    cells = [rule for rule in truth.rules if rule.structure == "parity 1"]
    frame = draw(recipe, 30_000, 1, only=columns_of(truth, "parity 1"))
    large = {
        condition.feature: match_frame(frame, [condition]).astype(int)
        for rule in cells
        for condition in rule.conditions
        if condition.op.value == ">"
    }

    for one, other in combinations(large, 2):
        assert p_value_of_difference(frame, 2 * large[one] + large[other]) > CHANCE
    assert p_value_of_difference(frame, sum(large.values()) % 2) < CHANCE


@settings(max_examples=6)
@given(recipes(rows=400, features=40), st.integers(1, 2**31))
def test_the_same_seed_gives_the_same_bytes_and_another_seed_different_ones(recipe, step):
    other = recipe.model_copy(update={"seed": (recipe.seed + step) % 2**32})
    first, again, different = generate(recipe), generate(recipe), generate(other)

    assert first.frame.to_csv() == again.frame.to_csv()
    assert first.truth.dump() == again.truth.dump()
    assert first.frame.to_csv() != different.frame.to_csv()


@settings(max_examples=6)
@given(recipes(rows=400))
def test_a_batch_holds_fresh_rows_of_the_same_columns(recipe):
    frame, truth = generate(recipe)
    fresh = draw(recipe, 300, 1)
    some = [*truth.informative[:2], "x0"]

    pd.testing.assert_frame_equal(draw(recipe, recipe.rows, 0), frame)
    assert list(fresh.columns) == list(frame.columns)
    assert not fresh.equals(frame[:300])
    pd.testing.assert_frame_equal(draw(recipe, 300, 1, only=some)[sorted({*some, "y"})], fresh[sorted({*some, "y"})])


def test_the_planted_rules_hold_in_fresh_rows():
    recipe = Recipe(features=20, conjunctions=(2, 3), xor=1, label_noise=0.1)
    fresh = draw(recipe, 20_000, 7)

    for rule in generate(recipe).truth.rules:
        right = fresh["y"][match_frame(fresh, rule.conditions)] == rule.label
        assert abs(right.mean() - rule.precision) < 0.05


def test_the_usual_table_has_seven_informative_columns_and_six_rules():
    frame, truth = generate(Recipe(rows=2000, features=1000, conjunctions=(2, 3), xor=1))

    assert frame.shape == (2000, 1001)
    assert len(truth.informative) == 7
    assert [rule.structure for rule in truth.rules] == ["conjunction 1", "conjunction 2", *["xor 1"] * 4]
    assert np.any([match_frame(frame, rule.conditions) for rule in truth.rules[2:]], axis=0).all()


def test_several_structures_share_the_rows_by_intervals_of_the_gate():
    frame, truth = generate(Recipe(rows=3000, features=20, xor=2, parity=1, xor_share=0.6, label_noise=0))

    masks = np.array([match_frame(frame, rule.conditions) for rule in truth.rules])
    assert masks.sum(axis=0).max() == 1
    assert abs(masks.any(axis=0).mean() - 0.6) < 0.05
    assert all(rule.precision == 1 for rule in truth.rules)


@settings(max_examples=12)
@given(recipes(classes=2, missing=0.0, label_noise=0.0))
def test_between_two_classes_every_rule_is_pure(recipe):
    assert {rule.precision for rule in generate(recipe).truth.rules} <= {1.0, None}


def test_rows_of_a_conjunction_keep_out_of_structures_without_its_class():
    recipe = Recipe(features=10, conjunctions=(2,), xor=1, xor_share=0.8, classes=3, label_noise=0)

    assert {rule.precision for rule in generate(recipe).truth.rules} == {1.0}


def test_the_earlier_rule_decides_where_a_conjunction_meets_a_cell_of_another_class():
    truth = generate(Recipe(features=10, conjunctions=(2,), xor=1, classes=3, label_noise=0)).truth

    conjunction, *cells = truth.rules
    assert (conjunction.label, conjunction.precision) == ("c2", 1)
    assert all(0.85 < cell.precision <= 1 for cell in cells)
    assert min(cell.precision for cell in cells) < 1


def test_classes_outside_of_the_rules_have_the_requested_shares():
    frame, truth = generate(Recipe(rows=20_000, features=10, classes=4, imbalance=0.7))

    outside = ~np.any([match_frame(frame, rule.conditions) for rule in truth.rules], axis=0)
    shares = frame["y"][outside].value_counts(normalize=True)
    assert shares.round(1).to_dict() == {"c0": 0.7, "c1": 0.1, "c2": 0.1, "c3": 0.1}
    assert "c0" not in {rule.label for rule in truth.rules}


def test_without_background_noise_the_largest_class_is_outside_of_the_rules():
    frame, truth = generate(Recipe(features=10, background_noise=0, label_noise=0))

    outside = ~np.any([match_frame(frame, rule.conditions) for rule in truth.rules], axis=0)
    assert set(frame["y"][outside]) == {"c0"}
    assert set(frame["y"][~outside]) == {"c1"}


def test_decoys_follow_their_originals_and_noise_does_not():
    frame, truth = generate(Recipe(rows=5000, features=20, conjunctions=(3,), decoys=6, decoy_correlation=0.9))
    noise = [name for name in frame.columns[:-1] if name not in {*truth.informative, *truth.decoys}]

    assert len(truth.decoys) == 6
    assert all(spearmanr(frame[decoy], frame[original]).statistic > 0.8 for decoy, original in truth.decoys.items())
    assert all(abs(spearmanr(frame[name], frame[truth.informative[0]]).statistic) < 0.1 for name in noise)


def test_a_decoy_of_text_follows_its_original():
    frame, truth = generate(Recipe(rows=3000, features=4, conjunctions=(2,), categorical=0.5, decoys=2, seed=1))

    assert {frame[name].dtype.kind for name in truth.decoys} == {"O"}
    for decoy, original in truth.decoys.items():
        assert chi2_contingency(pd.crosstab(frame[decoy], frame[original])).pvalue < CHANCE


def test_text_and_missing_cells_have_the_requested_shares():
    frame = generate(Recipe(features=40, categorical=0.25, missing=0.2, conjunctions=(2, 2))).frame
    features = frame.drop(columns="y")

    texts = features.select_dtypes("str")
    assert texts.shape[1] == 10
    assert texts.nunique().between(3, 6).all()
    assert features.isna().mean().between(0.15, 0.25).all()
    assert frame["y"].notna().all()


def test_a_draw_of_unknown_columns_is_rejected():
    with pytest.raises(SettingsError, match="'age'"):
        draw(Recipe(), 10, 1, only=["age"])
