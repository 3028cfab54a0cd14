"""The rows of rules in each part of a split are those that are counted one by one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.data.weights import weight_units
from maabo_dist.rules import counting
from maabo_dist.rules.counting import SplitCounter
from maabo_dist.rules.matching import covered_rows
from tests import factories
from tests.reference import counting as slow


@pytest.mark.parametrize("cached", [1, 32])
@pytest.mark.parametrize("weighted", [False, True])
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 4), holdout=st.sampled_from([0.0, 0.2]))
def test_counts_are_those_of_the_slow_twin(cached, weighted, seed, classes, holdout):
    rng = np.random.default_rng(seed)
    columns = factories.make_columns(rng, 60, 4, classes)
    if weighted:
        columns = replace(columns, weights=weight_units(rng.random(60) + 0.1))
    split = factories.make_split(rng, 60, holdout=holdout)
    rules = factories.make_rules(rng, columns, split, 6, weights=np.ones(classes))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "CACHED_FEATURES", cached)
        counts = SplitCounter(columns, split, 1.0).count(rules.logic, rules.bounds)

    parts = (split.train, split.validation, split.holdout)
    assert counts.tolist() == slow.count_rows(columns, parts, rules.logic, rules.bounds)


def test_no_rules_have_no_counts():
    rng = np.random.default_rng(0)
    columns, split = factories.make_columns(rng, 30), factories.make_split(rng, 30)

    counts = SplitCounter(columns, split, 1.0).count(np.empty((0, 3), np.int32), np.empty((0, 3)))

    assert counts.shape == (0, 3, 2)


@pytest.mark.parametrize("distinct", [1 << 16, (1 << 16) + 1])
def test_a_bound_above_all_values_holds_for_every_row(distinct):
    columns = factories.columns_of(np.arange(float(distinct))[None], np.arange(distinct) % 2)
    logic, bounds = np.array([[0], [1], [0], [1]], np.int32), np.array([[1e9], [1e9], [-1.0], [-1.0]])

    covered = covered_rows(columns, np.arange(distinct), logic, bounds)

    assert [mask.sum() for mask in covered] == [distinct, 0, 0, distinct]
