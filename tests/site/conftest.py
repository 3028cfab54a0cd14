"""The browser of the other tests of pages."""

from tests.browser.conftest import browser

__all__ = ["browser"]
