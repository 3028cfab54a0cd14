"""Tables over HTTP: uploads in every form, limits, storage and deletion."""

import io
import os
from hashlib import sha256

import pandas as pd
import pytest

from scheduler.api.settings import ApiSettings
from tests.api.uploads import PARQUET, PEOPLE, as_parquet, send
from tests.api_data import files_in

pytestmark = pytest.mark.usefixtures("temporary")


@pytest.fixture
def api_settings(table_directory):
    return ApiSettings(upload_bytes=2_000_000, tables_url=f"file://{table_directory}", upload_columns=100)


def test_a_csv_table_is_stored_and_described(client, resources, temporary):
    response = send(client, PEOPLE, params={"name": "people.csv"})

    assert response.status_code == 201
    dataset = response.json()
    details = client.get(response.headers["location"]).json()
    digest = sha256(PEOPLE).hexdigest()
    facts = {"name": "people.csv", "format": "csv", "size": len(PEOPLE), "rows": 3, "columns": 3, "fingerprint": digest}
    assert facts.items() <= dataset.items() <= details.items()
    fields = ("name", "kind", "missing", "distinct", "levels", "smallest", "largest")
    assert [tuple(feature[key] for key in fields) for feature in details["features"]] == [
        ("age", "number", 0, 3, None, 34.0, 61.0),
        ("smokes", "pair", 0, 2, ["no", "yes"], None, None),
        ("city", "level", 1, 2, ["Bonn", "Rome"], None, None),
    ]
    assert [artifact.name for artifact in resources.store.list()] == [f"tables/{digest}"]
    assert files_in(temporary) == []


@pytest.mark.parametrize(
    ("media", "name"),
    [
        (PARQUET, None),
        ("application/x-parquet", "a"),
        ("application/octet-stream", "a.PARQUET"),
        ("", "a.parquet"),
    ],
)
def test_a_parquet_table_is_recognized_by_its_type_or_name(client, frame, media, name):
    response = send(client, as_parquet(frame), media, params={"name": name} if name else {})

    dataset = response.json()
    assert (response.status_code, dataset["format"], dataset["rows"], dataset["columns"]) == (
        201,
        "parquet",
        *frame.shape,
    )
    assert dataset["name"] == (name or "table.parquet")


@pytest.mark.parametrize(
    ("file_name", "media", "kind"),
    [
        ("C:\\data\\people.csv", "application/vnd.ms-excel", "csv"),
        ("people", "text/csv", "csv"),
        ("t.parquet", "application/octet-stream", "parquet"),
    ],
)
def test_a_form_with_a_file_is_accepted(client, frame, file_name, media, kind):
    body = PEOPLE if kind == "csv" else as_parquet(frame)
    response = client.post("/v1/datasets", files={"file": (file_name, body, media)})

    dataset = response.json()
    assert (response.status_code, dataset["format"]) == (201, kind)
    assert dataset["fingerprint"] == sha256(body).hexdigest()
    assert dataset["name"] == file_name.rpartition("\\")[2]


FORM = {"content-type": "multipart/form-data; boundary=x"}


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"files": {"other": ("a.csv", PEOPLE)}}, 422),
        ({"files": [("file", ("a.csv", PEOPLE)), ("file", ("b.csv", PEOPLE))]}, 422),
        ({"files": {"file": ("a.exe", PEOPLE)}}, 415),
        ({"content": b"", "headers": FORM}, 422),
        ({"content": b"--x--\r\n", "headers": FORM}, 422),
        ({"content": b"junk", "headers": FORM}, 422),
        ({"content": b"--x\r\n" + b"a: b\r\n" * 50, "headers": FORM}, 422),
        ({"content": b"--x", "headers": {"content-type": "multipart/form-data"}}, 422),
        ({"files": {"file": ("a.csv", b"a,b\n" + b"1,2\n" * 600_000)}}, 413),
    ],
)  # fmt: skip
def test_a_form_without_a_valid_table_is_rejected(client, nothing_left, form, status):
    response = client.post("/v1/datasets", **form)

    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    nothing_left()


