import os
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset, parquet

from maabo_dist.data.dataset_description import DatasetDescription
from maabo_dist.data.datasets import Dataset
from maabo_dist.errors import DatasetError


def table(rows=1000, seed=0):
    rng = np.random.default_rng(seed)
    gaps = rng.random(rows) < 0.1
    return pd.DataFrame(
        {
            "amount": np.where(gaps, np.nan, rng.normal(size=rows)),
            "count": rng.integers(0, 5, rows),
            "city": rng.choice(["Rome", "Oslo", "Lima"], rows),
            "paid": rng.random(rows) < 0.5,
        }
    )


def write_parts(frame, folder, parts, **options):
    folder.mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), parts)):
        frame.iloc[rows].to_parquet(folder / f"part-{number}.parquet", index=False, **options)
    return folder


def test_row_groups_are_read_in_order_with_their_positions(tmp_path):
    frame = table()
    opened = Dataset.open(write_parts(frame, tmp_path / "t", 2, row_group_size=300))

    batches = list(opened.batches(["city", "count"]))

    assert [(Path(each.file).name, each.row, each.start, each.cells.num_rows) for each in batches] == [
        ("part-0.parquet", 0, 0, 300),
        ("part-0.parquet", 300, 300, 200),
        ("part-1.parquet", 0, 500, 300),
        ("part-1.parquet", 300, 800, 200),
    ]
    assert opened.rows == 1000
    assert opened.read_frame()["count"].tolist() == frame["count"].tolist()
    assert batches[0].cells.schema.names == ["city", "count"]


def test_one_piece_can_be_read_alone(tmp_path):
    opened = Dataset.open(write_parts(table(), tmp_path / "t", 2, row_group_size=300))

    (batch,) = opened.batches(["count"], pieces=opened.pieces[2:3])

    assert (batch.start, batch.cells.num_rows) == (500, 300)


def test_hive_partitions_become_columns(tmp_path):
    for year, country in ((2023, "IT"), (2024, "NO"), (2024, "__HIVE_DEFAULT_PARTITION__")):
        write_parts(table(10), tmp_path / "t" / f"year={year}" / f"country={country}", 1)

    frame = Dataset.open(tmp_path / "t").read_frame(["year", "country", "count"])

    assert frame["year"].value_counts().to_dict() == {2024: 20, 2023: 10}
    assert frame["country"].value_counts(dropna=False).to_dict() == {"IT": 10, "NO": 10, np.nan: 10}


def test_text_files_have_the_types_of_all_their_parts(tmp_path):
    frame = table()
    frame.iloc[:400].assign(count=frame["count"].iloc[:400]).to_csv(tmp_path / "1.csv", index=False)
    frame.iloc[400:].assign(count=frame["count"].iloc[400:] + 0.5).to_csv(tmp_path / "2.csv.gz", index=False)

    opened = Dataset.open(str(tmp_path / "*.csv*"))

    assert [str(field.type) for field in opened.schema] == ["double", "double", "string", "bool"]
    pd.testing.assert_series_equal(opened.read_frame()["amount"], frame["amount"])


def test_other_tables_are_read_as_files_are(tmp_path):
    frame = table()
    folder = write_parts(frame, tmp_path / "t", 3)
    sources = [
        frame,
        pa.Table.from_pandas(frame),
        dataset.dataset(folder),
        pl.scan_parquet(folder / "*.parquet"),
        pl.read_parquet(folder / "*.parquet"),
        f"file://{folder}",
        sorted(folder.iterdir()),
    ]

    read = [Dataset.open(source).read_frame(["count", "city"]) for source in sources]

    for each in read:
        assert each["count"].tolist() == frame["count"].tolist()
        assert each["city"].tolist() == frame["city"].tolist()


def test_a_directory_without_tables_is_refused(tmp_path):
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "notes.txt").write_text("none")

    with pytest.raises(DatasetError, match="has no Parquet or CSV file"):
        Dataset.open(tmp_path)


@pytest.mark.parametrize("cut", [10, 1000])
def test_a_damaged_file_is_named(tmp_path, cut):
    path = write_parts(table(), tmp_path / "t", 2) / "part-1.parquet"
    path.write_bytes(path.read_bytes()[:-cut])

    with pytest.raises(DatasetError, match=r"part-1\.parquet is no whole Parquet file"):
        Dataset.open(tmp_path / "t")


