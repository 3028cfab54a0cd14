"""High and low subsets, compared with sorting the whole history at every step."""

from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.search.guide import SearchHistory

tied_scores = st.lists(st.integers(0, 4).map(lambda n: n / 4), min_size=1, max_size=60)
alphas = st.sampled_from([1e-9, 0.1, 0.25, 0.5, 0.75, 0.999999]) | st.floats(0, 1, exclude_min=True, exclude_max=True)


def sorted_split(scores, alpha):
    """Return (high, low) of {proposal: score}: best first, ties in the order of proposal."""
    order = sorted(scores, key=lambda number: (-scores[number], number))
    threshold = max(1, floor(alpha * len(order)))
    return set(order[:threshold]), set(order[threshold:])


def observe(history, proposals, scores):
    return history.observe(np.array(proposals, np.int64), np.array(scores, float))


@given(tied_scores, alphas, st.randoms(use_true_random=False))
def test_high_and_low_are_those_of_the_sorted_history_at_every_step(scores, alpha, random):
    """Scores arrive in any order: ties are ordered by the number of the proposal, not by its arrival."""
    history, scores_seen = SearchHistory(alpha, room=4), {}
    proposals = list(range(len(scores)))
    random.shuffle(proposals)

    for number in proposals:
        observe(history, [number], [scores[number]])
        scores_seen[number] = scores[number]

        assert (set(history.high.tolist()), set(history.low.tolist())) == sorted_split(scores_seen, alpha)
        assert len(history) == len(history.high) + len(history.low) == len(scores_seen)


@given(tied_scores, alphas, st.integers(1, 10))
def test_observing_in_batches_is_observing_one_by_one(scores, alpha, length):
    history = SearchHistory(alpha)

    for start in range(0, len(scores), length):
        part = scores[start : start + length]
        observe(history, range(start, start + len(part)), part)

    assert (set(history.high.tolist()), set(history.low.tolist())) == sorted_split(dict(enumerate(scores)), alpha)


@given(tied_scores, alphas, st.integers(1, 10))
def test_the_reported_moves_lead_to_the_split(scores, alpha, length):
    history, high, low = SearchHistory(alpha), set(), set()
    act = {1: high.add, -1: high.remove, 2: low.add, -2: low.remove}

    for start in range(0, len(scores), length):
        part = scores[start : start + length]
        moved, moves = observe(history, range(start, start + len(part)), part)
        for proposal, move in zip(moved.tolist(), moves.tolist(), strict=True):
            act[move](proposal)

    assert (high, low) == (set(history.high.tolist()), set(history.low.tolist()))


@pytest.mark.parametrize("alpha", [1e-300, 0.5, 1 - 1e-16])
def test_the_first_observation_is_high(alpha):
    history = SearchHistory(alpha)

    observe(history, [0], [0.0])

    assert (history.high.tolist(), history.low.tolist()) == ([0], [])


def test_of_equal_scores_the_earlier_proposal_is_high():
    history = SearchHistory(0.5)

    observe(history, [3, 1, 2, 0], [0.5, 0.5, 0.5, 0.5])

    assert set(history.high.tolist()) == {0, 1}


def test_no_observation_changes_nothing():
    history = SearchHistory(0.5)

    moved, moves = observe(history, [], [])

    assert (len(history), len(moved), len(moves)) == (0, 0, 0)
