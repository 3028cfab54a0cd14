"""Rows in the order of time: the latest are held out, and parts of dates that do not recur are not used."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from maabo_dist.data.columns import Columns
from maabo_dist.data.preparation import prepare
from maabo_dist.data.split import split_rows, split_table
from maabo_dist.errors import DatasetError
from maabo_dist.mining.local import mine
from maabo_dist.mining.repeats import repeat_settings
from maabo_dist.settings import MiningSettings, TableSettings
from maabo_dist.study import split_for

DAYS = pd.date_range("2021-01-01", periods=1200, freq="D")


def visits(rows=1200, **more):
    rng = np.random.default_rng(2)
    table = pd.DataFrame({"visit": DAYS[:rows].strftime("%Y-%m-%d"), "x": rng.normal(size=rows), **more})
    return table.assign(ill=np.where(table["x"] + rng.normal(size=rows) / 2 > 0, "yes", "no"))


def prepared(table, **settings):
    return prepare(table.sample(frac=1, random_state=1), TableSettings(target="ill", time="visit", **settings))


@given(
    st.lists(st.integers(0, 15), min_size=5, max_size=60).filter(lambda times: len(set(times)) > 1),
    st.floats(0.05, 0.6),
)
def test_the_latest_rows_are_held_out_and_ties_stay_together(times, share):
    times, labels = np.array(times, float), np.arange(len(times)) % 2
    try:
        split = split_rows(labels, test_size=0.3, seed=1, holdout=share, times=times)
    except DatasetError:  # too few early rows, or all of one class
        reject()

    mined = np.concatenate([split.train, split.validation])
    assert times[split.holdout].min() > times[mined].max()
    wanted = int(np.ceil(share * len(times)))
    possible = [int((times >= time).sum()) for time in np.unique(times)[1:]]
    assert abs(len(split.holdout) - wanted) == min(abs(rows - wanted) for rows in possible)


def test_groups_that_begin_latest_are_held_out_whole():
    groups, times = np.repeat(np.arange(10), 4), np.tile([0.0, 5, 10, 15], 10) + np.repeat(np.arange(10), 4)

    split = split_rows(np.arange(40) % 2, test_size=0.3, seed=0, holdout=0.2, groups=groups, times=times)

    assert set(groups[split.holdout].tolist()) == {8, 9}


def test_a_fifth_is_held_out_by_default_and_the_result_says_from_which_date_on():
    columns = prepared(visits()).columns

    result = mine(columns, MiningSettings(trees=2))

    assert result.rows["holdout"] == 240
    assert "Held out: the 240 rows from visit 2023-08-19 on." in result.notes
    assert columns.time_text(columns.times[split_for(columns, result.settings).holdout].min()) == "2023-08-19"


def test_without_held_out_rows_the_result_says_that_the_option_has_no_effect():
    result = mine(prepared(visits(300)).columns, MiningSettings(trees=2))

    assert "No rows are held out, so --time has no effect on the split; use --holdout 0.2." in result.notes


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (np.arange(1200), "960"),
        (np.arange(1200) / 8 + 0.5, "120.5"),
        (pd.Series(np.arange(1200)).astype(str), "960"),
        (DAYS, "2023-08-19"),
        (DAYS.strftime("%d.%m.%Y"), "2023-08-19"),
        (pd.date_range("2024-01-01", periods=1200, freq="min"), "2024-01-01 16:00:00"),
        (DAYS.tz_localize("Europe/Berlin"), "2023-08-18 22:00:00"),
    ],
)
def test_numbers_dates_and_times_order_rows(cells, text):
    columns = prepared(visits().assign(visit=cells)).columns

    held = split_table(columns, test_size=0.3, seed=0, holdout=None).holdout

    assert len(held) == 240
    assert columns.time_text(columns.times[held].min()) == text


@pytest.mark.parametrize(
    ("cells", "parts"),
    [
        (DAYS, ["visit: month", "visit: weekday"]),
        (DAYS[:1].repeat(600).append(DAYS[100:101].repeat(600)), ["visit: weekday"]),
        (pd.date_range("2024-01-01", periods=1200, freq="7min"), ["visit: hour"]),
        (np.arange(1200), []),
    ],
)
def test_only_parts_of_dates_that_recur_are_features(cells, parts):
    result = prepared(visits().assign(visit=cells))

    assert [feature.name for feature in result.columns.features] == [*parts, "x"]


def test_a_note_says_which_parts_are_features():
    assert "Column 'visit' orders the rows: its features are month, weekday, which recur." in prepared(visits()).notes
    hours = prepared(visits().assign(visit=DAYS[:1].repeat(1199).append(DAYS[1:2])), include=("x",))
    assert [feature.name for feature in hours.columns.features] == ["x"]
    none = prepared(visits().assign(visit=DAYS[:1].repeat(1199).append(DAYS[1:2])))
    assert "Column 'visit' orders the rows: it is not used, as no part of it recurs." in none.notes


def test_rows_without_a_time_are_left_out_with_a_note():
    table = visits()
    table.loc[[1, 7], "visit"] = None

    result = prepare(table, TableSettings(target="ill", time="visit"))

    assert result.columns.rows == len(result.columns.times) == 1198
    assert "Left out 2 rows of 1,200 without a 'visit' (--time)." in result.notes
    assert {1, 7}.isdisjoint(result.rows_kept.tolist())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"time": "visits"}, r"--time 'visits': the table has no such column"),
        ({"time": "name"}, r"--time 'name': rows are ordered by dates or numbers, and the column holds 'ann'"),
        ({"time": "visit", "group": "visit"}, r"--group 'visit' is also the --time"),
    ],
)
def test_a_time_column_that_cannot_be_one_is_an_error(settings, message):
    with pytest.raises(DatasetError, match=message):
        prepare(visits(name="ann"), TableSettings(target="ill", **settings))


def test_rows_of_one_time_cannot_be_divided():
    columns = prepare(visits().assign(visit="2024-01-01"), TableSettings(target="ill", time="visit")).columns

    with pytest.raises(DatasetError, match=r"--time: all rows have the same time.*--holdout-by random"):
        split_for(columns, MiningSettings())
    assert len(split_for(columns, MiningSettings(holdout_by="random")).holdout) == 240


def test_groups_that_all_begin_at_the_same_time_are_an_error_with_remedies():
    panel = {"groups": np.repeat(np.arange(10), 4), "times": np.tile(np.arange(4.0), 10)}

    with pytest.raises(DatasetError, match=r"all groups begin at the same time.*which holds out random groups"):
        split_rows(np.arange(40) % 2, test_size=0.3, seed=0, holdout=0.2, **panel)


def test_repeats_draw_random_halves():
    columns = prepared(visits()).columns

    first, second = (split_for(columns, settings) for settings in repeat_settings(MiningSettings(), 2, columns.rows))

    assert len(set(first.holdout.tolist()) ^ set(second.holdout.tolist())) > 200


def test_columns_keep_their_times_in_files(tmp_path):
    columns = prepared(visits()).columns

    columns.save(tmp_path / "columns")
    loaded = Columns.load(tmp_path / "columns")

    np.testing.assert_array_equal(loaded.times, columns.times)
    assert loaded.roles == {"time": "visit", "time_kind": "date"}
