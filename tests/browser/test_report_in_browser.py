"""The report in a real browser, operated as a reader does."""

import re

import numpy as np
import pandas as pd
import pytest

from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.report.briefing import headline, useful_order
from maabo_dist.report.coverage import with_coverage
from maabo_dist.report.document import result_document
from maabo_dist.report.exports import to_pandas, to_sql
from maabo_dist.report.figures import figures_of
from maabo_dist.report.html import report_page
from maabo_dist.report.summary import split_failed
from maabo_dist.settings import MiningSettings, TableSettings

pytestmark = pytest.mark.xdist_group("browser")

HOSTILE = "<script>alert('x')</script> & \"it's\" 🙂" + 120 * "W"


def a_table(rows=500):
    draw = np.random.default_rng(11)
    age, fare = draw.normal(40, 12, rows).round(1), draw.exponential(30, rows).round(2)
    port = draw.choice(["<b>C</b>", "Q", "S"], rows)
    sex = draw.choice(["female", "male"], rows)
    is_survivor = (sex == "female") & (fare > 15) | (port == "<b>C</b>") & (age < 38) | (draw.random(rows) < 0.05)
    columns = {"age": age, HOSTILE: fare, "port": port, "sex": sex, "noise": draw.normal(size=rows)}
    return pd.DataFrame({**columns, "survived": np.where(is_survivor, "yes", "</script>")})


def mine_report(path, **settings):
    """Mine the table and write its report; return the document."""
    table = prepare(a_table(), TableSettings(target="survived"))
    result = mine(table.columns, MiningSettings(holdout=0.2, trees="100%", probes=2, **settings), keep_records=True)
    document = with_coverage(result_document(result, {"name": "<i>ship</i>.csv"}), table.columns)
    path.write_text(report_page(document, figures_of(result, table.columns)), encoding="utf-8")
    return document


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return tmp_path_factory.mktemp("report") / "rules.html"


@pytest.fixture(scope="module", autouse=True)
def document(report):
    return mine_report(report)


@pytest.fixture(scope="module")
def report_of_many(tmp_path_factory):
    """A report of so many findings that it has filters, and its document."""
    path = tmp_path_factory.mktemp("report") / "many.html"
    return path, mine_report(path, all=True)


def ids(page):
    """Return the visible findings in order."""
    return page.locator(".finding:visible").evaluate_all("cards => cards.map((card) => card.id)")


def useful_ids(document):
    return [rule.id for rule in [*useful_order(document), *split_failed(document)[1]]]


def test_it_opens_with_every_finding_and_every_figure(opened, report, document):
    page = opened(report)

    assert ids(page) == useful_ids(document)
    assert headline(document) in page.get_by_role("heading", level=1).inner_text().replace("\u00a0", " ")
    for kind in ("scatter", "use", "history"):
        assert page.locator(f"#figure-{kind} .picture [role=img]").first.bounding_box()["height"] > 50


