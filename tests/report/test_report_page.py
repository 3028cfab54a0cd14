"""The page: data cannot break out of it, it needs no other files, and it is reproducible."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files

import numpy as np
import pytest
from handmade import AGE, make_displaced, make_document, make_held_out, make_record, make_repeated, make_rule
from hypothesis import example, given, settings
from hypothesis import strategies as st

from maabo_dist.contract.conditions import Condition, ConditionTest, Op
from maabo_dist.contract.coverage import ClassCoverage, CoverageInfo, OverlapRecord
from maabo_dist.contract.rules import Verdict
from maabo_dist.mining.local import mine
from maabo_dist.report.document import result_document
from maabo_dist.report.figures import dump_figures, figures_of
from maabo_dist.report.html import MAX_RULES, MODULES, report_page
from maabo_dist.settings import MiningSettings
from tests import factories

VOID = {"meta", "link", "input", "br", "hr"}
BREAKERS = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    '"><img src=x onerror=alert(1)>',
    "' onload='x",
    "]]>&lt;&amp;",
    "\u2028\u2029\ud800\x00\x1b[31m",
    "</title></style></table>",
    "👩‍🔬 été \u202e right to left",
)


class Structure(HTMLParser):
    """The elements of a page, regardless of its texts."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.open, self.texts, self.scripts, self.addresses = [], [], [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, tuple(name for name, _ in attributes)))
        self.addresses += [value for name, value in attributes if name in {"href", "src", "action", "data"}]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        (self.scripts if self.open and self.open[-1] in {"script", "style"} else self.texts).append(text)


def document_of(feature="age", level="C", name="yes", target="survived", table="table.csv", note="note", **settings):
    conditions = (Condition(feature, Op.ABOVE, 3.5), Condition(feature, Op.IS, level))
    return make_document(
        make_rule(*conditions, holdout=make_held_out(), displaced=(make_displaced(*conditions),)),
        make_rule(AGE, number=2, label=0, holdout=make_held_out(label=0, q=0.5)),
        classes=("no" if name != "no" else "not", name),
        target=target,
        name=table,
        notes=(note,),
        holdout=100,
        **settings,
    )


def figures_for(document, feature="age", level="C"):
    """Construct figure data by hand, so that names can be arbitrary."""
    classes = document.dataset.classes
    node = {"counts": [5, 5], "text": feature, "next": "yes", "kept": True, "yes": {"counts": [5, 0], "leaf": True}}
    levels = {"column": feature, "kind": "levels", "levels": [level, None], "counts": [[1, 2], [3, 4]], "missing": 0}
    history = {"trees": 2, "plotted": [0, 1], "scores": [0.5, 0.6]}
    history |= {"best": [[0, 0.5], [1, 0.6]], "rules": [[0, 1], [1, 2]]}
    return {
        "format": "maabo-figures/1",
        "digest": document.digest,
        "versions": {"python": "3.11", "maabo-dist": "0.1.0"},
        "classes": classes,
        "histograms": [levels],
        "rules": [
            {"id": "R1", "histograms": [0, 0], "tree": node | {"no": {"counts": [0, 5]}}},
            {"id": "R2", "histograms": [0], "tree": {"counts": [5, 5], "leaf": True}},
        ],
        "coverage": {"rows": 0, "sampled": 0, "groups": [], "bits": ""},
        "similarity": {"logic": "ZABkAA==", "rows": "ZABkAA==", "order": {"logic": [0, 1], "rows": [0, 1]}},
        "use": {"high": 1, "trees": 2, "features": [{"name": feature, "high": 1, "trees": 2}], "pairs": [[1]]},
        "history": history,
        "random": None,
    }


def payload_of(page):
    return json.loads(Structure(page).scripts[-2])


PLAIN = Structure(report_page(document_of(), figures_for(document_of())))
NAMES = st.one_of(st.sampled_from(BREAKERS), st.text(min_size=1, max_size=12))


def test_the_number_of_notes_is_not_separated_from_its_noun():
    document = document_of().model_copy(update={"notes": ("One.", "Two.")})

    assert '<a href="#notes">2&nbsp;notes</a>' in report_page(document)


@settings(max_examples=25, deadline=None)
@given(feature=NAMES, level=NAMES, name=NAMES, target=NAMES, table=NAMES, note=NAMES)
@example(*BREAKERS[:6])
@example(*BREAKERS[2:])
def test_no_name_changes_the_structure_of_the_page(feature, level, name, target, table, note):
    hostile = document_of(feature, level, name, target, table, note)

    page = report_page(hostile, figures_for(hostile, feature, level))

    assert Structure(page).elements == PLAIN.elements
    assert payload_of(page)["rules"][0]["json"] == hostile.rules[0].to_json()
    page.encode()


def test_names_are_shown_unchanged():
    page = report_page(document_of(feature=BREAKERS[0], name=BREAKERS[2], table=BREAKERS[4]))

    text = "".join(Structure(page).texts)
    assert f"{BREAKERS[0]} > 3.5" in text
    assert f"survived = {BREAKERS[2]}" in text
    assert BREAKERS[4] in text


