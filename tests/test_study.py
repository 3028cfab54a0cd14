"""Studies with shuffled labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.errors import SettingsError
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
from maabo_dist.trees.training import TrainingTable
from tests import factories


@given(st.integers(0, 10**6), st.integers(2, 4), st.sampled_from([30, 200]), st.sampled_from(["balanced", "none"]))
def test_a_shuffled_study_is_the_study_of_the_shuffled_columns(seed, classes, rows, class_weight):
    rng = np.random.default_rng(seed)
    columns, split = factories.make_columns(rng, rows, 4, classes), factories.make_split(rng, rows)
    study = factories.make_study(columns, split, class_weight=class_weight)

    shuffled = study.with_shuffled_labels(3)

    expected = TrainingTable.build(shuffled.columns, split, class_weight=class_weight)
    for name, array in shuffled.table._asdict().items():
        np.testing.assert_array_equal(array, getattr(expected, name), err_msg=name)
        assert getattr(array, "dtype", None) == getattr(getattr(expected, name), "dtype", None)


def test_shuffles_keep_the_classes_of_each_part_and_differ_from_each_other():
    rng = np.random.default_rng(0)
    columns, split = factories.make_columns(rng, 200, 3, 3), factories.make_split(rng, 200)
    study = factories.make_study(columns, split)

    first, second, again = (study.with_shuffled_labels(number).columns.labels for number in (0, 1, 0))

    for rows in (split.train, split.validation):
        assert sorted(first[rows]) == sorted(columns.labels[rows])
    np.testing.assert_array_equal(first[split.holdout], columns.labels[split.holdout])
    np.testing.assert_array_equal(first, again)
    assert (first != second).any()
    assert (first != columns.labels).any()


def test_findings_of_a_class_that_the_table_lacks_are_rejected_by_name():
    columns = factories.make_columns(np.random.default_rng(0))

    with pytest.raises(SettingsError, match=r"--for-class 'maybe': this table has no such class; it has 'c0', 'c1'"):
        Study.build(columns, MiningSettings(for_class=("maybe",)))
