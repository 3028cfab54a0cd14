"""The proposer, compared with Algorithm 1 line by line with the same draws."""

from itertools import combinations
from math import comb, isnan, nan

import numpy as np
import pytest

from maabo_dist._util.setting_types import MAX_SUBSET_SIZE
from maabo_dist.errors import SearchError
from maabo_dist.search import tally
from maabo_dist.search.maa import mismatch_values
from maabo_dist.search.plan import SearchPlan
from maabo_dist.search.proposer import SubsetProposer
from maabo_dist.settings import MiningSettings
from tests.reference import maabo


def a_plan(features, size, *, initial=5, top=None, candidates=None):
    space = comb(features, size)
    return SearchPlan(features, size, space, space, initial, 1, 1, features if top is None else top, candidates)


def a_proposer(features=7, size=3, *, initial=5, top=None, candidates=None, **settings):
    plan = a_plan(features, size, initial=initial, top=top, candidates=candidates)
    return SubsetProposer(MiningSettings(**settings), plan)


def score_table(rng, features, size, levels=4, failing=0.0):
    """Return {subset: score} with many ties, and NaN for failed evaluations."""
    return {
        subset: nan if rng.random() < failing else rng.integers(0, levels) / levels
        for subset in combinations(range(features), size)
    }


def tell(proposer, subsets, scores):
    proposer.observe(subsets, np.array([scores[tuple(subset)] for subset in subsets.tolist()]))


def searched(proposer, scores, steps):
    """Return the subsets of `steps` strictly alternating steps, fewer if the space is used up."""
    proposed = []
    for _ in range(steps):
        subsets = proposer.suggest(1)
        if not len(subsets):
            break
        tell(proposer, subsets, scores)
        proposed.append(tuple(subsets[0].tolist()))
    return proposed


def reference_search(scores, features, size, steps, *, initial=5, top=None, candidates=None, **settings):
    mining = MiningSettings(**settings)
    return maabo.search(
        lambda f: None if isnan(scores[f]) else scores[f],
        features=features,
        size=size,
        initial=initial,
        alpha=mining.alpha,
        iterations=steps - initial,
        h=mining.h,
        b=mining.b,
        top=features if top is None else top,
        candidates=candidates,
        seed=mining.seed,
    )


def assert_equals_algorithm_1(rng, features, size, steps, failing=0.0, **options):
    scores = score_table(rng, features, size, failing=failing)

    proposed = searched(a_proposer(features, size, **options), scores, steps)

    assert proposed == reference_search(scores, features, size, steps, **options)
    assert len(proposed) == min(steps, len(scores))


@pytest.mark.parametrize("candidates", [None, 4, 17])
@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize(("features", "size"), [(9, 1), (8, 2), (8, 3), (9, 4)])
def test_batches_of_one_are_algorithm_1_line_by_line(features, size, restricted, candidates):
    rng = np.random.default_rng([features, size, restricted, candidates or 0])
    for _ in range(3):
        assert_equals_algorithm_1(
            rng,
            features,
            size,
            steps=26,
            top=int(rng.integers(1, features)) if restricted else None,
            candidates=candidates,
            initial=int(rng.integers(1, 12)),
            alpha=float(rng.choice([0.25, 0.5, rng.uniform(0.01, 0.99)])),
            h=float(rng.choice([0.5, 1.0, rng.uniform(0.01, 0.99)])),
            b=float(rng.choice([0.5, rng.uniform(0.01, 0.99)])),
            seed=int(rng.integers(0, 2**32)),
        )


@pytest.mark.parametrize("seed", range(6))
def test_searches_to_the_last_subset_are_algorithm_1_line_by_line(seed):
    rng = np.random.default_rng(seed)

    assert_equals_algorithm_1(rng, 6, 3, 25, top=[None, 1, 2, 3, 4, 5][seed], seed=seed)
    assert_equals_algorithm_1(rng, 7, 2, 25, top=[None, 1, 2, 3, 4, 5][seed], candidates=6, seed=seed)


@pytest.mark.parametrize("seed", range(4))
def test_searches_with_failures_are_algorithm_1_line_by_line(seed):
    rng = np.random.default_rng(50 + seed)

    assert_equals_algorithm_1(rng, 7, 3, 25, failing=0.4, top=3, candidates=8, seed=seed)


def test_a_search_in_which_everything_fails_continues_at_random():
    assert_equals_algorithm_1(np.random.default_rng(0), 6, 2, 15, failing=1.0, initial=2)


def test_subsets_too_large_to_count_their_parts_are_compared_directly():
    assert not tally.ContainmentTally.fits(13, 11)

    assert_equals_algorithm_1(np.random.default_rng(1), 13, 11, 20, top=4, seed=3)


@pytest.mark.parametrize("candidates", [1, 2, 3])
def test_fewer_candidates_than_the_batch_minimum_are_algorithm_1_line_by_line(candidates):
    for seed in range(10):
        assert_equals_algorithm_1(np.random.default_rng(seed), 8, 3, 26, candidates=candidates, seed=seed)


