"""Rules of a job on other stored tables: matches as a file, and checks, on a real server and with the client."""

import asyncio
import io
import json
import socket
from contextlib import closing
from urllib.parse import urlsplit

import httpx
import numpy as np
import pandas as pd
import psutil
import pytest
import sqlglot

from maabo_dist.client import AsyncClient, Client, RefusedError
from maabo_dist.contract.checks import CheckReport
from maabo_dist.contract.result import ResultDocument
from maabo_dist.new_data.use import apply_rules, check_rules
from scheduler.resources import Resources
from tests import servers
from tests.api_data import files_in, stored_table, token_for
from tests.cluster import ended

pytestmark = pytest.mark.xdist_group("shared-cluster")


def a_table(rows=1200, seed=1, noise=0.1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"id": np.arange(rows), "größe": rng.normal(size=rows), "ort": rng.choice(list("abc"), rows)})
    yes = (frame["größe"] > 0.3) & (frame["ort"] != "c")
    frame["y"] = np.where(yes ^ (rng.random(rows) < noise), "yes", "no")
    frame.loc[rng.random(rows) < 0.05, "ort"] = "?"
    return frame


@pytest.fixture(scope="module")
def done(shared_cluster, tmp_path_factory):
    """The address of the server, the headers of a tenant, and its finished job."""
    settings, address = shared_cluster
    with closing(Resources.connect(settings)) as resources:
        token = token_for(resources, "new-data")
        data = stored_table(resources, tmp_path_factory.mktemp("old"), a_table(), "new-data")
        request = {"dataset": data.id, "table": {"target": "y", "na_values": ["?"]}, "settings": {"trees": 20}}
        job = httpx.post(f"{address}/v1/jobs", json=request, headers=token).json()["id"]
        ended(resources.ledger, job)
    return address, token, job


@pytest.fixture
def upload(done):
    """Upload a table, and return its ID."""
    address, token, _ = done

    def send(frame):
        body = frame.to_csv(index=False).encode()
        response = httpx.post(f"{address}/v1/datasets", content=body, headers=token | {"Content-Type": "text/csv"})
        return response.json()["id"]

    return send


def post(done, path, document, job=None):
    address, token, own = done
    return httpx.post(f"{address}/v1/jobs/{job or own}/{path}", json=document, headers=token, timeout=60)


def document_of(done):
    address, token, job = done
    return ResultDocument.parse(httpx.get(f"{address}/v1/jobs/{job}/rules", headers=token).json())


@pytest.mark.parametrize(("form", "read"), [("parquet", pd.read_parquet), ("csv", pd.read_csv)])
def test_the_matches_of_a_stored_table_are_a_file(done, upload, form, read):
    frame = a_table(500, seed=2)

    response = post(done, "apply", {"dataset": upload(frame), "format": form, "keep": ["id"]})

    matches, expected = read(io.BytesIO(response.content)), apply_rules(document_of(done), frame)
    assert response.status_code == 200
    assert f"matches.{form}" in response.headers["content-disposition"]
    assert int(response.headers["maabo-rows"]) == len(matches) == 500
    assert int(response.headers["maabo-matched"]) == expected["matches"].map(len).gt(0).sum() > 0
    assert matches["id"].tolist() == frame["id"].tolist()
    for name in ("decided_by", "predicted", "reason"):
        assert matches[name].fillna("").tolist() == expected[name].fillna("").tolist()


def test_a_check_has_the_figures_of_the_library(done, upload):
    frame = a_table(900, seed=3)

    response = post(done, "check", {"dataset": upload(frame)})

    report = CheckReport.model_validate(response.json())
    assert response.status_code == 200
    assert report.rules == check_rules(document_of(done), frame).rules
    assert report.statuses["holds"] == len(report.rules) > 0


@pytest.mark.parametrize(
    ("path", "change", "document", "status", "field", "word"),
    [
        ("apply", lambda frame: frame.drop(columns="größe"), {}, 422, None, "lacks 1 column of the rules"),
        ("apply", lambda frame: frame, {"keep": ["nowhere"]}, 422, "keep", "no such column"),
        ("apply", lambda frame: frame, {"format": "xml"}, 422, "format", ""),
        ("check", lambda frame: frame, {"target": "Y"}, 422, "target", "no target column 'Y'"),
        ("check", lambda frame: frame.assign(y="perhaps"), {}, 422, "target", "do not know: 'perhaps'"),
        ("check", lambda frame: frame, {"significance": 2}, 422, "significance", ""),
        ("check", lambda frame: frame, {"dataset": "unknown"}, 404, "dataset", "There is no table"),
    ],
)
def test_what_is_wrong_is_a_problem_with_a_field(done, upload, path, change, document, status, field, word):
    response = post(done, path, {"dataset": upload(change(a_table(50, seed=4)))} | document)

    problem = response.json()
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert problem.get("field") == field
    assert word in problem["detail"]


