"""Subsets that the screens suggest."""

from itertools import combinations, zip_longest

import numpy as np
import pytest

from maabo_dist._util import draws
from maabo_dist.errors import SearchError
from maabo_dist.mining.local import mine
from maabo_dist.screens.screen import Screen
from maabo_dist.search.hints import HintRules, HintSampler, SizeHints
from maabo_dist.search.plan import SearchPlan
from maabo_dist.search.proposer import SubsetProposer
from maabo_dist.search.space import SubsetSpace
from maabo_dist.settings import MiningSettings
from tests import factories

SCREEN = Screen(np.arange(99, -1, -1, dtype=np.int32), np.array([[3, 7], [20, 40]], np.int32))
SPACE = SubsetSpace(100, (3,))
HIGH = np.array([[1, 2, 3], [50, 60, 70]], np.int32)
WIDE = MiningSettings(preset="auto", trees=300, seed=4)


def proper(subsets):
    return (np.diff(subsets, axis=1) > 0).all() and subsets.min() >= 0 and subsets.max() < 100


def by_index(subsets):
    """Return each subset as indices in the screen, ascending: feature 99 has index 0."""
    return [sorted(99 - feature for feature in row) for row in subsets.tolist()]


def test_seeds_alternate_between_the_core_completed_pairs_and_draws_by_rank():
    sampler = HintSampler(SPACE, SCREEN)
    drawn, ordered = sampler.completions(40, draws.mix(1)).tolist(), with_pairs_in_order(sampler)
    kinds = (
        core(0, 40),
        [row for turn in zip_longest(ordered, drawn) for row in turn if row is not None],
        SizeHints(3, HintRules(SPACE, SCREEN)).scattered(40, draws.mix(1 ^ 1)).tolist(),
    )

    seeds = sampler.seeds(40, start=0, stream=1)

    in_turn = [row for turn in zip_longest(*kinds) for row in turn if row is not None]
    assert seeds.tolist() == in_turn
    assert proper(seeds)
    with_pair = [{3, 7} <= set(row) or {20, 40} <= set(row) for row in seeds.tolist()]
    assert 0.2 < np.mean(with_pair) < 0.5
    assert np.mean(seeds >= 90) > 0.4  # the first tenth of the screen


def with_pairs_in_order(sampler):
    """Return the first seed with each pair of the screen, in their order."""
    seeds = sampler.seeds(40, start=0, stream=1).tolist()
    return [next(seed for seed in seeds if set(pair) <= set(seed)) for pair in SCREEN.pairs.tolist()]


def core(start, stop):
    """Return the subsets with the strongest features of the screen, by enumeration."""
    chosen = sorted(combinations(range(20), 3), key=lambda subset: subset[::-1])[start:stop]
    return [sorted(99 - index for index in subset) for subset in chosen]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_core_starts_with_the_strongest_features(size):
    sampler = HintSampler(SubsetSpace(100, (size,)), Screen(SCREEN.features, SCREEN.pairs[:0]))

    # Without pairs there are two kinds in turn; after the first, all that the second draws is by chance.
    subsets = by_index(sampler.seeds(60, start=0, stream=1)[::2])[:20]

    expected = sorted(combinations(range(24), size), key=lambda subset: subset[::-1])[:20]
    assert subsets == [list(subset) for subset in expected]
    assert [subset[-1] for subset in subsets] == sorted(subset[-1] for subset in subsets)


@pytest.mark.parametrize(("first", "start"), [(0, 0), (2, 0), (3, 1), (12, 4), (299, 99)])
def test_the_core_continues_after_the_previous_seeds(first, start):
    seeds = HintSampler(SPACE, SCREEN).seeds(10, first, stream=1)

    assert seeds[0].tolist() == core(start, start + 1)[0]
    assert seeds[3].tolist() == core(start + 1, start + 2)[0]


def test_a_core_that_is_used_up_leaves_the_other_kinds():
    space = SubsetSpace(5, (2,))
    sampler = HintSampler(space, Screen(np.arange(5, dtype=np.int32), np.array([[1, 3]], np.int32)))

    last, none = sampler.seeds(6, 3 * 9, stream=1), sampler.seeds(6, 3 * 10, stream=1)

    assert last[0].tolist() == [3, 4]
    assert none.tolist() == last[1:].tolist()


def test_completions_contain_a_pair_and_stronger_pairs_are_more_frequent():
    subsets = HintSampler(SPACE, SCREEN).completions(400, stream=2).tolist()

    strong, weak = (sum(set(pair) <= set(row) for row in subsets) for pair in ([3, 7], [20, 40]))
    assert strong + weak >= len(subsets)
    assert strong > weak > 0


