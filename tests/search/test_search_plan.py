"""The estimated duration of a search matches measurements and grows with the work."""

import pytest

from maabo_dist.screens.blocks import pair_seconds
from maabo_dist.search.plan import (
    MAX_SHUFFLE_SECONDS,
    MIN_SHUFFLES,
    SECONDS_PER_BATCH,
    SearchPlan,
    core_seconds,
    planned_shuffles,
    repeat_seconds,
    round_trip_seconds,
)
from maabo_dist.settings import MiningSettings


def planned(features, rows, classes=2, **settings):
    mining = MiningSettings(**settings)
    plan = SearchPlan.settle(mining, features)
    return plan, core_seconds(plan, mining, rows=rows, classes=classes)


@pytest.mark.parametrize(("features", "training", "measured"), [(29, 916, 36e-6), (200, 14_000, 325e-6)])
def test_the_estimated_time_of_a_tree_matches_the_benchmark(features, training, measured):
    plan, seconds = planned(features, round(training / 0.7), trees=100, preset="paper")

    assert seconds / plan.trees == pytest.approx(measured, rel=0.1)


def test_rows_that_the_search_does_not_see_cost_nothing():
    _, all_rows = planned(50, 10_000, preset="paper")
    _, fewer = planned(50, 10_000, preset="paper", holdout=0.5)

    assert fewer < all_rows


def test_a_screen_costs_its_pairs():
    plan, screened = planned(1000, 2000, trees=100)
    _, plain = planned(1000, 2000, trees=100, preset="paper", holdout=0.2)

    assert plan.screened
    assert screened - plain == pytest.approx(499_500 * pair_seconds(1120, 2))


def test_one_tree_on_all_features_costs_its_features():
    _, wide = planned(200, 1000, strategy="single")
    _, narrow = planned(20, 1000, strategy="single")

    assert wide > 5 * narrow


def test_a_space_that_no_float_counts_exactly_is_estimated():
    _, seconds = planned(20_000, 1000, subset_size=64, trees="100%", preset="paper")

    assert seconds > 1e150


def test_batches_that_overlap_wait_less():
    alone, _ = planned(50, 1000, trees=1000, batch=10)
    together, _ = planned(50, 1000, trees=1000, batch=10, in_flight=4)

    assert round_trip_seconds(alone) == pytest.approx(100 * SECONDS_PER_BATCH)
    assert round_trip_seconds(together) == pytest.approx(25 * SECONDS_PER_BATCH)


def repeated(features, rows, classes=2, **settings):
    mining = MiningSettings(**settings)
    plan = SearchPlan.settle(mining, features)
    shuffles = planned_shuffles(plan, mining, rows=rows, classes=classes)
    return repeat_seconds(plan, mining, rows=rows, classes=classes), shuffles


@pytest.mark.parametrize(
    ("features", "rows", "classes", "options", "measured"),
    [
        (25, 1000, 2, {}, 0.108),
        (30, 569, 2, {}, 0.222),
        (13, 178, 3, {}, 0.057),
        (60, 1000, 5, {}, 1.9),
        (60, 20_000, 2, {}, 4.9),
        (40, 1000, 2, {"batch": 1}, 12.0),
        (40, 1000, 2, {"batch": 4}, 3.7),
        (30, 1000, 2, {"max_depth": 8}, 0.49),
    ],
)
def test_the_estimated_time_of_a_shuffled_search_matches_measurements(features, rows, classes, options, measured):
    seconds, _ = repeated(features, rows, classes, **options)

    assert seconds == pytest.approx(measured, rel=0.5)


@pytest.mark.parametrize("options", [{}, {"batch": 1}, {"strategy": "random"}, {"trees": 20_000}, {"max_depth": 10}])
@pytest.mark.parametrize("classes", [2, 10])
@pytest.mark.parametrize("features", [3, 30, 300, 3000])
def test_shuffles_are_planned_by_default_only_if_they_are_cheap(features, classes, options):
    for rows in (100, 1000, 10_000, 1_000_000):
        seconds, shuffles = repeated(features, rows, classes, **options)
        assert shuffles == (MIN_SHUFFLES if MIN_SHUFFLES * seconds <= MAX_SHUFFLE_SECONDS else 0)
    assert repeated(3, 100)[1] == MIN_SHUFFLES
    assert shuffles == 0 or features == 3
    assert repeated(features, 1_000_000, classes, certify=7, **options)[1] == 7


@pytest.mark.parametrize(
    ("features", "settings", "table", "triples"),
    [
        (300, {}, {"rows": 3000}, True),
        (1000, {}, {"rows": 3000}, True),
        (3000, {}, {"rows": 3000}, False),
        (3000, {"complete": "triples"}, {"rows": 3000}, True),
        (300, {"complete": "pairs"}, {"rows": 3000}, False),
        (1000, {"certify": 100}, {"rows": 3000}, False),
        (1000, {"trees": 500}, {"rows": 3000}, False),  # or there would be no searches on shuffled labels
        (1000, {"trees": 500, "certify": "off"}, {"rows": 3000}, True),
        (1000, {}, {"rows": 3000, "independent": False}, False),
        (1000, {}, {"rows": 3000, "classes": 6}, False),
        (300, {"subset_size": 2}, {"rows": 3000}, False),
        (300, {"preset": "paper", "complete": "triples"}, {"rows": 3000}, False),
        (10, {"trees": 120, "complete": "triples"}, {"rows": 3000}, False),  # all subsets
    ],
)
def test_all_triples_are_screened_where_that_is_affordable_or_asked_for(features, settings, table, triples):
    assert SearchPlan.settle(MiningSettings(**settings), features, **table).triples == triples
