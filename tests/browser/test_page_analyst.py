"""The way of an analyst through the page: from a messy table to a saved report, links, comparison, and another run."""

import io
import re

import httpx
import numpy as np
import pandas as pd
import pytest

from tests.browser.messy_table import CONSTANT, DATE, ID, LEAK, TARGET, as_csv, messy_table
from tests.browser.page_cluster import PLANNED, axe_violations, choose_file, drop, open_advanced, saved, start

pytestmark = pytest.mark.xdist_group("page")


@pytest.fixture(scope="module")
def table():
    return messy_table()


@pytest.fixture(scope="module")
def jobs(cluster, table):
    """Two finished jobs on the same table; the second one does without a column that matters."""
    dataset = cluster.dataset(table, "clients.csv")
    first = cluster.submit(dataset, TARGET, [LEAK], seed=1)
    second = cluster.submit(dataset, TARGET, [LEAK, "months"], seed=1)
    for job in (first, second):
        cluster.wait_until_done(job)
    return first, second


@pytest.fixture(scope="module")
def many_findings(cluster):
    """A finished job with enough findings to filter them, and not too many to show."""
    draws = np.random.default_rng(5)
    frame = pd.DataFrame(draws.normal(size=(900, 8)).round(2), columns=[f"x{number}" for number in range(8)])
    classes = np.select([frame["x0"] > 0.9, frame["x1"] > 0.9, frame["x2"] > 0.9, frame["x3"] > 0.9], list("abcd"), "e")
    dataset = cluster.dataset(frame.assign(kind=classes), "kinds.csv")
    job = cluster.submit(dataset, "kind", seed=1, all=True, max_rules=150)
    cluster.wait_until_done(job)
    return job


def test_an_analyst_gets_from_a_messy_table_to_a_saved_report(cluster, show, table):
    page = show(cluster.url)
    page.wait_for_selector("h1")
    make = (
        "([name, bytes]) => { const given = new DataTransfer(); "
        "given.items.add(new File([new Uint8Array(bytes)], name)); return given }"
    )
    data = page.evaluate_handle(make, ["customers.csv", list(as_csv(table))])
    page.dispatch_event("body", "drop", {"dataTransfer": data})
    page.wait_for_selector(".noticed li:has-text('nearly repeats')")
    page.wait_for_selector(PLANNED)

    noticed = page.locator(".noticed li").all_inner_texts()
    assert noticed[0].startswith(f"{LEAK} nearly repeats what you want to explain")
    assert noticed[1].startswith(f"{ID} identifies rows; left out.")
    assert noticed[2] == f"{CONSTANT} has the same value in every row; left out."
    assert noticed[3].startswith(f"{DATE} is a date, 2022-01-0")
    assert noticed[4].startswith("Missing cells: age 14 %")
    assert "Windows-1252" in noticed[5]
    assert "decimal commas" in noticed[6]
    assert page.input_value("#target") == TARGET
    assert page.locator("th.target .column").inner_text() == TARGET
    assert {"Zürich", "Malmö"} & set(page.locator(".preview td").all_inner_texts())
    assert page.is_checked("#check")
    assert page.is_checked("#effort-fast")
    start(page)
    page.wait_for_selector(".state.large[data-state=done]")
    with saved(page) as report:
        page.click("text=Save report")

    document = cluster.document(page.url)
    used = {condition["feature"] for rule in document["rules"] for condition in rule["conditions"]}
    assert report[0] == "customers-report.html"
    assert "support_calls" in report[1]
    assert used & {"plan", "support_calls", "monthly_fee", "months"}
    assert not used & {ID, LEAK, CONSTANT}
    assert document["dataset"]["parts"]["holdout"] > 0


def test_everything_works_with_the_keyboard_from_upload_to_saved_report(cluster, show, table):
    page = show(f"{cluster.url}/#/new")
    page.wait_for_selector(".drop")
    # Playwright subscribes to file choosers without waiting for the browser. Subscribed only by expect_file_chooser,
    # it can miss a chooser that opens at once; the evaluations of press_until give it the time.
    page.on("filechooser", lambda _: None)
    press_until(page, "document.activeElement.id === 'file'")
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Space")
    # The dialog itself is the system's.
    chooser.value.set_files({"name": "keyboard.csv", "mimeType": "", "buffer": as_csv(table.iloc[1:])})
    page.wait_for_selector(PLANNED)

    press_until(page, "document.activeElement.matches('.start button.main')")
    page.keyboard.press("Enter")
    page.wait_for_selector(".state.large[data-state=done]")
    page.wait_for_selector("text=Save report")
    press_until(page, "document.activeElement.textContent === 'Save report'")
    with saved(page) as report:
        page.keyboard.press("Enter")

    assert report[0] == "keyboard-report.html"


