"""Weights of rows: numbers of rows repeat them, sampling weights are counted in units."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.data import row_roles
from maabo_dist.data.columns import Columns
from maabo_dist.data.preparation import prepare
from maabo_dist.data.weights import UNIT, class_decides, count_classes, kish_effect, weight_units
from maabo_dist.errors import DatasetError
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings, TableSettings

WEIGHTS = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=50).map(np.array)


def persons(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.normal(50, 10, rows).round(), "city": rng.choice(list("abc"), rows)})
    table.loc[rng.random(rows) < 0.1, "age"] = np.nan
    return table.assign(ill=np.where(rng.random(rows) < 0.3 + 0.5 * (table["age"] > 52), "yes", "no"))


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.data())
def test_a_row_with_a_number_of_rows_is_as_many_rows(seed, data):
    table = persons(seed=seed)
    numbers = np.array(data.draw(st.lists(st.integers(0, 4), min_size=60, max_size=60)))
    if numbers.sum() < 10 or table["ill"].to_numpy()[numbers > 0].tolist().count("yes") in {0, (numbers > 0).sum()}:
        return
    repeated = table.loc[table.index.repeat(numbers)].reset_index(drop=True)
    given_settings, expected = TableSettings(target="ill", weight="n"), TableSettings(target="ill")

    weighted = prepare(table.assign(n=numbers), given_settings)

    assert weighted.columns.fingerprint == prepare(repeated, expected).columns.fingerprint
    assert weighted.rows_kept.tolist() == np.repeat(np.arange(60), numbers).tolist()
    assert f"The {(numbers > 0).sum()} rows stand for {numbers.sum()}, by the numbers in 'n'." in weighted.notes


def test_numbers_of_rows_give_the_rules_and_figures_of_the_repeated_rows():
    table, numbers = persons(300, seed=2), np.random.default_rng(2).integers(1, 4, 300)
    repeated = table.loc[table.index.repeat(numbers)]

    results = [
        mine(prepare(table.assign(n=numbers), TableSettings(target="ill", weight="n")).columns, MiningSettings()),
        mine(prepare(repeated, TableSettings(target="ill")).columns, MiningSettings()),
    ]

    assert results[0].rules
    assert results[0].rules == results[1].rules
    assert results[0].rows == results[1].rows


def test_numbers_of_rows_repeat_groups_and_times_too():
    table = persons().assign(who=np.arange(60) // 3, when=np.arange(60), n=np.arange(60) % 3 + 1)

    columns = prepare(table, TableSettings(target="ill", weight="n", group="who", time="when")).columns

    numbers = table["n"].to_numpy()
    assert columns.groups.tolist() == np.repeat(np.arange(60) // 3, numbers).tolist()
    assert columns.times.tolist() == np.repeat(np.arange(60), numbers).tolist()


def test_a_column_that_identifies_rows_of_counts_is_left_out():
    table = pd.DataFrame({"row": range(1, 25), "sex": ["f", "m"] * 12, "ill": ["no", "no", "yes"] * 8, "n": 20})

    prepared = prepare(table, TableSettings(target="ill", weight="n"))

    assert [feature.name for feature in prepared.columns.features] == ["sex"]
    assert any("Left out, as the values identify rows: 'row' (24 distinct numbers)" in note for note in prepared.notes)


def test_other_weights_are_sampling_weights(tmp_path):
    weights = np.random.default_rng(1).gamma(2, 1, 60)
    weights[3] = 0

    prepared = prepare(persons().assign(w=weights), TableSettings(target="ill", weight="w"))
    columns = prepared.columns
    columns.save(tmp_path / "columns")

    assert columns.rows == len(columns.weights) == 59
    kept = np.delete(weights, 3)
    assert columns.weights / UNIT == pytest.approx(kept / kept.mean(), abs=1e-4)
    worth = kept.sum() ** 2 / (kept**2).sum()
    assert f"'w' has sampling weights: 59 rows are worth {worth:.0f} unweighted ones." in prepared.notes
    assert "Left out 1 row of 60 whose 'w' is 0 or missing (--weight)." in prepared.notes
    assert [feature.name for feature in columns.features] == ["age", "city = a", "city = b", "city = c"]
    np.testing.assert_array_equal(Columns.load(tmp_path / "columns").weights, columns.weights)
    assert not columns.independent_rows


def test_whole_numbers_that_sum_to_too_many_rows_are_sampling_weights(monkeypatch):
    monkeypatch.setattr(row_roles, "MAX_REPEATED_ROWS", 1000)

    prepared = prepare(persons().assign(w=np.arange(60) + 1), TableSettings(target="ill", weight="w"))

    assert prepared.columns.rows == 60
    assert any("as they sum to 1,830, too many to be numbers of rows" in note for note in prepared.notes)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([*[1.0] * 58, -0.5, -2], r"--weight 'w': 2 rows have a negative weight, such as -2"),
        ([0] * 60, r"--weight 'w': no row has a weight above 0"),
        (["heavy"] * 60, r"--weight 'w': weights are numbers, and the column holds something else"),
        ([np.inf] * 60, r"Column 'w' holds 60 infinite values"),
        ([1] * 5 + [0] * 55, r"5 rows are too few; 10 are needed"),
    ],
)
def test_weights_that_cannot_be_used_are_errors(weights, message):
    with pytest.raises(DatasetError, match=message):
        prepare(persons().assign(w=weights), TableSettings(target="ill", weight="w"))


@given(WEIGHTS)
def test_units_are_weights_with_a_mean_of_one(weights):
    units = weight_units(weights)

    assert units / UNIT == pytest.approx(np.maximum(weights / weights.mean(), 1 / UNIT), abs=1 / UNIT)
    assert kish_effect(units) == pytest.approx(len(units) * (units / UNIT) @ (units / UNIT) / (units.sum() / UNIT) ** 2)
    assert kish_effect(units) >= 1


@given(WEIGHTS, st.integers(0, 1000))
def test_weighted_counts_are_sums_of_weights(weights, seed):
    labels, units = np.random.default_rng(seed).integers(0, 3, len(weights)), weight_units(weights)

    counts = count_classes(labels, units, 3)

    pairs = list(zip(units.tolist(), labels.tolist(), strict=True))
    expected = [sum(unit for unit, label in pairs if label == c) for c in range(3)]
    assert counts.tolist() == [(total + UNIT // 2) // UNIT for total in expected]


def test_weights_follow_from_the_class_if_each_class_has_one():
    labels = np.array([0, 1, 0, 2])

    assert class_decides(labels, np.array([5, 7, 5, 5]))
    assert not class_decides(labels, np.array([5, 7, 6, 5]))
