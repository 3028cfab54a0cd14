"""The rule with the most certain precision decides."""

import numpy as np

from maabo_dist.contract.rules import Verdict
from maabo_dist.rules.deciding import NO_RULE, deciding_rules, decision_order
from tests.report.handmade import AGE, make_document, make_held_out, make_rule


def rules(*each):
    return make_document(*each).rules


def held_out(low):
    return make_held_out().model_copy(update={"precision_low": low})


def test_the_greatest_lower_limit_on_held_out_rows_comes_first():
    document = rules(*(make_rule(AGE, number=n + 1, holdout=held_out(low)) for n, low in enumerate([0.5, 0.8, 0.6])))

    assert decision_order(document) == [1, 2, 0]


def test_without_held_out_rows_mined_rows_count_and_many_rows_beat_few():
    few, many = make_rule(AGE, counts=(0, 3)), make_rule(AGE, number=2, counts=(5, 95))

    assert decision_order(rules(few, many)) == [1, 0]


def test_ties_are_in_the_order_of_the_document():
    assert decision_order(rules(make_rule(AGE), make_rule(AGE, number=2))) == [0, 1]


def test_a_rule_that_failed_never_decides():
    failed = make_rule(AGE, holdout=held_out(0.9), verdict=Verdict.FAILED)

    assert decision_order(rules(failed, make_rule(AGE, number=2))) == [1]


def test_each_row_is_decided_by_the_first_rule_of_the_order_that_matches_it():
    covered = np.array([[1, 1, 0, 1], [0, 1, 0, 0], [0, 0, 0, 1]], bool)

    assert deciding_rules(covered, [2, 1, 0]).tolist() == [0, 1, NO_RULE, 2]
    assert deciding_rules(covered, [1]).tolist() == [NO_RULE, 1, NO_RULE, NO_RULE]
    assert deciding_rules(covered, []).tolist() == [NO_RULE] * 4