def press_until(page, reached):
    for _ in range(200):
        if page.evaluate(reached):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"never reached with the Tab key: {reached}")


def test_an_excel_file_is_read_as_it_is(cluster, show, table):
    page = show(f"{cluster.url}/#/new")
    buffer = io.BytesIO()
    table.head(300).to_excel(buffer, index=False)
    choose_file(page, "customers.xlsx", buffer.getvalue())
    page.wait_for_selector(PLANNED)

    assert page.inner_text(".chosen").startswith("300 rows, 11 columns")
    assert page.input_value("#target") == TARGET


def test_a_file_that_cannot_be_read_says_what_to_do(cluster, show):
    page = show(f"{cluster.url}/#/new", expecting="415|422")
    choose_file(page, "old.xls", b"\xd0\xcf\x11\xe0")
    page.wait_for_selector(".picker .error:has-text('Save the table as CSV or as an Excel workbook')")
    choose_file(page, "ragged.csv", b"a,b\n1,2\n1,2,3\n")
    page.wait_for_selector(".picker .error:has-text('line 3 has 3 fields')")

    assert page.locator(".preview").count() == 0


def test_a_table_without_a_likely_target_asks_for_one(cluster, show):
    draws = np.random.default_rng(1)
    page = show(f"{cluster.url}/#/new")
    frame = pd.DataFrame(draws.normal(size=(300, 4)).round(3), columns=["width", "height", "mass", "price_paid"])
    choose_file(page, "quantities.csv", frame.to_csv(index=False).encode())
    page.wait_for_selector(".preview td")
    start(page)

    assert page.inner_text(".problems") == "Choose what you want to explain."
    assert page.get_attribute("#target", "aria-invalid") == "true"
    assert page.evaluate("document.activeElement.id") == "target"
    page.select_option("#target", "price_paid")
    page.wait_for_selector(PLANNED)
    assert page.input_value("#division") == "median"
    assert page.locator(".problems .error").count() == 0


def test_a_target_that_cannot_be_explained_says_why_beside_the_button_and_at_the_field(cluster, show, table):
    page = show(f"{cluster.url}/#/new", expecting="422")
    choose_file(page, "fixed.csv", as_csv(table.assign(kind="same")))
    page.wait_for_selector(PLANNED)
    page.select_option("#target", "kind")
    page.wait_for_selector(".problems .error:has-text('1 class')")

    assert "1 class" in page.inner_text("#target-error")
    page.select_option("#target", TARGET)
    page.wait_for_selector(PLANNED)
    assert page.locator(".problems .error").count() == 0
    assert page.inner_text("#target-error") == ""


def test_a_table_of_300_columns_can_be_searched_and_started(cluster, show):
    draws = np.random.default_rng(2)
    frame = pd.DataFrame(draws.normal(size=(400, 300)).round(3), columns=[f"sensor_{n:03}" for n in range(300)])
    frame["defect"] = np.where((frame["sensor_007"] > 0.2) & (frame["sensor_123"] < 0.5), "yes", "no")
    page = show(f"{cluster.url}/#/new", width=390)
    drop(page, "sensors.csv", frame.to_csv(index=False))
    page.wait_for_selector(PLANNED)

    assert page.input_value("#target") == "defect"
    assert page.locator(".preview th").count() == 60
    page.fill("#column-filter", "sensor_29")
    assert page.locator(".preview th .column").all_inner_texts() == [f"sensor_29{n}" for n in range(10)]
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth")
    assert axe_violations(page) == []
    page.click("#effort-thorough")
    page.wait_for_selector(".plan-summary:not(.loading)")
    open_advanced(page)
    assert page.input_value("#set-trees") == "100000"
    page.fill("#set-trees", "2000")
    start(page)
    page.wait_for_selector(".finding")
    assert "sensor_007" in page.inner_text("#cards")


