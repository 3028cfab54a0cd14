"""Tokens, scopes, and access without tokens."""

from contextlib import closing

import pytest
from fastapi.testclient import TestClient

from maabo_dist.contract import names
from maabo_dist.contract.job import DatasetRef, JobSpec, Obstacle, WorkerRecord
from scheduler.api.app import create_app
from scheduler.api.server import safe_host
from scheduler.api.settings import ApiSettings
from scheduler.ledger import Ledger, tenants
from scheduler.metrics import Metrics
from scheduler.resources import Resources
from tests import servers
from tests.api_data import token_for
from tests.cluster import cluster_settings


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


def test_a_token_that_another_process_revokes_stops_working_within_a_second(client, resources, settings, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(tenants, "monotonic", lambda: now[0])
    token = token_for(resources)
    assert client.get("/v1/jobs", headers=token).status_code == 200

    with closing(Ledger(settings.ledger_url)) as ledger:
        ledger.tokens.revoke(token["Authorization"].split("_")[1], resources.clock())
    now[0] += tenants.RECENT_SECONDS

    assert client.get("/v1/jobs", headers=token).status_code == 401


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
    assert ready.json()["parts"] == {
        "ledger": "ok",
        "redis": "ok",
        "scheduler": "none is running",
        "store": "ok",
        "workers": "ok, but none is running; no job waits",
    }
    assert client.get("/readyz?parts=ledger,redis,store").json() == {
        "ready": True,
        "parts": {"ledger": "ok", "redis": "ok", "store": "ok"},
    }


def test_readiness_reports_jobs_without_a_worker(client, resources):
    resources.ledger.jobs.add([JobSpec(id="a" * 32, dataset=DatasetRef(fingerprint="0" * 64))], resources.clock())
    without = client.get("/readyz?parts=workers")
    record = WorkerRecord(processes=2, busy=0).model_dump_json()
    resources.redis.set(resources.settings.key(f"{names.WORKERS}:here"), record)

    assert (without.status_code, without.json()["parts"]) == (503, {"workers": "none is running; waiting jobs: 1"})
    assert client.get("/readyz?parts=workers").json()["parts"] == {"workers": "ok"}


def test_readiness_reports_what_schedulers_cannot_use(client, resources):
    now = resources.ledger.database.steady_clock()()
    resources.redis.set(resources.settings.key(names.CLUSTER), "{}")
    for scheduler in ("one", "two"):
        record = Metrics().snapshot().model_dump_json()
        resources.redis.set(resources.settings.key(f"{names.METERS}:{scheduler}"), record)
    states = [client.get("/readyz?parts=scheduler").json()["parts"]["scheduler"]]
    for scheduler in ("one", "two"):
        outage = Obstacle(kind="store", text="the artifact store at 10.0.0.1 cannot be used")
        resources.ledger.outages.write(scheduler, outage, now)
        states.append(client.get("/readyz?parts=scheduler").json()["parts"]["scheduler"])

    assert states == ["ok", "ok, but 1 of 2 cannot use store", "none can use store"]
    assert client.get("/readyz?parts=scheduler").status_code == 503


def test_readiness_and_metrics_report_a_redis_that_refuses_writes(tmp_path, reader_processes):
    with (
        servers.redis_server(tmp_path) as url,
        closing(Resources.connect(cluster_settings(url, tmp_path))) as resources,
        TestClient(create_app(resources, ApiSettings(), reader_processes), base_url="http://127.0.0.1") as client,
    ):
        assert client.get("/readyz?parts=redis").status_code == 200
        assert 'maabo_up{part="redis"} 1.0' in client.get("/metrics").text
        resources.redis.config_set("maxmemory", 1)
        full = client.get("/readyz")
        metrics = client.get("/metrics").text
        resources.redis.config_set("maxmemory", 0)
        resources.redis.replicaof("127.0.0.1", 1)
        replica = client.get("/readyz?parts=redis")

    assert full.status_code == 503
    assert full.json()["parts"]["redis"] == "refuses writes: its memory is full (maxmemory)"
    assert 'maabo_up{part="redis"} 0.0' in metrics
    assert replica.json()["parts"]["redis"] == "refuses writes: it is a replica"


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
