"""Subsets that the screens suggest."""

import numpy as np
import pytest

from maabo_dist.errors import SearchError
from maabo_dist.mining import mine
from maabo_dist.screens import Screen
from maabo_dist.search import SubsetProposer
from maabo_dist.search.hints import HintedSampler
from maabo_dist.search.space import SubsetSpace
from maabo_dist.settings import MiningSettings, SearchPlan
from tests import factories

SCREEN = Screen(np.arange(99, -1, -1, dtype=np.int32), np.array([[3, 7], [20, 40]], np.int32))
SPACE = SubsetSpace(100, 3)
HIGH = np.array([[1, 2, 3], [50, 60, 70]], np.int32)
WIDE = MiningSettings(preset="auto", trees=300, seed=4)


def proper(subsets):
    return (np.diff(subsets, axis=1) > 0).all() and subsets.min() >= 0 and subsets.max() < 100


def test_seeds_are_completed_pairs_and_promising_features():
    seeds = HintedSampler(SPACE, SCREEN).seeds(200, stream=1)

    with_pair = [{3, 7} <= set(row) or {20, 40} <= set(row) for row in seeds.tolist()]
    assert proper(seeds)
    assert 0.4 < np.mean(with_pair) < 0.7
    assert np.mean(seeds >= 90) > 0.2  # the first tenth of the screen


def test_completions_hold_a_pair_the_stronger_one_more_often():
    subsets = HintedSampler(SPACE, SCREEN).completions(400, stream=2).tolist()

    strong, weak = (sum(set(pair) <= set(row) for row in subsets) for pair in ([3, 7], [20, 40]))
    assert strong + weak >= len(subsets)
    assert strong > weak > 0


def test_neighbours_differ_from_a_high_subset_in_one_feature():
    subsets = HintedSampler(SPACE, SCREEN).neighbours(HIGH, 300, stream=3)

    shared = [max(len(set(row) & set(high)) for high in HIGH.tolist()) for row in subsets.tolist()]
    assert proper(subsets)
    assert set(shared) <= {2, 3}
    assert np.mean(np.array(shared) == 2) > 0.9


def test_without_pairs_or_high_subsets_nothing_is_made_of_them():
    sampler = HintedSampler(SPACE, Screen(SCREEN.features, np.empty((0, 2), np.int32)))

    assert len(sampler.completions(10, 1)) == len(sampler.neighbours(HIGH[:0], 10, 1)) == 0
    assert len(sampler.seeds(10, 1))


def a_screened_search(seed=4):
    plan = SearchPlan.settle(WIDE, 100)
    proposer = SubsetProposer(WIDE, plan, SCREEN)
    steps = []
    for _ in range(12):
        subsets = proposer.suggest(15)
        steps.append(subsets)
        proposer.observe(subsets, np.random.default_rng(subsets.sum()).random(len(subsets)))
    return plan, proposer, np.concatenate(steps)


def test_a_screened_search_repeats_nothing_and_is_the_same_every_time():
    plan, _, subsets = a_screened_search()
    _, _, again = a_screened_search()

    assert plan.screened
    assert len(np.unique(subsets, axis=0)) == len(subsets) == 180
    assert np.array_equal(subsets, again)


def test_a_screened_search_goes_on_from_its_state():
    plan, proposer, _ = a_screened_search()

    restored = SubsetProposer.restored(WIDE, plan, proposer.state(), SCREEN)

    assert np.array_equal(restored.suggest(15), proposer.suggest(15))


def test_a_plan_and_a_screen_belong_together():
    with pytest.raises(SearchError, match="needs its screen"):
        SubsetProposer(WIDE, SearchPlan.settle(WIDE, 100))


@pytest.mark.parametrize(("settings", "features"), [(MiningSettings(), 100), (MiningSettings(preset="auto"), 20)])
def test_the_paper_and_small_spaces_are_not_screened(settings, features):
    assert not SearchPlan.settle(settings, features).screened


def test_rules_do_not_depend_on_the_threads_that_screen():
    columns = factories.make_columns(np.random.default_rng(3), 200, 60, 2)
    settings = WIDE.model_copy(update={"min_samples": 10, "gini": 0.6, "trees": 120})

    assert mine(columns, settings).digest == mine(columns, settings, jobs=3).digest
