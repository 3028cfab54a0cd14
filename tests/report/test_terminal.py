import io
import re

import pytest
from handmade import AGE, make_certified, make_document, make_held_out, make_record, make_repeated, make_rule
from rich.cells import cell_len
from rich.console import Console

from maabo_dist.contract.conditions import Condition, ConditionTest, Op
from maabo_dist.contract.coverage import ClassCoverage, CoverageInfo
from maabo_dist.contract.rules import Verdict
from maabo_dist.contract.selection import DroppingInfo, FunnelCounts, MissingClassRecord, MissingReason, NoiseInfo
from maabo_dist.contract.wording import large_number
from maabo_dist.report.terminal import print_report, report_console

LONG = [Condition(f"a rather long column name {index}", Op.ABOVE, index + 0.5) for index in range(4)]


def printed(document, width=100, *, terminal=False, **choices):
    stream = io.StringIO()
    console = report_console(stream)
    if terminal:
        console = Console(file=stream, force_terminal=True, color_system="standard", markup=False, highlight=False)
    console.width = width
    print_report(document, console, **choices)
    return stream.getvalue()


def held_out_document(**settings):
    rules = [make_rule(AGE, *LONG, holdout=make_held_out()), make_rule(*LONG, number=2, holdout=make_held_out(q=0.2))]
    return make_document(*rules, holdout=20, notes=["Left out 1 constant feature: 'x'. " * 5], **settings)


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_is_wider_than_the_terminal(width):
    text = printed(held_out_document(), width)

    assert max(map(cell_len, text.splitlines())) <= width


@pytest.mark.parametrize("preset", ["auto", "paper"])
def test_a_long_rule_breaks_between_its_conditions(preset):
    text = printed(held_out_document(preset=preset), width=100)

    assert all(text.count(f"a rather long column name {index} > {index}.5") == 2 for index in range(4))
    assert text.count("survived = 1;" if preset == "auto" else "→ survived = 1") == 2


def test_findings_come_first_then_classes_notes_and_the_run():
    document = make_document(make_rule(AGE, holdout=make_held_out()), holdout=20, notes=["A note."])
    coverage = CoverageInfo(
        classes=(ClassCoverage(label="0", rows=60, explained=0), ClassCoverage(label="1", rows=50, explained=30)),
        compared=("R1",),
        overlaps=(),
    )

    text = printed(document.model_copy(update={"coverage": coverage}), width=80)

    assert text.splitlines() == [
        "  table.csv · survived · 120 rows, 20 of them kept for a check",
        "",
        "  1 finding explains 60 % of the rows with survived = 1; it held up on rows",
        "  the search never saw.",
        "",
        "  R1   held up     9 of 10 unseen rows with age ≤ 27.5 have survived = 1;",
        "                   usually 50 of 100.",
        "                   30 rows covered, 50 % of those with survived = 1",
        "                   10 unseen rows: precision 0.90, 95 % interval 0.60–0.98;",
        "                   adjusted p = 0.001",
        "",
        "  Explained",
        "  survived = 0   0 %  0 of 60 rows, 60 left",
        "  survived = 1  60 %  30 of 50 rows, by R1, 20 left",
        "",
        "  ! A note.",
        "",
        "  35 trees in 1.2 s, seed 0; all subsets tried; certified: adjusted p ≤ 0.05",
        "  by a bound on the number of possible rules; digest abababababababab",
    ]


def test_the_run_is_described_in_full_only_if_asked_for():
    text = printed(held_out_document(), verbose=True)

    assert "leaves →" not in printed(held_out_document())
    assert "120 = 70 training + 30 validation + 20 held out" in text
    assert "D = 7 features, D′ = 3 per tree, |Ω| = 35 subsets" in text
    assert "35 trees (100 % of the space) in 1.2 s, maabo, seed 0, best F1 0.750" in text
    assert "certified  adjusted p ≤ 0.05 by a bound on the number of possible rules" in text
    assert "400 leaves → 120 large enough → 31 distinct → 31 supported → 12 certified → 2 findings" in text
    assert "digest     abababababababab\n" in text


def test_the_header_of_the_papers_rules_has_its_filters():
    text = printed(held_out_document(preset="paper"), verbose=True)

    assert "400 leaves → 120 large enough → 44 pure enough → 31 distinct → 2 rules" in text
    assert "certified" not in text


@pytest.mark.parametrize(
    ("shuffles", "searches"), [(1, "1 search on shuffled labels"), (24, "24 searches on shuffled labels")]
)
def test_the_header_contains_the_number_and_the_time_of_shuffled_searches(shuffles, searches):
    short, long = (printed(make_document(make_rule(AGE), shuffles=shuffles), verbose=each) for each in (False, True))

    assert f"certified: adjusted p ≤ 0.05 by {searches} (1.2 s)" in " ".join(short.split())
    assert f"certified  adjusted p ≤ 0.05 by {searches} (1.2 s)" in long


