"""The split is scikit-learn's, row for row, with clear errors where it cannot be made."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split

from maabo_dist.data.split import MAX_TREE_ROWS, sample_tree_rows, split_rows
from maabo_dist.errors import DatasetError


def two_classes(rows):
    return (np.arange(rows) % 3 == 0).astype(np.int32)


@pytest.mark.parametrize("seed", [0, 5, 2**32 - 1])
@pytest.mark.parametrize("test_size", [0.1, 0.3, 0.5, 0.77])
@pytest.mark.parametrize("rows", [10, 97, 1309])
def test_the_rows_are_those_of_train_test_split(rows, test_size, seed):
    train, validation = train_test_split(np.arange(rows), test_size=test_size, random_state=seed)

    split = split_rows(np.arange(rows), test_size=test_size, seed=seed)

    assert split.train.tolist() == sorted(train)
    assert split.validation.tolist() == sorted(validation)
    assert split.holdout.tolist() == []


@given(
    class_sizes=st.lists(st.integers(0, 40), min_size=1, max_size=7),
    test_size=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**32 - 1),
    stratify=st.booleans(),
    shuffled=st.randoms(use_true_random=False),
)
def test_any_split_is_that_of_scikit_learn(class_sizes, test_size, seed, stratify, shuffled):
    labels = np.repeat(np.arange(len(class_sizes)), class_sizes).astype(np.int32)
    shuffled.shuffle(labels)
    try:
        train, validation = train_test_split(
            np.arange(len(labels)), test_size=test_size, random_state=seed, stratify=labels if stratify else None
        )
    except ValueError:  # empty parts, classes of one row, more classes than rows in a part
        with pytest.raises(DatasetError):
            split_rows(labels, test_size=test_size, seed=seed, stratify=stratify)
        return
    if len(np.unique(labels[train])) < 2:
        with pytest.raises(DatasetError, match="training row"):
            split_rows(labels, test_size=test_size, seed=seed, stratify=stratify)
        return

    split = split_rows(labels, test_size=test_size, seed=seed, stratify=stratify)

    assert split.train.tolist() == sorted(train)
    assert split.validation.tolist() == sorted(validation)


@given(
    class_size=st.integers(2, 12),
    classes=st.integers(2, 9),
    shares=st.tuples(st.floats(0.1, 0.6), st.floats(0.1, 0.6)),
    seed=st.integers(0, 2**32 - 1),
)
def test_ties_between_classes_of_one_size_are_broken_as_scikit_learn_does(class_size, classes, shares, seed):
    labels = np.tile(np.arange(classes), class_size).astype(np.int32)
    holdout, test_size = shares
    try:
        rest, held_out = train_test_split(np.arange(len(labels)), test_size=holdout, random_state=seed, stratify=labels)
        train, validation = train_test_split(rest, test_size=test_size, random_state=seed, stratify=labels[rest])
    except ValueError:
        with pytest.raises(DatasetError):
            split_rows(labels, test_size=test_size, seed=seed, holdout=holdout, stratify=True)
        return

    split = split_rows(labels, test_size=test_size, seed=seed, holdout=holdout, stratify=True)

    assert split.holdout.tolist() == sorted(held_out)
    assert split.train.tolist() == sorted(train)
    assert split.validation.tolist() == sorted(validation)


@pytest.mark.parametrize("stratify", [False, True])
def test_a_holdout_is_cut_off_first_with_the_same_seed(stratify):
    labels = two_classes(200)
    rest, held = train_test_split(np.arange(200), test_size=0.2, random_state=3, stratify=labels if stratify else None)
    train, validation = train_test_split(
        rest, test_size=0.3, random_state=3, stratify=labels[rest] if stratify else None
    )

    split = split_rows(labels, test_size=0.3, seed=3, holdout=0.2, stratify=stratify)

    assert split.holdout.tolist() == sorted(held)
    assert split.train.tolist() == sorted(train)
    assert split.validation.tolist() == sorted(validation)


def test_the_parts_together_are_every_row_once():
    split = split_rows(two_classes(101), test_size=0.3, seed=1, holdout=0.25)

    together = np.concatenate([split.train, split.validation, split.holdout])

    assert sorted(together) == list(range(101))
    assert {part.dtype.name for part in (split.train, split.validation, split.holdout)} == {"int64"}


def test_a_stratified_split_keeps_the_class_shares():
    labels = np.repeat([0, 1], [90, 10]).astype(np.int32)

    split = split_rows(labels, test_size=0.3, seed=0, stratify=True)

    assert labels[split.train].sum() == 7
    assert labels[split.validation].sum() == 3


@pytest.mark.parametrize(
    ("sizes", "option"), [({"test_size": 0.99}, "--test-size"), ({"test_size": 0.3, "holdout": 0.99}, "--holdout")]
)
def test_an_empty_part_is_refused(sizes, option):
    with pytest.raises(DatasetError, match=f"{option} 0.99 takes 10 of 10 rows and leaves 0"):
        split_rows(two_classes(10), seed=0, **sizes)


def test_training_rows_of_one_class_are_refused_with_its_name():
    labels = np.zeros(20, np.int32)
    labels[split_rows(two_classes(20), test_size=0.3, seed=4).validation[0]] = 1

    with pytest.raises(DatasetError, match=r"All 14 training rows are of class 'no' with split seed 4.*--stratify"):
        split_rows(labels, test_size=0.3, seed=4, classes=("no", "yes"))


def test_a_class_of_one_row_cannot_be_stratified():
    labels = np.array([0] * 10 + [1] * 9 + [2], np.int32)

    with pytest.raises(DatasetError, match="only 1 of 'rare'"):
        split_rows(labels, test_size=0.3, seed=0, stratify=True, classes=("a", "b", "rare"))


def test_a_part_too_small_to_be_stratified_is_refused():
    labels = np.repeat(np.arange(5), 4).astype(np.int32)

    with pytest.raises(
        DatasetError,
        match=r"--stratify cannot cut --test-size 0\.1 off 20 rows: a part of 2 rows cannot hold 5 classes",
    ):
        split_rows(labels, test_size=0.1, seed=0, stratify=True)


def test_trees_of_many_rows_are_grown_on_a_sample_that_depends_on_the_seed_alone():
    split = split_rows(two_classes(3 * MAX_TREE_ROWS), test_size=0.3, seed=7, holdout=0.2)

    sample = sample_tree_rows(split, 7)

    assert len(sample.train) == MAX_TREE_ROWS
    assert len(sample.validation) == -(-len(split.validation) * MAX_TREE_ROWS // len(split.train))
    assert set(sample.train) <= set(split.train)
    assert set(sample.validation) <= set(split.validation)
    assert (np.diff(sample.train) > 0).all()
    np.testing.assert_array_equal(sample_tree_rows(split, 7).train, sample.train)
    assert (sample_tree_rows(split, 8).train != sample.train).any()


def test_trees_of_fewer_rows_are_grown_on_all():
    split = split_rows(two_classes(1000), test_size=0.3, seed=7)

    assert sample_tree_rows(split, 7) is split
