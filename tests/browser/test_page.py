"""The browser interface in a real browser, on a real cluster: API process, scheduler, worker and Redis."""

import csv
import io
import re
import signal
from contextlib import closing
from uuid import uuid4

import httpx
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from maabo_dist.contract.job import JobSpec
from scheduler.resources import Resources
from tests.api_data import token_for
from tests.api_events import a_server
from tests.browser.page_cluster import (
    PLANNED,
    axe_violations,
    choose_file,
    drop,
    number_of,
    open_advanced,
    saved,
    start,
    wait_for_trees,
)
from tests.cluster import cluster_settings

LONG = {"trees": 20_000, "subset_size": 4, "batch": 2}
NOWHERE = {"fingerprint": "ab" * 32}
HOSTILE = ["<script>alert(1)</script>", "\"it's\" & 'so'", "<img src=x onerror=alert(2)>", "température 😀"]
pytestmark = pytest.mark.xdist_group("page")


@pytest.fixture(scope="module")
def frame():
    return load_breast_cancer(as_frame=True).frame.iloc[:, -21:].rename(columns=lambda name: name.replace(" ", "_"))


@pytest.fixture(scope="module")
def hostile():
    """A table in which one column determines the class, with names that are markup."""
    classes = [HOSTILE[0], "plain"] * 150
    frame = pd.DataFrame({HOSTILE[1]: [*classes], HOSTILE[2]: range(300), HOSTILE[3]: [1, 2, 3] * 100})
    frame[HOSTILE[1]] = frame[HOSTILE[1]].map({HOSTILE[0]: "</td><b>bold", "plain": HOSTILE[3]})
    frame["more"] = [*range(150)] * 2
    return frame.assign(**{HOSTILE[0]: classes})


def test_a_job_is_submitted_with_the_form_and_shows_its_rules(cluster, show, frame):
    page = show(f"{cluster.url}/#/new", permissions=["clipboard-read", "clipboard-write"])
    drop(page, "cells.csv", frame.to_csv(index=False))
    page.wait_for_selector("th.target:has-text('target')")
    page.uncheck("[aria-label='Use worst_area']")
    open_advanced(page)
    page.fill("#set-trees", "1500")
    page.wait_for_selector(".plan .figure:text-is('969')")  # 3 of 19
    assert page.inner_text(".estimate") == "Takes a few seconds."
    page.fill("#set-subset_size", "4")
    page.wait_for_selector(".plan .figure:text-is('3,876')")
    page.fill("#set-batch", "5")
    start(page)

    page.wait_for_selector(".results h2:has-text('so far')")
    page.wait_for_selector(".rule")
    first = number_of(page, "Trees")
    page.wait_for_selector(".state.large[data-state=done]")
    page.wait_for_selector(".finding")  # the findings are loaded after the end
    assert first < 1500
    assert "1,500" in page.locator(".facts > div", has_text="Trees").inner_text()
    assert "worst_area" not in page.inner_text("#cards")
    assert page.locator(".finding .sentence").all_inner_texts() == cluster.sentences(page.url)
    page.wait_for_selector("#figure-history .best >> nth=0")
    page.get_by_role("button", name="Copy R1 as Text").click()
    page.wait_for_selector("text=Text copied")
    assert page.evaluate("navigator.clipboard.readText()").strip() in cluster.sentences(page.url)
    page.click(".menu summary")
    with saved(page) as file:
        page.click(".files >> text=CSV")
    assert file[0] == "cells-rules.csv"
    assert len(list(csv.reader(io.StringIO(file[1])))) == page.locator(".finding").count() + 1
    with page.expect_popup() as popup:
        page.click("text=Open report")
    popup.value.wait_for_selector("h1")
    assert popup.value.url.startswith("blob:")
    # Its own style applies: the policy of the page that opens it permits it.
    assert popup.value.evaluate("getComputedStyle(document.body).maxWidth") != "none"


