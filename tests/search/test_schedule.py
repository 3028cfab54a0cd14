"""When batches are proposed and from which results; proposals depend on nothing else."""

from itertools import accumulate, combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.search.plan import SearchPlan
from maabo_dist.search.proposer import SubsetProposer
from maabo_dist.search.schedule import batch_schedule
from maabo_dist.settings import MiningSettings


def a_plan(trees, initial=10, batch=1, in_flight=1, features=100, size=3, top=None, candidates=None):
    top = features if top is None else top
    return SearchPlan(features, size, comb(features, size), trees, initial, batch, in_flight, top, candidates)


@st.composite
def plans(draw):
    trees = draw(st.integers(1, 400))
    return a_plan(
        trees, draw(st.integers(1, trees)), draw(st.integers(1, 60)), draw(st.integers(1, 12) | st.just(10_000))
    )


def seen_from(schedule):
    """Return (batch, subsets observed, other subsets in flight) at each proposal."""
    ends = [0, *accumulate(batch.size for batch in schedule)]
    return [(batch, ends[batch.needs], ends[batch.number] - ends[batch.needs]) for batch in schedule]


@given(plans(), st.booleans())
def test_sizes_sum_to_the_budget_and_no_batch_is_empty_or_too_large(plan, guided):
    schedule = list(batch_schedule(plan, guided=guided))

    assert sum(batch.size for batch in schedule) == plan.trees
    assert all(1 <= batch.size <= plan.batch for batch in schedule)
    assert [batch.number for batch in schedule] == list(range(len(schedule)))


@given(plans())
def test_never_more_subsets_in_flight_than_observed_or_initial_ones(plan):
    for batch, observed, under_way in seen_from(list(batch_schedule(plan, guided=True))):
        assert under_way + batch.size <= max(plan.initial, observed)


@given(plans(), st.booleans())
def test_never_more_batches_in_flight_than_allowed(plan, guided):
    for batch in batch_schedule(plan, guided=guided):
        assert 0 <= batch.needs <= batch.number < batch.needs + plan.in_flight


@given(plans(), st.booleans())
def test_the_results_that_batches_need_only_grow(plan, guided):
    needs = [batch.needs for batch in batch_schedule(plan, guided=guided)]

    assert needs == sorted(needs)


@given(plans())
def test_the_first_guided_batch_waits_for_all_random_ones(plan):
    for batch, observed, under_way in seen_from(list(batch_schedule(plan, guided=True))):
        if observed + under_way >= plan.initial:
            assert observed >= plan.initial
        else:
            assert observed + under_way + batch.size <= plan.initial  # and no batch is half random, half guided


@given(plans())
def test_no_batch_waits_for_more_than_it_has_to(plan):
    schedule = list(batch_schedule(plan, guided=True))
    ends = [0, *accumulate(batch.size for batch in schedule)]
    for batch, observed, under_way in seen_from(schedule):
        proposed = observed + under_way
        expected_size = min(plan.batch, plan.initial - proposed if proposed < plan.initial else plan.trees - proposed)
        if batch.needs > (schedule[batch.number - 1].needs if batch.number else 0):
            before = ends[batch.needs - 1]
            assert (
                batch.number - (batch.needs - 1) >= plan.in_flight
                or before < plan.initial <= proposed
                or proposed - before + expected_size > max(plan.initial, before)
            )


@given(st.integers(1, 200), st.data())
def test_batches_of_one_with_one_in_flight_alternate_strictly(trees, data):
    plan = a_plan(trees, data.draw(st.integers(1, trees)))

    assert all((batch.size, batch.needs) == (1, batch.number) for batch in batch_schedule(plan, guided=True))


def test_a_search_without_guidance_needs_no_ramp():
    schedule = list(batch_schedule(a_plan(100, initial=10, batch=20, in_flight=3), guided=False))

    assert [(batch.size, batch.needs) for batch in schedule] == [(20, 0), (20, 0), (20, 0), (20, 1), (20, 2)]


def test_the_ramp_doubles_from_the_initial_ones():
    schedule = list(batch_schedule(a_plan(200, initial=10, batch=64, in_flight=1), guided=True))

    assert [batch.size for batch in schedule] == [10, 10, 20, 40, 64, 56]


def proposals_of(plan, mining, scores, arrange):
    """Return all batches of a search; `arrange` orders and divides the results that are due between two proposals."""
    proposer, batches, observed = SubsetProposer(mining, plan), [], 0
    for batch in batch_schedule(plan, guided=True):
        due = [subset for proposed in batches[observed : batch.needs] for subset in proposed.tolist()]
        for piece in arrange(due):
            values = [scores[tuple(subset)] for subset in piece]
            proposer.observe(np.array(piece, np.int32), np.array(values))
        observed = batch.needs
        batches.append(proposer.suggest(batch.size))
    return [batch.tolist() for batch in batches]


def score_table(seed, features, size, failing=0.05):
    """Return {subset: score} with many ties; some fail."""
    rng = np.random.default_rng(seed)
    return {
        subset: float("nan") if rng.random() < failing else rng.integers(0, 8) / 8
        for subset in combinations(range(features), size)
    }


@settings(max_examples=40)
@given(st.integers(0, 1000), st.data())
@pytest.mark.parametrize(("top", "candidates"), [(9, None), (3, 12)])
def test_any_order_of_arrival_gives_the_same_proposals(top, candidates, seed, data):
    """Results due by the next proposal may arrive in any order and in any pieces."""
    plan = a_plan(
        60,
        initial=data.draw(st.integers(1, 12)),
        batch=data.draw(st.integers(1, 9)),
        in_flight=data.draw(st.integers(1, 5)),
        features=9,
        top=top,
        candidates=candidates,
    )
    mining, scores = MiningSettings(seed=seed), score_table(seed, 9, 3)

    def in_any_order(due):
        shuffled = data.draw(st.permutations(due)) if due else []
        cuts = sorted(data.draw(st.lists(st.integers(0, len(due)), max_size=4)))
        return [
            part for start, stop in zip([0, *cuts], [*cuts, len(due)], strict=True) if (part := shuffled[start:stop])
        ]

    expected = proposals_of(plan, mining, scores, lambda due: [due] if due else [])

    assert proposals_of(plan, mining, scores, in_any_order) == expected