def test_a_link_opens_the_finding_and_the_filter(cluster, show, many_findings):
    columns = {
        rule["id"]: {condition["feature"] for condition in rule["conditions"]}
        for rule in cluster.document(many_findings)["rules"]
    }
    own, other = next((name, absent) for name in columns["R2"] for absent in sorted({"x0", "x1", "x2"} - columns["R2"]))
    page = show(f"{cluster.url}/#job={many_findings}&finding=R2&filter={own}")
    page.wait_for_selector("[aria-label='Evidence for R2']")
    assert page.input_value("#filters #text") == own
    page = show(f"{cluster.url}/#job={many_findings}&finding=R2&filter={other}")
    page.wait_for_selector("[aria-label='Evidence for R2']")
    assert page.input_value("#filters #text") == ""  # a filter that hides the finding is cleared
    page.fill("#filters #text", "x0")
    page.wait_for_function("() => location.hash.includes('filter=x0')")
    page.select_option("#filters #sort", "rows")
    page.wait_for_function("() => location.hash.includes('sort=rows')")
    page.click("[aria-label='R2, evidence']")
    page.wait_for_function("() => !location.hash.includes('finding')")
    matching = page.inner_text("#filter-status")
    address = page.url
    page.goto(cluster.url)
    page.goto(address)
    page.wait_for_selector(".finding:visible")

    assert page.input_value("#filters #text") == "x0"
    assert page.input_value("#filters #sort") == "rows"
    assert page.inner_text("#filter-status") == matching
    assert matching == f"{sum('x0' in names for names in columns.values())} of {len(columns)} match"
    page.click("#filters button[type=reset]")
    page.wait_for_function("() => !location.hash.includes('filter')")


def test_the_link_of_a_finding_can_be_copied_and_shared(cluster, show, jobs):
    page = show(f"{cluster.url}/#/jobs/{jobs[0]}", permissions=["clipboard-read", "clipboard-write"])
    page.click("[aria-label='Copy a link to R2']")
    page.wait_for_selector("text=Link copied")

    link = page.evaluate("navigator.clipboard.readText()")
    assert link == f"{cluster.url}/#job={jobs[0]}&finding=R2"
    page.goto(link)
    page.wait_for_selector("[aria-label='Evidence for R2']")
    page.click("text=Share")
    page.wait_for_selector("[role=status]:has-text('Link copied')")
    assert page.evaluate("navigator.clipboard.readText()") == link


def test_two_jobs_are_compared(cluster, show, jobs):
    page = show(f"{cluster.url}/#/jobs/{jobs[0]}")
    page.wait_for_selector(".finding")
    page.click(".menu summary")
    page.click("text=Compare with another job")
    page.select_option("#compare-other", jobs[1])
    page.wait_for_selector(f".difference a[href*='{jobs[1]}'], .difference a[href*='{jobs[0]}']")

    diff = httpx.get(f"{cluster.url}/v1/jobs/{jobs[0]}/diff/{jobs[1]}").json()
    listed = {kind: page.locator(f".difference[data-kind={kind}] li").count() for kind in ("new", "gone", "moved")}
    assert listed == {
        "new": len(diff["only_in_other"]),
        "gone": len(diff["only_in_one"]),
        "moved": len(diff["moved"]),
    }
    assert f"{len(diff['only_in_one'])} gone" in page.inner_text(".headline")
    assert "exit_reason → exit_reason, months" in page.inner_text("[data-kind=settings]")
    assert re.search(rf"one={jobs[0]}&other={jobs[1]}", page.url)
    assert axe_violations(page) == []


def test_a_job_is_named_noted_and_run_again_with_changes(cluster, show, jobs):
    page = show(f"{cluster.url}/#/jobs/{jobs[1]}")
    page.wait_for_selector(".finding")
    page.click("text=Rename or add a note")
    page.fill("#job-title", "Without <months>")
    page.fill("#job-note", "Is the length of the contract needed?")
    page.click("form.labels button.main")
    page.wait_for_selector("h1:text-is('Without <months>')")
    page.reload()
    page.wait_for_selector(".note:has-text('length of the contract')")
    page.click("text=Run again with changes")
    page.wait_for_selector(PLANNED)

    assert "Without <months>" in page.inner_text(".lead")
    assert not page.is_checked("[aria-label='Use months']")
    assert page.is_checked("[aria-label='Use plan']")
    page.check("[aria-label='Use months']")
    page.wait_for_selector(".plan-summary:not(.loading)")
    start(page)
    page.wait_for_function("() => !location.hash.includes('new')")
    job = httpx.get(f"{cluster.url}/v1/jobs/{page.url.rpartition('/')[2]}").json()
    assert (job["table"]["exclude"], job["settings"]["seed"]) == ([LEAK], 1)
    page.goto(f"{cluster.url}/#/")
    page.wait_for_selector(".jobs .name:text-is('Without <months>')")


def test_all_tables_are_listed_and_lead_to_their_jobs(cluster, show, jobs):
    page = show(f"{cluster.url}/#/tables")
    page.wait_for_selector(".tables .name")
    total = len(httpx.get(f"{cluster.url}/v1/datasets?limit=200").json()["items"])

    assert page.locator(".tables .name").count() == total
    page.click("[aria-label='Jobs on clients.csv']")
    page.wait_for_selector(f"a[href='#/jobs/{jobs[0]}']")
    assert page.locator(".jobs li").count() >= 2
