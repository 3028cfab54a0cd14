"""The conversion of columns to features, for the table itself and for later rows."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from maabo_dist.data import column_blocks
from maabo_dist.data.columns import Feature, FeatureKind
from maabo_dist.data.preparation import frame_from_arrays, prepare
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings
from tests.data.small_tables import ROWS, VARYING, names, prepared, refusal, table


@pytest.fixture(autouse=True, params=[column_blocks.BLOCK_CELLS, ROWS], ids=["whole", "by column"])
def _block_cells(request, monkeypatch):
    """Every test holds for a table in one block, and for one in blocks of a column each."""
    monkeypatch.setattr(column_blocks, "BLOCK_CELLS", request.param)


# Numbers


def test_a_number_column_becomes_one_feature_with_its_values():
    result = prepared(table(x=VARYING))

    assert result.columns.features == (Feature("x", "x", FeatureKind.NUMBER, fill=4.5),)
    assert result.columns.column(0).tolist() == VARYING
    assert result.columns.classes == ("no", "yes")
    assert result.columns.labels.tolist() == [0, 1] * 6
    assert result.notes == ()


@pytest.mark.parametrize(("impute", "fill"), [("median", 2.0), ("mean", 4.0)])
def test_missing_numbers_get_the_median_or_the_mean_of_those_present(impute, fill):
    result = prepared(table(x=[1.0, None, 2.0, 9.0]), impute=impute)

    assert result.columns.column(0).tolist() == [1.0, fill, 2.0, 9.0] * 3
    assert result.columns.features[0].fill == fill
    assert result.columns.features[0].missing == 3
    paper = f"--preset paper fills in the {impute} of numbers."
    assert result.notes == (f"Cells are missing: 3 of 'x'. They satisfy a condition only if it says so; {paper}",)


@pytest.mark.parametrize(
    "cells",
    [
        pd.array([1, None, 5] * 4, dtype="Int64"),
        pd.Series([Decimal(1), None, Decimal("5.0")] * 4, dtype=object),
        pd.Series([1, None, 5.0] * 4, dtype=object),
        np.array([1, np.nan, 5] * 4, dtype=np.float32),
    ],
    ids=["nullable", "decimal", "object", "float32"],
)
def test_every_spelling_of_numbers_is_a_number_column(cells):
    result = prepared(table(x=VARYING).assign(x=cells))

    assert result.columns.features[0].kind is FeatureKind.NUMBER
    assert result.columns.column(0).tolist() == [1.0, 3.0, 5.0] * 4


def test_infinite_numbers_are_counted_and_missing():
    result = prepared(table(x=[1.0, np.inf, -np.inf, 3.0], z=VARYING))

    assert result.columns.features[0].missing == 6
    assert result.columns.column(0).tolist() == [1.0, 2.0, 2.0, 3.0] * 3
    assert result.notes[0] == "Infinite numbers count as missing: 6 of 'x'."


def test_a_number_too_large_for_a_float_is_infinite():
    result = prepared(table(x=[1, 2, 10**400], z=VARYING))

    assert result.notes[0] == "Infinite numbers count as missing: 4 of 'x'."


@pytest.mark.parametrize("cells", [[None], [np.nan], [pd.NaT]], ids=["objects", "numbers", "dates"])
def test_a_column_without_any_cell_is_left_out(cells):
    result = prepared(table(x=cells, z=VARYING))

    assert names(result) == ["z"]
    assert result.notes == ("Left out, as there is no value: 'x'.",)


# Levels


def test_a_two_level_text_column_becomes_one_feature():
    result = prepared(table(sex=["male", "female", "female"]))

    assert result.columns.features == (Feature("sex", "sex", FeatureKind.PAIR, ("female", "male")),)
    assert result.columns.column(0).tolist() == [1.0, 0.0, 0.0] * 4


def test_a_boolean_column_has_the_levels_false_and_true():
    result = prepared(table(x=[True, False, False]))

    assert result.columns.features[0].levels == ("false", "true")
    assert result.columns.column(0).tolist() == [1.0, 0.0, 0.0] * 4


def test_three_levels_become_a_feature_each():
    result = prepared(table(port=["S", "C", "Q"]))

    assert names(result) == ["port = C", "port = Q", "port = S"]
    assert result.columns.features[0] == Feature("port = C", "port", FeatureKind.LEVEL, ("C",), fill=0.0)
    assert result.columns.column(2).tolist() == [1.0, 0.0, 0.0] * 4


def test_two_levels_with_missing_cells_become_a_feature_each():
    result = prepared(table(x=["a", "b", None]))

    assert names(result) == ["x = a", "x = b"]
    assert [feature.missing for feature in result.columns.features] == [4, 4]
    assert result.columns.column(0).tolist() == [1.0, 0.0, 0.0] * 4
    assert result.notes == ("Cells are missing: 4 of 'x'. They satisfy a condition only if it says so.",)


def test_one_level_with_missing_cells_becomes_one_feature():
    result = prepared(table(x=["a", None]).assign(z=VARYING))

    assert names(result) == ["x = a", "z"]


def test_an_ordered_categorical_keeps_its_order():
    cells = pd.Categorical(["low", "high"] * 6, categories=["low", "high"], ordered=True)

    result = prepared(table(x=[0]).assign(x=cells))

    assert result.columns.features[0].levels == ("low", "high")


def test_a_categorical_of_numbers_is_sorted_as_numbers_and_forgets_unused_categories():
    cells = pd.Categorical([10, 2, 30] * 4, categories=[99, 30, 10, 2])

    result = prepared(table(x=[0]).assign(x=cells))

    assert names(result) == ["x = 2", "x = 10", "x = 30"]


def test_numbers_mixed_with_text_are_text():
    result = prepared(table(x=pd.Series([1, "1", "a"], dtype=object).tolist()))

    assert result.columns.features[0].levels == ("1", "a")


def test_of_too_many_levels_the_frequent_ones_are_kept_and_the_others_are_one():
    result = prepared(table(x=["c", "b", "c", "a", "b", "d"]), max_levels=2)

    assert names(result) == ["x = b", "x = c", "x is another"]
    assert result.columns.features[2] == Feature("x is another", "x", FeatureKind.OTHER, ("b", "c"), fill=0.0)
    assert result.columns.column(2).tolist() == [0.0, 0.0, 0.0, 1.0, 0.0, 1.0] * 2
    assert result.notes == (
        "Kept the 2 most frequent of 4 levels of 'x'; the others are one level. --max-levels 4 keeps more.",
    )


def test_among_equally_frequent_levels_the_first_are_kept():
    assert names(prepared(table(x=["d", "c", "b", "a"]), max_levels=2)) == ["x = a", "x = b", "x is another"]


def test_as_many_levels_as_allowed_are_taken():
    assert len(names(prepared(table(x=["a", "b", "c", "d"]), max_levels=4))) == 4


def test_texts_that_are_numbers_with_few_exceptions_are_numbers():
    texts = ["1", "2.5", "-3", "4e2", " 5", "?", "6", "7", "8", "9", "10", "2.5"]

    result = prepared(table(x=texts))

    assert result.columns.features == (Feature("x", "x", FeatureKind.NUMBER, fill=6.0, missing=1, as_text=True),)
    assert result.columns.column(0).tolist() == [1, 2.5, -3, 400, 5, 6, 6, 7, 8, 9, 10, 2.5]
    assert result.notes[0] == "Column 'x' holds texts that are numbers and is read as such; '?' count as missing."
    assert result.encoder.encode(pd.DataFrame({"x": ["?", "11", None]})).tolist() == [[6.0, 11.0, 6.0]]


@pytest.mark.parametrize(
    "texts",
    [["1", "2", "3", "x"], [f"0{number:04d}" for number in range(ROWS)], [*"abcdefghij", "11", "12"]],
    ids=["few", "codes", "mostly text"],
)
def test_other_texts_stay_levels(texts):
    kinds = {feature.kind for feature in prepared(table(x=texts, z=VARYING), include=("x", "z")).columns.features}

    assert FeatureKind.LEVEL in kinds


def test_texts_that_all_differ_are_left_out_unless_included():
    frame = table(x=[f"row {number}" for number in range(ROWS)], z=VARYING)

    result = prepared(frame)

    assert names(result) == ["z"]
    assert result.notes == (
        "Left out, as the values identify rows: 'x' (12 distinct texts). Name a column with --include to use it.",
    )
    assert len(names(prepared(frame, include=("x", "z")))) == 13


@pytest.mark.parametrize("form", ["${:,.2f}", "{:,.2f} €", "{:.1f}%", "EUR {:.0f}"])
def test_numbers_with_signs_are_pointed_out_even_where_they_are_left_out(form):
    numbers = [form.format(1250.5 * number) for number in range(1, ROWS + 1)]

    result = prepared(table(x=numbers, z=VARYING))

    (hint,) = [note for note in result.notes if "numbers with signs or separators" in note]
    assert hint.startswith("Column 'x' holds")
    assert "Write plain numbers" in hint
    assert any(repr(number) in hint for number in numbers)


@pytest.mark.parametrize("text", ["10.0.0.{}", "A{}", "v1.{}", "{}-7", "{} kg"])
def test_other_texts_with_digits_are_not_taken_for_numbers_with_signs(text):
    result = prepared(table(x=[text.format(number) for number in range(ROWS)], z=VARYING))

    assert not any("signs or separators" in note for note in result.notes)


@pytest.mark.parametrize("cells", [[1, 2], {"a": 1}, b"bytes", 1j, dt.timedelta(1), dt.time(1)])
def test_cells_that_are_neither_numbers_nor_text_are_left_out_by_type(cells):
    frame = table(x=[cells], z=VARYING)

    result = prepared(frame)

    assert names(result) == ["z"]
    assert result.notes[0].startswith("Left out, as the cells are not numbers, text or dates: 'x' (")
    with pytest.raises(DatasetError, match="--include 'x': the cells are not numbers"):
        prepared(frame, include=("x",))


# Missing cells


def test_missing_indicators_follow_their_columns():
    result = prepared(table(n=[1.0, None, 2.0], s=["a", "b", None, "a"], z=VARYING), missing_indicator=True)

    assert names(result) == ["n", "n is missing", "s = a", "s = b", "s is missing", "z"]
    assert result.columns.features[1] == Feature("n is missing", "n", FeatureKind.MISSING, fill=1.0, missing=4)
    assert result.columns.column(1).tolist() == [0.0, 1.0, 0.0] * 4
    assert result.columns.column(4).tolist() == [0.0, 0.0, 1.0, 0.0] * 3


def test_rows_with_missing_cells_can_be_dropped_the_targets_too():
    frame = table(x=VARYING, unused=[None])
    frame.loc[3, "x"] = np.nan
    frame.loc[7, "y"] = None  # without a target: never used

    result = prepared(frame, impute="drop", exclude=("unused",), missing_indicator=True)

    assert result.rows_kept.tolist() == [0, 1, 2, 4, 5, 6, 8, 9, 10, 11]
    assert result.columns.column(0).tolist() == [VARYING[row] for row in result.rows_kept]
    assert result.columns.labels.tolist() == [row % 2 for row in result.rows_kept]
    assert result.notes == (
        "Left out 1 row of 12 without a 'y'.",
        "Dropped 1 of 11 rows because of missing cells.",
    )
    assert names(result) == ["x"]


def test_dropping_every_row_is_refused():
    assert "0 rows after --impute drop left out 12" in refusal(table(x=[None], z=VARYING), impute="drop")


# Choosing columns


def test_excluded_columns_never_raise():
    frame = table(x=VARYING, bad=[[1]], worse=[np.inf])
    frame = pd.concat([frame, frame[["bad"]]], axis="columns")

    assert names(prepared(frame, exclude=("bad", "worse"))) == ["x"]


def test_only_included_columns_are_used_in_table_order():
    frame = table(a=VARYING, b=VARYING[::-1], c=[1, 2, 4])

    assert names(prepared(frame, include=("c", "a"))) == ["a", "c"]


@pytest.mark.parametrize("option", ["include", "exclude"])
def test_an_unknown_column_is_answered_with_the_nearest(option):
    message = refusal(table(embarked=["a", "b"]), **{option: ("embarkd",)})

    assert f"--{option} 'embarkd'" in message
    assert "Did you mean 'embarked'?" in message


def test_an_unknown_target_is_answered_with_the_columns():
    with pytest.raises(DatasetError, match=r"--target 'class'.*The columns are 'x', 'y'"):
        prepare(table(x=VARYING), TableSettings(target="class"))


def test_no_target_is_refused_with_the_remedy():
    with pytest.raises(DatasetError, match="--target"):
        prepare(table(x=VARYING), TableSettings())


@pytest.mark.parametrize("option", ["include", "exclude"])
def test_the_target_is_neither_included_nor_excluded(option):
    assert f"--{option} names the target 'y'" in refusal(table(x=VARYING), **{option: ("y",)})


# Whole tables


def test_constant_features_are_left_out_with_a_note():
    result = prepared(table(x=VARYING, one=[7], word=["same"]))

    assert names(result) == ["x"]
    assert result.notes == ("Left out 2 constant features: 'one', 'word'.",)


def test_the_first_of_identical_features_is_kept():
    result = prepared(table(x=VARYING, again=VARYING, negative=[-value for value in VARYING]))

    assert names(result) == ["x", "negative"]
    assert result.notes == ("Left out 1 feature with the same content as another: 'again' (as 'x').",)


def test_a_negative_zero_equals_zero():
    result = prepared(table(x=[0.0, 1.0, 2.0], again=[-0.0, 1.0, 2.0]))

    assert names(result) == ["x"]


def test_a_table_without_features_is_refused():
    assert "No feature is left. Left out 1 constant feature: 'one'." in refusal(table(one=[1]))


def test_nine_rows_are_too_few_and_ten_are_enough():
    assert len(prepared(table(x=VARYING).head(10)).rows_kept) == 10

    assert "The table has 9 rows; at least 10" in refusal(table(x=VARYING).head(9))


def test_a_name_used_twice_is_refused():
    frame = table(x=VARYING)

    assert "More than one column is called 'x'" in refusal(pd.concat([frame, frame[["x"]]], axis="columns"))


def test_names_that_are_not_text_become_text():
    frame = table(x=VARYING).rename(columns={"x": 7})

    assert names(prepared(frame)) == ["7"]


def test_two_features_of_one_name_are_refused():
    frame = table(port=["S", "C", "Q"], z=VARYING).rename(columns={"z": "port = C"})

    assert "Columns 'port' and 'port = C' both make a feature called 'port = C'" in refusal(frame)


def test_the_rows_labels_do_not_matter():
    frame = table(x=VARYING, s=["a", "b", "c"])

    shuffled_index = prepared(frame.set_axis([5] * ROWS, axis="index"))

    assert shuffled_index.columns.fingerprint == prepared(frame).columns.fingerprint


# New rows


# Arrays


def test_an_arrays_columns_are_numbered():
    frame = frame_from_arrays(np.arange(6).reshape(3, 2))

    assert list(frame.columns) == ["x0", "x1"]
    assert frame["x1"].tolist() == [1, 3, 5]


def test_numbers_in_an_array_of_objects_are_numbers():
    frame = frame_from_arrays(np.array([[1.5, "a"], [2, "b"]], dtype=object), ["n", "s"])

    assert frame["n"].dtype == np.float64


@pytest.mark.parametrize(("array", "names"), [(np.zeros(3), None), (np.zeros((2, 2)), ["a"])])
def test_an_array_of_another_shape_is_refused(array, names):
    with pytest.raises(DatasetError, match="The array has"):
        frame_from_arrays(array, names)
