"""Tables that are kept on disk give the results of tables in memory."""

import os
import resource
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist._util import scratch
from maabo_dist.data import column_blocks
from maabo_dist.data.columns import Columns, add_probes
from maabo_dist.data.preparation import prepare
from maabo_dist.data.recoding import recode
from maabo_dist.errors import DatasetError
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings, TableSettings
from maabo_dist.study import Study, split_for
from maabo_dist.trees.training import TrainingTable

pytestmark = pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="tables are kept on disk on Linux only")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Files go here."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def keep_on_disk(monkeypatch):
    """Keep every table on disk that has more columns than rows, and read it in many blocks."""
    monkeypatch.setattr(scratch, "LARGE_CELLS", 1)
    monkeypatch.setattr(scratch, "BLOCK_BYTES", 5000)
    monkeypatch.setattr(column_blocks, "BLOCK_CELLS", 4000)


def is_mapped(array):
    return type(base_of(array)).__name__ == "mmap"


def base_of(array):
    base = array
    while isinstance(base, np.ndarray | memoryview):
        base = base.base if isinstance(base, np.ndarray) else base.obj
    return base


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["u1", "u2", "u4", "f8"])), min_size=1, max_size=6),
    st.integers(0, 4),
    st.booleans(),
    st.integers(0, 99),
)
def test_blocks_are_joined_as_by_numpy(blocks, width, on_disk, seed):
    random = np.random.default_rng(seed)
    arrays = [random.integers(0, 200, (rows, width)).astype(dtype) for rows, dtype in blocks]
    builder = scratch.ArrayBuilder(on_disk=on_disk)
    for array in arrays:
        builder.add(array)

    joined = builder.finish()

    expected = np.concatenate(arrays)
    assert joined.dtype == expected.dtype
    np.testing.assert_array_equal(joined, expected)
    assert joined.flags.writeable


def test_released_arrays_keep_what_was_written(folder):
    array = scratch.empty((300, 500), np.uint16, on_disk=True)
    array[...] = np.arange(500)

    scratch.release(array[3:])

    assert is_mapped(array)
    assert (array == np.arange(500)).all()
    assert list(folder.iterdir()) == []  # the file has no name


@pytest.mark.parametrize("rows", [1, 7, 100])
def test_blocks_cover_an_array(monkeypatch, rows):
    monkeypatch.setattr(scratch, "BLOCK_BYTES", 64)
    array = np.arange(rows * 3.0).reshape(rows, 3)

    blocks = [array[block] for block in scratch.each_block(array)]

    np.testing.assert_array_equal(np.concatenate(blocks), array)
    assert max(len(block) for block in blocks) <= 2


@pytest.mark.parametrize(
    "write",
    [
        lambda: scratch.empty((1 << 20,), np.uint8, on_disk=True),
        lambda: scratch.ArrayBuilder(on_disk=True).add(np.zeros(1 << 20)),
    ],
    ids=["empty", "add"],
)
def test_a_full_disk_is_an_error_with_a_remedy(folder, write):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(DatasetError, match=rf"cannot be written to {folder}: .*Set TMPDIR to a directory"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_folder_that_does_not_exist_is_an_error_with_a_remedy(monkeypatch):
    monkeypatch.setenv("TMPDIR", "/does/not/exist")

    with pytest.raises(DatasetError, match="cannot be written to /does/not/exist: No such file or directory"):
        scratch.empty((10,), np.uint8, on_disk=True)


def wide_frame(*, gaps):
    """More columns than rows: numbers, and with `gaps` also text and missing cells. Two columns decide the class."""
    random = np.random.default_rng(8)
    rows = 120
    frame = pd.DataFrame({f"x{k}": random.normal(size=rows).round(2) for k in range(180)})
    frame["y"] = np.where((frame["x3"] > 0) ^ (random.random(rows) < 0.05), "yes", "no")
    if gaps:
        frame = frame.assign(
            **{f"t{k}": random.choice([*"abcd", None], rows) for k in range(20)},
            **{f"x{k}": frame[f"x{k}"].where(random.random(rows) < 0.9) for k in range(10)},
        )
    frame["person"] = random.integers(0, 40, rows)
    return frame


def combinations():
    """Return all combinations. Those with groups take seconds each, except with the preset of the paper."""
    mining = [{}, {"probes": 30}, {"preset": "paper", "trees": 40}]
    for gaps, options, chosen in product([False, True], [{}, {"group": "person"}], mining):
        slow = options and "preset" not in chosen
        yield pytest.param(gaps, options, chosen, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize(("gaps", "options", "mining"), combinations())
def test_a_table_on_disk_has_the_result_of_one_in_memory(folder, monkeypatch, gaps, options, mining):
    frame, table = wide_frame(gaps=gaps), TableSettings(target="y", **options)
    chosen = MiningSettings(seed=2, **{"trees": 60, **mining})
    in_memory = prepare(frame, table)
    expected = mine(in_memory.columns, chosen)

    keep_on_disk(monkeypatch)
    on_disk = prepare(frame, table)
    study = Study.build(on_disk.columns, chosen)
    result = mine(on_disk.columns, chosen, jobs=2)

    assert on_disk.columns.fingerprint == in_memory.columns.fingerprint
    assert (on_disk.notes, on_disk.leaks) == (in_memory.notes, in_memory.leaks)
    assert result.digest == expected.digest
    for array in (on_disk.columns.codes, study.columns.codes, study.columns.values, study.table.entries):
        assert is_mapped(array)
    assert is_mapped(study.table.train_codes)
    assert list(folder.iterdir()) == []


def test_shuffled_labels_of_a_table_on_disk(folder, monkeypatch):
    keep_on_disk(monkeypatch)
    columns = prepare(wide_frame(gaps=True), TableSettings(target="y", group="person")).columns
    study = Study.build(columns, MiningSettings())

    shuffled = study.with_shuffled_labels(1)

    expected = TrainingTable.build(shuffled.columns, study.tree_split)
    assert is_mapped(shuffled.table.entries)
    assert is_mapped(shuffled.columns.codes)
    for name in ("entries", "train_codes", "validation_codes", "root_scores", "root_cuts"):
        np.testing.assert_array_equal(getattr(shuffled.table, name), getattr(expected, name))


def test_a_stored_table_is_laid_out_on_disk(folder, monkeypatch, tmp_path):
    keep_on_disk(monkeypatch)
    columns = prepare(wide_frame(gaps=False), TableSettings(target="y")).columns
    columns.save(tmp_path / "t.columns")
    loaded = Columns.load(tmp_path / "t.columns")

    table = TrainingTable.build(loaded, split_for(loaded, MiningSettings()))

    assert is_mapped(table.values)
    assert table.values.flags.writeable
    np.testing.assert_array_equal(table.values, columns.values)


def test_tables_with_more_rows_than_columns_stay_in_memory(monkeypatch):
    keep_on_disk(monkeypatch)
    frame = wide_frame(gaps=False)[["x1", "x2", "x3", "y"]]

    columns = prepare(frame, TableSettings(target="y")).columns

    assert not is_mapped(columns.codes)
    assert not is_mapped(add_probes(recode(columns, np.arange(50)), 3, 1).codes)
    assert replace(columns).is_large is False
