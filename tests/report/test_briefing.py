"""The headline and the sentences of findings are true for every outcome."""

import pytest
from handmade import AGE, make_certified, make_document, make_held_out, make_rule

from maabo_dist.contract.coverage import ClassCoverage, CoverageInfo
from maabo_dist.contract.result import StopReason
from maabo_dist.contract.rules import CertificateRecord, Verdict
from maabo_dist.report.briefing import covered_text, finding_sentence, headline, of_hundred, useful_order

HELD, WEAKER, FAILED, UNTESTED = Verdict.HELD_UP, Verdict.WEAKER, Verdict.FAILED, Verdict.NOT_TESTED

UNTESTED_FINDING = (
    "1 finding for survived; chance does not explain it, but it was not tested on rows the search never saw"
)
UNTESTED_FINDINGS = (
    "2 findings for survived; chance does not explain them, but none was tested on rows the search never saw"
)


def make_tested(*verdicts, **fields):
    rules = [make_rule(AGE, number=n, holdout=make_held_out(), verdict=each) for n, each in enumerate(verdicts, 1)]
    return make_document(*rules, holdout=20, **fields)


def make_untested(*tentative):
    rules = []
    for number, each in enumerate(tentative, 1):
        document = make_document(make_certified(make_rule(AGE, number=number)))
        certificate = CertificateRecord(p=0.04, method="bound", tentative=each)
        rules.append(document.rules[0].model_copy(update={"certificate": certificate}))
    return document.model_copy(update={"rules": tuple(rules)})


def with_shares(document, **shares):
    """Return the document with a hundred rows of each class, of which so many are explained."""
    classes = tuple(ClassCoverage(label=name, rows=100, explained=shares[name]) for name in document.dataset.classes)
    return document.model_copy(update={"coverage": CoverageInfo(classes=classes, compared=("R1",), overlaps=())})


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (make_tested(HELD), "1 finding for survived; it held up on rows the search never saw"),
        (make_tested(HELD, HELD), "2 findings for survived; both held up on rows the search never saw"),
        (make_tested(HELD, HELD, HELD), "3 findings for survived; all three held up on rows the search never saw"),
        (make_tested(*13 * [HELD]), "13 findings for survived; all 13 held up on rows the search never saw"),
        (make_tested(WEAKER), "1 finding for survived; it was weaker but still clear on rows the search never saw"),
        (
            make_document(
                make_rule(AGE, number=1, holdout=make_held_out((4, 6)), verdict=WEAKER),
                make_rule(AGE, number=2, holdout=make_held_out(), verdict=WEAKER),
                holdout=20,
            ),
            (
                "2 findings for survived; none held up on rows the search never saw, one was weaker but still clear "
                "and one was weaker"
            ),
        ),
        (make_tested(UNTESTED, UNTESTED), "2 findings for survived; none could be tested on rows the search never saw"),
        (
            make_tested(HELD, HELD, WEAKER, FAILED),
            (
                "3 findings for survived; two held up on rows the search never saw, one was weaker but still clear "
                "and one failed"
            ),
        ),
        (
            make_tested(WEAKER, WEAKER, FAILED),
            (
                "2 findings for survived; none held up on rows the search never saw, two were weaker but still clear "
                "and one failed"
            ),
        ),
        (make_tested(FAILED, FAILED), "No findings for survived: two failed on rows the search never saw"),
        (
            make_untested(False),
            UNTESTED_FINDING,
        ),
        (
            make_untested(False, False),
            UNTESTED_FINDINGS,
        ),
        (
            make_untested(False, True),
            f"{UNTESTED_FINDINGS}, and one is tentative",
        ),
        (
            make_untested(True),
            f"{UNTESTED_FINDING} and is tentative",
        ),
        (make_document(), "No findings for survived"),
        (make_document(preset="paper"), "No rules for survived"),
        (make_document(make_rule(AGE), preset="paper"), "1 rule for survived"),
    ],
)
def test_the_headline_says_what_was_found_and_how_sure_it_is(document, text):
    assert headline(document) == text


