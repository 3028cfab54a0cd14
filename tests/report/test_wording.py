import pytest
from handmade import AGE, make_rule

from maabo_dist._util.text import printable
from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.contract.wording import condition_text, conditions_text, number_text
from maabo_dist.rules.rule import rule_text

CUT = ("progression ≤ 152.1", "progression > 152.1")
QUANTILES = ("y ≤ 3", "3 < y ≤ 7", "y > 7")


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (AGE, "age ≤ 27.5"),
        (Condition("age", Op.ABOVE, 27.5), "age > 27.5"),
        (Condition("embarked", Op.IS, "C"), "embarked = C"),
        (Condition("embarked", Op.IS_NOT, "C"), "embarked ≠ C"),
        (Condition("age", Op.IS_MISSING, None), "age is missing"),
        (Condition("age", Op.IS_PRESENT, None), "age is not missing"),
        (Condition("age", Op.AT_MOST, 27.5, or_missing=True), "(age ≤ 27.5 or missing)"),
        (Condition("embarked", Op.IS_NOT, "C", or_missing=True), "(embarked ≠ C or missing)"),
    ],
)
def test_each_kind_of_condition_reads_as_a_person_would_say_it(condition, text):
    assert condition_text(condition) == text


def test_a_rule_with_an_interval_reads_as_one_condition():
    conditions = [Condition("x", Op.AT_MOST, 7.0), Condition("sex", Op.IS, "f"), Condition("x", Op.ABOVE, 3.0)]

    assert conditions_text(conditions) == "3 < x ≤ 7 and sex = f"


def test_the_tightest_of_several_bounds_on_a_column_is_printed():
    conditions = [Condition("x", Op.AT_MOST, 9.0), Condition("x", Op.AT_MOST, 7.0)]

    assert conditions_text(conditions) == "x ≤ 7"


@pytest.mark.parametrize(("low", "high", "text"), [(True, True, "(3 < x ≤ 7 or missing)"), (True, False, "3 < x ≤ 7")])
def test_a_missing_cell_is_in_an_interval_only_if_it_satisfies_both_bounds(low, high, text):
    conditions = [Condition("x", Op.ABOVE, 3.0, low), Condition("x", Op.AT_MOST, 7.0, high)]

    assert conditions_text(conditions) == text


def test_bounds_that_differ_late_are_written_in_more_digits():
    conditions = [Condition("x", Op.ABOVE, 1.00000001), Condition("x", Op.AT_MOST, 1.00000002)]

    assert conditions_text(conditions) == "1.00000001 < x ≤ 1.00000002"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (48.2, "48.2"),
        (3.3200000000000003, "3.32"),
        (27.0, "27"),
        (-0.0, "0"),
        (1234567.5, "1234567.5"),
        (20_000_000.0, "20000000"),
        (1.5e-7, "1.5e-07"),
        (6.02214076e23, "6.02214e+23"),
    ],
)
def test_numbers_are_short_without_losing_their_size(number, text):
    assert number_text(number) == text


def test_exact_text_gives_a_threshold_back_bit_by_bit():
    threshold = 0.1 + 0.2

    text = conditions_text([Condition("x", Op.AT_MOST, threshold)], exact=True)

    assert float(text.removeprefix("x ≤ ")) == threshold


def test_no_conditions_hold_always():
    assert conditions_text([]) == "always"
    assert rule_text(make_rule(), ("0", "1"), "survived") == "IF always THEN survived = 1"


def test_a_rule_is_a_sentence():
    rule = make_rule(Condition("sex", Op.IS, "female"), Condition("fare", Op.ABOVE, 48.2))

    assert rule_text(rule, ("0", "1"), "survived") == "IF sex = female AND fare > 48.2 THEN survived = 1"


@pytest.mark.parametrize(
    ("classes", "target", "expected"),
    [
        (CUT, "progression above 152.1", "progression > 152.1"),
        (QUANTILES, "y in 3 quantile classes", "3 < y ≤ 7"),
        (("a ≤ b", "c > d"), "sign", "sign = c > d"),
    ],
)
def test_a_class_that_is_a_statement_stands_alone_and_no_other_does(classes, target, expected):
    assert rule_text(make_rule(AGE), classes, target) == f"IF age ≤ 27.5 THEN {expected}"


def test_names_cannot_break_a_line_or_steer_a_terminal():
    assert printable("a\nb\r\x1b[31mc\u2028d\u202e") == "a\\nb\\r\\x1b[31mc\\u2028d\\u202e"
    assert printable("größe 身長 🙂") == "größe 身長 🙂"