@pytest.mark.soak
def test_errors_are_shown_at_their_fields(cluster, show, addresses):
    (form,) = (address for address in addresses if "table=" in address)
    page = show(f"{cluster.url}/{form}", expecting="422")
    open_advanced(page)
    page.fill("#set-max_depth", "99")
    page.fill("#set-subset_size", "two")
    page.wait_for_selector("#set-max_depth[aria-invalid=true]")
    assert "12" in page.inner_text("#set-max_depth-error")
    assert "'two'" in page.inner_text("#set-subset_size-error")
    beside = page.locator(".problems .error").all_inner_texts()
    assert [text.partition(":")[0] for text in beside] == ["Features per tree", "Maximum depth"]
    open_advanced(page)
    page.click(".problems .error:has-text('Maximum depth') button")
    assert page.evaluate("document.activeElement.id") == "set-max_depth"
    page.fill("#set-max_depth", "5")
    page.fill("#set-subset_size", "40")  # too large for 20 features, which only the plan detects
    page.wait_for_selector("#set-subset_size-error:has-text('20')")
    assert page.locator("#set-max_depth[aria-invalid]").count() == 0

    page.fill("#set-subset_size", "2")
    page.wait_for_selector(".plan .figure:text-is('190')")
    assert page.locator(".problems .error").count() == 0


def test_a_finished_job_is_its_report_and_a_row_can_be_tried_on_it(cluster, show, frame):
    job = cluster.submit(cluster.dataset(frame), trees=60, holdout=0.2)
    page = show(f"{cluster.url}/#/jobs/{job}")
    page.wait_for_selector(".finding")

    page.get_by_role("link", name="Try a row").click()
    page.locator(".try-results .match a").first.click()

    rule = page.locator(".try-results .match").first.get_attribute("data-rule")
    assert page.get_by_role("region", name=f"Evidence for {rule}").is_visible()
    assert page.url == f"{cluster.url}/#job={job}&finding={rule}"  # links of the report do not leave the job
    fields = page.locator(".try-fields .try-field").evaluate_all(
        "fields => fields.map((each) => [each.querySelector('label').textContent, each.querySelector('input').value])"
    )
    row = {name: float(value) if value else None for name, value in fields}
    answer = httpx.post(f"{cluster.url}/v1/jobs/{job}/explain", json={"rows": [row]}).raise_for_status().json()
    shown = page.locator(".try-results .match").evaluate_all("items => items.map((item) => item.dataset.rule)")
    assert sorted(shown) == sorted(answer["rows"][0]["rules"])


def test_names_and_values_from_the_table_stay_text(cluster, show, hostile):
    page = show(f"{cluster.url}/#/new")
    choose_file(page, "<b>bold</b> 😀.csv", hostile.to_csv(index=False).encode())
    page.wait_for_selector(".preview td")
    listed = page.inner_text(".table-section")
    page.select_option("#target", HOSTILE[0])
    page.click(".noticed li:has-text('nearly repeats') button")  # the column that determines the class
    page.wait_for_selector(PLANNED)
    open_advanced(page)
    page.fill("#set-subset_size", "2")
    start(page)
    page.wait_for_selector(".finding")

    assert all(name in listed for name in HOSTILE)
    assert page.inner_text("h1") == "<b>bold</b> 😀.csv"
    assert f"{HOSTILE[0]} = " in page.inner_text("#cards")
    assert "</td><b>bold" in page.inner_text("#cards")
    assert page.locator(".finding .sentence").all_inner_texts() == cluster.sentences(page.url)
    assert page.locator("main script, main img, .condition b, .then b").count() == 0
    page.goto(f"{cluster.url}/#/")
    page.wait_for_selector(".jobs .name:has-text('<b>bold</b>')")


def test_a_job_is_paused_resumed_and_cancelled(cluster, show, frame):
    job = cluster.submit(cluster.dataset(frame), seed=1, **LONG)
    page = show(f"{cluster.url}/#/jobs/{job}")
    wait_for_trees(page, 10)
    assert re.fullmatch(r"[\d,]+ of [\d,]+ combinations of columns tried.*", page.inner_text(".progress-text"))
    assert "F1" not in page.inner_text("main")
    page.click("text=How the search is going")
    page.wait_for_selector(".load:has-text('busy')")
    assert "Best F1" in page.inner_text(".tiles")
    page.click("text=Pause")
    page.wait_for_selector(".state.large[data-state=paused]")
    page.wait_for_selector(".job-status[data-kind=wait]:has-text('Press Resume')")
    rested = number_of(page, "Trees")
    page.click("text=Resume")
    wait_for_trees(page, rested + 10)
    page.click("text=Cancel")
    page.click("text=Really cancel?")
    page.wait_for_selector(".state.large[data-state=cancelled]")

    assert page.locator("button:has-text('Pause')").count() == 0
    page.click(".menu summary")
    page.click("text=Delete this job")
    page.click("text=Really delete?")
    page.wait_for_selector(".jobs")
    assert page.locator(f"a[href='#/jobs/{job}']").count() == 0


