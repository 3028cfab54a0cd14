"""Tokens, scopes, and access without tokens."""

import pytest
from fastapi.testclient import TestClient

from scheduler.api.app import create_app
from scheduler.api.server import safe_host
from scheduler.api.settings import ApiSettings
from tests.api_data import token_for


def test_without_tokens_this_machine_has_full_access(client):
    assert client.get("/v1/tokens").json() == []


@pytest.mark.parametrize(
    "headers", [{"host": "example.org"}, {"origin": "https://example.org"}, {"origin": "http://127.0.0.1:99"}]
)
def test_without_tokens_other_hosts_and_origins_are_rejected(client, headers):
    response = client.get("/v1/jobs", headers=headers)

    assert response.status_code == 403


def test_after_the_first_token_every_request_needs_one(client):
    admin_token = client.post("/v1/tokens", json={"tenant": "ops", "scopes": ["admin"]}).json()

    assert client.get("/v1/tokens").status_code == 401
    token_list = client.get("/v1/tokens", headers={"Authorization": f"Bearer {admin_token['token']}"})
    assert [token["id"] for token in token_list.json()] == [admin_token["id"]]
    assert admin_token["token"] not in token_list.text


@pytest.mark.parametrize("header", [None, "Basic abc", "Bearer", "Bearer maabo_000000000000_" + "x" * 43, "Bearer ünï"])
def test_requests_without_a_valid_token_are_rejected(client, resources, header):
    token_for(resources)
    response = client.get("/v1/jobs", headers={"Authorization": header.encode()} if header else {})

    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.headers["content-type"] == "application/problem+json"


def test_a_revoked_or_expired_token_stops_working_immediately(client, resources):
    admin = token_for(resources, scopes=("admin",))
    short, other = token_for(resources, seconds=0.0), token_for(resources)
    assert client.get("/v1/jobs", headers=short).status_code == 401
    assert client.get("/v1/jobs", headers=other).status_code == 200

    number = other["Authorization"].split("_")[1]
    assert client.delete(f"/v1/tokens/{number}", headers=admin).status_code == 204
    assert client.get("/v1/jobs", headers=other).status_code == 401
    assert client.delete(f"/v1/tokens/{number}", headers=admin).status_code == 404


@pytest.mark.parametrize(
    ("scopes", "permitted"),
    [(("read",), (True, False, False)), (("submit",), (True, True, False)), (("admin",), (False, False, True))],
)
def test_each_scope_permits_its_routes_only(client, resources, scopes, permitted):
    token = token_for(resources, scopes=scopes)
    responses = [
        client.get("/v1/jobs", headers=token),
        client.post("/v1/jobs", json={"dataset": "none"}, headers=token),
        client.get("/v1/tokens", headers=token),
    ]

    assert tuple(response.status_code != 403 for response in responses) == permitted


def test_health_needs_no_token_and_readiness_lists_missing_components(client, resources):
    token_for(resources)

    assert client.get("/healthz").json() == {"status": "ok"}
    ready = client.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["parts"] == {"ledger": "ok", "redis": "ok", "scheduler": "none is running", "store": "ok"}


def test_unknown_paths_and_methods_are_problems_too(client):
    for response, status in [(client.get("/v1/nothing"), 404), (client.put("/v1/jobs"), 405)]:
        assert response.status_code == status
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["type"].startswith("https://")


def test_without_tokens_the_server_listens_on_loopback_only():
    assert safe_host("0.0.0.0", tokens=False) == "127.0.0.1"
    assert safe_host("::1", tokens=False) == "::1"
    assert safe_host("0.0.0.0", tokens=True) == "0.0.0.0"


def test_required_tokens_are_required_before_the_first_exists(resources, reader_processes):
    app = create_app(resources, ApiSettings(require_token=True), reader_processes)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        assert client.get("/v1/about").json()["needs_token"]
        assert client.get("/v1/jobs").status_code == 401
        assert client.get("/v1/jobs", headers=token_for(resources)).status_code == 200
