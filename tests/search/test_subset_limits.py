"""--always and --one-of: the space, its draws, its hints and whole searches, against all combinations."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from maabo_dist._util.subset_rows import members
from maabo_dist.errors import SearchError, SettingsError
from maabo_dist.screens.screen import Screen
from maabo_dist.search.candidates import CandidateSampler
from maabo_dist.search.hints import HintSampler
from maabo_dist.search.limited import MAX_RANK, Completions, LimitedSpace, draw_subsets
from maabo_dist.search.limits import NO_LIMITS, SubsetLimits
from maabo_dist.search.plan import MAX_ENUMERATION, SearchPlan
from maabo_dist.search.proposer import SubsetProposer
from maabo_dist.search.space import ProposedSubsets, SubsetSpace
from maabo_dist.settings import MiningSettings
from tests.reference import limits as reference

# Columns a … f; two of them have several features.
COLUMNS = ("a", "b", "b", "b", "c", "d", "d", "e", "f")


@st.composite
def limited(draw, most=9):
    """Draw a number of features, and limits on columns of one to three of them."""
    order = draw(st.permutations(range(draw(st.integers(3, most)))))
    cuts = sorted(draw(st.sets(st.integers(1, len(order) - 1))) | {0, len(order)})
    columns = [tuple(sorted(order[start:stop])) for start, stop in pairwise(cuts)]
    kinds = [draw(st.sampled_from(["free", "required", "first group", "second group", "both"])) for _ in columns]
    groups = [[c for c, kind in zip(columns, kinds, strict=True) if kind == name] for name in kinds if "group" in name]
    groups = [groups[0], *[group for group in groups[1:] if group != groups[0]][:1]] if groups else []
    required = [column for column, kind in zip(columns, kinds, strict=True) if kind == "required"]
    both = [column for column, kind in zip(columns, kinds, strict=True) if kind == "both"][:1]
    if both and groups:  # a required column in a group
        groups[0] = [*groups[0], *both]
    return len(order), SubsetLimits(tuple(required + both), tuple(tuple(group) for group in groups if len(group) > 1))


def rows(subsets):
    return sorted(map(tuple, subsets.tolist()))


@given(limited(), st.integers(1, 5))
def test_the_space_has_every_subset_that_meets_the_limits_once(table, size):
    features, limits = table
    assume(size < features)
    expected = reference.subsets(features, size, limits.required, limits.exclusive)

    space = LimitedSpace(features, size, limits)

    assert limits.count(features, size) == space.count == len(expected)
    assert rows(space.block(0, len(expected) + 3)) == expected
    everything = space.block(0, len(expected))
    middle = len(expected) // 2
    assert np.array_equal(np.concatenate([space.block(0, middle), space.block(middle, 10**6)]), everything)


@given(limited(), st.integers(1, 4), st.data())
def test_restricted_subsets_have_a_top_feature(table, size, data):
    features, limits = table
    assume(size < features)
    top = data.draw(st.sets(st.integers(0, features - 1), min_size=1, max_size=features - 1))
    expected = [
        subset for subset in reference.subsets(features, size, limits.required, limits.exclusive) if top & set(subset)
    ]

    completions = Completions.count_all(LimitedSpace(features, size, limits), np.array(sorted(top), np.int32))

    assert completions.count == len(expected)
    assert rows(completions.block(0, len(expected))) == expected
    if expected:
        assert set(map(tuple, draw_subsets(completions, 5, 60).tolist())) <= set(expected)


@pytest.mark.parametrize("top", [None, [4, 5], [1]])
def test_all_subsets_are_drawn_equally_often(top):
    limits = SubsetLimits(((1, 2),), (((0,), (3, 4)), ((5,), (6,), (7,))))
    space = LimitedSpace(9, 3, limits)
    completions = Completions.count_all(space, None if top is None else np.array(top, np.int32))
    expected = reference.subsets(9, 3, limits.required, limits.exclusive)
    expected = [subset for subset in expected if top is None or set(top) & set(subset)]

    counts = Counter(map(tuple, draw_subsets(completions, 7, 400 * len(expected)).tolist()))

    assert sorted(counts) == expected
    assert all(300 < count < 500 for count in counts.values())  # five standard deviations of 20


@pytest.mark.parametrize("count", [1, 3, 50, None])
@pytest.mark.parametrize("top", [2, 9])
def test_candidates_are_new_and_meet_the_limits(count, top):
    limits = SubsetLimits(((3,),), (((0,), (1, 2)),))
    proposed = ProposedSubsets((2, 3))
    space = SubsetSpace(9, (2, 3), limits)
    proposed.add(space.block(2, 4))
    order = np.array([5, 6, 0, 1, 2, 4, 7, 8, 3], np.int32)

    candidates = np.concatenate([*CandidateSampler(space, top).blocks(count, order, proposed, stream=3)])

    found = [members(row) for row in candidates]
    expected = [
        subset
        for size in (2, 3)
        for subset in reference.subsets(9, size, limits.required, limits.exclusive)
        if (top == 9 or {5, 6} & set(subset)) and subset not in set(map(members, proposed.rows))
    ]
    assert len(set(found)) == len(found) == (len(expected) if count is None else min(count, len(expected)))
    assert set(found) <= set(expected)


@given(limited(), st.sets(st.integers(1, 4), min_size=1), st.integers(0, 99))
def test_hints_meet_the_limits(table, sizes, stream):
    features, limits = table
    sizes = [size for size in sorted(sizes) if size < features and limits.count(features, size)]
    assume(sizes)
    space = SubsetSpace(features, tuple(sizes), limits)
    rng = np.random.default_rng(stream)
    pairs = np.sort(np.array([rng.permutation(features)[:2] for _ in range(4)], np.int32), axis=1)
    sampler = HintSampler(space, Screen(rng.permutation(features).astype(np.int32), pairs))

    hints = [sampler.seeds(30, 0, stream), sampler.neighbours(space.block(0, 20), 30, stream)]
    hints += [sampler.completions(30, stream)] if sizes[-1] > 1 else []

    valid = {s for size in sizes for s in reference.subsets(features, size, limits.required, limits.exclusive)}
    assert {members(row) for row in np.concatenate(hints)} <= valid


def test_hints_explore_what_is_not_required():
    limits = SubsetLimits(((7,),), (((0,), (1,)),))
    screen = Screen(np.arange(20, dtype=np.int32), np.array([[7, 12], [3, 4]], np.int32))
    sampler = HintSampler(SubsetSpace(20, (3,), limits), screen)

    seeds = sampler.seeds(60, 0, 1).tolist()

    assert seeds[0] == [0, 2, 7]  # 0 and 1 exclude each other, and 7 needs no place among the promising features
    assert any({7, 12} <= set(subset) for subset in seeds)
    assert any({3, 4, 7} == set(subset) for subset in seeds)
    assert len(sampler.neighbours(np.array([[2, 5, 7]], np.int32), 50, 1)) > 20


def test_a_huge_space_is_counted_and_its_first_subsets_are_listed():
    limits = SubsetLimits(((0, 1),), (((2,), (3,)),))
    space = LimitedSpace(20_000, 8, limits)

    assert space.count == limits.count(20_000, 8) > MAX_RANK
    block = space.block(10**12, 1000)
    assert len(np.unique(block, axis=0)) == 1000
    assert all(reference.meets(subset, limits.required, limits.exclusive) for subset in block.tolist())
    assert len(draw_subsets(space.completions, 1, 100)) == 100
    with pytest.raises(SearchError, match="too large"):
        space.block(MAX_RANK, 1)


def settle(columns=COLUMNS, **settings):
    chosen = MiningSettings.parse(settings)
    return chosen, SearchPlan.settle(chosen, len(columns), columns)


LIMITED = [
    {"always": ("b",)},
    {"always": ("a", "c")},
    {"one_of": (("a", "c", "e"),)},
    {"always": ("d",), "one_of": (("a", "b"), ("d", "f"))},
    {"always": ("b",), "one_of": (("c", "e"),), "subset_size": "1-4"},
]


@pytest.mark.parametrize("limits", LIMITED)
@pytest.mark.parametrize("strategy", ["maabo", "random", "exhaustive"])
@pytest.mark.parametrize("batch", [1, 7])
def test_a_search_of_the_whole_space_proposes_exactly_what_meets_the_limits(limits, strategy, batch):
    settings, plan = settle(**limits, strategy=strategy, trees="100%")
    proposer = SubsetProposer(settings, plan)
    while len(subsets := proposer.suggest(batch)):
        proposer.observe(subsets, np.random.default_rng(subsets.sum()).random(len(subsets)))

    found = [members(row) for row in proposer.proposed.rows]
    resolved = SubsetLimits.resolve(settings, COLUMNS)
    expected = [
        subset
        for size in settings.subset_sizes
        for subset in reference.subsets(len(COLUMNS), size, resolved.required, resolved.exclusive)
    ]
    assert sorted(found) == sorted(expected)
    assert plan.space_size == plan.trees == len(expected)


@pytest.mark.parametrize("limits", LIMITED)
@pytest.mark.parametrize("options", [{}, {"candidates": 15, "top_features": 2}, {"preset": "paper", "candidates": 9}])
def test_a_search_of_a_part_of_the_space_meets_the_limits(limits, options):
    columns = (*COLUMNS, *(f"x{number}" for number in range(25)))
    settings, plan = settle(columns, **limits, **options, trees=30)
    rng = np.random.default_rng(1)
    screen = Screen(rng.permutation(len(columns)).astype(np.int32), np.array([[0, 4], [2, 9], [1, 7]], np.int32))
    proposer = SubsetProposer(settings, plan, screen if plan.screened else None)
    for _ in range(6):
        subsets = proposer.suggest(5)
        proposer.observe(subsets, rng.random(len(subsets)))

    found = [members(row) for row in proposer.proposed.rows]
    limited_to = SubsetLimits.resolve(settings, columns)
    assert len(set(found)) == len(found) == 30
    assert all(reference.meets(subset, limited_to.required, limited_to.exclusive) for subset in found)


def test_sizes_that_cannot_meet_the_limits_are_left_out():
    _, plan = settle(always=("a", "c"), subset_size="1-3")

    assert plan.sizes == (2, 3)
    assert plan.space_size == 1 + 7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"always": ("a", "b", "c", "e")},
            "--always names 4 columns, .* have 3 features. Give --subset-size 4 or more",
        ),
        ({"one_of": (("a",),)}, "--one-of 'a' needs at least two columns"),
        ({"one_of": (("a", "b"), ("b", "c"))}, "--one-of has 'b' in two groups. Name each column in one group"),
        ({"one_of": (("a", "b"),), "always": ("a", "b")}, "allows one of these columns, but --always names a and b"),
        ({"one_of": ("a", "b")}, "each group of columns is a list of its own"),
        ({"always": ("a",), "strategy": "single"}, "--strategy single uses all features"),
        ({"always": ("g",)}, "--always 'g': the table has no such column, or it was left out. The columns are 'a', "),
        ({"one_of": (("a", "ff"),)}, "--one-of 'ff': the table has no such column, .* Did you mean 'f'?"),
    ],
)
def test_limits_that_cannot_be_met_are_rejected(settings, message):
    with pytest.raises(SettingsError, match=message):
        settle(**settings)


def test_an_empty_space_is_rejected_with_a_size_that_works():
    with pytest.raises(SettingsError, match=r"No subset of 3 .* Give --subset-size 2, or name fewer columns\.$"):
        settle(("a", "b", "c", "d"), one_of=(("a", "b", "c"),))


def test_an_exhaustive_search_of_a_limited_space_covers_it_or_is_refused():
    columns = tuple(f"x{number}" for number in range(3000))

    _, plan = settle(columns, strategy="exhaustive", always=("x1",))
    assert plan.trees == plan.space_size == 2999 * 2998 // 2
    with pytest.raises(SettingsError, match="Give --trees, or use --strategy maabo"):
        settle(columns, strategy="exhaustive", one_of=(("x1", "x2"),))
    assert plan.trees < MAX_ENUMERATION


def test_without_limits_nothing_changes():
    assert not NO_LIMITS
    assert not SubsetLimits.resolve(MiningSettings(), COLUMNS)
    assert NO_LIMITS.count(9, 3) == 84
