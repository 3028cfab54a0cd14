"""One hypothesis profile for the whole suite: the same examples on every run, and no test asserts a time.

Files whose tests share something that takes seconds to start stay together, in one process of pytest-xdist.

No test asks anyone who has a certificate. To read those of all authorities takes 30 ms for each connection to a
PostgreSQL and each client of HTTP, so that here, and in all processes that tests start, nobody is the only authority.
"""

import gc
import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "nobody.pem")

SHARING = {"api", "cli", "deploy", "plots", "report", "scheduler", "workers"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name in SHARING and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


def pytest_collection_finish():
    """What was imported stays: no garbage collection during the tests needs to go through it again."""
    gc.collect()
    gc.freeze()
