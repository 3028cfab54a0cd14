"""Tables that are read in blocks of columns are prepared as tables that are read whole."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather, parquet

from maabo_dist.data import column_blocks
from maabo_dist.data.column_sources import ArrowSource, FrameSource, open_columns
from maabo_dist.data.columns import Columns, ColumnsBuilder
from maabo_dist.data.preparation import frame_from_arrays, prepare
from maabo_dist.data.readers import mask_texts, read_table
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings
from tests import factories

ROWS = 60


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch):
    """Blocks of two columns."""
    monkeypatch.setattr(column_blocks, "BLOCK_CELLS", 2 * ROWS)


def messy_frame():
    """Numbers, text, dates and truth values, with gaps, a constant, a copy and an identifier."""
    random = np.random.default_rng(4)
    number = random.normal(size=ROWS).round(1)
    frame = pd.DataFrame(
        {
            "number": np.where(random.random(ROWS) < 0.1, np.nan, number),
            "whole": random.integers(0, 9, ROWS),
            "text": random.choice(["a", "b", "?", None], ROWS),
            "category": pd.Categorical(random.choice(["low", "high"], ROWS)),
            "date": [dt.datetime(2024, 1, 1) + dt.timedelta(days=int(k)) for k in random.integers(0, 500, ROWS)],
            "true": pd.array(random.choice([True, False, None], ROWS), "boolean"),
            "a.b": random.random(ROWS).astype(np.float32),
            "a": random.random(ROWS),
            "constant": 1,
            "row_id": np.arange(ROWS),
            "y": random.choice(["no", "yes"], ROWS),
        }
    )
    return frame.assign(copy=frame["whole"])


def write(frame, path):
    table = pa.Table.from_pandas(frame)
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
    else:
        feather.write_feather(table, path, compression="lz4" if "lz4" in path.name else "uncompressed")
    return path


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t-lz4.feather"])
@pytest.mark.parametrize("options", [{}, {"impute": "drop"}, {"missing_indicator": True}, {"na_values": ("?",)}])
def test_a_file_in_blocks_is_prepared_as_the_whole_table(tmp_path, monkeypatch, name, options):
    path, given = write(messy_frame(), tmp_path / name), TableSettings(target="y", **options)

    source = open_columns(path, na_values=given.na_values)
    by_block = prepare(source, given)

    monkeypatch.undo()
    whole = prepare(read_table(path, na_values=given.na_values), given)
    assert isinstance(source, ArrowSource)
    assert by_block.columns.fingerprint == whole.columns.fingerprint
    assert (by_block.notes, by_block.encoder) == (whole.notes, whole.encoder)


def test_the_index_that_pandas_stores_is_no_column(tmp_path):
    frame = messy_frame().iloc[::-1]

    source = open_columns(write(frame, tmp_path / "t.parquet"))

    assert isinstance(source, ArrowSource)
    assert source.names == list(frame.columns)
    assert source.read(["whole"])["whole"].tolist() == frame["whole"].tolist()


def test_a_file_whose_columns_have_no_names_is_read_whole(tmp_path):
    frame = messy_frame()
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.Table.from_pandas(frame).rename_columns(["", *frame.columns[1:]]), path)

    source = open_columns(path)

    assert isinstance(source, FrameSource)
    assert source.names[0] == "column 1"
    assert source.notes == ("Column 1 has no name and is called 'column 1'.",)


def save_array(path, array):
    np.save(path, array)
    return path


def arrays():
    """A matrix in both orders and both byte orders, and records of all kinds."""
    random = np.random.default_rng(5)
    matrix = np.where(random.random((ROWS, 7)) < 0.1, np.nan, random.normal(size=(ROWS, 7)).round(1))
    matrix[:, 6] = random.integers(0, 2, ROWS)
    frame = messy_frame()
    records = np.empty(
        ROWS,
        [("a", "f2"), ("whole", ">i4"), ("true", "?"), ("date", "M8[ns]"), ("text", "U4"), ("b", "f8"), ("x6", "U3")],
    )
    for name, cells in {
        "a": frame["a"].to_numpy(),
        "whole": frame["whole"].to_numpy(),
        "true": frame["true"].fillna(False).to_numpy(bool),
        "date": frame["date"].to_numpy(),
        "text": frame["text"].fillna("NA").to_numpy(),
        "b": frame["number"].to_numpy(),
        "x6": frame["y"].to_numpy(),
    }.items():
        records[name] = cells
    return {"C": matrix, "F": np.asfortranarray(matrix), "other bytes": matrix.astype(">f4"), "records": records}


@pytest.mark.parametrize("kind", ["C", "F", "other bytes", "records"])
@pytest.mark.parametrize("options", [{}, {"impute": "drop"}, {"na_values": ("?",)}])
def test_an_array_in_blocks_is_prepared_as_its_frame(tmp_path, monkeypatch, kind, options):
    array, given = arrays()[kind], TableSettings(target="x6", **options)
    source = open_columns(save_array(tmp_path / "t.npy", array), na_values=given.na_values)
    by_block = prepare(source, given)

    monkeypatch.undo()
    frame = (
        frame_from_arrays(array.astype("f8"))
        if kind != "records"
        else pd.DataFrame({name: array[name].astype(array.dtype[name].newbyteorder("=")) for name in array.dtype.names})
    )
    frame = mask_texts(frame, ("NA", *given.na_values))
    whole = prepare(frame, given)
    assert source.names == list(frame.columns)
    assert by_block.columns.fingerprint == whole.columns.fingerprint
    assert (by_block.notes, by_block.encoder) == (whole.notes, whole.encoder)
    assert prepare(read_table(source.path, na_values=given.na_values), given).columns.fingerprint == (
        whole.columns.fingerprint
    )


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(5), r"of the shape \(5,\)\. Save a matrix"),
        (np.zeros((5, 2, 2)), r"of the shape \(5, 2, 2\)"),
        (np.zeros((0, 3)), "no cells"),
        (np.zeros((5, 2), complex), "of type complex128 cannot be read"),
        (np.zeros(5, [("a", "f8"), ("b", "f8", 3)]), "column 'b' of type"),
        (np.array([[1, "a"]], object), "cannot be read as NPY"),
    ],
)
def test_an_array_that_is_no_table_is_refused(tmp_path, array, message):
    with pytest.raises(DatasetError, match=message):
        open_columns(save_array(tmp_path / "t.npy", array))


def test_a_damaged_file_is_an_error_with_its_name(tmp_path):
    path = write(messy_frame(), tmp_path / "t.parquet")
    path.write_bytes(path.read_bytes()[:-40])

    with pytest.raises(DatasetError, match=r"t.parquet cannot be read as Parquet"):
        open_columns(path)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.integers(1, 4), min_size=1, max_size=5), st.booleans())
def test_joined_columns_equal_those_of_one_matrix(seed, counts, on_disk):
    columns = factories.make_columns(np.random.default_rng(seed), 40, sum(counts), 3)
    matrix = np.array([columns.column(index) for index in range(columns.count)])

    def part(start, stop):
        about = (columns.labels, columns.features[start:stop], columns.classes, columns.target)
        return Columns.from_matrix(matrix[start:stop], *about)

    stops = np.cumsum(counts).tolist()
    builder = ColumnsBuilder(on_disk=on_disk)
    for start, stop in zip([0, *stops[:-1]], stops, strict=True):
        builder.add(part(start, stop))
    joined = builder.finish()

    assert joined.fingerprint == part(0, columns.count).fingerprint
