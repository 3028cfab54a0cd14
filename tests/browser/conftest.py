"""A real browser: Debian's Chromium, driven by Playwright, which downloads none.

Without one these tests are skipped, unless MAABO_TEST_BROWSER=1 requires one.
"""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from tempfile import TemporaryDirectory

import pytest

from tests import servers
from tests.browser.page_cluster import TIMEOUT, Cluster, is_own
from tests.cluster import a_scheduler, cluster_settings
from tools.chromium import find_chromium, open_chromium

REQUIRED = os.environ.get("MAABO_TEST_BROWSER") == "1"


def _missing(reason):
    if REQUIRED:
        pytest.fail(f"MAABO_TEST_BROWSER=1, but {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    """One browser per module: while it runs, its thread has an event loop, which must not affect other tests."""
    if find_chromium() is None:
        _missing("there is no Chromium on PATH (Debian: apt install chromium)")
    if find_spec("playwright") is None:
        _missing("playwright is not installed (pip install playwright)")
    with open_chromium() as chromium:
        yield chromium


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


@pytest.fixture(scope="module")
def cluster(browser, tmp_path_factory):
    """Depends on the browser, so that nothing is started without one."""
    directory = tmp_path_factory.mktemp("cluster")
    with (
        TemporaryDirectory(prefix="maabo-redis-") as redis_directory,
        servers.redis_server(redis_directory) as redis_url,
    ):
        settings = cluster_settings(redis_url, directory, partial_seconds=0.3)
        quiet = ("-P", "threads", "-c", "1", "--without-mingle", "--without-gossip")
        cluster = Cluster(settings, directory)
        with a_scheduler(settings), ThreadPoolExecutor() as pool:
            started = pool.submit(cluster.start)  # in parallel with the worker: both take seconds
            with servers.worker(settings, directory, *quiet):
                started.result()
                yield cluster
                cluster.stop()


@pytest.fixture
def show(browser):
    """Opens an address; at the end, checks for script errors, console messages and requests to other hosts."""
    contexts, complaints, expected = [], [], []

    def open_page(url, *, width=1280, expecting="", **options):
        expected.append(expecting or r"(?!)")
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        context.set_default_timeout(TIMEOUT)
        home = re.match(r"https?://[^/]+", url)[0]
        context.on("console", lambda message: message.type in {"error", "warning"} and complaints.append(message.text))
        context.on("weberror", lambda error: complaints.append(f"failed: {error.error}"))
        context.on(
            "request", lambda request: is_own(request.url, home) or complaints.append(f"request to {request.url}")
        )
        page = context.new_page()
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [text for text in complaints if not any(re.search(each, text) for each in expected)] == []