def test_a_failed_job_shows_the_reason(cluster, show):
    with closing(Resources.connect(cluster.settings)) as resources:
        job = uuid4().hex
        resources.ledger.jobs.add([JobSpec.model_validate({"id": job, "dataset": NOWHERE})], resources.clock())
        page = show(f"{cluster.url}/#/jobs/{job}")
        page.wait_for_selector(".state.large[data-state=failed]")

        assert page.inner_text(".reason.error") == resources.ledger.jobs.get(job).reason != ""
        assert page.locator("button:has-text('Pause')").count() == 0
        page.goto(f"{cluster.url}/#/")
        page.wait_for_selector(f"a[href='#/jobs/{job}'] .state[data-state=failed]")
        assert page.inner_text(f"a[href='#/jobs/{job}'] .facts") == resources.ledger.jobs.get(job).reason


def test_a_page_opened_late_shows_the_whole_search(cluster, show, frame):
    job = cluster.submit(cluster.dataset(frame), seed=6, trees=15_000, subset_size=5, batch=10)
    page = show(f"{cluster.url}/#/jobs/{job}")
    wait_for_trees(page, 1500)
    page.click("text=Pause")
    page.wait_for_selector(".state.large[data-state=paused]")
    page.reload()
    page.wait_for_selector(".chart .tree", state="attached")

    positions = page.eval_on_selector_all(".chart .tree", "dots => dots.map((dot) => dot.cx.baseVal.value)")
    first, last = min(positions), page.eval_on_selector(".chart .current", "dot => dot.cx.baseVal.value")
    assert 900 < len(positions) <= 1000
    for part in range(10):
        assert any(part <= 10 * (position - first) / (last - first) <= part + 1 for position in positions)


def test_a_job_without_findings_shows_why(cluster, show):
    draw = np.random.default_rng(1)
    frame = pd.DataFrame(draw.random((200, 5)).round(2), columns=list("abcde"))
    favoured = (frame["a"] > 0.7) & (draw.random(200) < 0.55)
    table = cluster.dataset(frame.assign(target=np.where(favoured, "yes", draw.choice(["yes", "no"], 200))))

    page = show(f"{cluster.url}/#/jobs/{cluster.submit(table, certify='off')}")
    page.wait_for_selector(".state.large[data-state=done]")
    page.wait_for_selector(".headline:text-is('No findings for target.')")

    first, *classes = page.locator("#findings > .empty, #findings > .missing").all_inner_texts()
    assert first.startswith("None of the ")
    assert [text.partition(":")[0] for text in classes] == ["No finding for target = no", "No finding for target = yes"]
    assert "“Largest adjusted p” = 0." in classes[1]
    assert "would be enough." in classes[1]


def test_the_form_accepts_parquet_too(cluster, show, frame):
    page = show(f"{cluster.url}/#/new")
    choose_file(page, "cells.parquet", frame.to_parquet())

    page.wait_for_selector(f"text={len(frame)} rows, {frame.shape[1]} columns")
    page.wait_for_selector(PLANNED)
    assert page.locator(".preview th").count() == frame.shape[1]


@pytest.mark.soak
def test_a_late_response_does_not_override_a_newer_event(cluster, show, frame):
    """The response to a pause request has the state before it; the job may be paused by the time it is read."""
    job = cluster.submit(cluster.dataset(frame), seed=4, **LONG)
    page = show(f"{cluster.url}/#/jobs/{job}")
    page.evaluate(
        """() => {
            const real = window.fetch;
            window.fetch = async (path, options) => {
                const answer = await real(path, options);
                if (path.endsWith("/pause")) {
                    const rests = () => document.querySelector(".state.large[data-state=paused]");
                    while (!rests()) await new Promise(requestAnimationFrame);
                    setTimeout(() => (window.answered = true), 200);
                }
                return answer;
            };
        }"""
    )
    wait_for_trees(page, 10)
    page.click("text=Pause")
    page.wait_for_function("() => window.answered")

    assert page.locator(".state.large[data-state=paused]").count() == 1
    page.click("text=Cancel")
    page.click("text=Really cancel?")
    page.wait_for_selector(".state.large[data-state=cancelled]")


