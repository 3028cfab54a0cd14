"""Columns that identify rows, that group them, or that nearly repeat the target."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.data.preparation import prepare
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings

ROWS = 400
RNG = np.random.default_rng(5)
NOISE = RNG.normal(size=ROWS)
LABELS = np.where(RNG.random(ROWS) < 0.4, "yes", "no")


def prepared(x, name="x", **options):
    frame = pd.DataFrame({name: x, "noise": NOISE[: len(x)], "y": LABELS[: len(x)]})
    return prepare(frame, TableSettings(target="y", **options))


def columns(result):
    return set(result.encoder.columns)


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("x", np.arange(ROWS)),
        ("x", np.arange(ROWS)[::-1] + 7000),
        ("x", RNG.permutation(ROWS) + 1),
        ("x", np.cumsum(RNG.integers(1, 90, ROWS))),
        ("x", [f"row {number}" for number in range(ROWS)]),
        ("x", [f"name {number // 2 if number < 20 else number}" for number in range(ROWS)]),
        ("customer_id", RNG.permutation(10**6)[:ROWS]),
        ("PassengerId", RNG.permutation(10**6)[:ROWS].astype(float)),
        ("x", np.arange(ROWS) // 4 + 1),
        ("patient_id", RNG.integers(10**5, 10**6, 100)[RNG.integers(0, 100, ROWS)]),
    ],
    ids=["0…", "downwards", "shuffled", "gaps", "texts", "nearly all", "random", "floats", "blocks", "repeated"],
)
def test_identifiers_are_left_out_and_can_be_forced(name, cells):
    result = prepared(cells, name)

    assert columns(result) == {"noise"}
    assert any(f"Left out, as the values identify rows: {name!r} (" in note for note in result.notes)
    assert columns(prepared(cells, name, include=(name, "noise"))) == {name, "noise"}


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("x", RNG.normal(size=ROWS)),
        ("income", RNG.integers(10_000, 10**6, ROWS)),
        ("age", RNG.integers(18, 90, ROWS)),
        ("age", np.sort(RNG.integers(18, 90, ROWS))),
        ("bmi_index", RNG.integers(15, 60, ROWS)),
        ("city", RNG.choice([f"c{number}" for number in range(80)], ROWS)),
    ],
)
def test_measurements_are_not_identifiers(name, cells):
    assert columns(prepared(cells, name)) == {name, "noise"}


def test_an_identifier_is_used_if_there_is_nothing_else():
    frame = pd.DataFrame({"id": range(20), "y": ["a", "b"] * 10})

    result = prepare(frame, TableSettings(target="y"))

    assert columns(result) == {"id"}
    assert "'id' may identify rows and measure nothing; used, as the table has no other columns." in result.notes


def test_columns_that_group_rows_are_pointed_out():
    result = prepared([f"machine {number // 8}" for number in range(ROWS)])

    assert any("Rows seem to belong together by 'x': 50 values on 400 rows." in note for note in result.notes)
    assert not any("belong together" in note for note in prepared(RNG.choice(list("abcdef"), ROWS)).notes)


def test_numbers_in_blocks_of_equal_size_group_rows_and_may_be_features():
    panel = prepared(np.repeat(RNG.permutation(9000)[:50], 8))

    assert any("use --group 'x'" in note for note in panel.notes)
    assert columns(panel) == {"x", "noise"}
    assert not any("--group" in note for note in prepared(np.sort(RNG.integers(18, 90, ROWS))).notes)


@pytest.mark.parametrize(
    "cells",
    [
        np.where(LABELS == "yes", 1.0, -1.0) * (1 + RNG.random(ROWS)),
        np.where(LABELS == "yes", "paid", "open"),
        np.where(LABELS == "yes", RNG.choice(["cash", "card"], ROWS), RNG.choice(["owed", "lost", "new"], ROWS)),
    ],
    ids=["threshold", "pair", "levels"],
)
def test_a_column_that_repeats_the_target_is_a_likely_leak(cells):
    result = prepared(cells)

    assert columns(result) == {"x", "noise"}
    assert result.notes == (
        "Likely a leak: 'x' nearly repeats the target. If it is not known before the target is, use --exclude 'x'.",
    )


@pytest.mark.parametrize(
    "cells",
    [
        pd.Series(RNG.normal(size=ROWS)).where(LABELS == "yes"),
        pd.Series(pd.date_range("2024-01-01", periods=ROWS).strftime("%Y-%m-%d")).where(LABELS == "yes"),
        pd.Series(LABELS).where(RNG.random(ROWS) > 0.3),
        pd.Series(np.where(LABELS == "yes", 1.0, -1.0) * (1 + RNG.random(ROWS))).where(RNG.random(ROWS) > 0.3),
    ],
    ids=["number if yes", "date if yes", "text with gaps", "numbers with gaps"],
)
def test_a_column_that_repeats_the_target_by_its_gaps_or_beside_them_is_a_likely_leak(cells):
    assert any(note.startswith("Likely a leak: 'x' nearly repeats") for note in prepared(cells).notes)


def test_a_column_that_only_some_rows_of_a_class_have_is_no_leak():
    cells = pd.Series(RNG.choice(list("abc"), ROWS)).where((LABELS == "yes") & (RNG.random(ROWS) < 0.5))

    assert not any("leak" in note for note in prepared(cells).notes)


def test_a_column_that_is_wrong_in_some_rows_is_no_leak():
    cells = np.where(LABELS == "yes", 1.0, 0.0)
    cells[:40] = 1 - cells[:40]

    assert prepared(cells).notes == ()


def test_a_level_set_repeats_a_target_of_three_classes():
    labels = RNG.choice(["a", "b", "c"], ROWS)
    frame = pd.DataFrame({"x": np.char.add(labels, "!"), "noise": NOISE, "y": labels})

    assert any("Likely a leak: 'x'" in note for note in prepare(frame, TableSettings(target="y")).notes)


CELLS = st.one_of(
    st.none(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.booleans(),
    st.dates(),
    st.datetimes(),
    st.times(),
    st.timedeltas(),
    st.decimals(allow_nan=False),
    st.binary(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.just(dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
)


@given(st.one_of(st.lists(CELLS, min_size=12, max_size=12), st.tuples(*[st.shared(CELLS, key="one")] * 12)))
@settings(max_examples=150, deadline=None)
def test_no_column_is_refused(cells):
    """Whatever a column holds, it is used or left out with a note, and the encoder reads it again."""
    frame = pd.DataFrame({"x": pd.Series(list(cells), dtype=object), "z": NOISE[:12], "y": ["a", "b"] * 6})

    result = prepare(frame, TableSettings(target="y", missing_indicator=True))

    assert "z" in columns(result)
    assert "x" in columns(result) or any("'x'" in note for note in result.notes)
    matrix = result.encoder.encode(frame)
    for index in range(result.columns.count):
        np.testing.assert_array_equal(matrix[index], result.columns.column(index))


def test_all_columns_that_cannot_be_forced_are_named_at_once():
    frame = pd.DataFrame({"a": [[1]] * 12, "b": [None] * 12, "y": ["a", "b"] * 6})

    with pytest.raises(DatasetError, match=r"--include 'a': .*\n--include 'b': there is no value"):
        prepare(frame, TableSettings(target="y", include=("a", "b")))
