"""The classes of a target column."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.data.target import encode_target
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings


def encoded(values, name="y", **settings):
    return encode_target(pd.Series(values, name=name), TableSettings(target=name, **settings))


def refusal(values, **settings):
    with pytest.raises(DatasetError) as caught:
        encoded(values, **settings)
    return str(caught.value)


def test_text_classes_are_sorted():
    target = encoded(["no", "yes", "maybe", "no"])

    assert target.classes == ("maybe", "no", "yes")
    assert target.labels.tolist() == [1, 2, 0, 1]
    assert target.labels.dtype == np.int32
    assert target.text == "y"


def test_classes_that_differ_only_in_spaces_or_capital_letters_are_pointed_out():
    target = encoded(["No", "no", "Yes", "No ", "maybe"])

    assert len(target.classes) == 5
    assert target.notes == (
        "Classes of 'y' differ only in spaces or capital letters: 'No', 'No ', 'no'. Write them alike if they are one.",
    )
    assert encoded(["No", "Yes", "N o"]).notes == ()


def test_boolean_classes_are_false_and_true():
    target = encoded([True, False, True])

    assert target.classes == ("false", "true")
    assert target.labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize("values", [[10, 2, 2], [10.0, 2.0, 2.0]])
def test_whole_numbers_are_sorted_as_numbers_and_shown_without_a_fraction(values):
    target = encoded(values)

    assert target.classes == ("2", "10")
    assert target.labels.tolist() == [1, 0, 0]


def test_an_ordered_categorical_keeps_its_order_and_loses_unused_categories():
    cells = pd.Categorical(["low", "high", "low"], categories=["low", "mid", "high"], ordered=True)

    target = encoded(cells)

    assert target.classes == ("low", "high")
    assert target.labels.tolist() == [0, 1, 0]


def test_twenty_whole_numbers_are_classes_and_twenty_one_are_not():
    assert len(encoded(list(range(20)) * 2).classes) == 20

    assert encoded(list(range(21)) * 2).classes == ("y ≤ 10", "y > 10")


def test_a_number_is_cut_at_its_median_with_a_note_on_other_cuts():
    target = encoded([0.5, 1.5, 2.5, 9.5])

    assert target.labels.tolist() == [0, 0, 1, 1]
    assert target.text == "y above 2"
    (note,) = target.notes
    assert note.startswith("The target 'y' is a number with 4 distinct values and is cut at its median: y above 2. ")
    assert note.endswith("Use --target-above NUMBER or --target-quantiles 3 to cut it elsewhere.")


@given(st.lists(st.floats(-1e9, 1e9), min_size=2).filter(lambda values: len(set(values)) > 1))
def test_every_number_that_varies_has_classes(values):
    assert len(set(encoded(values).labels.tolist())) >= 2


def test_a_number_without_any_value_above_its_median_is_cut_below():
    target = encoded([0.5, 1.5, 1.5, 1.5])

    assert target.labels.tolist() == [0, 1, 1, 1]
    assert "is cut at 0.5, as no value is above its median" in target.notes[0]


def test_above_the_mean_is_strictly_above():
    target = encoded([1, 2, 3, 6], name="progression", target_above="mean")

    assert target.labels.tolist() == [0, 0, 0, 1]
    assert target.classes == ("progression ≤ 3", "progression > 3")
    assert target.text == "progression above 3"


@pytest.mark.parametrize(("cut", "labels"), [("median", [0, 0, 1, 1]), (3, [0, 0, 0, 1]), (2.5, [0, 0, 1, 1])])
def test_above_takes_the_median_or_a_number(cut, labels):
    assert encoded([1, 2, 3, 6], target_above=cut).labels.tolist() == labels


def test_above_a_number_that_no_row_exceeds_leaves_one_class():
    assert "Target column 'y' has 1 class ('y ≤ 7'); mining needs at least 2." in refusal([1, 2, 6], target_above=7)


def test_quantiles_make_classes_of_equal_size_named_by_their_interval():
    target = encoded(list(range(1, 10)), name="p", target_quantiles=3)

    assert np.bincount(target.labels).tolist() == [3, 3, 3]
    assert target.classes == ("p ≤ 3.66667", "3.66667 < p ≤ 6.33333", "p > 6.33333")
    assert target.text == "p in 3 quantile classes"


def test_quantile_names_take_as_many_digits_as_make_them_true():
    target = encoded(1e9 + np.arange(9.0), target_quantiles=3)

    assert np.bincount(target.labels).tolist() == [3, 3, 3]
    assert target.classes == ("y ≤ 1000000002.7", "1000000002.7 < y ≤ 1000000005.3", "y > 1000000005.3")


def test_the_text_of_a_cut_is_true_of_every_row():
    target = encoded([0.0, 1.0000001, 1.0000003], target_above=1.0000002)

    assert target.labels.tolist() == [0, 0, 1]
    assert target.classes == ("y ≤ 1.0000002", "y > 1.0000002")


def test_a_value_on_a_quantile_edge_belongs_below_it():
    target = encoded([1, 2, 2, 3], target_quantiles=2)

    assert target.labels.tolist() == [0, 0, 0, 1]


def test_ties_that_leave_fewer_quantile_classes_are_refused():
    assert "--target-quantiles 4 gives 2 classes of column 'y' instead of 4" in refusal(
        [1] * 9 + [2], target_quantiles=4
    )


@pytest.mark.parametrize("cut", [{"target_above": "mean"}, {"target_quantiles": 2}])
def test_only_numbers_can_be_cut(cut):
    message = refusal(["a", "b", "a"], **cut)

    assert "needs a numeric target" in message
    assert "'a', 'b'" in message


@pytest.mark.parametrize("cut", [{}, {"target_above": 1}])
def test_an_infinite_target_is_refused(cut):
    assert "1 infinite value" in refusal([1.0, np.inf, 2.0], **cut)


def test_one_class_is_refused_with_its_name():
    assert refusal(["a", "a"]) == "Target column 'y' has 1 class ('a'); mining needs at least 2."


def test_a_hundred_classes_are_allowed_and_one_more_is_not():
    assert len(encoded([f"c{number}" for number in range(100)]).classes) == 100

    assert "has 101 classes" in refusal([f"c{number}" for number in range(101)])


def test_dates_are_not_classes():
    assert "datetime64" in refusal(pd.to_datetime(["2020-01-01", "2020-01-02"]))
