"""Conjunctions that are grown equal their reference, and find what no pair shows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.data.split import split_rows
from maabo_dist.screens import conjunctions
from maabo_dist.screens.conjunctions import grow_conjunctions
from maabo_dist.screens.pairs import BitTable
from tests import factories
from tests.reference import conjunctions as slow
from tests.screens.test_triples import a_table_of


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(2, 4),
    st.integers(30, 200),
    st.integers(1, 6),
    st.integers(1, 4),
    st.sampled_from([(6, 1), (6, 60), (6, 1 << 20), (60, 100)]),
)
def test_conjunctions_equal_the_reference(seed, classes, rows, beam, size, table):
    features, block = table  # of 60 features, weaker extensions are dropped on the way
    columns = factories.make_columns(np.random.default_rng(seed), rows, features, classes)
    split = split_rows(columns.labels, test_size=0.3, seed=seed)
    expected = [slow.grow(columns, split.train, label, size, beam, children=2) for label in range(classes)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(conjunctions, "BEAM", beam)
        patch.setattr(conjunctions, "MAX_CHILDREN", 2)
        patch.setattr(conjunctions, "BLOCK_EXTENSIONS", block)
        sets = grow_conjunctions([BitTable.build(columns, split)], (size,))[size]

    assert {tuple(row) for row in sets.tolist()} == {
        tuple(sorted(features)) for each in expected for features, _, _ in each
    }


def test_a_conjunction_of_four_is_grown_from_its_conditions():
    rng = np.random.default_rng(3)
    matrix = rng.random((200, 4000))
    inside = np.logical_and.reduce(matrix[[7, 50, 90, 120]] > 0.4)
    labels = np.where(rng.random(4000) < 0.9, inside, rng.random(4000) < 0.5)

    sets = grow_conjunctions([a_table_of(matrix, labels)], (3, 4))

    assert [7, 50, 90, 120] in sets[4][:4].tolist()
    assert sets[3].shape[1] == 3


def test_a_table_with_fewer_features_than_conditions_has_no_conjunctions():
    columns = factories.make_columns(np.random.default_rng(1), 100, 3, 2)

    sets = grow_conjunctions([BitTable.build(columns, split_rows(columns.labels, test_size=0.3, seed=0))], (4,))

    assert sets[4].shape == (0, 4)


def test_no_sizes_give_no_sets():
    columns = factories.make_columns(np.random.default_rng(1), 100, 3, 2)

    assert grow_conjunctions([BitTable.build(columns, split_rows(columns.labels, test_size=0.3, seed=0))], ()) == {}
