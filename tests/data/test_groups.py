"""Rows that belong together: exchanged labels, parts of whole groups, and what rows are worth."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maabo_dist.data.columns import Columns, add_probes
from maabo_dist.data.groups import MAX_SIZE_RATIO, choose_groups, design_effect, effective_counts, exchange, strata
from maabo_dist.data.preparation import prepare
from maabo_dist.data.split import split_rows
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings
from tests import factories
from tests.reference import groups as slow

GROUPS = st.lists(st.integers(0, 12), min_size=2, max_size=80).map(np.array)


@given(GROUPS, st.integers(0, 2**40))
def test_whole_groups_exchange_their_labels_in_their_order(groups, stream):
    source = exchange(groups, stream)

    assert source.tolist() == slow.exchanged(groups.tolist(), stream)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=60).map(np.array))
def test_groups_of_a_stratum_are_of_about_the_same_size(sizes):
    result = strata(sizes)

    for number in np.unique(result):
        own = sizes[result == number]
        assert own.max() <= MAX_SIZE_RATIO * own.min()
    assert (np.diff(result[np.argsort(sizes, kind="stable")]) >= 0).all()
    for size in np.unique(sizes):  # groups of one size are never separated
        assert len(np.unique(result[sizes == size])) == 1


def test_groups_of_one_size_exchange_labels_without_loss():
    groups, labels = np.repeat(np.arange(20), 5), np.random.default_rng(0).integers(0, 3, 100)

    exchanged = labels[exchange(groups, 7)]

    def blocks(values):
        return sorted(tuple(values[groups == group]) for group in range(20))

    assert blocks(exchanged) == blocks(labels)
    assert (exchanged != labels).any()


@given(GROUPS, st.data())
def test_the_design_effect_is_that_of_the_analysis_of_variance(groups, data):
    classes = data.draw(st.integers(2, 3))
    labels = np.array(data.draw(st.lists(st.integers(0, classes - 1), min_size=len(groups), max_size=len(groups))))

    effect = design_effect(groups, labels, classes)

    assert effect == pytest.approx(slow.design_effect(groups.tolist(), labels.tolist(), classes))
    assert 1 <= effect <= len(groups)


def test_rows_with_the_label_of_their_group_are_worth_as_many_rows_as_there_are_groups():
    groups = np.repeat(np.arange(50), 8)
    of_group = np.random.default_rng(1).integers(0, 2, 50)
    independent = np.random.default_rng(2).integers(0, 2, 400)

    assert design_effect(groups, of_group[groups], 2) == pytest.approx(8)
    assert design_effect(groups, independent, 2) == pytest.approx(1, abs=0.35)
    assert design_effect(np.arange(400), independent, 2) == 1
    assert effective_counts(np.array([4, 3, 400]), 8).tolist() == [1, 0, 50]


@given(GROUPS, st.floats(0.05, 0.95), st.integers(0, 1000))
def test_chosen_rows_are_whole_groups_and_as_many_as_groups_allow(groups, share, seed):
    count = int(np.ceil(share * len(groups)))

    chosen = choose_groups(groups, count, np.random.RandomState(seed))

    parts = set(groups[chosen].tolist()), set(groups[~chosen].tolist())
    assert not parts[0] & parts[1]
    sizes = np.bincount(groups)
    if len(np.unique(groups)) > 1:
        assert chosen.any()
        assert not chosen.all()
        assert abs(int(chosen.sum()) - count) <= sizes.max()
    np.testing.assert_array_equal(chosen, choose_groups(groups, count, np.random.RandomState(seed)))


@pytest.mark.parametrize("stratify", [False, True])
def test_no_group_is_in_two_parts_of_a_split(stratify):
    rng = np.random.default_rng(4)
    groups = rng.integers(0, 60, 600)
    labels = (rng.random(60) < 0.3)[groups].astype(np.int32)

    split = split_rows(labels, test_size=0.3, seed=2, holdout=0.2, stratify=stratify, groups=groups)

    parts = [set(groups[rows].tolist()) for rows in (split.train, split.validation, split.holdout)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 60
    assert sorted(np.concatenate([split.train, split.validation, split.holdout]).tolist()) == list(range(600))
    assert len(split.holdout) == pytest.approx(120, abs=8)
    assert len(split.validation) == pytest.approx(0.3 * (600 - len(split.holdout)), abs=8)
    if stratify:
        assert labels[split.holdout].mean() == pytest.approx(labels.mean(), abs=0.06)


def test_too_few_groups_are_an_error_that_says_so():
    labels = (np.arange(40) % 2).astype(np.int32)

    with pytest.raises(
        DatasetError, match=r"--test-size 0.3 cannot be cut off 20 rows in 1 group: rows of a group stay"
    ):
        split_rows(labels, test_size=0.3, seed=0, holdout=0.5, groups=np.repeat([0, 1], 20))


def people(rows=40):
    rng = np.random.default_rng(3)
    person = np.repeat([f"p{number}" for number in range(rows // 4)], 4).astype(object)
    return pd.DataFrame({"person": person, "age": rng.normal(50, 9, rows), "ill": rng.choice(["no", "yes"], rows)})


def test_the_group_column_is_no_feature_and_rows_without_a_value_are_a_group():
    table = people()
    table.loc[[3, 30], "person"] = None

    prepared = prepare(table, TableSettings(target="ill", group="person"))

    assert [feature.name for feature in prepared.columns.features] == ["age"]
    assert prepared.columns.groups.tolist() == [
        *[0] * 3,
        10,
        *np.repeat(np.arange(1, 10), 4).tolist()[:26],
        10,
        7,
        *[8] * 4,
        *[9] * 4,
    ]
    assert prepared.columns.roles == {"group": "person"}
    assert (
        "Rows with the same 'person' stay together: 11 groups of 2 to 4 rows. The 2 rows without one are a group."
        in prepared.notes
    )


def test_columns_keep_their_groups_in_files_and_in_the_fingerprint(tmp_path):
    plain = prepare(people().drop(columns="person"), TableSettings(target="ill")).columns
    grouped = prepare(people(), TableSettings(target="ill", group="person")).columns

    grouped.save(tmp_path / "columns")
    loaded = Columns.load(tmp_path / "columns")

    np.testing.assert_array_equal(loaded.groups, grouped.groups)
    assert loaded.roles == grouped.roles
    assert grouped.fingerprint != plain.fingerprint


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group": "persons"}, r"--group 'persons': the table has no such column. Did you mean 'person'"),
        ({"group": "ill"}, r"--group 'ill' is also the --target"),
        ({"group": "person", "include": ("person", "age")}, r"--include names 'person', which is the --group"),
        ({"group": "same"}, r"--group 'same': all rows have the same value"),
    ],
)
def test_a_group_column_that_cannot_be_one_is_an_error(settings, message):
    with pytest.raises(DatasetError, match=message):
        prepare(people().assign(same=1), TableSettings(target="ill", **settings))


def test_a_likely_group_column_names_the_option():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"customer_id": np.repeat(np.arange(50), 4), "x": rng.normal(size=200), "y": rng.integers(0, 2, 200)}
    )

    assert any("use --group 'customer_id'" in note for note in prepare(table, TableSettings(target="y")).notes)
    grouped = prepare(table, TableSettings(target="y", group="customer_id"))
    assert not any("use --group" in note for note in grouped.notes)


def test_probes_exchange_the_values_of_whole_groups():
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(30), 4)
    columns = factories.columns_of(
        np.array([rng.normal(size=30)[groups], rng.normal(size=120)]), rng.integers(0, 2, 120)
    )
    columns = Columns(**{**columns.__dict__, "groups": groups.astype(np.int32)})

    probed = add_probes(columns, 2, seed=1)

    constant = [len(np.unique(np.column_stack([groups, codes]), axis=0)) == 30 for codes in probed.codes]
    assert constant[:2] == [True, False]
    assert sorted(constant[2:]) == [False, True]