def test_neighbours_differ_from_a_high_subset_in_one_feature():
    subsets = HintSampler(SPACE, SCREEN).neighbours(HIGH, 300, stream=3)

    shared = [max(len(set(row) & set(high)) for high in HIGH.tolist()) for row in subsets.tolist()]
    assert proper(subsets)
    assert set(shared) <= {2, 3}
    assert np.mean(np.array(shared) == 2) > 0.9


def test_without_pairs_or_high_subsets_there_are_no_hints_from_them():
    sampler = HintSampler(SPACE, Screen(SCREEN.features, np.empty((0, 2), np.int32)))

    assert len(sampler.completions(10, 1)) == len(sampler.neighbours(HIGH[:0], 10, 1)) == 0
    assert len(sampler.seeds(10, 0, 1))


TRIPLES = np.array([[3, 40, 77], [3, 40, 91], [5, 60, 61], [77, 90, 98]], np.int32)


def with_triples(size):
    screen = Screen(SCREEN.features, SCREEN.pairs, TRIPLES)
    return HintSampler(SubsetSpace(100, (size,)), screen).seeds(6, 0, 1).tolist()


def test_triples_are_the_first_seeds():
    assert with_triples(3)[:4] == TRIPLES.tolist()


def test_triples_are_joined_to_larger_seeds_or_completed_by_further_features():
    joined, *completed = with_triples(4)[:5]
    assert joined == [3, 40, 77, 91]
    assert all(set(triple) < set(seed) for triple, seed in zip(TRIPLES.tolist(), completed, strict=True))
    assert with_triples(5)[0] == [3, 40, 77, 90, 98]


def test_unions_of_more_triples_come_first():
    four = [list(triple) for triple in combinations([10, 20, 30, 40], 3)]
    screen = Screen(SCREEN.features, SCREEN.pairs, np.array([[1, 2, 3], [1, 2, 4], *four], np.int32))

    seeds = HintSampler(SubsetSpace(100, (4,)), screen).seeds(6, 0, 1).tolist()

    assert [seed for seed in seeds if seed in ([10, 20, 30, 40], [1, 2, 3, 4])][:2] == [[10, 20, 30, 40], [1, 2, 3, 4]]


def test_grown_conjunctions_are_among_the_first_seeds():
    sets = np.array([[1, 2, 3, 4], [5, 6, 7, 8]], np.int32)
    screen = Screen(SCREEN.features, SCREEN.pairs, conjunctions={4: sets})

    assert HintSampler(SubsetSpace(100, (4,)), screen).seeds(6, 0, 1)[:2].tolist() == sets.tolist()
    assert (
        with_triples(3)
        == HintSampler(SubsetSpace(100, (3,)), Screen(SCREEN.features, SCREEN.pairs, TRIPLES, conjunctions={4: sets}))
        .seeds(6, 0, 1)
        .tolist()
    )


def test_smaller_subsets_have_no_seeds_from_triples():
    assert with_triples(2) == HintSampler(SubsetSpace(100, (2,)), SCREEN).seeds(6, 0, 1).tolist()


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


@pytest.mark.parametrize("batch", [1, 2, 5, 15, 40])
def test_a_screened_search_begins_with_the_whole_core(batch):
    plan = SearchPlan.settle(WIDE, 100)
    proposer = SubsetProposer(WIDE, plan, SCREEN)

    subsets = np.concatenate([proposer.suggest(batch) for _ in range(-(-plan.initial // batch))]).tolist()

    seeds = int(WIDE.seeded * plan.initial)
    assert seeds >= 40
    assert all(subset in subsets for subset in core(0, seeds // 3))


def test_a_screened_search_with_the_same_history_continues_identically():
    (_, proposer, _), (_, replayed, _) = a_screened_search(), a_screened_search()

    assert np.array_equal(replayed.suggest(15), proposer.suggest(15))


def test_a_plan_and_a_screen_belong_together():
    with pytest.raises(SearchError, match="if and only if the plan is screened"):
        SubsetProposer(WIDE, SearchPlan.settle(WIDE, 100))


@pytest.mark.parametrize(
    ("settings", "screened"),
    [
        ({"preset": "paper"}, False),
        ({}, True),
        ({"trees": 1}, True),
        ({"trees": 1139}, True),
        ({"trees": 1140}, False),  # all subsets of 3 of 20 features
        ({"trees": 10**6}, False),
        ({"strategy": "random"}, False),
        ({"subset_size": 1, "trees": 5}, False),
    ],
)
def test_searches_that_leave_subsets_out_are_screened(settings, screened):
    assert SearchPlan.settle(MiningSettings(**settings), 20).screened == screened


def test_rules_do_not_depend_on_the_threads_that_screen():
    columns = factories.make_columns(np.random.default_rng(3), 200, 60, 2)
    settings = WIDE.model_copy(update={"min_samples": 10, "gini": 0.6, "trees": 120})

    assert mine(columns, settings).digest == mine(columns, settings, jobs=3).digest
