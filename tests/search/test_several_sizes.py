"""Subsets of several sizes in one search, compared with a single size and with Algorithm 1 line by line."""

from collections import Counter
from itertools import combinations
from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist._util import draws
from maabo_dist._util.subset_rows import is_well_formed, members, sizes_of, widen
from maabo_dist.screens.screen import Screen
from maabo_dist.search import maa, tally
from maabo_dist.search.candidates import CandidateSampler, even_shares
from maabo_dist.search.hints import HintSampler
from maabo_dist.search.plan import SearchPlan
from maabo_dist.search.proposer import SubsetProposer
from maabo_dist.search.space import ProposedSubsets, SubsetSpace
from maabo_dist.settings import MiningSettings
from tests.reference import maabo


def rows_of(subsets, width):
    return np.array([(*subset, *[subset[-1]] * (width - len(subset))) for subset in subsets], np.int32).reshape(
        -1, width
    )


def named(rows):
    return [members(row) for row in rows]


def omega(features, sizes):
    return [subset for size in sizes for subset in combinations(range(features), size)]


size_ranges = st.integers(1, 4).flatmap(
    lambda smallest: st.integers(smallest, 5).map(lambda largest: tuple(range(smallest, largest + 1)))
)


# Rows.


@given(st.lists(st.sets(st.integers(0, 99), min_size=1, max_size=6).map(sorted).map(tuple), max_size=20))
def test_a_row_lists_the_features_of_a_subset(subsets):
    rows = rows_of(subsets, 6)

    assert named(rows) == subsets
    assert sizes_of(rows).tolist() == [len(subset) for subset in subsets]
    assert is_well_formed(rows)
    for subset, row in zip(subsets, rows, strict=True):
        assert widen(np.array([subset], np.int32), 6).tolist() == [row.tolist()]


@pytest.mark.parametrize("row", [(1, 0, 0), (0, 0, 1), (2, 3, 1)])
def test_rows_that_decrease_or_repeat_a_feature_before_the_last_are_not_well_formed(row):
    assert not is_well_formed(np.array([row, (0, 1, 2)]))


# The space, and what is drawn from it.


@given(st.integers(5, 8), size_ranges, st.integers(0, 300), st.integers(0, 90))
def test_the_space_is_ordered_by_size(features, sizes, start, length):
    space = SubsetSpace(features, tuple(size for size in sizes if size <= features))
    everything = omega(features, space.sizes)

    assert space.count == len(everything)
    assert named(space.block(start, length)) == everything[start : start + length]


@given(st.integers(0, 60), st.lists(st.integers(0, 30), min_size=1, max_size=5), st.randoms())
def test_shares_are_as_even_as_they_can_be(count, left, random):
    left = dict(enumerate(left, start=1))
    order = random.sample(list(left), len(left))

    assert even_shares(count, left, order) == maabo.even_shares(count, left, order)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.data())
def test_samples_are_those_of_the_reference_size_by_size(seed, data):
    features = data.draw(st.integers(3, 8))
    sizes = tuple(size for size in data.draw(size_ranges) if size < features) or (1,)
    order = data.draw(st.permutations(range(features)))
    top = data.draw(st.integers(1, features))
    everything = omega(features, sizes)
    taken = data.draw(st.lists(st.sampled_from(everything), unique=True, max_size=30))
    count = data.draw(st.none() | st.integers(1, 50))
    proposed = ProposedSubsets(sizes)
    proposed.add(rows_of(taken, sizes[-1]))
    stream = draws.stream(seed, 0, 0)

    sampler = CandidateSampler(SubsetSpace(features, sizes), top)
    blocks = [named(block) for block in sampler.blocks(count, np.array(order, np.int32), proposed, stream)]

    unverified, verified = {*everything} - {*taken}, [(f, 0) for f in taken]
    assert blocks == maabo.draw_by_size(count, order, top, unverified, sizes, verified, stream)


