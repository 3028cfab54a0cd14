"""Columns of dates: what they become, and conditions on them in words, SQL, pandas and on raw cells."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.contract.conditions import Condition, ConditionRecord, DatePart, Op
from maabo_dist.contract.wording import conditions_text
from maabo_dist.data.columns import Columns, FeatureKind
from maabo_dist.data.dates import ISO, LAYOUTS, read_dates, to_times
from maabo_dist.data.preparation import prepare
from maabo_dist.report.exports import _pandas_mask
from maabo_dist.report.sql import StandardWriter
from maabo_dist.rules.conditions import conditions_of
from maabo_dist.rules.matching import match_cells
from maabo_dist.settings import TableSettings

DAYS = [dt.datetime(2023, 1, 2) + dt.timedelta(days=37 * number, hours=number) for number in range(20)]


def prepared(cells, **options):
    frame = pd.DataFrame({"joined": cells, "y": ["no", "yes"] * (len(cells) // 2)})
    return prepare(frame, TableSettings(target="y", **options))


def names(result):
    return [feature.name for feature in result.columns.features]


def test_dates_become_their_parts():
    result = prepared(DAYS)

    parts = ["year", "month", "weekday", "hour", "days"]
    assert names(result) == [f"joined: {part}" for part in parts]
    assert [result.columns.column(number)[1] for number in range(5)] == [2023, 2, 3, 1, 37]
    assert result.notes[0] == "Column 'joined' holds dates: its features are year, month, weekday, hour, days."


@pytest.mark.parametrize(
    "cells",
    [
        [day.date() for day in DAYS],
        [day.strftime("%Y-%m-%d") for day in DAYS],
        [day.strftime("%d.%m.%Y") for day in DAYS],
        [day.strftime("%m/%d/%Y") for day in DAYS],
        [day.strftime("%d %b %Y") for day in DAYS],
        pd.Series(DAYS).dt.to_period("D"),
    ],
    ids=["dates", "ISO", "German", "American", "month names", "periods"],
)
def test_every_spelling_of_days_gives_the_same_numbers(cells):
    result = prepared(cells)

    assert names(result) == [f"joined: {part}" for part in ("year", "month", "weekday", "days")]
    assert result.columns.column(3).tolist() == [37 * number for number in range(20)]


@pytest.mark.parametrize("text", [False, True])
def test_times_with_a_zone_are_taken_in_utc(text):
    aware = pd.Series(DAYS).dt.tz_localize("Asia/Tokyo")
    cells = [day.isoformat() for day in aware] if text else aware
    utc = aware.dt.tz_convert("UTC").dt.tz_localize(None)
    result, df = prepared(cells), pd.DataFrame({"joined": cells})

    expected = prepared(utc).columns
    assert result.columns.features == expected.features
    for index in range(expected.count):
        values = result.columns.column(index)
        assert values.tolist() == expected.column(index).tolist()
        (condition,) = conditions_of(expected.features, [2 * index + 1], [float(np.unique(values)[0]) + 0.5])
        holds = (values > np.unique(values)[0]).tolist()
        assert eval(_pandas_mask(condition), {"df": df, "pd": pd}).tolist() == holds
        assert match_cells([[condition]], [{"joined": str(cell)} for cell in cells])[0].tolist() == holds


def test_parts_that_do_not_vary_are_no_features():
    assert names(prepared(["09:30", "17:00", "18:15", "09:45"] * 5)) == ["joined: hour"]


def test_equal_dates_are_left_out():
    frame = pd.DataFrame({"d": ["2024-01-01"] * 12, "x": [1, 2, 3] * 4, "y": ["a", "b"] * 6})

    assert "Left out, as all dates are the same: 'd'." in prepare(frame, TableSettings(target="y")).notes


def test_texts_that_are_not_dates_are_missing_with_a_note():
    cells = [day.strftime("%Y-%m-%d") for day in DAYS * 2]
    cells[3] = "unknown"

    result = prepared(cells)

    assert {feature.missing for feature in result.columns.features} == {1}
    assert "Texts of 'joined' that are not dates count as missing: 'unknown'." in result.notes


def test_a_day_that_could_be_a_month_is_noted():
    cells = [f"{1 + number % 12:02d}/{1 + number % 11:02d}/2024" for number in range(20)]

    assert any("could also be read as day/month/year" in note for note in prepared(cells).notes)


@pytest.mark.parametrize("cells", [["a", "b"], ["1", "2"], [1, 2], ["2024", "2025"], ["1.5", "2.5"], [True, False]])
def test_other_columns_are_not_dates(cells):
    assert read_dates(pd.Series(cells * 6)) is None


@given(
    st.lists(st.datetimes(dt.datetime(1975, 1, 1), dt.datetime(2060, 1, 1)), min_size=12, max_size=12, unique=True),
    st.sampled_from(LAYOUTS),
)
@settings(max_examples=30, deadline=None)
def test_texts_of_any_layout_are_read_back(days, layout):
    texts = [day.isoformat(sep=" ") if layout == ISO else day.strftime(layout) for day in days]

    dates = read_dates(pd.Series(texts))

    assert dates is not None
    possible = {dates.layout, dates.or_layout}
    assert layout in possible or [day.strftime(dates.layout) for day in dates.times] == texts


NO_TIME = pd.Timestamp(0)


@given(
    st.lists(st.sampled_from(["2024-01-31", "2024-01-31T23:59:00Z", "31.01.2024", "7", "", None]), min_size=1),
    st.sampled_from(LAYOUTS[:4]),
)
def test_texts_are_read_as_one_by_one(texts, layout):
    times = to_times(pd.Series(texts, dtype="str", index=range(3, 3 + len(texts))), layout)

    one_by_one = [to_times(pd.Series([text], dtype=object), layout).iloc[0] for text in texts]
    assert times.index.tolist() == list(range(3, 3 + len(texts)))
    assert [None if pd.isna(time) else time for time in times] == [
        None if pd.isna(time) else time for time in one_by_one
    ]


@pytest.mark.parametrize(
    ("bounds", "part", "text"),
    [
        ([(Op.ABOVE, 5.5)], "weekday", "joined: weekday ≥ Saturday"),
        ([(Op.AT_MOST, 3.5)], "month", "joined: month ≤ March"),
        ([(Op.ABOVE, 17.5), (Op.AT_MOST, 20.5)], "hour", "18 ≤ joined: hour ≤ 20"),
        ([(Op.ABOVE, 2022.5), (Op.AT_MOST, 2023.5)], "year", "joined: year = 2023"),
        ([(Op.AT_MOST, 30.5)], "days", "joined ≤ 2023-02-01"),
        ([(Op.ABOVE, 30.5)], "days", "joined ≥ 2023-02-02"),
    ],
)
def test_conditions_read_well(bounds, part, text):
    conditions = [Condition("joined", op, value, part=DatePart(part, ISO, "2023-01-02")) for op, value in bounds]

    assert conditions_text(conditions) == conditions_text(conditions, exact=True) == text


def test_bounds_on_different_parts_are_not_merged():
    part = [DatePart(name, ISO, "2023-01-02") for name in ("year", "month")]

    text = conditions_text(
        [Condition("d", Op.ABOVE, 2023.5, part=part[0]), Condition("d", Op.ABOVE, 5.5, part=part[1])]
    )

    assert text == "d: year ≥ 2024 and d: month ≥ June"


@pytest.mark.parametrize("layout", ["%Y-%m-%d %H:%M:%S", "%d.%m.%Y %H:%M", None])
@pytest.mark.parametrize("large", [False, True])
def test_raw_cells_and_pandas_satisfy_the_same_conditions_as_the_features(layout, large):
    cells = [day.strftime(layout) for day in DAYS] if layout else DAYS
    result = prepared([*cells[:-1], None])
    columns, df = result.columns, pd.DataFrame({"joined": [*cells[:-1], None]})
    for index, feature in enumerate(columns.features):
        assert feature.kind is FeatureKind.DATE
        bound = float(np.unique(columns.column(index))[1]) + 0.5
        (condition,) = conditions_of(columns.features, [2 * index + large], [bound])
        expected = ((columns.column(index) > bound) == large).tolist()
        rows = [{"joined": None if cell is None else str(cell)} for cell in [*cells[:-1], None]]

        assert match_cells([[condition]], rows)[0].tolist() == expected
        assert eval(_pandas_mask(condition), {"df": df, "pd": pd}).tolist() == expected
        assert ConditionRecord(**vars_of(condition)).condition == condition


def vars_of(condition):
    return {name: getattr(condition, name) for name in ("feature", "op", "value", "or_missing", "part")}


def test_sql_compares_days_and_years_with_dates():
    part = {name: DatePart(name, ISO, "2023-01-02") for name in ("days", "year", "weekday")}

    assert StandardWriter().condition(Condition("d", Op.ABOVE, 30.5, part=part["days"])) == "\"d\" >= '2023-02-02'"
    assert StandardWriter().condition(Condition("d", Op.AT_MOST, 2023.5, part=part["year"])) == "\"d\" < '2024-01-01'"
    assert (
        StandardWriter().condition(Condition("d", Op.ABOVE, 5.5, part=part["weekday"]))
        == 'EXTRACT(ISODOW FROM CAST("d" AS TIMESTAMP)) > 5'
    )


def test_new_dates_are_encoded_as_the_old_and_other_texts_are_missing():
    encoder = prepared([day.strftime("%d.%m.%Y") for day in DAYS]).encoder

    matrix = encoder.encode(pd.DataFrame({"joined": ["03.01.2024", "soon", None]}))

    fills = [feature.fill for feature in encoder.features]
    assert matrix[:, 0].tolist() == [2024, 1, 3, 366]
    assert matrix[:, 1].tolist() == matrix[:, 2].tolist() == fills


def test_dates_survive_a_file(tmp_path):
    columns = prepared(DAYS).columns
    columns.save(tmp_path / "columns")

    assert Columns.load(tmp_path / "columns").features == columns.features


@settings(max_examples=30, deadline=None)
@given(
    st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1)),
    st.sampled_from(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M", " %Y-%m-%d", "%Y-%m-%d %I:%M %p"]),
)
def test_no_iso_date_is_a_date_of_another_layout(time, written):
    texts = pd.Series([time.strftime(written)], dtype=object)

    assert not any(to_times(texts, layout).notna().any() for layout in LAYOUTS if layout != ISO)