def test_the_headline_says_what_findings_explain_the_class_of_the_first_one_first():
    document = make_document(make_rule(AGE), make_rule(AGE, number=2, label=0), preset="paper")

    text = headline(with_shares(document, **{"0": 40, "1": 71}))

    assert text == "2 rules explain 71 % of the rows with survived = 1 and 40 % of those with survived = 0"


def test_of_two_classes_only_those_with_a_finding_are_named():
    document = make_document(make_rule(AGE), preset="paper")

    assert headline(with_shares(document, **{"0": 0, "1": 71})) == "1 rule explains 71 % of the rows with survived = 1"


def test_of_many_classes_the_headline_gives_the_share_of_all_rows():
    rules = [make_rule(AGE, number=number, label=number, counts=(2, 8, 3, 1)) for number in (1, 2, 3)]
    document = make_document(*rules, classes=("a", "b", "c", "d"), preset="paper")

    text = headline(with_shares(document, a=0, b=10, c=20, d=90))

    assert text == "3 rules explain 30 % of the rows, in 3 of the 4 classes"


def test_while_the_search_runs_the_headline_says_so_far():
    document = make_document(make_rule(AGE), preset="paper")
    search = document.search.model_copy(update={"stopped": StopReason.RUNNING})

    assert headline(document.model_copy(update={"search": search})) == "1 rule so far for survived"


def test_the_sentence_uses_unseen_rows_where_the_finding_was_tested_on_them():
    seen, unseen = (
        make_document(make_rule(AGE, holdout=make_held_out(), verdict=verdict), holdout=20).rules[0]
        for verdict in (UNTESTED, WEAKER)
    )
    dataset = make_document().dataset

    assert finding_sentence(seen, dataset) == "80 of 100 rows with age ≤ 27.5 have survived = 1; usually 50 of 100."
    assert (
        finding_sentence(unseen, dataset) == "9 of 10 unseen rows with age ≤ 27.5 have survived = 1; usually 50 of 100."
    )


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ((0, 9), "All 9 unseen rows"),
        ((9, 0), "None of 9 unseen rows"),
        ((1, 9), "9 of 10 unseen rows"),
        ((2, 18), "90 of 100 rows"),
        ((0, 100), "100 of 100 rows"),
    ],
)
def test_all_of_a_few_rows_are_not_said_to_be_100_of_100(counts, words):
    rule = make_rule(AGE, holdout=make_held_out(counts))
    document = make_document(rule, holdout=100)

    assert finding_sentence(document.rules[0], document.dataset).startswith(f"{words} with age ≤ 27.5 have ")


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 of 100"),
        (0.001, "fewer than 1 of 100"),
        (0.744, "74 of 100"),
        (0.997, "more than 99 of 100"),
        (1, "100 of 100"),
    ],
)
def test_all_and_none_are_said_only_where_they_are_true(share, text):
    assert of_hundred(share) == text


def test_covered_rows_are_those_of_all_parts():
    document = make_tested(HELD)
    assert covered_text(document.rules[0], document) == "30 rows covered"
    document = with_shares(document, **{"0": 0, "1": 25})

    assert covered_text(document.rules[0], document) == "30 rows covered, 25 % of those with survived = 1"


def test_findings_that_lost_most_of_their_advantage_and_tentative_ones_come_last():
    weak, weaker = make_held_out((45, 55)), make_held_out((28, 72))  # of 50 usual and 80 searched ones of 100
    verdicts = [(weak, WEAKER), (None, UNTESTED), (weaker, WEAKER), (weak, FAILED), (make_held_out(), HELD)]
    rules = [
        make_rule(AGE, number=number, holdout=holdout, verdict=verdict)
        for number, (holdout, verdict) in enumerate(verdicts, 1)
    ]

    findings, paper = (make_document(*rules, holdout=100, preset=preset) for preset in ("auto", "paper"))

    assert [rule.id for rule in useful_order(findings)] == ["R2", "R3", "R5", "R1"]
    assert [rule.id for rule in useful_order(paper)] == ["R1", "R2", "R3", "R4", "R5"]
    tentative = make_untested(True, False)
    assert [rule.id for rule in useful_order(tentative)] == ["R2", "R1"]
