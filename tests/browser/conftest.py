"""A real browser: Debian's Chromium, driven by Playwright, which downloads none.

Without one these tests are skipped, unless MAABO_TEST_BROWSER=1 requires one.
"""

import os
import shutil

import pytest

REQUIRED = os.environ.get("MAABO_TEST_BROWSER") == "1"


def _missing(reason):
    if REQUIRED:
        pytest.fail(f"MAABO_TEST_BROWSER=1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    """One browser per module: while it runs, its thread has an event loop, which must not affect other tests."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        _missing("there is no Chromium on PATH (Debian: apt install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright is not installed (pip install playwright)")
    # Chromium's own sandbox does not start for root, as which containers run tests.
    arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser):
    """Opens a page file; at the end, checks that there were no console messages and no network requests."""
    contexts, complaints = [], []

    def open_page(path, *, width=1280, fragment="", **options):
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        context.set_default_timeout(10_000)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
        page.goto(path.as_uri() + fragment)
        if options.get("java_script_enabled", True):
            page.wait_for_selector("html[data-drawn]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
