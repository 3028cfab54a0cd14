from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maabo_dist.data import row_sample
from maabo_dist.data.datasets import Dataset
from maabo_dist.data.row_classes import NO_CLASS, read_classes
from maabo_dist.data.row_hash import hash_rows
from maabo_dist.data.row_sample import draw_sample, plan_sample
from maabo_dist.data.split import Part
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings
from tests.reference import rows as slow

PLAN = {"seed": 3, "split_seed": 4, "holdout": 0.2, "test_size": 0.3}


def table(rows, seed=0, levels=4):
    """A table with many identical rows."""
    rng = np.random.default_rng(seed)
    texts = np.array(["a", "b", None], object)[rng.integers(0, 3, rows)]
    return pd.DataFrame({"x": rng.integers(0, levels, rows), "t": texts, "y": rng.choice(["no", "yes"], rows)})


def sample_of(frame, folder, size=500, **plan):
    opened = Dataset.open(frame)
    folder.mkdir(exist_ok=True)
    classes = read_classes(opened, TableSettings(target="y"), folder)
    made = replace(plan_sample(classes.totals, size, **PLAN), **plan)
    columns = [name for name in frame if name != "y"]
    drawn, parts = draw_sample(opened, columns, classes, made, folder)
    return drawn, parts, classes, made


cells = st.one_of(st.none(), st.floats(allow_infinity=False), st.just(-0.0))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(cells, st.one_of(st.none(), st.text(max_size=3)), st.integers(-5, 5)), min_size=1, max_size=9)
)
def test_hashes_of_rows_are_those_of_their_cells(rows):
    numbers, texts, whole = zip(*rows, strict=True)
    texts = pa.array(texts, pa.string()).dictionary_encode()
    batch = pa.RecordBatch.from_arrays([pa.array(numbers, pa.float64()), texts, pa.array(whole)], names=list("abc"))

    assert hash_rows(batch).tolist() == [slow.hash_row(row) for row in rows]


@pytest.mark.parametrize("numbered", [1.0, 0.4])
def test_rows_are_drawn_as_one_by_one(tmp_path, numbered):
    frame = table(2000)
    rates = (0.3 * numbered, 0.9 * numbered)
    drawn, of_rows, classes, plan = sample_of(frame, tmp_path, rates=rates, numbered=numbered)
    texts = frame["t"].where(frame["t"].notna(), None)
    rows = zip(classes.labels.tolist(), texts, frame["x"].tolist(), strict=True)

    parts, expected = slow.draw([slow.hash_row(row) for row in rows], classes.labels.tolist(), plan)

    assert of_rows.tolist() == parts
    assert len(drawn.frame) == len(expected)
    assert drawn.totals.sum() == 2000


def test_neither_the_order_nor_the_number_of_files_matters(tmp_path):
    frame = table(3000, levels=300)
    first, *_ = sample_of(frame, tmp_path / "1")
    second, *_ = sample_of(frame.sample(frac=1, random_state=1), tmp_path / "2")

    pd.testing.assert_frame_equal(first.frame, second.frame)
    assert first.labels.tolist() == second.labels.tolist()
    assert first.parts.tolist() == second.parts.tolist()
    assert (first.totals == second.totals).all()
    assert first.checksum == second.checksum


def test_identical_rows_are_split_and_drawn_one_by_one(tmp_path):
    frame = pd.DataFrame({"x": [1] * 20_000, "y": ["no", "yes"] * 10_000})
    drawn, _, _, plan = sample_of(frame, tmp_path, size=4000)

    shares = drawn.totals.sum(axis=1) / 20_000
    assert shares == pytest.approx([0.56, 0.24, 0.2], abs=0.02)
    assert len(drawn.frame) == pytest.approx(4000, abs=300)
    assert plan.is_uniform
    assert Part.HOLDOUT not in drawn.parts


def test_all_mined_rows_of_a_rare_class_are_drawn(tmp_path):
    frame = table(20_000, levels=1000)
    frame.loc[:59, "y"] = "rare"
    drawn, _, classes, plan = sample_of(frame, tmp_path, size=2000)
    rare = classes.classes.index("rare")

    assert plan.rates[rare] == 1.0
    assert (drawn.labels == rare).sum() == drawn.totals[[Part.TRAIN, Part.VALIDATION], rare].sum()
    assert len(drawn.frame) == pytest.approx(2000, abs=200)


def test_rows_beyond_the_table_of_hashes_are_still_drawn_at_the_rate(tmp_path, monkeypatch):
    monkeypatch.setattr(row_sample, "MAX_NUMBERED", 4000)
    drawn, _, _, plan = sample_of(table(20_000, levels=10**6), tmp_path, size=1500)

    assert plan.numbered == 0.2
    assert len(drawn.frame) == pytest.approx(1500, abs=150)


def test_classes_are_those_of_the_whole_target(tmp_path):
    frame = pd.DataFrame({"x": range(1000), "y": [None, "b", "a", "?"] * 250})

    read = read_classes(Dataset.open(frame), TableSettings(target="y", na_values=("?",)), tmp_path)

    assert read.classes == ("a", "b")
    assert read.totals.tolist() == [250, 250]
    assert read.labels[:4].tolist() == [NO_CLASS, 1, 0, NO_CLASS]


def test_a_numeric_target_is_cut_at_the_median_of_all_rows(tmp_path):
    frame = pd.DataFrame({"y": np.arange(1001.0)})

    read = read_classes(Dataset.open(frame), TableSettings(target="y"), tmp_path)

    assert read.text == "y above 500"
    assert read.totals.tolist() == [501, 500]


def test_a_target_without_classes_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="has 1 class"):
        read_classes(Dataset.open(pd.DataFrame({"y": ["a"] * 20})), TableSettings(target="y"), tmp_path)
    texts = [f"id {number}" for number in range(20_000)]
    with pytest.raises(DatasetError, match=r"more than 10,000 values"):
        read_classes(Dataset.open(pd.DataFrame({"y": texts})), TableSettings(target="y"), tmp_path)