def test_the_policy_lets_nothing_in_but_its_own_script_and_style():
    page = report_page(document_of())
    structure = Structure(page)
    policy = page.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0].replace("&#x27;", "'")
    hashes = [b64encode(sha256(text.encode()).digest()).decode() for text in structure.scripts]

    assert policy.startswith("default-src 'none'; ")
    assert f"style-src 'sha256-{hashes[0]}'" in policy
    assert f"script-src 'sha256-{hashes[-1]}'" in policy
    assert not any(name.startswith("on") or name == "style" for _, names in structure.elements for name in names)
    assert all(address.startswith("#") or address == "data:," for address in structure.addresses)


def test_the_script_makes_no_html_of_text():
    script = Structure(report_page(document_of())).scripts[-1]

    assert not any(
        word in script for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(")
    )


def test_headline_and_findings_can_be_read_without_the_script():
    text = " ".join(" ".join(Structure(report_page(document_of())).texts).split())

    for phrase in (
        "table.csv · survived · 200 rows, 100 of them kept for a check · 1 note",
        "2 findings for survived; both held up on rows the search never saw.",
        "9 of 10 unseen rows with age > 3.5 and age = C have survived = yes ; usually 50 of 100 .",
        "On 10 rows the search never saw; 95 % interval 60–98.",
        "adjusted p = 0.001",
    ):
        assert phrase in text


def test_what_is_about_the_run_comes_after_the_findings():
    text = " ".join(" ".join(Structure(report_page(document_of())).texts).split())

    findings, run = text.split("How this was found")[-2:]
    for phrase in ("feature subsets, |Ω|", "Trees 35 100 % of the space", "Seed 0", "50.0 %", "120 large", "Digest"):
        assert phrase in run
        assert phrase not in findings


def test_every_verdict_and_term_of_the_page_is_explained_there():
    verdicts = [Verdict.HELD_UP, Verdict.WEAKER, Verdict.NOT_TESTED, Verdict.FAILED]
    rules = [make_rule(AGE, number=n, holdout=make_held_out(), verdict=each) for n, each in enumerate(verdicts, 1)]

    page = report_page(make_document(*rules, holdout=20))

    in_script = re.findall(r'term\("([\w-]+)"', Structure(page).scripts[-1])
    used = {*re.findall(r'popovertarget="([\w-]+)"', page), *(f"about-{key}" for key in in_script)}
    assert {"about-held-up", "about-weaker", "about-not-tested", "about-failed", "about-lift", "about-q"} <= used
    assert used <= set(re.findall(r'popover="auto" id="([\w-]+)"', page))


def test_the_papers_rules_have_no_certificate():
    page = report_page(document_of(preset="paper")).partition('<div id="explanations">')[0]

    assert not any(word in page for word in ("Held up", "Certified", "adjusted"))
    assert "44" in page
    assert "pure enough" in page


def test_rules_that_failed_come_last_under_a_heading():
    verdicts = [Verdict.FAILED, Verdict.HELD_UP, Verdict.WEAKER]
    rules = [make_rule(AGE, number=n, holdout=make_held_out(), verdict=each) for n, each in enumerate(verdicts, 1)]

    page, paper = (report_page(make_document(*rules, holdout=20, preset=preset)) for preset in ("auto", "paper"))

    kept, failed = page.partition("<script")[0].split("Did not hold up on unseen rows")
    assert re.findall(r'<article id="(R\d)"', kept) == ["R2", "R3"]
    assert re.findall(r'<article id="(R\d)"', failed) == ["R1"]
    assert "Did not hold up" not in paper
    assert "Did not hold up" not in report_page(make_document(*rules[1:], holdout=20))


def test_overlaps_are_drawn_as_columns_of_dots_with_bars_by_class():
    overlaps = [(("R1",), {"no": 3, "yes": 9}), ((), {"no": 6, "yes": 0}), (("R1", "R2"), {"no": 0, "yes": 4})]
    coverage = CoverageInfo(
        classes=(ClassCoverage(label="no", rows=9, explained=0), ClassCoverage(label="yes", rows=13, explained=13)),
        compared=("R1", "R2"),
        overlaps=tuple(
            OverlapRecord(rules=rules, rows=sum(counts.values()), counts=counts) for rules, counts in overlaps
        ),
    )

    page = report_page(document_of().model_copy(update={"coverage": coverage}))

    picture = page.partition('class="overlap"')[2].partition("</figure>")[0]
    assert picture.count('class="member"') == 3
    assert picture.count('class="absent"') == 3
    assert picture.count('class="link"') == 1
    heights = [float(height) for height in re.findall(r'height="([\d.]+)" class="c[01]"', picture)]
    assert heights == pytest.approx([92 * rows / 12 for rows in (3, 9, 6, 4)], abs=0.01)
    assert "Rows by the findings that cover them. R1: 12 rows; no finding: 6 rows; R1 and R2: 4 rows" in picture
    text = " ".join(" ".join(Structure(page).texts).split())
    assert "survived = yes 100 % 13 of 13 rows by R1; 0 left unexplained" in text
    assert "survived = no 0 % 0 of 9 rows by R2; 9 left unexplained" in text


def test_without_held_out_rows_the_page_says_what_that_means():
    findings, paper = (report_page(make_document(make_rule(AGE), preset=preset)) for preset in ("auto", "paper"))

    assert "The adjusted p-values need none" in findings
    assert "Mine with --holdout before you rely on a rule." in paper


def test_without_figures_only_rule_data_is_drawn():
    document = document_of()
    page, pictured = report_page(document), report_page(document, figures_for(document))

    assert [kind for kind in ("scatter", "heat", "rows", "use", "history") if f"figure-{kind}" in page] == ["scatter"]
    assert all(f"figure-{kind}" in pictured for kind in ("scatter", "heat", "rows", "use", "history"))


def test_the_same_document_gives_the_same_page():
    document = document_of()

    assert report_page(document, figures_for(document)) == report_page(document_of(), figures_for(document_of()))


def test_the_page_contains_the_versions_that_mined():
    document = document_of()

    assert "maabo 0.1.0, python 3.11, maabo-rules/1" in report_page(document, figures_for(document))


def test_figures_of_other_rules_are_not_shown():
    document = document_of()

    assert report_page(document, figures_for(document) | {"digest": "ef" * 32}) == report_page(document)


def test_a_document_without_rules_contains_the_reason():
    page = report_page(make_document(preset="paper"))

    assert "No rules for survived." in page
    assert "The only reliable leaf covers all rows." in page


def test_the_page_contains_the_results_of_repeats():
    document = make_repeated(make_document(make_rule(AGE)), 9, consensus=("R1", None))

    text = " ".join(Structure(report_page(document)).texts)
    assert "9/10" in text
    assert "Consensus rules" in text


def test_dropped_conditions_and_displaced_leaves_can_be_expanded():
    test = make_record(ConditionTest, 0.5, 0.5, 0.4)
    lost = Condition("noise", Op.ABOVE, 0.31)
    rule = make_rule(AGE, dropped=(lost,), tests=(test,), dropped_tests=(test,), displaced=(make_displaced(lost),))

    rule_payload = payload_of(report_page(make_document(rule)))["rules"][0]
    assert rule_payload["dropped"] == ["noise > 0.31 (p = 0.4)"]
    assert rule_payload["displaced"] == ["survived = 1"]
    assert rule_payload["sql"].endswith('WHERE "age" <= 27.5;\n')


@pytest.mark.parametrize("classes", [2, 8, 9, 30])
def test_any_number_of_classes_has_a_page(classes):
    names = [f"c{index}" for index in range(classes)]
    counts = [3] * classes

    page = report_page(make_document(make_rule(AGE, counts=counts), classes=names))

    assert ('class="c7"' in page) == (classes == 8)


def test_a_wide_job_of_two_hundred_rules_stays_small():
    draw = np.random.default_rng(4)
    columns = factories.make_planted(draw, rows=260, features=1000, kinds=("continuous",))
    chosen = MiningSettings(preset="paper", min_samples=8, gini=0.95, trees=500, strategy="random", holdout=0.2)
    result = mine(columns, chosen, keep_records=True)
    document = result_document(result, {"name": "wide"})
    document = document.model_copy(update={"rules": document.rules[:200]})

    figures = figures_of(result, columns)

    assert len(document.rules) == 200
    assert len(dump_figures(figures)) < 800_000  # 5,000 rows would add 150,000
    assert len(report_page(document, figures).encode()) < 1_800_000


def test_modules_of_the_script_import_only_names_that_earlier_modules_export_and_share_no_name():
    assets = files("maabo_dist.report.html").joinpath("assets")
    sources = {name: assets.joinpath(f"{name}.js").read_text(encoding="utf-8") for name in MODULES}
    exported = {
        name: set(re.findall(r"^export (?:async )?\w+ (\w+)", text, re.MULTILINE)) for name, text in sources.items()
    }
    defined = [
        name
        for text in sources.values()
        for name in re.findall(r"^(?:export )?(?:async )?(?:function|const|let) (\w+)", text, re.MULTILINE)
    ]

    assert {path.name for path in assets.iterdir() if path.name.endswith(".js")} == {f"{name}.js" for name in MODULES}
    assert len(defined) == len(set(defined))
    for index, text in enumerate(sources.values()):
        for names, module in re.findall(r'^import {(.*?)} from "\./(\w+)\.js";$', text, re.MULTILINE):
            assert module in MODULES[:index]
            assert {name.strip() for name in names.split(",")} <= exported[module]


def test_a_report_of_thousands_of_rules_shows_the_first_and_counts_the_others():
    rules = [make_rule(AGE, number=number) for number in range(1, MAX_RULES + 4)]

    page = report_page(make_document(*rules))

    assert page.count("<article") == MAX_RULES
    assert f"{MAX_RULES + 3} findings for survived" in page
    assert "3 more findings: CSV and JSON have them all." in page