def test_every_size_is_drawn_as_often_as_any_other():
    proposer = a_proposer(100, (2, 3, 4), strategy="random", seed=1)

    batch = named(proposer.suggest(200))
    singles = [len(members(proposer.suggest(1)[0])) for _ in range(10)]

    assert sorted(Counter(map(len, batch)).values()) == [66, 67, 67]
    assert {size: Counter(singles)[size] for size in (2, 3, 4)} in ({2: 3, 3: 3, 4: 4}, {2: 3, 3: 4, 4: 3})


# The acquisition.


def observed_and_candidates(rng, features, sizes, count=90):
    drawn = {tuple(sorted(rng.choice(features, int(rng.choice(sizes)), replace=False).tolist())) for _ in range(count)}
    rows = rows_of(sorted(drawn), max(sizes))[rng.permutation(len(drawn))]
    return rows[: len(rows) * 2 // 3], rows[len(rows) * 2 // 3 :]


def reference_overlaps(candidates, observed):
    width = candidates.shape[1]
    counts = np.zeros((len(candidates), width + 1), np.int64)
    for index, f in enumerate(named(candidates)):
        for u in named(observed):
            counts[index, width - maabo.mismatches(f, u)] += 1
    return counts


@pytest.mark.parametrize("sizes", [(1, 2), (2, 3, 4), (1, 2, 3, 4, 5), (4, 5, 6, 7)])
@pytest.mark.parametrize("features", [9, 200])
def test_counted_and_direct_overlaps_equal_the_definition(sizes, features):
    rng = np.random.default_rng([features, *sizes])
    observed, candidates = observed_and_candidates(rng, features, sizes)
    side = rng.integers(0, 3, len(observed))  # 0 came and went, 1 high, 2 low
    counted = tally.ContainmentTally(features, sizes)

    counted.update(observed, np.full(len(observed), tally.ENTERS_LOW, np.int8))
    counted.update(observed[side < 2], np.full((side < 2).sum(), tally.LEAVES_LOW, np.int8))
    counted.update(observed[side == 1], np.full((side == 1).sum(), tally.ENTERS_HIGH, np.int8))

    for overlaps, which in zip(counted.overlaps(candidates), (1, 2), strict=True):
        expected = reference_overlaps(candidates, observed[side == which])
        np.testing.assert_array_equal(overlaps, expected)
        np.testing.assert_array_equal(
            tally.direct_overlaps(candidates, observed[side == which], features, sizes), expected
        )
    frequencies = Counter(feature for subset in named(observed[side == 1]) for feature in subset)
    assert counted.high_frequencies.tolist() == [frequencies[feature] for feature in range(features)]


@pytest.mark.parametrize(("h", "b"), [(0.5, 0.5), (0.9, 0.05), (0.1, 0.95)])
def test_the_acquisition_is_the_exact_ratio_of_damped_mismatches(h, b):
    rng = np.random.default_rng(5)
    sizes = (2, 3, 4)
    observed, candidates = observed_and_candidates(rng, 10, sizes)
    high, low = observed[:12], observed[12:]

    overlaps = [tally.direct_overlaps(candidates, side, 10, sizes) for side in (high, low)]
    acquisition = maa.acquisition(*overlaps, maa.mismatch_values(10, 4, h, b))

    for f, value in zip(named(candidates), acquisition.tolist(), strict=True):
        assert value == pytest.approx(float(maabo.exact_acquisition(f, named(high), named(low), 10, h, b, 4)), rel=1e-9)


def test_a_feature_more_or_less_counts_as_one_mismatch():
    assert maabo.mismatches((1, 2), (1, 2, 3)) == maabo.mismatches((1, 2, 4), (1, 2, 3)) == 1
    assert maabo.mismatches((1,), (1, 2, 3)) == 2


# The search.


def a_plan(features, sizes, *, initial=5, top=None, candidates=None):
    space = SubsetSpace(features, sizes).count
    top = features if top is None else top
    return SearchPlan(
        features, sizes[-1], space, space, initial, 1, 1, top, candidates, smaller_sizes=tuple(sizes[:-1])
    )


def a_proposer(features, sizes, *, initial=5, top=None, candidates=None, **mining):
    plan = a_plan(features, sizes, initial=initial, top=top, candidates=candidates)
    return SubsetProposer(MiningSettings(**mining), plan)


def score_table(rng, features, sizes, levels=4, failing=0.0):
    return {f: nan if rng.random() < failing else rng.integers(0, levels) / levels for f in omega(features, sizes)}


def tell(proposer, rows, scores):
    proposer.observe(rows, np.array([scores[members(row)] for row in rows]))


def searched(proposer, scores, steps):
    subsets_found = []
    while len(subsets_found) < steps and len(rows := proposer.suggest(1)):
        tell(proposer, rows, scores)
        subsets_found += named(rows)
    return subsets_found


def reference_search(scores, features, sizes, steps, *, initial=5, top=None, candidates=None, **mining):
    mining = MiningSettings(**mining)
    return maabo.search(
        lambda f: None if isnan(scores[f]) else scores[f],
        features=features,
        size=sizes,
        initial=initial,
        alpha=mining.alpha,
        iterations=steps - initial,
        h=mining.h,
        b=mining.b,
        top=features if top is None else top,
        candidates=candidates,
        seed=mining.seed,
    )


@pytest.mark.parametrize("candidates", [None, 2, 17])
@pytest.mark.parametrize("restricted", [False, True])
@pytest.mark.parametrize(("features", "sizes"), [(8, (1, 2)), (7, (2, 3, 4)), (6, (1, 2, 3)), (7, (3, 4, 5, 6))])
def test_batches_of_one_are_algorithm_1_line_by_line(features, sizes, restricted, candidates):
    rng = np.random.default_rng([features, *sizes, restricted, candidates or 0])
    for failing in (0.0, 0.2):
        options = {
            "top": int(rng.integers(1, features)) if restricted else None,
            "candidates": candidates,
            "initial": int(rng.integers(1, 12)),
            "alpha": float(rng.uniform(0.05, 0.6)),
            "b": float(rng.choice([0.5, rng.uniform(0.01, 0.99)])),
            "seed": int(rng.integers(0, 2**32)),
        }
        scores = score_table(rng, features, sizes, failing=failing)

        subsets_found = searched(a_proposer(features, sizes, **options), scores, 26)

        assert subsets_found == reference_search(scores, features, sizes, 26, **options)


@pytest.mark.parametrize("seed", range(3))
def test_searches_to_the_last_subset_are_algorithm_1_line_by_line(seed):
    scores = score_table(np.random.default_rng(seed), 5, (1, 2, 3))
    options = {"top": [None, 1, 3][seed], "candidates": [None, 4, 9][seed], "seed": seed}

    subsets_found = searched(a_proposer(5, (1, 2, 3), **options), scores, 99)

    assert subsets_found == reference_search(scores, 5, (1, 2, 3), 99, **options)
    assert sorted(subsets_found) == sorted(omega(5, (1, 2, 3)))


def test_containment_counts_and_direct_comparison_propose_the_same(monkeypatch):
    scores = score_table(np.random.default_rng(2), 9, (2, 3, 4), failing=0.1)
    runs = []
    for largest in (tally.MAX_COUNTED_SIZE, 0):
        monkeypatch.setattr(tally, "MAX_COUNTED_SIZE", largest)
        proposer = a_proposer(9, (2, 3, 4), top=3, candidates=20, seed=9)
        waiting, subsets_found = [proposer.suggest(5)], []
        for _ in range(15):
            waiting.append(proposer.suggest(4))
            tell(proposer, waiting.pop(0), scores)
            subsets_found.append(waiting[-1].tolist())
        runs.append(subsets_found)

    assert runs[0] == runs[1]


@pytest.mark.parametrize("strategy", ["maabo", "random", "exhaustive"])
@pytest.mark.parametrize(("top", "candidates"), [(None, None), (2, 9)])
def test_every_subset_is_suggested_once_and_then_nothing(strategy, top, candidates):
    proposer = a_proposer(6, (1, 2, 3), top=top, candidates=candidates, strategy=strategy, seed=1)
    scores = score_table(np.random.default_rng(1), 6, (1, 2, 3), failing=0.1)
    subsets_found = []
    while len(rows := proposer.suggest(4)):
        tell(proposer, rows, scores)
        subsets_found += named(rows)

    assert sorted(subsets_found) == sorted(omega(6, (1, 2, 3)))
    assert strategy != "exhaustive" or subsets_found == omega(6, (1, 2, 3))
    assert proposer.suggest(4).shape == (0, 3)


def test_a_proposer_with_the_same_history_continues_identically():
    scores = score_table(np.random.default_rng(3), 8, (2, 3, 4))
    plan = a_plan(8, (2, 3, 4), top=3, candidates=12)
    proposer, replayed = (SubsetProposer(MiningSettings(seed=3), plan) for _ in range(2))
    for each in (proposer, replayed):
        for _ in range(6):
            tell(each, each.suggest(4), scores)
        pending = each.suggest(4)

    for _ in range(4):
        for each in (proposer, replayed):
            tell(each, pending, scores)
        pending, again = proposer.suggest(4), replayed.suggest(4)
        assert pending.tolist() == again.tolist()


# Hints.

SCREEN = Screen(np.arange(99, -1, -1, dtype=np.int32), np.array([[3, 7], [20, 40]], np.int32))


@pytest.mark.parametrize("sizes", [(1, 2, 3), (2, 3, 4)])
def test_hints_have_every_size_and_are_well_formed(sizes):
    hints = HintSampler(SubsetSpace(100, sizes), SCREEN)
    high = rows_of([(5, 6), (1, 2, 3), (50, 60, 70)], sizes[-1])

    seeds, completions, near = hints.seeds(90, 0, 1), hints.completions(90, 2), hints.neighbours(high, 120, 3)

    for rows in (seeds, completions, near):
        assert rows.shape[1] == sizes[-1]
        assert is_well_formed(rows)
        assert len(rows) >= 60
    assert {*sizes_of(seeds).tolist()} == {*sizes_of(near).tolist()} == {*sizes}
    assert {*sizes_of(completions).tolist()} == {*sizes} - {1}
    assert all({3, 7} <= {*f} or {20, 40} <= {*f} for f in named(completions))
    assert {min(maabo.mismatches(f, u) for u in named(high)) for f in named(near)} <= {0, 1}


@pytest.mark.parametrize(("first", "rank"), [(0, 0), (8, 0), (9, 1), (27, 3)])
def test_seeds_of_the_sizes_alternate_and_continue_after_the_previous_ones(first, rank):
    seeds = named(HintSampler(SubsetSpace(100, (2, 3, 4)), SCREEN).seeds(90, first, 1))

    assert [len(f) for f in seeds[:30]] == [2, 3, 4] * 10
    for size, f in zip((2, 3, 4), seeds, strict=False):
        together = sorted(combinations(range(9), size), key=lambda indices: indices[::-1])
        assert sorted(99 - feature for feature in f) == list(together[rank])


def test_without_high_subsets_there_are_no_neighbours():
    hints = HintSampler(SubsetSpace(100, (2, 3)), SCREEN)

    assert hints.neighbours(np.empty((0, 3), np.int32), 10, 1).shape == (0, 3)


def test_a_screened_search_of_several_sizes_repeats_nothing_and_is_the_same_every_time():
    mining = MiningSettings(preset="auto", trees=300, subset_size="1-4")
    plan = SearchPlan.settle(mining, 100)
    runs = []
    for _ in range(2):
        proposer = SubsetProposer(mining, plan, SCREEN)
        for _ in range(12):
            rows = proposer.suggest(15)
            proposer.observe(rows, np.random.default_rng(int(rows.sum())).random(len(rows)))
        runs.append(named(proposer.proposed.rows))

    assert plan.screened
    assert runs[0] == runs[1]
    assert len({*runs[0]}) == 180
    assert {len(f) for f in runs[0]} == {1, 2, 3, 4}
