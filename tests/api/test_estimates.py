"""The estimate before the start of a job, and the first one while it runs."""

from types import SimpleNamespace

import pytest

from maabo_dist.search.plan import SearchPlan
from maabo_dist.settings import MiningSettings
from scheduler import metrics
from scheduler.api.details import time_left
from scheduler.api.estimates import estimate_seconds, measure_slowdown
from scheduler.metrics import Metrics

SIZES = {
    "diabetes": (442, 10, 2),
    "breast_cancer": (569, 30, 2),
    "wine": (178, 13, 3),
    "titanic": (1309, 7, 2),
}

# The first progress of jobs on a cluster with one worker process, on a machine with load: the table, the setting, the
# seconds since the job was submitted, those that it had been running, and its trees.
OBSERVED = [
    ("diabetes", None, 2.38, 0.478, 60),
    ("diabetes", None, 0.36, 0.271, 48),
    ("diabetes", 100_000, 0.19, 0.087, 6),
    ("diabetes", 100_000, 1.08, 0.942, 76),
    ("breast_cancer", None, 0.31, 0.197, 500),
    ("breast_cancer", 100_000, 1.12, 0.727, 2833),
    ("breast_cancer", 100_000, 0.58, 0.505, 2914),
    ("wine", None, 0.30, 0.106, 8),
    ("wine", None, 1.10, 0.940, 88),
    ("wine", 100_000, 0.61, 0.544, 245),
    ("titanic", None, 1.24, 0.922, 71),
    ("titanic", None, 0.44, 0.340, 28),
    ("titanic", 100_000, 1.14, 1.059, 72),
]


def estimate(table, slowdown=1.0, **values):
    rows, features, classes = SIZES[table]
    settings = MiningSettings(**values)
    plan = SearchPlan.settle(settings, features)
    columns = SimpleNamespace(rows=rows, classes=range(classes), independent=True)
    return plan, estimate_seconds(plan, settings, columns, 1, slowdown)


@pytest.mark.parametrize(("table", "trees", "passed", "seconds", "done"), OBSERVED)
def test_the_first_estimate_of_a_run_is_within_a_factor_of_two_of_the_one_before(table, trees, passed, seconds, done):
    plan, before = estimate(table, trees=trees)

    first = passed + time_left(seconds, done, plan.trees)

    assert 0.5 <= first / before <= 2


def test_the_start_of_a_search_gives_no_estimate():
    assert time_left(0.12, 80, 4060) is None
    assert time_left(0.0, 0, 100) is None
    assert time_left(1.2, 80, 4060) is not None


def test_searches_on_shuffled_labels_that_are_asked_for_count_in_full():
    certain, possible, none = (estimate("wine", certify=value)[1] for value in ("24", "auto", "off"))

    assert none < possible < certain
    assert possible - none == pytest.approx(0.25 * (certain - none))


def test_the_estimate_follows_the_measured_speed_of_the_workers():
    slow, short, unknown = Metrics(), Metrics(), Metrics()
    slow.count(metrics.SEARCH_SECONDS, "measured", 30.0)
    slow.count(metrics.SEARCH_SECONDS, "expected", 10.0)
    short.count(metrics.SEARCH_SECONDS, "measured", 3.0)
    short.count(metrics.SEARCH_SECONDS, "expected", 0.1)

    assert measure_slowdown([slow.snapshot()]) == 3.0
    assert measure_slowdown([short.snapshot()]) == measure_slowdown([unknown.snapshot()]) == 1.0
    assert estimate("diabetes", 3.0, trees=100)[1] > estimate("diabetes", trees=100)[1]