@pytest.mark.soak
def test_the_page_reconnects_to_a_restarted_server(cluster, show, frame):
    job = cluster.submit(cluster.dataset(frame), seed=2, **LONG)
    page = show(f"{cluster.url}/#/jobs/{job}", expecting="Failed to load resource|ERR_")
    wait_for_trees(page, 10)
    cluster.process.send_signal(signal.SIGKILL)
    page.wait_for_selector(".connection.lost:has-text('Connection lost')")
    cluster.stop()
    before = number_of(page, "Trees")
    cluster.start()
    page.wait_for_selector(".connection:has-text('Connected again')")
    wait_for_trees(page, before + 10)

    assert page.locator(".state.large[data-state=running]").count() == 1
    page.click("text=Cancel")
    page.click("text=Really cancel?")
    page.wait_for_selector(".state.large[data-state=cancelled]")


def test_the_theme_follows_the_system_until_it_is_chosen(cluster, show):
    page = show(cluster.url, color_scheme="dark")
    colour = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(colour)
    page.click("text=Light")
    light = page.evaluate(colour)
    page.reload()
    page.wait_for_selector("#theme:has-text('Dark')")

    assert light != dark
    assert page.evaluate(colour) == light


@pytest.fixture(scope="module")
def addresses(cluster, frame):
    """The addresses of all pages, each with a selector that exists once it is complete."""
    table = cluster.dataset(frame)
    job = cluster.submit(table, trees=60, holdout=0.2)
    return {
        "#/": ".jobs .name",
        "#/tables": ".tables .name",
        f"#/new?table={table}": PLANNED,
        f"#/jobs/{job}": ".finding",
        f"#/compare?one={job}&other={cluster.submit(table, trees=60, seed=1)}": ".headline, .error",
    }


def open_pages(page, cluster, addresses):
    for address, complete in addresses.items():
        page.goto(f"{cluster.url}/{address}")
        page.wait_for_selector(complete)
        page.locator("details").evaluate_all("all => all.forEach((each) => (each.open = true))")
        yield address


def test_nothing_is_wider_than_a_phone(cluster, show, addresses):
    page = show(cluster.url, width=375)
    for address in open_pages(page, cluster, addresses):
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), address


@pytest.mark.soak
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1600])
def test_axe_finds_no_accessibility_problems(cluster, show, addresses, width, theme):
    page = show(cluster.url, width=width, color_scheme=theme)
    for address in open_pages(page, cluster, addresses):
        assert axe_violations(page) == [], address


def test_a_job_can_be_opened_with_the_keyboard_and_receives_the_focus(cluster, show, addresses):
    page = show(cluster.url)
    page.wait_for_selector(".jobs .name")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('.jobs') !== null"):
            break
    page.keyboard.press("Enter")
    page.wait_for_selector(".state.large:not(:empty)")

    assert page.evaluate("location.hash").startswith("#/jobs/")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_a_token_is_requested_checked_and_forgotten(browser, cluster, show, tmp_path):
    settings = cluster_settings(cluster.settings.redis_url, tmp_path, prefix="tokens:")
    with closing(Resources.connect(settings)) as resources, a_server(resources) as (url, _):
        token = token_for(resources)["Authorization"].removeprefix("Bearer ")
        page = show(url, expecting="401")
        page.fill("#token", "maabo_000000000000_wrong")
        page.click("button:has-text('Sign in')")
        page.wait_for_selector("#token-error:has-text('not valid')")
        page.fill("#token", token)
        page.click("button:has-text('Sign in')")
        page.wait_for_selector("text=No jobs yet")
        page.wait_for_selector("#tenant:text-is('default')")
        page.reload()
        page.wait_for_selector("text=No jobs yet")
        assert page.evaluate("Object.values(localStorage).length") == 0

        resources.ledger.tokens.revoke(token.split("_")[1], resources.clock())
        page.reload()
        page.wait_for_selector("#token-error:has-text('not valid')")
        assert page.evaluate("Object.values(sessionStorage).length") == 0
        assert page.locator("#sign-out").is_hidden()
