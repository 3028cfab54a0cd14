"""Probes: permuted copies of columns, the same on every machine, with names no column can have."""

from dataclasses import replace

import numpy as np
import pytest

from maabo_dist.data.columns import Columns, Feature, FeatureKind, add_probes, probe_mask, remove_probes
from tests import factories


def a_table(features=5, rows=40, seed=3):
    return factories.make_columns(np.random.default_rng(seed), rows, features)


def sources(columns, probed):
    """For each probe, return the columns with the same values and frequencies."""
    same = [sorted(columns.column(index).tolist()) for index in range(columns.count)]
    return [
        [index for index, values in enumerate(same) if values == sorted(probed.column(number).tolist())]
        for number in range(columns.count, probed.count)
    ]


def test_the_columns_of_the_table_stay_as_they_are():
    columns = a_table()

    probed = add_probes(columns, 7, seed=1)

    assert probed.count == 12
    assert remove_probes(probed).fingerprint == columns.fingerprint
    assert probe_mask(probed).tolist() == [False] * 5 + [True] * 7


def test_every_column_is_copied_before_one_is_copied_twice():
    columns = factories.columns_of(np.random.default_rng(1).normal(size=(5, 40)), np.arange(40) % 2)

    originals = [index for (index,) in sources(columns, add_probes(columns, 12, seed=1))]

    assert sorted(originals[:5]) == sorted(originals[5:10]) == list(range(5))
    assert originals[10:] == originals[:2]


def test_copies_of_one_column_are_permuted_differently():
    columns = factories.columns_of(np.random.default_rng(1).normal(size=(2, 40)), np.arange(40) % 2)

    probed = add_probes(columns, 20, seed=1)

    assert len({row.tobytes() for row in probed.codes}) == 22


def test_the_seed_decides_and_nothing_else_does():
    columns = a_table()

    prints = [add_probes(columns, 3, seed).fingerprint for seed in (1, 1, 2)]

    assert prints[0] == prints[1] != prints[2]


def test_probes_are_the_same_on_every_machine():
    columns = factories.columns_of([range(8), range(10, 18)], [0, 1] * 4)

    assert add_probes(columns, 2, seed=5).codes[2:].tolist() == [[4, 3, 6, 5, 2, 1, 7, 0], [4, 2, 0, 1, 3, 7, 5, 6]]


def test_no_probes_change_nothing():
    columns = a_table()

    assert add_probes(columns, 0, seed=1) is columns
    assert remove_probes(columns) is columns


def test_no_column_can_be_called_as_a_probe_is():
    hostile = [Feature(name, name, FeatureKind.NUMBER) for name in ("\0probe 1", "\0\0probe 2", "probe 1", "", "a")]
    columns = replace(a_table(), features=tuple(hostile))

    names = [feature.name for feature in add_probes(columns, 3, seed=1).features]

    assert len(set(names)) == 8
    assert not any(feature.kind is FeatureKind.PROBE for feature in columns.features)


def test_a_table_with_probes_is_saved_and_mapped_like_any_other(tmp_path):
    probed = add_probes(a_table(), 4, seed=2)

    probed.save(tmp_path / "table")

    assert Columns.load(tmp_path / "table").fingerprint == probed.fingerprint
    assert probe_mask(Columns.load(tmp_path / "table")).sum() == 4


@pytest.mark.parametrize("seed", range(3))
def test_probes_are_unrelated_to_the_class(seed):
    labels = np.arange(400) % 2
    columns = factories.columns_of([labels], labels)

    probed = add_probes(columns, 100, seed)

    agreement = (probed.codes[1:] == labels).mean(axis=1)
    assert abs(agreement.mean() - 0.5) < 0.01
    assert agreement.std() == pytest.approx(0.5 / np.sqrt(400), rel=0.3)
