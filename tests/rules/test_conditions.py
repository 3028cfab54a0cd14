"""Literals as conditions on columns: every kind of feature, either side, with and without missing cells."""

import pytest

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.data.columns import Feature, FeatureKind
from maabo_dist.rules.conditions import conditions_of

AGE = Feature("age", "age", FeatureKind.NUMBER, fill=30.0)
SEX = Feature("sex", "sex", FeatureKind.PAIR, ("female", "male"), fill=1.0)
PORT = Feature("port = C", "port", FeatureKind.LEVEL, ("C",), fill=0.0)
LOST = Feature("age is missing", "age", FeatureKind.MISSING)

SMALL, LARGE = 0, 1


def condition(feature, side, bound):
    (only,) = conditions_of([feature], [side], [bound])
    return only


def with_missing(feature, fill):
    return Feature(feature.name, feature.column, feature.kind, feature.levels, fill, missing=3)


@pytest.mark.parametrize(
    ("feature", "side", "bound", "expected"),
    [
        (AGE, SMALL, 28.5, Condition("age", Op.AT_MOST, 28.5)),
        (AGE, LARGE, 28.5, Condition("age", Op.ABOVE, 28.5)),
        (SEX, SMALL, 0.5, Condition("sex", Op.IS, "female")),
        (SEX, LARGE, 0.5, Condition("sex", Op.IS, "male")),
        (PORT, SMALL, 0.5, Condition("port", Op.IS_NOT, "C")),
        (PORT, LARGE, 0.5, Condition("port", Op.IS, "C")),
        (LOST, SMALL, 0.5, Condition("age", Op.IS_PRESENT, None)),
        (LOST, LARGE, 0.5, Condition("age", Op.IS_MISSING, None)),
    ],
)
def test_a_literal_is_converted_to_a_condition_on_the_column(feature, side, bound, expected):
    assert condition(feature, side, bound) == expected


@pytest.mark.parametrize(
    ("feature", "fill", "bound", "small_side"),
    [
        (AGE, 30.0, 28.5, False),
        (AGE, 28.5, 28.5, True),  # a value at the threshold is small
        (AGE, 20.0, 28.5, True),
        (SEX, 0.0, 0.5, True),
        (SEX, 1.0, 0.5, False),
        (PORT, 0.0, 0.5, True),
        (PORT, 1.0, 0.5, False),
    ],
)
def test_missing_cells_are_on_the_side_of_their_imputed_value(feature, fill, bound, small_side):
    feature = with_missing(feature, fill)

    assert condition(feature, SMALL, bound).or_missing is small_side
    assert condition(feature, LARGE, bound).or_missing is not small_side


def test_conditions_do_not_mention_missing_cells_where_there_are_none():
    assert not condition(AGE, LARGE, 28.5).or_missing


def test_being_missing_is_never_or_missing():
    feature = with_missing(LOST, 1.0)

    assert not condition(feature, LARGE, 0.5).or_missing
    assert not condition(feature, SMALL, 0.5).or_missing


def test_an_interval_is_two_conditions_and_all_are_ordered_by_feature():
    conditions = conditions_of([AGE, SEX, PORT], [0, 1, 3, 4], [40.0, 20.0, 0.5, 0.5])

    assert conditions == (
        Condition("age", Op.AT_MOST, 40.0),
        Condition("age", Op.ABOVE, 20.0),
        Condition("sex", Op.IS, "male"),
        Condition("port", Op.IS_NOT, "C"),
    )


def test_no_literals_give_no_conditions():
    assert conditions_of([AGE], [], []) == ()
