"""The server reads an upload exactly as `maabo mine` reads the table."""

import gzip
from functools import partial

import pandas as pd
import pytest

from maabo_dist.client.payloads import CSV, upload_request
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.data.readers import read_table
from maabo_dist.errors import DatasetError
from maabo_dist.settings import TableSettings

FRAME = pd.DataFrame(
    {
        "a, b": [1.5, None, -999.0],
        "text": ["x\ty", 'say "no"', "line\nbreak"],
        "number": [1, 2, 3],
        "y": ["p", "q", "p"],
    }
)


def write(path):
    text = partial(FRAME.to_csv, index=False)
    match path.name:
        case "t.csv":
            text(path)
        case "t.tsv":
            text(path, sep="\t")
        case "t.csv.gz" | "t.tab.gz":
            path.write_bytes(gzip.compress(text(None, sep="\t" if "tab" in path.name else ",").encode()))
        case "t.parquet":
            FRAME.to_parquet(path)
        case _:
            FRAME.to_feather(path)


def as_received(upload, folder, **options):
    """Read the file as the server does, which knows the media type only."""
    copy = folder / ("received.csv" if upload.headers["Content-Type"] == CSV else "received.parquet")
    copy.write_bytes(upload.file.read_bytes())
    return read_table(copy, **options)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.tab.gz", "t.parquet", "t.feather"])
def test_the_server_reads_every_kind_of_file_as_maabo_mine_does(tmp_path, name):
    write(tmp_path / name)
    upload = upload_request(tmp_path / name, None, tmp_path)
    received = as_received(upload, tmp_path, na_values=("-999.0",))

    assert upload.params["name"] == name
    pd.testing.assert_frame_equal(received, read_table(tmp_path / name, na_values=("-999.0",)))


@pytest.mark.parametrize("name", ["diabetes", "wine"])
def test_an_uploaded_frame_gives_the_same_columns(tmp_path, name):
    frame, settings = load_bundled(name)
    upload = upload_request(frame, name, tmp_path)
    received = as_received(upload, tmp_path)

    assert prepare(received, settings).columns.fingerprint == prepare(frame, settings).columns.fingerprint


def test_categories_and_missing_cells_of_a_frame_arrive(tmp_path):
    cells = ["b", None, "a", "b"] * 10
    frame = pd.DataFrame(
        {"c": pd.Categorical(cells, ["b", "a"]), "n": pd.array([1, None, 3, 4] * 10, "Int64"), "y": [0, 1] * 20}
    )
    upload = upload_request(frame, None, tmp_path)
    received = as_received(upload, tmp_path)

    settings = TableSettings(target="y")
    assert prepare(received, settings).columns.fingerprint == prepare(frame, settings).columns.fingerprint


def test_a_frame_that_no_file_can_hold_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="cannot be sent"):
        upload_request(pd.DataFrame({"x": [1, "a", object()]}), None, tmp_path)


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(b"no gzip")
    (tmp_path / "t.feather").write_bytes(b"no feather")
    (tmp_path / "t.csv").write_bytes(b"")
    for name in ("t.csv.gz", "t.feather", "t.csv"):
        with pytest.raises(DatasetError, match=name):
            upload_request(tmp_path / name, None, tmp_path)