def test_a_table_in_the_table_directory_is_found_by_its_path(client, table_directory):
    (table_directory / "sales" / "2024.csv").write_bytes(PEOPLE)
    response = client.post("/v1/datasets", json={"path": "sales/2024.csv", "name": "Sales"})

    assert (response.status_code, response.json()["name"]) == (201, "Sales")
    assert response.json()["fingerprint"] == sha256(PEOPLE).hexdigest()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("../outside.csv", 422),
        ("sales/../../outside.csv", 422),
        ("sales/./2024.csv", 422),
        ("/etc/passwd.csv", 422),
        ("sales//2024.csv", 422),
        ("..\\outside.csv", 422),
        ("%2e%2e/outside.csv", 422),
        ("sales/2024.csv\n", 422),
        ("sales/2024.csv\0", 422),
        ("sales/2024.txt", 422),
        ("", 422),
        (7, 422),
        ("sales", 422),
        ("sales/none.csv", 404),
        ("sales/folder.csv", 404),
        ("link.csv", 404),
        ("linked/outside.csv", 404),
        ("pipe.csv", 404),
        ("large.csv", 413),
    ],
)
def test_no_path_leads_out_of_the_table_directory(client, table_directory, nothing_left, path, status):
    (table_directory.parent / "outside.csv").write_bytes(PEOPLE)
    (table_directory / "link.csv").symlink_to("../outside.csv")
    (table_directory / "linked").symlink_to("..")
    (table_directory / "sales" / "folder.csv").mkdir()
    (table_directory / "large.csv").write_bytes(b"a,b\n" + b"1,2\n" * 600_000)
    os.mkfifo(table_directory / "pipe.csv")
    response = client.post("/v1/datasets", json={"path": path})

    assert response.status_code == status, response.text
    assert str(table_directory) not in response.text
    nothing_left()


@pytest.mark.parametrize("api_settings", [ApiSettings()])
def test_without_a_table_directory_paths_are_rejected(client, nothing_left):
    response = client.post("/v1/datasets", json={"path": "a.csv"})

    assert (response.status_code, response.json()["field"]) == (422, "path")
    assert "MAABO_TABLES" in response.json()["remedy"]
    nothing_left()


@pytest.mark.parametrize(
    ("media", "headers", "name"),
    [
        ("text/plain", {}, None),
        ("", {}, None),
        ("application/octet-stream", {}, "a.xls"),
        ("text/csv", {"content-encoding": "gzip"}, None),
        ("text/csv; charset=utf-16", {}, None),
        ("application/x-www-form-urlencoded", {}, None),
    ],
)
def test_unsupported_formats_are_rejected(client, nothing_left, media, headers, name):
    response = send(client, PEOPLE, media, headers=headers, params={"name": name} if name else {})

    assert response.status_code == 415
    assert response.json()["remedy"]
    nothing_left()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("../../etc/passwd", "../../etc/passwd"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("a\r\nb\0\u202ec\u2028", "a b c"),
        (" \t", "table.csv"),
        ("x" * 200, "x" * 200),
    ],
)
def test_a_name_is_reduced_to_one_line_without_control_characters(client, name, expected):
    assert send(client, PEOPLE, params={"name": name}).json()["name"] == expected


def test_a_name_that_is_too_long_is_rejected(client, nothing_left):
    assert send(client, PEOPLE, params={"name": "x" * 201}).status_code == 422
    nothing_left()


def test_a_table_has_a_preview_and_a_guess_of_its_target(client):
    text = "Ort;Miete;geändert;target\n" + "".join(f"Köln;{n},5;0{1 + n % 9}.03.2024;{n % 2}\n" for n in range(40))
    row = send(client, text.encode("latin-1"), params={"name": "flats.csv"}).json()
    details = client.get(f"/v1/datasets/{row['id']}").json()

    assert details["target"] == "target"
    assert details["sample"][0] == ["Köln", "0.5", "01.03.2024", "0"]
    assert [column["use"] for column in details["features"]] == ["constant", "feature", "date", "feature"]
    assert details["features"][2]["first"] == "2024-03-01"
    assert sum(details["features"][1]["histogram"]) == 40
    assert details["notes"][0].startswith("flats.csv is not UTF-8")
    assert details["notes"][0].endswith("It was read as Windows-1252.")


def test_excel_and_tsv_are_accepted(client):
    frame = pd.read_csv(io.BytesIO(PEOPLE))
    buffer = io.BytesIO()
    frame.to_excel(buffer, index=False)
    excel = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    rows = [
        send(client, buffer.getvalue(), excel).json(),
        send(client, buffer.getvalue() + b"\0", "application/octet-stream", params={"name": "people.xlsx"}).json(),
        send(client, PEOPLE.replace(b",", b"\t"), "text/tab-separated-values").json(),
    ]

    assert [(row["format"], row["rows"], row["columns"]) for row in rows] == [
        ("xlsx", 3, 3),
        ("xlsx", 3, 3),
        ("tsv", 3, 3),
    ]


@pytest.mark.parametrize("name", ["old.xls", "sheet.ods", "table.zip"])
def test_files_that_people_have_are_rejected_with_the_remedy(client, nothing_left, name):
    response = send(client, PEOPLE, "application/octet-stream", params={"name": name})

    assert response.status_code == 415
    assert response.json()["detail"].startswith(f"{name} is a")
    assert "as CSV or as an Excel workbook" in response.json()["remedy"]
    nothing_left()
