"""Stored tables over HTTP: one copy of each file, tenants, deletion, and prepared columns."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pandas as pd
import pytest

from maabo_dist.data.preparation import prepare
from maabo_dist.data.readers import read_table
from maabo_dist.settings import TableSettings
from scheduler.api.readers import TableReader
from scheduler.api.scratch import ScratchSpace
from scheduler.api.settings import ApiSettings
from scheduler.api.tables import ColumnsRequest, Tables
from scheduler.ledger.tenants import QuotaRow
from tests.api.uploads import PARQUET, PEOPLE, as_parquet, send
from tests.api_data import token_for

pytestmark = pytest.mark.usefixtures("temporary")


@pytest.fixture
def api_settings(table_directory):
    return ApiSettings(upload_bytes=2_000_000, tables_url=f"file://{table_directory}", upload_columns=100)


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
