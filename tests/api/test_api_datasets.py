"""Tables over HTTP: uploads in every form, limits, storage and deletion."""

import asyncio
import io
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import psutil
import pytest
from sklearn.datasets import load_breast_cancer

from maabo_dist.data.preparation import prepare
from maabo_dist.data.readers import read_table
from maabo_dist.settings import TableSettings
from scheduler.api.readers import TableReader
from scheduler.api.scratch import ScratchSpace, remove_abandoned
from scheduler.api.settings import ApiSettings
from scheduler.api.tables import ColumnsRequest, Tables
from scheduler.ledger.tenants import QuotaRow
from tests import servers
from tests.api_data import files_in, token_for

PEOPLE = b"age,smokes,city\n61,yes,Bonn\n34,no,\n47,no,Rome\n"
PARQUET = "application/vnd.apache.parquet"


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """The directory for temporary files of the server."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def table_directory(tmp_path):
    folder = tmp_path / "tables"
    (folder / "sales").mkdir(parents=True)
    return folder


@pytest.fixture
def api_settings(table_directory):
    return ApiSettings(upload_bytes=2_000_000, tables_url=f"file://{table_directory}", upload_columns=100)


@pytest.fixture
def nothing_left(resources, temporary):
    def check():
        assert files_in(temporary) == []
        assert list(resources.store.list()) == []
        assert resources.ledger.datasets.page(None) == []

    return check


@pytest.fixture(scope="session")
def frame():
    return load_breast_cancer(as_frame=True).frame.iloc[:, -8:]


def send(client, body, media_type="text/csv", **options):
    headers = {"content-type": media_type} | options.pop("headers", {})
    return client.post("/v1/datasets", content=body, headers=headers, **options)


def as_parquet(frame):
    file = io.BytesIO()
    frame.to_parquet(file)
    return file.getvalue()


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


def test_the_same_file_is_stored_once_under_its_first_name(client, resources):
    first = send(client, PEOPLE, params={"name": "one"})
    again = send(client, PEOPLE, params={"name": "two"})

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert again.headers["location"] == first.headers["location"]


def test_concurrent_uploads_of_the_same_file_are_stored_once(client):
    with ThreadPoolExecutor(4) as pool:
        responses = list(pool.map(lambda _: send(client, PEOPLE), range(4)))

    assert sorted(response.status_code for response in responses) == [200, 200, 200, 201]
    assert len(client.get("/v1/datasets").json()["items"]) == 1


def test_a_file_lost_by_the_store_is_restored_by_the_next_upload(client, resources, frame):
    dataset = send(client, frame.to_csv(index=False)).json()
    resources.store.delete(f"tables/{dataset['fingerprint']}")
    job_request = {"dataset": dataset["id"], "table": {"target": "target"}, "settings": {"trees": 20}}

    assert client.post("/v1/jobs", json=job_request).status_code == 404
    assert send(client, frame.to_csv(index=False)).status_code == 200
    assert client.post("/v1/jobs", json=job_request).status_code == 202


def test_tenants_share_a_file_but_not_its_dataset(client, resources):
    ann, bob = token_for(resources, "ann"), token_for(resources, "bob")
    first = send(client, PEOPLE, headers=ann).json()
    second = send(client, PEOPLE, headers=bob)

    assert second.status_code == 201
    assert client.get(f"/v1/datasets/{first['id']}", headers=bob).status_code == 404
    assert client.delete(f"/v1/datasets/{first['id']}", headers=bob).status_code == 404
    assert [item["id"] for item in client.get("/v1/datasets", headers=bob).json()["items"]] == [second.json()["id"]]
    name = f"tables/{first['fingerprint']}"
    assert client.delete(f"/v1/datasets/{first['id']}", headers=ann).status_code == 204
    assert resources.store.has(name)
    assert client.delete(f"/v1/datasets/{second.json()['id']}", headers=bob).status_code == 204
    assert not resources.store.has(name)


def test_reading_and_uploading_need_different_scopes(client, resources):
    reader = token_for(resources, scopes=("read",))

    assert client.get("/v1/datasets", headers=reader).status_code == 200
    assert send(client, PEOPLE, headers=reader).status_code == 403
    assert send(client, PEOPLE).status_code == 401


def test_tables_are_listed_oldest_first_in_pages(client):
    ids = [send(client, PEOPLE + b"1,no,%d\n" % number).json()["id"] for number in range(3)]
    first = client.get("/v1/datasets?limit=2").json()
    second = client.get("/v1/datasets", params={"limit": 2, "cursor": first["next"]}).json()

    assert [item["id"] for item in first["items"] + second["items"]] == ids
    assert second["next"] is None


def test_a_job_keeps_its_columns_after_its_table_is_deleted(client, resources, frame):
    table = send(client, frame.to_csv(index=False)).json()
    job_request = {"dataset": table["id"], "table": {"target": "target"}, "settings": {"trees": 20}}
    job = client.post("/v1/jobs", json=job_request).json()["id"]
    client.delete(f"/v1/datasets/{table['id']}")

    row = resources.ledger.jobs.get(job, tenant="default")
    assert [item.name for item in resources.store.list()] == [f"columns/{row.spec.dataset.fingerprint}"]


def test_prepared_columns_count_as_bytes_of_the_tenant_and_go_with_their_table(client, resources):
    """A small Parquet file whose columns are many times larger."""
    frame = pd.DataFrame({f"x{number}": np.arange(20_000) % (number + 2) for number in range(20)})
    frame["y"] = frame["x0"]
    table = send(client, as_parquet(frame), PARQUET).json()
    request = {"dataset": table["id"], "table": {"target": "y"}, "settings": {"trees": 20}}
    resources.ledger.quotas.set(QuotaRow("default", bytes=2 * table["size"]))
    refused = client.post("/v1/jobs", json=request)
    assert (refused.status_code, refused.json()["type"].rpartition("/")[2]) == (429, "quota-exceeded")
    assert [item.name for item in resources.store.list()] == [f"tables/{table['fingerprint']}"]
    assert client.post("/v1/plans", json=request).status_code == 200  # keeps nothing

    resources.ledger.quotas.set(QuotaRow("default"))
    job = client.post("/v1/jobs", json=request).json()["id"]
    sizes = [item.size for item in resources.store.list()]
    assert len(sizes) == 2
    assert client.get("/v1/quota").json()["bytes_stored"] == sum(sizes) > 2 * table["size"]
    resources.ledger.jobs.set_command(job, "cancel", resources.clock())
    client.delete(f"/v1/datasets/{table['id']}")
    assert list(resources.store.list()) == []
    assert client.get("/v1/quota").json()["bytes_stored"] == 0


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_prepared_columns_equal_those_of_the_library(client, resources, frame, tmp_path, kind):
    frame = frame.assign(city=["Bonn", "Rome", None, "?"] * 142 + ["Bonn"])
    path = tmp_path / f"table.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    settings = TableSettings(target="target", na_values=("?",), missing_indicator=True, exclude=("worst area",))
    expected = prepare(read_table(path, na_values=settings.na_values), settings)
    dataset = send(client, path.read_bytes(), "text/csv" if kind == "csv" else PARQUET).json()
    row = resources.ledger.datasets.get(None, dataset["id"])
    prepared = client.portal.call(client.app.state.api.tables.prepare, ColumnsRequest(row, settings))

    assert (prepared.fingerprint, prepared.features) == (expected.columns.fingerprint, expected.columns.count)
    assert prepared.notes == expected.notes
    resources.store.get(f"columns/{prepared.fingerprint}", tmp_path / "got")
    expected.columns.save(tmp_path / "own")
    assert (tmp_path / "got").read_bytes() == (tmp_path / "own").read_bytes()


class Counting(TableReader):
    """A reader that counts its runs."""

    runs = 0

    async def run(self, *args, **kwargs):
        self.runs += 1
        return await super().run(*args, **kwargs)


def test_concurrent_requests_for_the_same_columns_share_one_reader(
    client, resources, frame, reader_processes, api_settings
):
    row = resources.ledger.datasets.get(None, send(client, frame.to_csv(index=False)).json()["id"])
    counting = Counting(api_settings, reader_processes)
    with closing(ScratchSpace()) as scratch:
        tables, request = (
            Tables(resources, counting, scratch),
            ColumnsRequest(row, TableSettings(target="target")),
        )

        async def prepare_often(count):
            return await asyncio.gather(*(tables.prepare(request) for _ in range(count)))

        columns = [*asyncio.run(prepare_often(8)), *asyncio.run(prepare_often(1))]
        assert len(set(columns)) == 1
        assert counting.runs == 1
        resources.store.delete(f"columns/{columns[0].fingerprint}")
        assert asyncio.run(prepare_often(1)) == columns[:1]
        assert counting.runs == 2


def chunks(sent, limit):
    async def endless():
        while len(sent) * 65536 < limit:
            sent.append(1)
            yield b"1,2\n" * 16384

    return endless()


def streamed(app, body, **options):
    async def post():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.post("/v1/datasets", content=body, **options)

    return asyncio.run(post())


def test_an_endless_upload_is_cut_off_at_the_limit(app, nothing_left):
    sent = []
    response = streamed(app, chunks(sent, 10 << 30), headers={"content-type": "text/csv"})

    assert response.status_code == 413
    assert len(sent) * 65536 <= 2_000_000 + 2 * 65536
    nothing_left()


@pytest.mark.parametrize("media", ["text/csv", "multipart/form-data; boundary=x", "application/json"])
def test_a_body_with_a_content_length_above_the_limit_is_not_read(app, nothing_left, media):
    sent = []
    response = streamed(app, chunks(sent, 1 << 30), headers={"content-type": media, "content-length": str(1 << 30)})

    assert response.status_code == 413
    assert len(sent) <= 2
    nothing_left()


def test_a_quota_ends_an_upload_before_it_is_complete(app, resources, nothing_left):
    resources.ledger.quotas.set(QuotaRow("default", bytes=100_000))
    sent, announced = [], []
    response = streamed(app, chunks(sent, 1 << 30), headers={"content-type": "text/csv"})
    early = streamed(
        app, chunks(announced, 1 << 20), headers={"content-type": "text/csv", "content-length": str(1 << 20)}
    )

    assert (response.status_code, early.status_code) == (429, 429)
    assert response.json()["type"].endswith("/quota-exceeded")
    assert (len(sent), len(announced)) == (2, 0)
    nothing_left()


def test_a_quota_exhausted_during_an_upload_leaves_nothing_behind(client, resources, nothing_left, monkeypatch):
    ledger = resources.ledger
    original_run = TableReader.run

    async def run_after_lowering_quota(*args, **kwargs):
        ledger.quotas.set(QuotaRow("default", bytes=10))
        return await original_run(*args, **kwargs)

    monkeypatch.setattr(TableReader, "run", run_after_lowering_quota)

    assert send(client, PEOPLE).status_code == 429
    nothing_left()


def test_a_disconnected_client_leaves_nothing_behind(app, nothing_left):
    messages = [
        {"type": "http.request", "body": b"a,b\n" * 400_000, "more_body": True},
        {"type": "http.disconnect"},
    ]
    heads = [(b"host", b"127.0.0.1"), (b"content-type", b"text/csv")]
    scope = {"type": "http", "method": "POST", "path": "/v1/datasets", "raw_path": b"/v1/datasets", "headers": heads}
    scope |= {"query_string": b"", "scheme": "http", "server": ("127.0.0.1", 80), "http_version": "1.1"}

    async def receive():
        return messages.pop(0)

    async def response(_message):
        pass

    asyncio.run(app(scope, receive, response))

    assert messages == []
    nothing_left()


@pytest.mark.parametrize("api_settings", [ApiSettings(read_seconds=0.001)])
def test_a_table_that_takes_too_long_to_read_is_rejected(client, nothing_left):
    response = send(client, PEOPLE)

    assert response.status_code == 422
    assert "0.001 seconds" in response.json()["detail"]
    nothing_left()


def request_in(folder, file):
    job_request = {"task": "describe", "file": file, "columns": 100, "bytes": 1 << 28, "seconds": 60}
    (folder / "request.json").write_text(json.dumps(job_request))


def readers_in(folder):
    """The processes whose working directory is this folder."""
    processes = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            processes += [path] if path.readlink() == folder else []
    return processes


def reader_parents():
    """The processes of this test that fork reader processes."""
    return [one for one in psutil.Process().children() if "scheduler.api.reader_process" in one.cmdline()]


def test_a_reader_process_is_killed_after_its_time_limit(reader_processes, tmp_path):
    os.mkfifo(tmp_path / "table.csv")  # opening it blocks forever
    request_in(tmp_path, "table.csv")

    assert not asyncio.run(reader_processes.run(tmp_path, 0.5))
    servers.wait_for(lambda: not readers_in(tmp_path), what="the end of the reader")
    assert not (tmp_path / "answer.json").exists()


def test_the_process_of_a_cancelled_reader_is_killed(reader_processes, tmp_path):
    os.mkfifo(tmp_path / "table.csv")
    request_in(tmp_path, "table.csv")

    async def run_and_cancel():
        task = asyncio.create_task(reader_processes.run(tmp_path, 60))
        await asyncio.to_thread(servers.wait_for, lambda: readers_in(tmp_path), what="a reader")
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(run_and_cancel())
    assert not readers_in(tmp_path)


def test_files_of_killed_processes_are_removed_and_those_of_others_stay(temporary):
    program = (
        "import os, signal; from scheduler.api.scratch import ScratchSpace; space = ScratchSpace();"
        "folder = space.new_folder(); open(folder.name + '/table.csv', 'w').close();"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = os.environ | {"TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", program], env=environment, cwd=servers.ROOT, check=False)
    abandoned = files_in(temporary)
    with closing(ScratchSpace()) as scratch, scratch.new_folder() as folder:
        path = Path(folder) / "table.csv"
        path.touch()
        removed = remove_abandoned()

        assert [file.name for file in abandoned] == ["table.csv"]
        assert removed == [abandoned[0].parent.parent]
        assert files_in(temporary) == [path]
    assert list(temporary.iterdir()) == []


def test_a_killed_parent_of_reader_processes_is_restarted_and_has_no_secrets(reader_processes, tmp_path, monkeypatch):
    monkeypatch.setenv("MAABO_REDIS", "redis://:secret@127.0.0.1")
    (tmp_path / "table.csv").write_bytes(PEOPLE)
    request_in(tmp_path, "table.csv")
    asyncio.run(reader_processes.run(tmp_path, 60))
    for parent in reader_parents():
        parent.kill()
        parent.wait()
    (tmp_path / "answer.json").unlink()

    assert asyncio.run(reader_processes.run(tmp_path, 60))
    assert json.loads((tmp_path / "answer.json").read_text())["result"]["rows"] == 3
    assert [parent for parent in reader_parents() if "secret" in str(parent.environ())] == []


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
