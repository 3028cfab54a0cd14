"""Invalid data from clients, and from whoever can write to Redis, never becomes an internal error."""

import logging

import pandas as pd
import pytest

from maabo_dist.contract import names
from maabo_dist.contract.job import DatasetRef, JobSpec
from scheduler.api.broadcaster import encode_entry
from tests.api_data import stored_table, token_for

JOB = "0123456789abcdef" * 2
DEEP = b"[" * 100_000
INVALID = [b"", b"1", b"null", b"[]", b'"x"', b"{}", b'{"funnel": 1}', b'{"id": "\xff"}', b'{"name": "\\ud800"}']
INVALID += [pytest.param(DEEP, id="deep")]
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def table(resources, tmp_path):
    return stored_table(resources, tmp_path, pd.DataFrame({"x": range(20), "y": [0, 1] * 10}))


@pytest.fixture
def job(resources):
    spec = JobSpec(id=JOB, dataset=DatasetRef(fingerprint="0" * 64))
    resources.ledger.jobs.add([spec], resources.clock())
    return JOB


def assert_problem(response):
    assert 400 <= response.status_code < 500
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("surrogate", [rb"\ud800", rb"\udfff", rb"\ud800x", rb"\udc00\ud800", b"\xed\xa0\x80"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/jobs", b'{"dataset": "TABLE", "table": {"target": "%s"}}'),
        ("POST", "/v1/jobs", b'{"dataset": "TABLE", "%s": 1}'),
        ("POST", "/v1/plans", b'{"dataset": "TABLE", "table": {"target": "y", "exclude": ["%s"]}}'),
        ("POST", "/v1/tokens", b'{"name": "%s"}'),
        ("POST", f"/v1/jobs/{JOB}/explain", b'{"rows": [{"%s": 1}]}'),
        ("POST", "/v1/datasets", b'{"path": "x.csv", "name": "%s"}'),
        ("PUT", "/v1/quotas/someone", b'{"%s": 1}'),
    ],
)
def test_an_unpaired_surrogate_is_a_problem_of_the_document(client, table, method, path, body, surrogate):
    content = body.replace(b"TABLE", table.id.encode()) % surrogate

    assert_problem(client.request(method, path, content=content, headers=JSON))


def test_a_paired_surrogate_is_an_ordinary_character(client):
    body = b'{"tenant": "\\ud83d\\ude00", "scopes": ["read"]}'
    response = client.post("/v1/tokens", content=body, headers=JSON)

    assert response.json()["tenant"] == "\N{GRINNING FACE}"


@pytest.mark.parametrize("body", [b"{", pytest.param(DEEP, id="deep"), b"1" * 10_000, b"\xff", b'{"a": \x00}'])
def test_a_body_that_is_not_json_is_a_problem(client, body):
    assert_problem(client.post("/v1/jobs", content=body, headers=JSON))


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/plans", "/v1/tokens", f"/v1/jobs/{JOB}/explain"])
def test_the_token_is_checked_before_the_body_is_read(client, resources, path):
    token_for(resources)
    responses = [client.post(path, content=body, headers=JSON) for body in (b"{", b"{}", b"x" * (9 << 20))]

    assert [response.status_code for response in responses] == [401, 401, 401]


@pytest.mark.parametrize("text", INVALID)
@pytest.mark.parametrize("kind", [names.JOB_RECORD, names.JOB_DOCUMENT])
def test_an_invalid_record_or_document_in_redis_is_not_an_internal_error(client, resources, job, kind, text):
    resources.redis.set(resources.settings.key(f"{kind}:{job}"), text)

    for path in ("/v1/jobs", f"/v1/jobs/{job}"):
        assert client.get(path).status_code == 200
    assert client.post(f"/v1/jobs/{job}/pause").status_code == 202
    for path in ("rules", "report", "figures", f"diff/{job}"):
        assert_problem(client.get(f"/v1/jobs/{job}/{path}"))
    rows = {"rows": [{"age": 1}]}
    assert_problem(client.post(f"/v1/jobs/{job}/explain", json=rows))


@pytest.mark.parametrize("text", INVALID)
@pytest.mark.parametrize("kind", [b"state", b"progress", b"rules", b"other"])
def test_an_invalid_event_in_redis_is_skipped_or_passed_on_as_one_line(kind, text):
    event = encode_entry(b"1-0", {kind: text})

    assert event is None or event.chunk.count(b"\n\n") == 1


def test_access_lines_name_the_tenant_the_token_and_the_address(client, resources, caplog):
    headers = token_for(resources, tenant="sales")
    with caplog.at_level(logging.INFO, "maabo.api.access"):
        client.get("/v1/jobs", headers=headers)
        client.get("/v1/jobs", headers={"Authorization": "Bearer wrong"})

    known, unknown = (record.maabo_fields for record in caplog.records)
    token = headers["Authorization"].split("_")[1]
    assert (known["tenant"], known["token"], known["address"]) == ("sales", token, "testclient")
    assert unknown["status"] == 401
    assert "tenant" not in unknown
    assert headers["Authorization"] not in caplog.text