def test_containment_counts_and_direct_comparison_propose_the_same(monkeypatch):
    rng = np.random.default_rng(2)
    scores = score_table(rng, 9, 4, failing=0.1)
    counted, direct = [], []
    for proposed, largest in ((counted, tally.MAX_COUNTED_SIZE), (direct, 0)):
        monkeypatch.setattr(tally, "MAX_COUNTED_SIZE", largest)
        proposer = a_proposer(9, 4, top=3, candidates=20, seed=9)
        waiting = [proposer.suggest(5)]
        for _ in range(15):
            waiting.append(proposer.suggest(4))
            tell(proposer, waiting.pop(0), scores)
            proposed.append(waiting[-1].tolist())

    assert counted == direct


def test_a_subset_in_flight_counts_as_low():
    for seed in range(20):
        scores = score_table(np.random.default_rng(seed), 8, 3)
        proposer = a_proposer(8, 3, seed=seed)
        verified = [(f, scores[f]) for f in searched(proposer, scores, 9)]
        pending = [tuple(row) for row in proposer.suggest(3).tolist()]

        suggested = tuple(proposer.suggest(1)[0].tolist())

        high, low = maabo.split(verified, 0.25)
        verified = {*high, *low, *pending}
        free = [f for f in combinations(range(8), 3) if f not in verified]
        ties = maabo.numbers(maabo.stream_of(maabo.stream_of(seed, 10, maabo.TIES), 0, 0))
        keys = {f: next(ties) for f in free}
        values = maabo.float_values(8, 3, 0.5, 0.5)
        ranked = sorted(free, key=lambda f: (-maabo.float_acquisition(f, high, low + pending, values), keys[f]))
        assert suggested == ranked[0]


def test_a_batch_is_the_best_candidates_in_order():
    scores = score_table(np.random.default_rng(3), 8, 3)
    whole, single = a_proposer(8, 3, seed=3), a_proposer(8, 3, seed=3)
    verified = [(f, scores[f]) for f in searched(whole, scores, 12)]
    searched(single, scores, 12)

    batch = [tuple(row) for row in whole.suggest(6).tolist()]

    high, low = maabo.split(verified, 0.25)
    values = maabo.float_values(8, 3, 0.5, 0.5)
    acquisition = [maabo.float_acquisition(f, high, low, values) for f in batch]
    others = {*combinations(range(8), 3)} - {*batch, *high, *low}
    assert acquisition == sorted(acquisition, reverse=True)
    assert acquisition[-1] >= max(maabo.float_acquisition(f, high, low, values) for f in others)
    assert batch[0] == tuple(single.suggest(1)[0].tolist())


@pytest.mark.parametrize("strategy", ["maabo", "random", "exhaustive"])
@pytest.mark.parametrize(("top", "candidates"), [(None, None), (2, 9)])
@pytest.mark.parametrize("count", [1, 4])
def test_every_subset_is_suggested_once_and_then_nothing(strategy, top, candidates, count):
    proposer = a_proposer(7, 3, top=top, candidates=candidates, strategy=strategy, seed=1)
    scores = score_table(np.random.default_rng(1), 7, 3, failing=0.1)
    proposed = []
    while len(subsets := proposer.suggest(count)):
        tell(proposer, subsets, scores)
        proposed += map(tuple, subsets.tolist())

    assert len(proposed) == 35
    assert {*proposed} == {*combinations(range(7), 3)}
    assert proposer.suggest(count).shape == (0, 3)


def test_exhaustive_search_proposes_the_space_in_order():
    proposer = a_proposer(6, 2, strategy="exhaustive")

    proposed = [tuple(row) for _ in range(4) for row in proposer.suggest(4).tolist()]

    assert proposed == list(combinations(range(6), 2))


def test_a_single_tree_takes_all_features_once():
    mining = MiningSettings(strategy="single")
    proposer = SubsetProposer(mining, SearchPlan.settle(mining, 4))

    assert proposer.suggest(1).tolist() == [[0, 1, 2, 3]]
    assert proposer.suggest(1).tolist() == []


def test_a_random_search_does_not_listen_to_scores():
    one, other = a_proposer(strategy="random", seed=4), a_proposer(strategy="random", seed=4)
    rng = np.random.default_rng(4)

    first = searched(one, score_table(rng, 7, 3), 20)

    assert first == searched(other, score_table(rng, 7, 3), 20)


def test_the_seed_decides_and_each_seed_differently():
    scores = score_table(np.random.default_rng(5), 7, 3)

    runs = [searched(a_proposer(seed=seed), scores, 20) for seed in (0, 1, 2, 2**32 - 1, 0)]

    assert runs[0] == runs[-1]
    assert len({tuple(run) for run in runs}) == 4


