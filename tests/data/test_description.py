"""Summaries of tables: before they are read, and by column."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from maabo_dist.data.cells import ColumnDescription, describe
from maabo_dist.data.readers import Outline, outline, read_table
from maabo_dist.errors import DatasetError


def test_columns_are_described_as_the_features_they_would_become():
    frame = pd.DataFrame(
        {
            "number": [3.5, np.nan, -1.0],
            "yes or no": [True, False, True],
            "text": ["b", None, "a"],
            "when": [dt.datetime(2024, 1, day) for day in (1, 2, 3)],
            "endless": [1.0, np.inf, 2.0],
            "nothing": [np.nan] * 3,
        }
    )

    assert list(describe(frame)) == [
        ColumnDescription("number", "number", 1, 2, None, -1.0, 3.5),
        ColumnDescription("yes or no", "pair", 0, 2, ("false", "true")),
        ColumnDescription("text", "level", 1, 2, ("a", "b")),
        ColumnDescription("when", "other", 0),
        ColumnDescription("endless", "other", 0),
        ColumnDescription("nothing", "number", 3, 0),
    ]


@pytest.mark.parametrize(("text", "columns"), [("a,b,c\n1,2,3\n", 3), ("a;b\n1;2\n", 2), ('"a,b",c\n1,2\n', 2)])
def test_the_header_contains_the_number_of_columns(tmp_path, text, columns):
    path = tmp_path / "table.csv"
    path.write_text(text)

    assert outline(path) == Outline(columns, 0)
    assert len(read_table(path).columns) == columns


def test_a_parquet_file_contains_its_unpacked_size(tmp_path):
    path = tmp_path / "table.parquet"
    parquet.write_table(pa.table({"a": pa.repeat(1.5, 1_000_000), "b": pa.repeat(True, 1_000_000)}), path)

    assert path.stat().st_size < 100_000
    assert outline(path) == Outline(2, 9_000_000)


def test_a_damaged_file_has_no_outline(tmp_path):
    path = tmp_path / "table.parquet"
    path.write_bytes(b"PAR1 and no more PAR1")

    with pytest.raises(DatasetError, match="cannot be read as Parquet"):
        outline(path)