def test_the_header_contains_the_mixed_sizes():
    text = printed(make_document(subset_size="2-4"), verbose=True)

    assert "D = 7 features, D′ = 2–4 per tree, |Ω| = 91 subsets" in text


def test_precision_is_shown_for_training_and_held_out_rows_with_its_certainty():
    text = printed(held_out_document(preset="paper"))

    assert "0.80 → 0.80 → 0.90" in text
    assert "0.60–0.98, q = 0.010" in text


def test_without_held_out_rows_findings_are_not_tested():
    text = printed(make_document(make_certified(make_rule(AGE), p=1e-30)))

    assert re.search(r"R1 +not tested +80 of 100 rows with age ≤ 27.5 have survived = 1; usually 50 of 100.\n", text)
    assert "20 searched rows: precision 0.80, 95 % interval 0.58–0.92; adjusted p < 0.001" in text


def test_rules_that_failed_on_held_out_rows_stand_apart():
    verdicts = [Verdict.HELD_UP, Verdict.WEAKER, Verdict.NOT_TESTED, Verdict.FAILED, Verdict.FAILED]
    rules = [make_rule(AGE, number=n, holdout=make_held_out(), verdict=each) for n, each in enumerate(verdicts, 1)]

    kept, failed = printed(make_document(*rules, holdout=20)).split("Did not hold up on unseen rows")

    assert re.findall(r"R\d", kept) == ["R1", "R2", "R3"]
    assert re.findall(r"R\d", failed) == ["R4", "R5"]
    assert "Did not hold up" not in printed(make_document(*rules[:3], holdout=20))
    assert "Did not hold up" not in printed(make_document(*rules, holdout=20, preset="paper"))


def test_where_all_findings_failed_the_headline_says_so():
    text = printed(make_document(make_rule(AGE, holdout=make_held_out(), verdict=Verdict.FAILED), holdout=20))

    assert "No findings for survived: one failed on rows the search never saw." in text
    assert text.count("R1") == 1


def test_the_rules_can_be_printed_without_the_summary():
    text = printed(held_out_document(), only_rules=True)

    assert "R1" in text
    assert "digest" not in text
    assert "leaves →" not in text
    assert "Left out" not in text


def test_markup_emoji_codes_and_terminal_codes_in_names_are_printed_literally():
    name = "[red]a[/red] :smile: 🙂 [/]"
    rule = make_rule(Condition(name, Op.IS, "[bold]x"), Condition("b\x1b[2J\nc", Op.ABOVE, 1.0))

    text = printed(make_document(rule, name="[blink]f.csv", notes=["note [link]"]))

    assert f"{name} = [bold]x" in text
    assert "b\\x1b[2J\\nc > 1" in text
    assert "[blink]f.csv" in text
    assert "note [link]" in text


