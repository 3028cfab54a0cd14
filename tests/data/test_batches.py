"""Tables that are read in parts have the cells of tables that are read whole."""

import gzip
import io
import json
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import feather

from maabo_dist.data import batches, text_files
from maabo_dist.data.batches import open_batches
from maabo_dist.data.file_checks import NOTES
from maabo_dist.data.readers import read_table
from maabo_dist.errors import DatasetError

WRITERS = {
    ".csv": lambda frame, path: frame.to_csv(path, index=False),
    ".tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    ".csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    ".parquet": lambda frame, path: frame.to_parquet(path, row_group_size=7),
    ".feather": lambda frame, path: feather.write_feather(frame, str(path), chunksize=6),
    ".jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    ".json": lambda frame, path: frame.to_json(path, orient="records"),
    ".xlsx": lambda frame, path: frame.to_excel(path, index=False),
}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(batches, "BATCH_ROWS", 5)
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 64)


def a_frame(rows=23):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "whole": rng.integers(-5, 5, rows),
            "number": rng.normal(size=rows),
            "gaps": np.where(rng.random(rows) < 0.4, np.nan, rng.integers(0, 9, rows)),
            "text": rng.choice(["a", "b,c", 'say "d"', "ü"], rows),
            "flag": rng.random(rows) < 0.5,
        }
    )
    frame.loc[rows - 2, "text"] = None
    return frame


def read_parts(path, columns=None, **options):
    """Return all parts as one frame of objects, the number of parts, and the notes."""
    with open_batches(path, **options) as parts:
        frames = [batch.frame for batch in parts.read(columns or parts.names)]
        return pd.concat([frame.astype(object) for frame in frames], ignore_index=True), len(frames), parts.notes


def same_cells(one, other):
    assert list(one.columns) == list(other.columns)
    for name in one.columns:
        for left, right in zip(one[name].astype(object), other[name].astype(object), strict=True):
            assert (pd.isna(left) and pd.isna(right)) or (
                left == right and isinstance(left, str) == isinstance(right, str)
            )


@pytest.mark.parametrize("suffix", WRITERS)
def test_the_parts_of_a_file_have_the_cells_of_the_whole_file(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    WRITERS[suffix](a_frame(), path)

    parts, count, _ = read_parts(path)

    same_cells(parts, read_table(path))
    assert count > 2


@pytest.mark.parametrize("suffix", WRITERS)
def test_only_the_requested_columns_are_read(tmp_path, suffix):
    path = tmp_path / f"table{suffix}"
    WRITERS[suffix](a_frame(), path)

    parts, _, _ = read_parts(path, ["text", "whole"])

    assert len(parts) == len(a_frame())
    same_cells(parts[["text", "whole"]], read_table(path)[["text", "whole"]])


cell = st.sampled_from(
    [
        "1",
        "0",
        " 7",
        "-3",
        "2.5",
        "1e3",
        "true",
        "False",
        "TRUE",
        "",
        "NA",
        "?",
        "x",
        "2024-01-31",
        "12:30",
        "007",
        "9223372036854775808",
        "1,5",
        "1.234,5",
        "nan",
        "inf",
        "0x1F",
        " NA",
        "a b",
        "2024-01-31 10:00",
        '"q"',
        "\tz",
    ]
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[cell] * width), min_size=1, max_size=30)),
    st.sampled_from([",", ";"]),
)
def test_columns_of_text_get_the_type_that_all_of_their_cells_have(tmp_path, rows, separator):
    path = tmp_path / "table.csv"
    quoted = [['"' + each.replace('"', '""') + '"' if set(each) & set(',;"') else each for each in row] for row in rows]
    header = [f"c{index}" for index in range(len(rows[0]))] + ["last"]
    lines = [separator.join([*row, "z"]) for row in quoted]
    path.write_text("\n".join([separator.join(header), *lines]) + "\n")

    parts, _, notes = read_parts(path, na_values=("?",))
    whole = read_table(path, na_values=("?",))

    same_cells(parts, whole)
    assert sorted(notes) == sorted(whole.attrs.get(NOTES, ()))


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig"])
def test_other_encodings_and_decimal_commas_are_read_in_parts(tmp_path, encoding):
    path = tmp_path / "table.csv"
    text = "größe;preis\n" + "".join(f"wert {number} é;{number},5\n" for number in range(20))
    path.write_bytes(text.encode(encoding))

    parts, count, notes = read_parts(path)

    same_cells(parts, read_table(path))
    assert list(notes) == list(read_table(path).attrs[NOTES])
    assert count > 2


def test_a_column_without_a_name_is_called_by_its_number(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(",a\n" + "".join(f"{number},{number % 3}\n" for number in range(12)))

    parts, _, notes = read_parts(path, ["column 1"])

    assert parts["column 1"].tolist() == list(range(12))
    assert notes == ["Column 1 has no name and is called 'column 1'."]


def test_a_type_that_shows_late_in_the_file_holds_from_the_first_row(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "1,2\n" * 40 + "x,2.5\n")

    parts, _, _ = read_parts(path)

    assert parts["a"].tolist() == ["1"] * 40 + ["x"]
    assert isinstance(parts["b"][0], float)


def test_objects_of_json_lines_may_have_different_keys(tmp_path):
    path = tmp_path / "table.jsonl"
    records = [{"a": number} for number in range(9)] + [{"b": "late", "a": None}]
    path.write_text("\n".join(map(json.dumps, records)))

    parts, _, _ = read_parts(path)

    assert parts["b"].tolist()[-1] == "late"
    same_cells(parts, read_table(path))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b"a,b\n1,2\n" * 30 + b"1,2,3\n"),
        ("t.csv", b"a,b\n"),
        ("t.csv", b""),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 400, mtime=0)[:-12]),
        ("t.jsonl", b'{"a": 1}\n' * 20 + b"not json\n"),
        ("t.jsonl", b'{"a": 1}\n[1]\n'),
        ("t.parquet", b"PAR1 nothing"),
        ("t.feather", b"ARROW1 nothing"),
        ("t.unknown", b"a"),
    ],
    ids=lambda value: value if isinstance(value, str) else len(value),
)
def test_a_file_that_cannot_be_read_gives_the_error_of_the_other_reader(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(DatasetError) as whole:
        read_table(path)
    with pytest.raises(DatasetError) as parts:
        read_parts(path)

    assert str(path) in str(parts.value)
    assert str(parts.value).splitlines()[0] == str(whole.value).splitlines()[0]


def test_standard_input_is_read_in_parts(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a,b\n" + b"1,x\n" * 20)))

    parts, count, _ = read_parts("-")

    assert (len(parts), count > 1) == (20, True)