def test_a_file_with_damaged_pages_is_named_when_it_is_read(tmp_path):
    path = write_parts(table(), tmp_path / "t", 2) / "part-1.parquet"
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)
    path.write_bytes(content)

    with pytest.raises(DatasetError, match=r"part-1\.parquet cannot be read as Parquet"):
        Dataset.open(tmp_path / "t").read_frame()


def test_a_file_with_another_schema_is_named(tmp_path):
    folder = write_parts(table(), tmp_path / "t", 2)
    table().assign(count="many").to_parquet(folder / "part-2.parquet")

    with pytest.raises(DatasetError, match=r"part-2\.parquet has another schema than .*'count' is string, not int64"):
        Dataset.open(folder)


def test_a_column_without_values_has_the_type_of_the_other_files(tmp_path):
    folder = write_parts(table(), tmp_path / "t", 1)
    empty = pa.Table.from_pandas(table(10)).set_column(2, "city", pa.nulls(10))
    parquet.write_table(empty, folder / "part-0-empty.parquet")

    assert Dataset.open(folder).read_frame()["city"].isna().sum() == 10


@pytest.mark.parametrize("change", ["removed", "rewritten"])
def test_a_file_that_changes_is_named(tmp_path, change):
    folder = write_parts(table(), tmp_path / "t", 2)
    opened = Dataset.open(folder)
    path = folder / "part-1.parquet"
    if change == "removed":
        path.unlink()
    else:
        status = path.stat()
        table(seed=1).iloc[500:].to_parquet(path, index=False)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    with pytest.raises(DatasetError, match=r"part-1\.parquet"):
        opened.check_unchanged()


def test_csv_files_with_other_columns_or_broken_lines_are_named(tmp_path):
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("a,c\n1,2\n")
    with pytest.raises(DatasetError, match=r"2\.csv has other columns than .*1\.csv: it lacks 'b'"):
        Dataset.open(tmp_path)

    (tmp_path / "2.csv").write_text("a,b\n1,2,3\n")
    with pytest.raises(DatasetError, match=r"2\.csv cannot be read as delimited text"):
        Dataset.open(tmp_path)


def test_files_elsewhere_are_read_through_fsspec(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    frame = table()
    memory = fsspec.filesystem("memory")
    for number, path in enumerate(sorted(write_parts(frame, tmp_path / "t", 2).iterdir())):
        memory.pipe_file(f"/bucket/sales/year={number}/part.parquet", path.read_bytes())

    opened = Dataset.open("memory://bucket/sales/")

    assert opened.read_frame(["count"])["count"].tolist() == frame["count"].tolist()
    assert opened.read_frame(["year"])["year"].sum() == 500
    opened.check_unchanged()


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("true", "5", pa.string()),
        ("5", "true", pa.string()),
        ("5", "0.5", pa.float64()),
        ("true", "", pa.bool_()),
        ("true", "0", pa.bool_()),
        ("", "", pa.int64()),
    ],
)
def test_a_csv_column_has_a_type_that_the_cells_of_all_files_have(tmp_path, first, second, expected):
    (tmp_path / "1.csv").write_text(f"a,b\n{first},1\n")
    (tmp_path / "2.csv").write_text(f"a,b\n{second},2\n")

    opened = Dataset.open(str(tmp_path / "*.csv"))

    assert opened.schema.field("a").type == expected
    assert sum(batch.cells.num_rows for batch in opened.batches(["a"])) == 2


def test_decimal_commas_of_several_files_are_numbers(tmp_path):
    (tmp_path / "1.csv").write_text("a;b\n1;x,y\n1.000,5;z\n")
    (tmp_path / "2.csv").write_text("a;b\n2,25;\n;v\n")

    frame = Dataset.open(tmp_path).read_frame()

    assert frame["a"].iloc[:3].tolist() == [1.0, 1000.5, 2.25]
    assert frame["a"].isna().tolist() == [False, False, False, True]
    assert frame["b"].iloc[0] == "x,y"


def test_partitions_of_text_files_are_columns(tmp_path):
    for year in (2023, 2024):
        (tmp_path / f"year={year}").mkdir()
        (tmp_path / f"year={year}" / "part.csv").write_text("a,b\n1,x\n2,y\n")

    opened = Dataset.open(tmp_path)

    assert opened.names == ("a", "b", "year")
    assert opened.read_frame()["year"].tolist() == [2023, 2023, 2024, 2024]
    assert opened.read_frame(["year"])["year"].tolist() == [2023, 2023, 2024, 2024]
    assert DatasetDescription.of(opened).open().read_frame(["year", "b"])["year"].sum() == 2 * (2023 + 2024)
