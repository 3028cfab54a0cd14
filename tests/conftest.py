"""One hypothesis profile for the whole suite: the same examples on every run, and no test asserts a time.

Files whose tests share something that takes seconds to start stay together, in one process of pytest-xdist.
"""

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

SHARING = {"cli", "deploy", "plots", "report", "scheduler", "service", "workers"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.parent.name in SHARING and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