def test_tables_and_jobs_of_other_tenants_do_not_exist(done, upload, shared_cluster, tmp_path):
    settings, address = shared_cluster
    table = upload(a_table(50, seed=4))
    with closing(Resources.connect(settings)) as resources:
        stranger = token_for(resources, "stranger")
        reader = token_for(resources, "new-data", ("read",))
        foreign = stored_table(resources, tmp_path, a_table(50), "stranger").id

    assert post(done, "apply", {"dataset": foreign}).status_code == 404
    for headers, status in ((stranger, 404), (reader, 403)):
        response = httpx.post(f"{address}/v1/jobs/{done[2]}/check", json={"dataset": table}, headers=headers)
        assert response.status_code == status


def test_the_client_uploads_downloads_and_checks(done, tmp_path):
    address, token, job = done
    frame = a_table(400, seed=5)
    frame.to_csv(tmp_path / "new.csv", index=False)
    with Client(address, token["Authorization"].removeprefix("Bearer ")) as client:
        remote = client.job(job)
        stored = client.upload(frame)

        from_file = remote.apply(tmp_path / "new.csv", tmp_path / "matches.csv", keep=["id"])
        from_server = remote.apply(stored, tmp_path / "matches.parquet")
        report = remote.check(frame, target="y")
        with pytest.raises(RefusedError, match="no such column"):
            remote.apply(stored, tmp_path / "none.csv", keep=["nowhere"])

    expected = apply_rules(document_of(done), frame)["predicted"].fillna("").tolist()
    assert pd.read_csv(from_file)["predicted"].fillna("").tolist() == expected
    assert pd.read_parquet(from_server)["predicted"].fillna("").tolist() == expected
    assert report.rules == check_rules(document_of(done), frame).rules
    assert sorted(path.name for path in tmp_path.iterdir()) == ["matches.csv", "matches.parquet", "new.csv"]


def test_the_asynchronous_client_downloads_too(done, tmp_path):
    address, token, job = done

    async def run():
        async with AsyncClient(address, token["Authorization"].removeprefix("Bearer ")) as client:
            remote = await client.job(job)
            return await remote.apply(a_table(30, seed=6), tmp_path / "matches.parquet")

    assert len(pd.read_parquet(asyncio.run(run()))) == 30


def test_rules_are_served_in_the_sql_of_a_database(done):
    address, token, job = done
    url = f"{address}/v1/jobs/{job}/rules?format=sql&sql_dialect=bigquery&sql_form=case&table_name=t"

    (query,) = sqlglot.parse(httpx.get(url, headers=token).text, dialect="bigquery")

    assert query.find(sqlglot.exp.Case) is not None
    assert httpx.get(f"{url}x&sql_dialect=oracle", headers=token).status_code == 422


def test_work_for_a_client_that_is_gone_ends_and_leaves_no_files(redis_url, done, tmp_path):
    from tests.cluster import cluster_settings

    temporary = tmp_path / "temporary"
    temporary.mkdir()
    settings = cluster_settings(redis_url, tmp_path, prefix="gone:")
    large = pd.concat([a_table(100_000, seed=7)] * 8)
    with closing(Resources.connect(settings)) as resources:
        token, table = token_for(resources, "gone"), stored_table(resources, tmp_path, large, "gone")
        job = _finished_job(resources, document_of(done))
        with servers.http_process(settings, tmp_path, TMPDIR=str(temporary)) as (address, process):
            with _start(address, token, job, table.id):
                servers.wait_for(lambda: _readers_of(process), what="a reader process")

            servers.wait_for(lambda: not _readers_of(process), what="the end of the reader process")
            servers.wait_for(lambda: not files_in(temporary), what="the end of its files")
            assert process.poll() is None
            assert httpx.get(f"{address}/healthz").status_code == 200


def _start(address, token, job, table):
    """Send a request without waiting for the response."""
    body, url = json.dumps({"dataset": table}), urlsplit(address)
    head = f"POST /v1/jobs/{job}/apply HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: {token['Authorization']}\r\n"
    sock = socket.create_connection((url.hostname, url.port), timeout=60)
    sock.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    return sock


def _readers_of(process):
    return [child for parent in psutil.Process(process.pid).children() for child in parent.children()]


def _finished_job(resources, document):
    """A job of the tenant `gone` that is done, without a search."""
    from tests.ledgers import a_job

    spec = a_job(77, tenant="gone")
    resources.ledger.jobs.add([spec], 1.0)
    (lease,) = resources.ledger.leases.acquire("test", 1.0, seconds=10, limit=1)
    values = {"state": "done", "document": document.to_text()}
    resources.ledger.search.write(lease, 2.0, values)
    return spec.id
