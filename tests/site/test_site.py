"""The documentation site, built as `make docs` does."""

import html
import re
import subprocess
import sys

import pytest

from tests.browser.page_cluster import axe_violations
from tests.servers import ROOT
from tests.site.pages import broken_links, external_assets, read_pages

TABLES_ARE_FOCUSABLE = """() => document.querySelectorAll(".md-typeset table:not([class])").length
    <= document.querySelectorAll(".md-typeset__scrollwrap[tabindex]").length"""
MINIMAL = '<link rel="stylesheet" href="a.css"><h1 id="top">A</h1><img src="a.png">'


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    build = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert build.returncode == 0, build.stderr[-4000:]
    return folder


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_no_link_of_the_site_is_broken(site):
    assert broken_links(site) == []


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_the_site_loads_nothing_from_elsewhere(site):
    assert external_assets(site) == []


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_the_reference_has_the_routes_the_fields_and_the_python_api(site):
    pages = read_pages(site)

    assert {"post-v1jobs", "jobdetails", "problem"} <= pages["reference/http.html"].anchors
    assert {"the-document", "rulerecord", "schema"} <= pages["reference/result-schema.html"].anchors
    assert "maabo_dist.estimator.RuleMiner.fit" in pages["python-api.html"].anchors
    assert "min_samples" in (site / "reference/settings.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_links_between_files_of_the_repository_lead_to_pages_or_to_the_repository(site):
    deployment = read_pages(site)["deploy/index.html"].links
    operations = read_pages(site)["operations.html"].links

    assert "../cluster.html#settings" in deployment
    assert "deploy/index.html" in operations
    assert any(
        link.startswith("https://github.com/maabo-dist/maabo-dist/blob/main/deploy/compose/") for link in deployment
    )


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_the_notebook_was_run_and_its_output_is_on_its_page(site):
    page = (site / "from-a-notebook.html").read_text(encoding="utf-8")

    assert "2 findings explain 78 % of the rows with diagnosis = malignant" in page
    assert page.count('src="data:image/png;base64,') == 2
    assert 'WHERE "worst perimeter" > 117.5' in html.unescape(re.sub("<[^>]*>", "", page))
    assert "from-a-notebook.ipynb" in read_pages(site)["from-a-notebook.html"].links


@pytest.mark.slow
@pytest.mark.xdist_group("site")
def test_the_search_works_from_disk_and_axe_finds_nothing(site, browser):
    page = browser.new_page(viewport={"width": 390, "height": 844}, color_scheme="dark")
    requests = []
    page.on("request", lambda request: requests.append(request.url))
    page.goto((site / "python-api.html").as_uri())
    page.wait_for_selector(".md-typeset__scrollwrap[tabindex]", state="attached")
    violations = axe_violations(page)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.click("input[name=query]")
    page.keyboard.type("certificate")
    page.wait_for_selector(".md-search-result__item")

    assert violations == []
    assert "matching documents" in page.inner_text(".md-search-result__meta")
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []


@pytest.mark.slow
@pytest.mark.xdist_group("site")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_axe_finds_nothing_on_any_page(site, browser, scheme, width):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    violations = {}
    for path in sorted(site.rglob("*.html")):
        page.goto(path.as_uri())
        page.wait_for_function(TABLES_ARE_FOCUSABLE)
        if found := axe_violations(page):
            violations[path.relative_to(site).as_posix()] = found

    assert violations == {}


def write_site(folder, **pages):
    (folder / "a.css").write_text("body { color: red }")
    (folder / "a.png").write_bytes(b"")
    for name, text in pages.items():
        (folder / f"{name}.html").write_text(text)
    return folder


def test_the_checker_accepts_links_that_lead_somewhere(tmp_path):
    site = write_site(tmp_path, a=MINIMAL, b='<a href="a.html#top">A</a> <a href="https://example.org/x">elsewhere</a>')

    assert broken_links(site) == []
    assert external_assets(site) == []


def test_the_checker_finds_missing_pages_anchors_and_images(tmp_path):
    site = write_site(
        tmp_path, a=MINIMAL, b='<a href="a.html#end">A</a> <a href="c.html">C</a> <img src="b.png"> <a href="#x">X</a>'
    )

    assert broken_links(site) == ["b.html: a.html#end", "b.html: c.html", "b.html: #x", "b.html: b.png"]


def test_the_checker_finds_what_is_loaded_from_elsewhere(tmp_path):
    site = write_site(tmp_path, a='<script src="//cdn.example.org/a.js"></script><img src="https://example.org/a.png">')
    (site / "a.css").write_text('@font-face { src: url("https://example.org/font.woff") }')

    assert external_assets(site) == [
        "a.html: //cdn.example.org/a.js",
        "a.html: https://example.org/a.png",
        'a.css: url("http',
    ]
