"""The report in a real browser, operated as a reader does."""

import numpy as np
import pandas as pd
import pytest

from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.report.document import result_document
from maabo_dist.report.exports import to_sql
from maabo_dist.report.figures import figures_of
from maabo_dist.report.html import report_page
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


@pytest.fixture(scope="module")
def document_and_page():
    table = prepare(a_table(), TableSettings(target="survived"))
    chosen = MiningSettings(min_samples=10, gini=0.8, holdout=0.2, trees="100%", probes=2)
    result = mine(table.columns, chosen, keep_records=True)
    document = result_document(result, {"name": "<i>ship</i>.csv"})
    return document, report_page(document, figures_of(result, table.columns))


@pytest.fixture(scope="module")
def report(document_and_page, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "rules.html"
    path.write_text(document_and_page[1], encoding="utf-8")
    return path


def ids(page):
    """Return the visible rules in order."""
    return page.locator("table.rules > tbody[id]:visible").evaluate_all("bodies => bodies.map((body) => body.id)")


def test_it_opens_with_every_rule_and_every_figure(opened, report, document_and_page):
    page = opened(report)

    assert ids(page) == [rule.id for rule in document_and_page[0].rules]
    for kind in ("scatter", "heat", "rows", "use", "history"):
        assert page.locator(f"#figure-{kind} .picture [role=img]").first.bounding_box()["height"] > 50


def test_a_column_head_sorts_in_both_directions(opened, report, document_and_page):
    page = opened(report, width=1500)
    by_n = [rule.n for rule in document_and_page[0].rules]

    page.get_by_role("button", name="n training", exact=True).click()
    down = [by_n[int(name[1:]) - 1] for name in ids(page)]
    assert page.locator("th[data-key=n]").get_attribute("aria-sort") == "descending"
    page.get_by_role("button", name="n training", exact=True).click()
    up = [by_n[int(name[1:]) - 1] for name in ids(page)]

    assert (down, up) == (sorted(by_n, reverse=True), sorted(by_n))
    assert page.locator("th[aria-sort]").count() == 1


def test_filters_leave_the_rules_of_a_class_a_feature_and_a_text(opened, report, document_and_page):
    page = opened(report)
    rules = document_and_page[0].rules

    page.locator("#class").select_option(label="</script>")
    assert ids(page) == [rule.id for rule in rules if rule.label == "</script>"]
    page.get_by_role("button", name="Clear").click()
    page.locator("#feature").select_option(value=HOSTILE)
    of_feature = [rule.id for rule in rules if HOSTILE in {entry.feature for entry in rule.conditions}]
    page.wait_for_function(
        f"document.querySelectorAll('table.rules > tbody[id]:not([hidden])').length === {len(of_feature)}"
    )
    assert ids(page) == of_feature
    assert page.get_by_role("status").first.inner_text() == f"{len(of_feature)} of {len(rules)} rules"
    page.locator("#feature").select_option(value="")
    page.locator("#text").fill("sex = female")
    assert ids(page) == [rule.id for rule in rules if "sex = female" in rule.text]


def test_enter_opens_a_rule_with_its_histograms_and_its_tree(opened, report, document_and_page):
    page = opened(report)
    rule = document_and_page[0].rules[0]

    page.get_by_role("button", name="R1, details").focus()
    page.keyboard.press("Enter")

    panel = page.get_by_role("region", name="R1 in detail")
    assert panel.locator(".histogram svg").count() == len({entry.feature for entry in rule.conditions})
    assert panel.locator(".leafbox").count() == 1
    assert panel.locator(".edge.lit").count() >= len(rule.conditions)
    assert panel.get_by_role("heading", name="Evidence").is_visible()
    page.keyboard.press("Enter")
    assert not panel.is_visible()


def test_an_address_opens_its_rule_and_similar_rules_lead_on(opened, report):
    page = opened(report, fragment="#R2")

    panel = page.get_by_role("region", name="R2 in detail")
    assert panel.is_visible()
    link = panel.get_by_role("link").first
    link.click()
    assert page.get_by_role("region", name=f"{link.inner_text()} in detail").is_visible()


def test_sql_is_copied_to_the_clipboard(opened, report, document_and_page):
    page = opened(report, permissions=["clipboard-read", "clipboard-write"])
    document = document_and_page[0]

    page.locator("#R1 tr.rule td.text").click()
    panel = page.get_by_role("region", name="R1 in detail")
    panel.get_by_role("button", name="SQL").click()

    panel.get_by_text("SQL copied").wait_for()
    expected = to_sql(document.model_copy(update={"rules": document.rules[:1]}))
    assert page.evaluate("navigator.clipboard.readText()") == expected
    assert panel.locator("pre").inner_text() == expected


def test_the_theme_follows_the_system_until_the_button_says_otherwise(opened, report):
    page = opened(report, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"

    dark = page.evaluate(ground)
    page.get_by_role("button", name="Switch to the light theme").click()
    light = page.evaluate(ground)
    page.get_by_role("button", name="Switch to the dark theme").click()

    assert page.evaluate(ground) == dark != light


@pytest.mark.parametrize("width", [375, 820, 1600])
def test_nothing_is_wider_than_the_screen(opened, report, width):
    page = opened(report, width=width)

    page.get_by_role("button", name="R1, details").click()

    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_on_a_telephone_rules_are_sorted_by_a_list(opened, report, document_and_page):
    page = opened(report, width=375)
    by_p = {rule.id: (rule.verdict == "failed", rule.certificate.p) for rule in document_and_page[0].rules}

    page.locator("#sort").select_option(value="p")

    assert [by_p[name] for name in ids(page)] == sorted(by_p.values())


def test_hostile_names_are_text(opened, report):
    page = opened(report)

    assert page.locator("td.text b:not(.then)").count() == 0
    assert page.get_by_text("<i>ship</i>.csv", exact=True).is_visible()
    assert page.locator("td.text", has_text=HOSTILE).count() > 0


def test_rules_are_visible_without_the_script(opened, report, document_and_page):
    page = opened(report, java_script_enabled=False)

    assert page.locator("table.rules > tbody[id]").count() == len(document_and_page[0].rules)
    assert page.get_by_role("heading", level=1).is_visible()
    assert not page.get_by_role("heading", name="Figures").is_visible()


@pytest.mark.parametrize(("width", "scheme"), [(375, "dark"), (1600, "light")])
def test_axe_finds_nothing(opened, report, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = opened(report, width=width, color_scheme=scheme, bypass_csp=True)
    page.get_by_role("button", name="R1, details").click()

    axe_results = axe.Axe().run(page)

    assert axe_results.violations_count == 0, axe_results.generate_report()
