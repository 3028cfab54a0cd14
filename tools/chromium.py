"""Chromium from the PATH, driven by Playwright, for tests, benchmarks and screenshots. Playwright downloads none."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """Return the path of the program; None if it is not installed."""
    return next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


@contextmanager
def open_chromium() -> Iterator[Any]:
    """Start a browser, and close it at the end."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - the caller may want to work without it

    path = find_chromium()
    if path is None:
        raise SystemExit("There is no Chromium on PATH (Debian: apt install chromium).")
    # Chromium's own sandbox does not start for root, as which containers run tests.
    arguments = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()