def test_a_report_into_a_pipe_holds_no_terminal_codes_and_no_trailing_blanks(monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    text = printed(held_out_document())

    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_colour_on_a_terminal_yields_to_no_color(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = printed(held_out_document(), terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = printed(held_out_document(), terminal=True)

    assert "\x1b[36m" in coloured or "\x1b[1;36m" in coloured
    assert "36m" not in plain


@pytest.mark.parametrize(
    ("funnel", "hint"),
    [
        ((0, 0, 0, 0, 0), "No tree was grown."),
        ((400, 0, 0, 0, 0), "--min-samples"),
        ((400, 120, 0, 0, 0), "--gini"),
        ((400, 120, 44, 31, 0), "--significance"),
    ],
)
def test_an_empty_result_names_the_filter_to_relax(funnel, hint):
    text = printed(make_document(funnel=make_record(FunnelCounts, *funnel, None, 0), preset="paper"))

    assert "No rules." in text
    assert hint in text


@pytest.mark.parametrize(
    ("funnel", "reason"),
    [
        ((0, 0, 0, 0, 0, 0), "No tree was grown."),
        ((400, 0, 0, 0, 0, 0), "No leaf has enough training rows to be certified."),
        ((400, 120, 0, 0, 0, 0), "No leaf favours a class."),
        ((400, 120, 120, 31, 0, 0), "the rows support no condition at --significance 0.05."),
        ((400, 120, 120, 31, 9, 0), "None of the 9 supported rules has enough evidence"),
        ((400, 120, 120, 31, 1, 0), "The supported rule has too little evidence"),
    ],
)
def test_without_findings_the_reason_is_given(funnel, reason):
    text = " ".join(printed(make_document(funnel=make_record(FunnelCounts, *funnel, 0))).split())

    assert "No findings." in text
    assert reason in text


def test_more_shuffled_searches_are_proposed_only_where_none_were_run():
    funnel = make_record(FunnelCounts, 400, 120, 120, 31, 9, 0, 0)

    by_bound, by_shuffles = (printed(make_document(funnel=funnel, shuffles=count)) for count in (0, 24))

    assert "--certify N" in by_bound
    assert "--certify" not in by_shuffles


def make_missing(name, text="No finding for survived = 1: it is rare."):
    return make_record(MissingClassRecord, name, 40, MissingReason.RARE, 3, 0, None, text)


def test_classes_without_a_finding_are_explained_with_and_without_rules():
    missing = tuple(make_missing(str(number), f"No finding for c{number}.") for number in range(8))
    for document in (make_document(make_rule(AGE)), make_document()):
        text = printed(document.model_copy(update={"missing_classes": missing}))

        assert "No finding for c0." in text
        assert "No finding for c5." not in text
        assert "… and 3 more classes without a finding; --format json has them." in text


def test_limits_that_leave_out_every_certified_rule_are_named():
    funnel = make_record(FunnelCounts, 400, 120, 120, 31, 9, 2, 0)

    text = printed(make_document(funnel=funnel, min_precision=0.9, for_class=("a", "b")))

    assert "No findings. 2 certified rules were left out by --min-precision 0.9, --for-class a,b." in text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (35, "35"),
        (161_700, "161,700"),
        (10**9, "1,000,000,000"),
        (1_312_345_678_901, "1.3×10¹²"),
        (10**190, "1.0×10¹⁹⁰"),
    ],
)
def test_large_numbers_stay_readable(number, text):
    assert large_number(number) == text


@pytest.mark.parametrize(
    ("noise", "line"),
    [
        (
            make_record(NoiseInfo, 50, 7, 0, 0.0, 0.0, 0.124),
            "0–12 % of these rules are due to chance, estimated from 50 probes (0 of 7 ",
        ),
        (
            make_record(NoiseInfo, 1000, 9, 1, 1.0, 1.0, 1.0),
            "100 % of these rules are due to chance, estimated from 1,000 probes (1 of 9",
        ),
        (make_record(NoiseInfo, 50, 3, 3, None, None, None), "50 probes (3 of 3 use one)"),
    ],
)
def test_probes_say_how_many_of_the_rules_are_chance(noise, line):
    document = make_document(make_rule(AGE), noise=noise, features=57, probes=50)
    text = printed(document, verbose=True)

    assert f"noise      {line}" in text
    assert f"noise: {line}" in " ".join(printed(document).split())
    assert "D = 57 features (50 of them probes)" in text


def test_a_run_whose_rules_all_use_probes_is_reported():
    noise = make_record(NoiseInfo, 50, 3, 3, None, None, None)
    funnel = make_record(FunnelCounts, 400, 120, 120, 31, 9, 0, 0)

    findings = printed(make_document(noise=noise, features=57, probes=50, funnel=funnel))
    paper = printed(make_document(noise=noise, features=57, probes=50, preset="paper"))

    assert "Every certified rule uses a probe" in findings
    assert "Every reliable leaf uses a probe" in paper
    assert all("nothing but chance" in " ".join(text.split()) for text in (findings, paper))


def test_a_rule_is_printed_with_its_dropped_conditions_and_reasons():
    lost = {
        "dropped": tuple(LONG[:2]),
        "dropped_tests": (make_record(ConditionTest, 1.0, 0.3, 0.4), make_record(ConditionTest, 1.0, 1.0, 1.0)),
    }

    text = printed(
        make_document(
            make_rule(AGE, **lost),
            dropping=make_record(DroppingInfo, 1234, 1),
            preset="paper",
            literals="supported",
        ),
        verbose=True,
    )

    assert "without a rather long column name 0 > 0.5 (p = 0.4)" in text
    assert "a rather long column name 1 > 1.5 (p = 1)" in text
    assert "dropped  1,234 unsupported conditions (p > 0.05), 1 leaf unreliable without such conditions" in text


def test_a_rule_without_dropped_conditions_does_not_mention_them():
    assert "without" not in printed(make_document(make_rule(AGE)))


def test_repeats_print_the_stability_of_each_rule_and_the_consensus_rules():
    rules = make_rule(AGE), make_rule(AGE, number=2)

    text = printed(make_repeated(make_document(*rules), 9, 0, consensus=("R1", None)))

    assert (
        "repeats: 10, on 50 rows each; 1 of these rules, and 1 other, come back in at least 50 % of them"
        in " ".join(text.split())
    )
    assert re.findall(r"comes\s+back\s+(\S+/10)", text) == ["9/10", "0/10"]
    assert "Consensus rules" in text
    assert re.search(r"– +age ≤ 27.5 +1,234 +9/10 +0.88", text)
    assert max(map(len, text.splitlines())) <= 100


def test_without_repeats_they_are_not_mentioned():
    text = printed(make_document(make_rule(AGE)))

    assert "repeats" not in text
    assert "back" not in text


def test_consensus_rules_are_shown_where_the_run_itself_has_no_rules():
    text = printed(make_repeated(make_document(), consensus=(None,) * 25))

    assert "No findings." in text
    assert "… and 5 more; --format json has them all." in text


def test_a_run_without_finished_repeats_is_reported():
    document = make_repeated(make_document(make_rule(AGE)), 0)
    repeats = document.repeats.model_copy(update={"done": 0, "rows": None})

    text = printed(document.model_copy(update={"repeats": repeats}))
    assert "repeats: none was completed" in " ".join(text.split())