@pytest.fixture(scope="module", params=["diabetes", "wine", "breast_cancer"])
def bundled_report(request, tmp_path_factory):
    frame, settings = load_bundled(request.param)
    columns = prepare(frame, settings).columns
    result = mine(columns, MiningSettings(trees=100), keep_records=True)
    document = with_coverage(result_document(result, {"name": request.param}), columns)
    path = tmp_path_factory.mktemp("report") / "rules.html"
    path.write_text(report_page(document, figures_of(result, columns)), encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_first_finding_is_on_the_first_screen(opened, bundled_report, width, height):
    page = opened(bundled_report, width=width)

    for part in (".headline", ".finding .badge", ".finding .sentence", ".finding .comparison svg"):
        box = page.locator(part).first.bounding_box()
        assert box["y"] + box["height"] < height, part


def test_a_report_prints_to_two_or_three_pages_without_form_and_figures(opened, bundled_report):
    page = opened(bundled_report, width=1440)

    pdf = page.pdf(format="A4", prefer_css_page_size=True)

    assert 1 <= len(re.findall(rb"/Type\s*/Page[^s]", pdf)) <= 3
    page.emulate_media(media="print")
    assert page.locator(".finding .sentence").first.is_visible()
    assert not page.locator("#try, #pictures, .finding-tools").filter(visible=True).count()


def test_of_many_findings_the_first_are_shown_until_a_reader_asks_for_the_others(opened, bundled_findings):
    path, document = bundled_findings
    page = opened(path)
    names = useful_ids(document)[:200]  # a report has no more
    assert len(names) > 40

    assert ids(page) == names[:30]
    page.get_by_role("button", name=f"Show {len(names) - 30} more findings").click()
    assert ids(page) == names
    assert page.evaluate("document.activeElement.closest('.finding').id") == names[30]
    assert page.locator("#more-findings").is_hidden()


def test_a_link_leads_to_a_finding_after_the_first_ones(opened, bundled_findings):
    path, document = bundled_findings
    name = useful_ids(document)[35]

    page = opened(path, fragment=f"#{name}")

    assert page.locator(f"#detail-{name}").is_visible()


@pytest.fixture(scope="module")
def bundled_findings(tmp_path_factory):
    """A report of more findings than are shown at first, and its document."""
    columns = prepare(*load_bundled("breast_cancer")).columns
    result = mine(columns, MiningSettings(trees=60, all=True, certify="off"), keep_records=True)
    document = with_coverage(result_document(result, {"name": "breast_cancer"}), columns)
    path = tmp_path_factory.mktemp("report") / "all.html"
    path.write_text(report_page(document, figures_of(result, columns)), encoding="utf-8")
    return path, document


def test_a_list_sorts_the_findings(opened, report_of_many):
    path, document = report_of_many
    page = opened(path)
    by_id = {rule.id: rule for rule in document.rules}

    page.locator("#sort").select_option(value="p")
    by_p = [(by_id[name].verdict == "failed", by_id[name].certificate.p) for name in ids(page)]
    page.locator("#sort").select_option(value="rows")
    by_rows = [(by_id[name].verdict == "failed", -by_id[name].mined_n) for name in ids(page)]

    assert (by_p, by_rows) == (sorted(by_p), sorted(by_rows))


def test_filters_leave_the_findings_of_a_class_a_column_and_a_text(opened, report_of_many):
    path, document = report_of_many
    page = opened(path)
    rules = {rule.id: rule for rule in document.rules}

    page.locator("#class").select_option(label="</script>")
    of_class = [name for name in useful_ids(document) if rules[name].label == "</script>"]
    assert ids(page) == of_class[:30]
    page.get_by_role("button", name=f"Show {len(of_class) - 30} more findings").click()
    assert ids(page) == of_class
    page.get_by_role("button", name="Clear").click()
    page.locator("#feature").select_option(value=HOSTILE)
    of_column = [
        name for name in useful_ids(document) if HOSTILE in {entry.feature for entry in rules[name].conditions}
    ]
    page.wait_for_function(f"document.querySelectorAll('.finding:not([hidden])').length === {len(of_column)}")
    assert ids(page) == of_column
    assert page.locator("#filter-status").inner_text() == f"{len(of_column)} of {len(rules)} match"
    page.locator("#feature").select_option(value="")
    page.locator("#text").fill("sex = female")
    assert ids(page) == [name for name in useful_ids(document) if "sex = female" in rules[name].text]


def test_enter_opens_the_evidence_of_a_finding_with_its_histograms_and_its_tree(opened, report, document):
    page = opened(report)
    rule = document.rules[0]

    page.get_by_role("button", name="R1, evidence").focus()
    page.keyboard.press("Enter")

    panel = page.get_by_role("region", name="Evidence for R1")
    assert panel.locator(".histogram svg").count() == len({entry.feature for entry in rule.conditions})
    assert panel.locator(".leafbox").count() == 1
    assert panel.locator(".edge.lit").count() >= len(rule.conditions)
    assert panel.get_by_role("heading", name="Evidence").is_visible()
    page.keyboard.press("Enter")
    assert not panel.is_visible()


def test_an_address_opens_its_finding_and_similar_findings_lead_on(opened, report):
    page = opened(report, fragment="#R2")

    panel = page.get_by_role("region", name="Evidence for R2")
    assert panel.is_visible()
    link = panel.get_by_role("link").first
    link.click()
    assert page.get_by_role("region", name=f"Evidence for {link.inner_text()}").is_visible()


@pytest.mark.parametrize(("name", "export"), [("SQL", to_sql), ("Python", to_pandas)])
def test_a_finding_is_copied_to_the_clipboard(opened, report, document, name, export):
    page = opened(report, permissions=["clipboard-read", "clipboard-write"])

    page.get_by_role("button", name=f"Copy R1 as {name}").click()

    page.locator("#R1").get_by_text(f"{name} copied").wait_for()
    alone = document.model_copy(update={"rules": document.rules[:1], "missing_classes": ()})
    assert page.evaluate("navigator.clipboard.readText()") == export(alone)


def test_a_verdict_is_explained_by_hovering_by_the_keyboard_and_by_a_tap(opened, report):
    page = opened(report)
    badge, meaning = page.locator("#R1 .badge"), page.locator(".about:popover-open")

    badge.hover()
    meaning.wait_for()
    assert "rows" in meaning.inner_text()
    page.mouse.move(5, 5)
    meaning.wait_for(state="detached")
    badge.focus()
    page.keyboard.press("Enter")
    assert meaning.is_visible()
    page.keyboard.press("Escape")
    assert meaning.count() == 0

    phone = opened(report, width=390, has_touch=True)
    phone.locator("#R1 .badge").tap()
    box = phone.locator(".about:popover-open").bounding_box()
    assert 0 <= box["x"] <= box["x"] + box["width"] <= 390


def test_the_theme_follows_the_system_until_the_button_says_otherwise(opened, report):
    page = opened(report, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"

    dark = page.evaluate(ground)
    page.get_by_role("button", name="Light theme").click()
    light = page.evaluate(ground)
    page.get_by_role("button", name="Dark theme").click()

    assert page.evaluate(ground) == dark != light


@pytest.mark.parametrize("width", [375, 820, 1600])
def test_nothing_is_wider_than_the_screen(opened, report, width):
    page = opened(report, width=width)

    page.get_by_role("button", name="R1, evidence").click()

    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_names_are_text(opened, report):
    page = opened(report)

    assert page.locator(".condition b, .dataset i").count() == 0
    assert page.get_by_text("<i>ship</i>.csv", exact=True).is_visible()
    assert page.locator(".condition", has_text=HOSTILE).count() > 0


def test_findings_are_visible_and_verdicts_explained_without_the_script(opened, report, document):
    page = opened(report, java_script_enabled=False)

    assert page.locator(".finding").count() == len(document.rules)
    page.locator("#R1 .badge").click()
    assert page.locator(".about:popover-open").is_visible()
    assert page.get_by_role("heading", level=1).is_visible()
    assert not page.get_by_role("heading", name="Figures").is_visible()


@pytest.mark.parametrize(("width", "scheme"), [(375, "dark"), (1600, "light")])
def test_axe_finds_nothing(opened, report, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened(report, width=width, color_scheme=scheme, bypass_csp=True)
    page.get_by_role("button", name="R1, evidence").click()

    axe_results = axe.Axe().run(page)

    assert axe_results.violations_count == 0, axe_results.generate_report()
