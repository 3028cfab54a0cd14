"""Limits of uploads: their size, quotas, disconnected clients and time."""

import asyncio

import httpx
import pytest

from scheduler.api.readers import TableReader
from scheduler.api.settings import ApiSettings
from scheduler.ledger.tenants import QuotaRow
from tests.api.uploads import PEOPLE, send

pytestmark = pytest.mark.usefixtures("temporary")


@pytest.fixture
def api_settings(table_directory):
    return ApiSettings(upload_bytes=2_000_000, tables_url=f"file://{table_directory}", upload_columns=100)


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
