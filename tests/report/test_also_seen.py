"""Other wordings of a finding, failed findings and adjusted p-values, in every output that people read."""

from dataclasses import replace

import pytest
from handmade import AGE, make_certified, make_displaced, make_document, make_held_out, make_rule

from maabo_dist.contract.conditions import Condition, Op
from maabo_dist.contract.rules import StandInRecord, Verdict
from maabo_dist.report.exports import to_pandas, to_sql
from maabo_dist.report.html import report_page
from maabo_dist.report.notebook import MinedRule, rules_html
from maabo_dist.report.summary import FAILED_HEADING
from maabo_dist.report.tables import to_csv, to_markdown
from tests.report.test_terminal import printed

FARE = Condition("fare", Op.ABOVE, 31.0)
STAND_INS = (
    StandInRecord(column="birth_year", instead_of="age", correlation=-0.9876),
    StandInRecord(column="grade", instead_of="age", correlation=0.81),
)


def wide_rule(**fields):
    displaced = (make_displaced(FARE), make_displaced(AGE, FARE))
    return make_certified(replace(make_rule(AGE, displaced=displaced, **fields), displaced_total=7))


STANDING_IN = "also birth_year in place of age, correlation -0.99; 6 more"
SEEN_AS = "also seen as fare > 31; 6 more"


@pytest.mark.parametrize(("stand_ins", "text"), [(STAND_INS, STANDING_IN), ((), SEEN_AS)])
def test_other_wordings_are_below_the_finding(stand_ins, text):
    rules = [wide_rule(stand_ins=stand_ins), make_certified(make_rule(FARE, number=2))]
    document = make_document(*rules)

    lines = printed(document).splitlines()
    (place,) = (index for index, line in enumerate(lines) if line.strip() == text)
    assert "adjusted p = 0.001" in lines[place - 1]
    assert lines[place + 2].strip().startswith("R2")
    assert f"| {text.removeprefix('also ')} |" in to_markdown(document).replace("\\_", "_").replace("&gt;", ">")
    assert "Also seen as 7 other rules on nearly the same rows" in report_page(document)
    notebook = rules_html([MinedRule.of(rule, ("0", "1"), "survived") for rule in rules], "", [])
    assert notebook.count(text.replace(">", "&gt;")) == 1


def test_without_other_wordings_nothing_is_said():
    document = make_document(make_certified(make_rule(AGE)))

    assert "also" not in printed(document)
    assert "| also |" not in to_markdown(document)
    assert 'class="also"' not in report_page(document)


def test_the_other_wordings_of_a_card_are_folded_and_few():
    stand_ins = tuple(StandInRecord(column=f"x{n}", instead_of="age", correlation=0.9) for n in range(9))

    card = report_page(make_document(wide_rule(stand_ins=stand_ins))).partition("<script")[0]

    wordings = card.partition('<details class="also">')[2].partition("</details>")[0]
    assert wordings.count(" in place of age") == 5
    assert "The evidence lists more." in wordings


def test_the_report_and_the_csv_have_every_stand_in():
    document = make_document(wide_rule(stand_ins=STAND_INS))

    for text in ("birth_year in place of age, correlation -0.99", "grade in place of age, correlation 0.81"):
        assert f'"{text}"' in report_page(document)
        assert text in to_csv(document)


def test_rules_of_the_paper_have_no_other_wordings():
    document = make_document(make_rule(AGE, displaced=(make_displaced(FARE),)), preset="paper")

    assert "also" not in printed(document)


def test_failed_findings_stand_apart_after_the_others_in_every_output():
    good = make_certified(make_rule(AGE, holdout=make_held_out()))
    bad = make_certified(make_rule(FARE, number=2, holdout=make_held_out((9, 1)), verdict=Verdict.FAILED))
    document = make_document(good, bad, holdout=100)
    mined = [MinedRule.of(rule, ("0", "1"), "survived") for rule in (good, bad)]

    outputs = [
        (printed(document), "age ≤ 27.5", "fare > 31"),
        (to_markdown(document), "age ≤ 27.5", "fare &gt; 31"),
        (to_sql(document), '"age" <= 27.5', '"fare" > 31'),
        (to_pandas(document), "df['age'] <= 27.5", "df['fare'] > 31"),
        (rules_html(mined, "", []), "age ≤ 27.5", "fare &gt; 31"),
        (report_page(document).partition("<script")[0], "age ≤ 27.5", "fare &gt; 31"),
    ]
    for text, first, second in outputs:
        places = [text.find(part) for part in (first, FAILED_HEADING, second)]
        assert -1 < places[0] < places[1] < places[2], text
    assert [line.split(",")[0] for line in to_csv(document).splitlines()] == ["rule", "R1", "R2"]


def test_where_all_findings_failed_the_heading_comes_first():
    bad = make_certified(make_rule(AGE, holdout=make_held_out((9, 1)), verdict=Verdict.FAILED))
    document = make_document(bad, holdout=100)

    assert f"never saw.**\n\n**{FAILED_HEADING}**\n\n| rule |" in to_markdown(document)
    assert to_sql(document).startswith(f"-- {FAILED_HEADING}\n-- R1:")


def test_every_output_has_the_adjusted_p_value():
    rule = make_certified(make_rule(AGE), p=0.0123)
    document = make_document(rule)

    for text in (
        printed(document),
        to_csv(document),
        to_markdown(document),
        to_sql(document),
        to_pandas(document),
        document.to_text(),
        report_page(document).partition("<script")[0],
        rules_html([MinedRule.of(rule, ("0", "1"), "survived")], "", []),
    ):
        assert "0.012" in text
