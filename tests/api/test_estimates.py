"""The estimate before the start of a job, and the first one while it runs."""

from types import SimpleNamespace

import pytest

from maabo_dist.contract.job import JobRecord, JobState
from maabo_dist.search.plan import SearchPlan
from maabo_dist.settings import MiningSettings
from scheduler import metrics
from scheduler.api.details import RULES_SECONDS, time_left
from scheduler.api.estimates import EXPECTED_SHUFFLES, estimate_seconds, measure_slowdown
from scheduler.core.job import SearchingJob
from scheduler.metrics import Metrics

JOB = "0" * 32
SIZES = {
    "diabetes": (442, 10, 2),
    "breast_cancer": (569, 30, 2),
    "wine": (178, 13, 3),
    "titanic": (1309, 7, 2),
}

# Progress of jobs on a cluster with one worker process, on a machine with load, when their time left was first
# estimated: the table, the setting, the trees and the seconds of the first progress, and those of this one.
OBSERVED = [
    ("diabetes", None, 2, 0.208, 66, 0.614),
    ("diabetes", None, 2, 0.025, 62, 0.312),
    ("diabetes", 100_000, 2, 0.069, 18, 0.139),
    ("diabetes", 100_000, 2, 0.095, 28, 0.423),
    ("breast_cancer", None, 40, 0.056, 660, 0.460),
    ("breast_cancer", None, 40, 0.032, 240, 0.097),
    ("breast_cancer", 100_000, 10, 0.020, 970, 0.354),
    ("breast_cancer", 100_000, 10, 0.026, 2914, 0.554),
    ("wine", None, 2, 0.018, 16, 0.097),
    ("wine", 100_000, 5, 0.019, 265, 0.346),
    ("wine", 100_000, 5, 0.073, 185, 0.931),
    ("titanic", None, 1, 0.048, 22, 0.715),
    ("titanic", 100_000, 1, 0.080, 33, 0.570),
]


def estimate(table, slowdown=1.0, **values):
    rows, features, classes = SIZES[table]
    settings = MiningSettings(**values)
    plan = SearchPlan.settle(settings, features)
    columns = SimpleNamespace(rows=rows, classes=range(classes), independent=True)
    return plan, estimate_seconds(plan, settings, columns, 1, slowdown)


def record_of(trees, seconds, planned, first_trees=None, first_seconds=None):
    first = {"first_trees": first_trees, "first_seconds": first_seconds}
    return JobRecord(id=JOB, state=JobState.RUNNING, trees=trees, seconds=seconds, planned=planned, **first)


@pytest.mark.parametrize(("table", "trees", "first_trees", "first_seconds", "done", "seconds"), OBSERVED)
def test_the_first_estimate_of_a_run_is_within_a_factor_of_two_of_the_one_before(
    table, trees, first_trees, first_seconds, done, seconds
):
    plan, before = estimate(table, trees=trees)

    first = seconds + time_left(record_of(done, seconds, plan.trees, first_trees, first_seconds))

    assert 0.5 <= first / before <= 2


def test_the_start_of_a_search_does_not_count():
    """The first trees took 0.15 s, then 2,000 a second: with the start, it looked like 5 s."""
    left = time_left(record_of(240, 0.265, 4060, first_trees=10, first_seconds=0.15))

    assert left == pytest.approx((4060 - 240) * 0.115 / 230 + RULES_SECONDS)
    assert left < 3


def test_a_long_screen_does_not_count():
    left = time_left(record_of(1100, 62.0, 10_000, first_trees=100, first_seconds=60.0))

    assert left == pytest.approx(8900 * 2.0 / 1000 + RULES_SECONDS)


def test_the_start_of_a_search_gives_no_estimate():
    assert time_left(record_of(0, 0.0, 100)) is None
    assert time_left(record_of(80, 0.12, 4060)) is None
    assert time_left(record_of(80, 1.2, 4060, first_trees=80, first_seconds=1.2)) is None
    assert time_left(record_of(90, 1.3, 4060, first_trees=80, first_seconds=1.2)) is None
    assert time_left(record_of(160, 2.4, 4060, first_trees=80, first_seconds=1.2)) is not None
    assert time_left(record_of(1, 30.0, None)) is None


def test_a_slow_search_has_an_estimate_from_its_first_trees_on():
    assert time_left(record_of(8, 40.0, 80, first_trees=8, first_seconds=40.0)) == 360.0 + RULES_SECONDS


def a_search(clock):
    """A search with an empty history, whose running time is that of the clock."""
    run = SimpleNamespace(trees=0, best_score=None)
    row = SimpleNamespace(run_seconds=0.0, started=None, record=JobRecord(id=JOB, state=JobState.RUNNING))
    fixed = {"lease": None, "spec": None, "plan": SimpleNamespace(trees=4060), "row": row, "opened": clock.now}
    fixed |= {"holdout": None, "shape": (569, 30), "repeat_seconds": 1.0}
    return SearchingJob(**fixed, machine=SimpleNamespace(run=run)), run


def test_a_scheduler_notes_when_its_first_trees_arrive():
    clock = SimpleNamespace(now=1000.0)
    job, run = a_search(clock)
    estimates = []
    for seconds, trees in [(0.05, 0), (0.15, 10), (0.25, 210), (0.30, 310), (0.65, 1010)]:
        clock.now, run.trees = 1000.0 + seconds, trees
        job.note_first_trees(clock.now)
        record = job.record(clock.now)
        estimates.append(time_left(record))

    assert (record.first_trees, record.first_seconds) == (10, pytest.approx(0.15))
    assert estimates[:3] == [None, None, None]
    for estimated, trees in zip(estimates[3:], (310, 1010), strict=True):  # 2,000 trees a second
        assert estimated == pytest.approx((4060 - trees) / 2000 + RULES_SECONDS)


def test_searches_on_shuffled_labels_that_are_asked_for_count_in_full():
    certain, possible, none = (estimate("wine", certify=value)[1] for value in ("24", "auto", "off"))

    assert none < possible < certain
    assert possible - none == pytest.approx(EXPECTED_SHUFFLES * (certain - none))


def test_the_estimate_follows_the_measured_speed_of_the_workers():
    slow, short, unknown = Metrics(), Metrics(), Metrics()
    slow.count(metrics.SEARCH_SECONDS, "measured", 30.0)
    slow.count(metrics.SEARCH_SECONDS, "expected", 10.0)
    short.count(metrics.SEARCH_SECONDS, "measured", 3.0)
    short.count(metrics.SEARCH_SECONDS, "expected", 0.1)

    assert measure_slowdown([slow.snapshot()]) == 3.0
    assert measure_slowdown([short.snapshot()]) == measure_slowdown([unknown.snapshot()]) == 1.0
    assert estimate("diabetes", 3.0, trees=100)[1] > estimate("diabetes", trees=100)[1]