def test_batches_are_full_while_the_space_has_enough_subsets():
    """The restricted space may hold fewer; the rest then comes from the whole one."""
    proposer = a_proposer(8, 2, initial=4, top=1, seed=0)
    scores = score_table(np.random.default_rng(0), 8, 2)
    sizes = []
    for _ in range(7):
        subsets = proposer.suggest(4)
        tell(proposer, subsets, scores)
        sizes.append(len(subsets))

    assert sizes == [4] * 7


@pytest.mark.parametrize(
    "options", [{}, {"top": 3, "candidates": 8}, {"strategy": "random"}, {"strategy": "exhaustive"}]
)
def test_the_order_of_the_scores_of_a_batch_changes_nothing_at_any_step(options):
    rng = np.random.default_rng(6)
    scores = score_table(rng, 7, 3, failing=0.15)
    mining = MiningSettings(seed=6, **{k: v for k, v in options.items() if k == "strategy"})
    plan = a_plan(7, 3, **{k: v for k, v in options.items() if k != "strategy"})

    def search(reversed_from):
        """Two batches in flight: suggest, then observe the older one; from some step on in reverse order."""
        proposer, waiting, proposed = SubsetProposer(mining, plan), [], []
        for step in range(16):
            waiting.append(proposer.suggest(2))
            proposed.append(waiting[-1].tolist())
            if len(waiting) > 2:
                oldest = waiting.pop(0)
                tell(proposer, oldest[::-1] if step >= reversed_from else oldest, scores)
        return proposed

    expected = search(reversed_from=0)

    for step in range(1, 17):
        assert search(reversed_from=step) == expected


def test_a_subset_is_pending_until_its_score_or_failure_is_observed():
    proposer = a_proposer()
    first = proposer.suggest(3)
    proposer.observe(first[:1], np.array([0.5]))
    proposer.observe(first[1:2], np.array([nan]))

    assert proposer.proposed.rows.tolist() == first.tolist()
    assert (proposer.proposed.pending, proposer.observed, len(proposer.guide)) == ({2}, 2, 1)

    proposer.observe(first[2:], np.array([0.75]))

    assert (proposer.proposed.pending, proposer.observed, len(proposer.guide)) == (set(), 3, 2)


def test_proposers_agree_if_results_arrive_in_other_pieces():
    scores = score_table(np.random.default_rng(7), 8, 3, failing=0.1)
    together, apart = a_proposer(8, 3, seed=7), a_proposer(8, 3, seed=7)
    for _ in range(8):
        batch = together.suggest(5)
        assert apart.suggest(5).tolist() == batch.tolist()

        tell(together, batch, scores)
        for subset in batch[::-1]:
            tell(apart, subset[None], scores)


def test_a_failed_subset_is_neither_high_nor_low_and_is_not_proposed_again():
    for seed in range(10):
        scores = score_table(np.random.default_rng(seed), 6, 2, failing=0.5)
        proposer = a_proposer(6, 2, initial=6, seed=seed)
        proposed = searched(proposer, scores, 6)
        high, low = maabo.split([(f, None if isnan(scores[f]) else scores[f]) for f in proposed], 0.25)

        assert sorted(map(tuple, proposer.guide.high(proposer.proposed).tolist())) == sorted(high)
        assert len(proposer.guide) == len(high) + len(low)
        assert proposer.observed == 6
        assert not {*proposed} & {*searched(proposer, scores, 20)}


def observed_before(proposer):
    subsets = proposer.suggest(2)
    proposer.observe(subsets, np.array([0.1, 0.2]))
    return subsets


@pytest.mark.parametrize(
    "wrong",
    [
        lambda proposer: (np.array([[4, 5, 6]], np.int32), [0.5]),
        lambda proposer: (observed_before(proposer), [0.5, 0.5]),
        lambda proposer: (proposer.suggest(1)[[0, 0]], [0.5, 0.5]),
    ],
    ids=["never suggested", "observed already", "twice at once"],
)
def test_observing_subsets_that_are_not_pending_is_refused(wrong):
    proposer = a_proposer(strategy="exhaustive")
    subsets, scores = wrong(proposer)

    with pytest.raises(SearchError, match="not pending"):
        proposer.observe(subsets, np.array(scores))


def test_a_refused_observation_changes_nothing():
    proposer, other = a_proposer(seed=8), a_proposer(seed=8)
    batch = proposer.suggest(5)
    other.suggest(5)
    with pytest.raises(SearchError):
        proposer.observe(batch[[0, 1, 1]], np.array([0.9, 0.1, 0.1]))

    for each in (proposer, other):
        each.observe(batch, np.linspace(0, 1, 5))

    assert proposer.suggest(3).tolist() == other.suggest(3).tolist()


def test_the_smallest_damping_does_not_vanish_at_the_largest_subset_size():
    """A candidate that shares nothing with any subset tried has a density of b to the 63rd, which must not be 0."""
    values = mismatch_values(20_000, MAX_SUBSET_SIZE, h=0.5, b=0.001)

    assert (values > 0).all()
