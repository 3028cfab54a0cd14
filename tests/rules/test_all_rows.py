"""Counts of rules on all rows of a dataset: equal to those of the slow twin, in any number of pieces and threads."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.contract.conditions import Condition, DatePart, Op
from maabo_dist.data.datasets import Dataset
from maabo_dist.data.encoder import TableEncoder, read_column
from maabo_dist.rules.all_rows import AllRows, DatasetRows
from maabo_dist.settings import TableSettings
from tests.reference import rows as slow

CLASSES = ("no", "perhaps", "yes")


def table(rng, rows):
    gaps = rng.random(rows) < 0.2
    return pd.DataFrame(
        {
            "amount": np.where(gaps, np.nan, rng.normal(size=rows).round(1)),
            "count": rng.integers(0, 9, rows).astype(np.int32),
            "city": np.array(["Rome", "Oslo", "Lima", None], object)[rng.integers(0, 4, rows)],
            "paid": rng.random(rows) < 0.5,
            "limit": rng.choice([1.0, np.inf, 3.0], rows),
        }
    )


def rows_of(frame, rng, source=None):
    readings = [read_column(frame[name], TableSettings(max_levels=2)) for name in frame]
    encoder = TableEncoder(tuple(feature for reading in readings for feature in reading.features))
    labels, parts = (rng.integers(0, 3, len(frame)).astype(np.uint8) for _ in range(2))
    totals = np.zeros((3, 3), np.int64)
    np.add.at(totals, (parts, labels), 1)
    return DatasetRows(Dataset.open(frame if source is None else source), CLASSES, labels, parts, totals, encoder)


conditions = st.one_of(
    st.builds(
        Condition,
        st.sampled_from(["amount", "count", "limit"]),
        st.sampled_from([Op.AT_MOST, Op.ABOVE, Op.AT_LEAST]),
        st.sampled_from([-1.0, 0.0, 0.3, 2.0, 5.0]),
        st.booleans(),
    ),
    st.builds(Condition, st.just("city"), st.sampled_from([Op.IS, Op.IS_NOT]), st.just("Oslo"), st.booleans()),
    st.builds(
        Condition, st.just("city"), st.sampled_from([Op.IN, Op.NOT_IN]), st.just(("Lima", "Rome")), st.booleans()
    ),
    st.builds(Condition, st.just("paid"), st.just(Op.IS), st.sampled_from(["true", "false"])),
    st.builds(
        Condition, st.sampled_from(["amount", "city"]), st.sampled_from([Op.IS_MISSING, Op.IS_PRESENT]), st.none()
    ),
)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.lists(st.lists(conditions, max_size=3).map(tuple), min_size=1, max_size=5))
def test_counts_are_those_of_a_row_by_row_count(seed, premises):
    rng = np.random.default_rng(seed)
    frame = table(rng, 150)
    rows = rows_of(frame, rng)
    records = [
        {name: None if value is None else value for name, value in row.items()} for row in frame.to_dict("records")
    ]
    counter = AllRows(rows, ())

    counter.count_premises(premises)

    for premise in premises:
        expected = slow.count_rows(premise, records, rows.labels.tolist(), rows.parts.tolist(), 3)
        assert counter.counts_of(premise).tolist() == expected


def test_dates_and_texts_that_are_numbers_are_read_as_the_table_was(tmp_path):
    rng = np.random.default_rng(0)
    days = pd.Series(pd.date_range("2024-01-01", periods=200, freq="D"))
    frame = pd.DataFrame({"day": days, "code": [f" {number}" for number in range(200)]})
    rows = rows_of(frame, rng)
    weekend = Condition("day", Op.ABOVE, 5.0, part=DatePart("weekday", "ISO8601", ""))
    large = Condition("code", Op.ABOVE, 99.5)
    counter = AllRows(rows, ())

    counter.count_premises([(weekend,), (large,), (weekend, large)])

    is_weekend, is_large = (days.dt.day_of_week >= 5).to_numpy(), np.arange(200) > 99
    assert counter.counts_of((weekend,)).sum() == is_weekend.sum()
    assert counter.counts_of((large,)).sum() == 100
    assert counter.counts_of((weekend, large)).sum() == (is_weekend & is_large).sum()


def test_a_row_group_without_readable_dates_is_no_error(tmp_path):
    days = pd.date_range("2024-01-01", periods=42).strftime("%Y-%m-%d")
    frame = pd.DataFrame({"day": [*days, *["soon", "later"] * 14]})
    frame.to_parquet(tmp_path / "days.parquet", row_group_size=14)
    weekend = Condition("day", Op.ABOVE, 5.0, part=DatePart("weekday", "ISO8601", ""))
    counter = AllRows(rows_of(frame, np.random.default_rng(4), tmp_path), ())

    counter.count_premises([(weekend,)])

    assert counter.counts_of((weekend,)).sum() == 12


@pytest.mark.parametrize("threads", [1, 3])
def test_counts_do_not_depend_on_row_groups_and_threads(tmp_path, threads):
    frame = table(np.random.default_rng(1), 4000)
    for number, rows in enumerate(np.array_split(np.arange(4000), 3)):
        frame.iloc[rows].to_parquet(tmp_path / f"{number}.parquet", row_group_size=100 + number)
    premises = [
        (Condition("amount", Op.ABOVE, 0.0), Condition("city", Op.IS, "Oslo")),
        (Condition("paid", Op.IS, "true"),),
    ]
    progress = []

    def report(done, rows):
        progress.append((done, rows))

    whole, parts = (
        AllRows(rows_of(frame, np.random.default_rng(2), source), (), threads, report) for source in (None, tmp_path)
    )
    whole.count_premises(premises)
    parts.count_premises(premises)

    for premise in premises:
        assert (whole.counts_of(premise) == parts.counts_of(premise)).all()
    assert progress[-1] == (4000, 4000)
    assert whole.overlaps(premises, [0, 1]).combinations.keys() == parts.overlaps(premises, [0, 1]).combinations.keys()


def test_overlaps_are_those_of_the_rules_rows():
    rng = np.random.default_rng(3)
    frame = table(rng, 3000)
    rows = rows_of(frame, rng)
    premises = [
        (Condition("count", Op.AT_MOST, 4.0),),
        (Condition("count", Op.ABOVE, 2.0),),
        (Condition("paid", Op.IS, "true"),),
    ]
    masks = np.array([frame["count"] <= 4, frame["count"] > 2, frame["paid"]])

    found = AllRows(rows, ()).overlaps(premises, [0, 0, 2])

    alone = masks & (masks.sum(axis=0) == 1) & (rows.parts == 0)
    assert found.unique.tolist() == alone.sum(axis=1).tolist()
    explained = [(masks[:2].any(axis=0) & (rows.labels == 0)).sum(), 0, (masks[2] & (rows.labels == 2)).sum()]
    assert found.explained.tolist() == explained
    codes = (masks * np.array([[1], [2], [4]])).sum(axis=0)
    for code, counts in found.combinations.items():
        assert counts.tolist() == np.bincount(rows.labels[codes == code], minlength=3).tolist()
    assert sum(counts.sum() for counts in found.combinations.values()) == 3000
