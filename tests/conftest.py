"""One hypothesis profile for all tests: the same examples on every run, and no time limit per example.

In the directories SHARING, the tests of a file share fixtures that take seconds to start, so each file runs in one
process of pytest-xdist.

No test verifies public certificates. Loading those of all authorities takes 30 ms per connection to PostgreSQL and per
HTTP client, so `SSL_CERT_FILE` names a file with one unused authority, here and in all processes that tests start.
"""

import gc
import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests import forked

gc.disable()  # until all modules are imported: none of their objects is garbage
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "unused-authority.pem")

SHARING = {"api", "cli", "deploy", "plots", "report", "scheduler", "workers"}


def pytest_configure(config):
    forked.ENABLED = sys.platform == "linux" and "not slow" in config.option.markexpr


def pytest_unconfigure():
    forked.stop()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    missing = [name for name in SHARING if not Path(__file__).with_name(name).is_dir()]
    assert not missing, f"SHARING names directories that do not exist: {missing}"
    for item in items:
        if item.path.parent.name in SHARING and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_collection_finish():
    """Exclude imported objects from garbage collection during the tests."""
    gc.collect()
    gc.freeze()
    gc.enable()
