"""The audit log over HTTP and on the command line, and limits of requests."""

import json

import pandas as pd
import pytest
from click.testing import CliRunner

from scheduler.api.rates import RateLimitError, RateLimits
from scheduler.api.settings import ApiSettings
from scheduler.cli import scheduler
from tests.api_data import stored_table, token_for


@pytest.fixture
def admin(resources):
    return token_for(resources, tenant="ops", scopes=("admin",))


def token_id(headers):
    return headers["Authorization"].split("_")[1]


def test_actions_are_recorded_with_who_did_them(client, resources, admin, tmp_path):
    sales = token_for(resources, tenant="sales")
    frame = pd.DataFrame({f"x{number}": [row % number for row in range(60)] for number in range(2, 7)})
    table = stored_table(resources, tmp_path, frame, tenant="sales")
    request = {"dataset": table.id, "table": {"target": "x2"}, "settings": {"trees": 5}}
    headers = sales | {"X-Request-ID": "r-1"}
    job = client.post("/v1/jobs", json=request, headers=headers).json()["id"]
    client.post("/v1/jobs", json=request, headers=headers)  # returns the same job
    client.post(f"/v1/jobs/{job}/cancel", headers=sales)
    client.delete(f"/v1/jobs/{job}", headers=sales)
    upload = client.post("/v1/datasets", content=b"a,b\n1,2\n", headers=sales | {"Content-Type": "text/csv"}).json()[
        "id"
    ]
    client.delete(f"/v1/datasets/{upload}", headers=sales)
    created = client.post("/v1/tokens", json={"tenant": "x", "scopes": ["read"]}, headers=admin).json()["id"]
    client.delete(f"/v1/tokens/{created}", headers=admin)
    client.put("/v1/quotas/x", json={"queued": 1}, headers=admin)

    items = client.get("/v1/audit", headers=admin).json()["items"]
    assert [(item["action"], item["object"], item["tenant"]) for item in reversed(items)] == [
        ("token.use", token_id(sales), "sales"),
        ("job.submit", job, "sales"),
        ("job.cancel", job, "sales"),
        ("job.delete", job, "sales"),
        ("dataset.create", upload, "sales"),
        ("dataset.delete", upload, "sales"),
        ("token.use", token_id(admin), "ops"),
        ("token.create", created, "ops"),
        ("token.revoke", created, "ops"),
        ("quota.set", "x", "ops"),
    ]
    submitted = items[-2]
    assert (submitted["token"], submitted["address"], submitted["correlation"]) == (
        token_id(sales),
        "testclient",
        "r-1",
    )
    assert not any(secret["Authorization"][7:] in json.dumps(items) for secret in (sales, admin))


def test_the_log_is_for_operators_and_can_be_filtered_and_exported(client, resources, admin, settings, monkeypatch):
    users = [token_for(resources, tenant=name) for name in ("a", "b")]
    for user in users:
        client.get("/v1/jobs", headers=user)
        client.get("/v1/jobs", headers=user)
        assert client.get("/v1/audit", headers=user).status_code == 403
        assert client.get("/v1/audit/export", headers=user).status_code == 403

    own = client.get("/v1/audit", params={"tenant": "a"}, headers=admin).json()["items"]
    first = client.get("/v1/audit", params={"limit": 2}, headers=admin).json()
    second = client.get("/v1/audit", params={"limit": 2, "cursor": first["next"]}, headers=admin).json()
    export = client.get("/v1/audit/export", params={"action": "token.use"}, headers=admin)
    assert [(item["action"], item["object"]) for item in own] == [("token.use", token_id(users[0]))]
    assert [item["tenant"] for item in first["items"] + second["items"]] == ["ops", "b", "a"]
    assert export.headers["content-type"].startswith("application/x-ndjson")
    lines = [json.loads(line) for line in export.text.splitlines()]
    assert [line["tenant"] for line in lines] == ["a", "b", "ops"]

    monkeypatch.setenv("MAABO_LEDGER", settings.ledger_url)
    printed = CliRunner().invoke(scheduler, ["audit", "--json"], standalone_mode=False)
    assert [json.loads(line) for line in printed.output.splitlines()] == lines
    text = CliRunner().invoke(scheduler, ["audit", "--tenant", "b", "--since", "1h"], standalone_mode=False).output
    assert f"token.use {token_id(users[1])}  tenant=b" in text
    assert text.count("\n") == 1


def test_commands_on_the_ledger_are_recorded(settings, resources, monkeypatch):
    monkeypatch.setenv("MAABO_LEDGER", settings.ledger_url)
    token = (
        CliRunner().invoke(scheduler, ["token", "create", "--tenant", "x"], standalone_mode=False).output.split("_")[1]
    )
    CliRunner().invoke(scheduler, ["token", "revoke", token], standalone_mode=False)

    printed = CliRunner().invoke(scheduler, ["audit", "--json", "--object", token], standalone_mode=False).output
    actions = [json.loads(line) for line in printed.splitlines()]
    assert [(action["action"], action["token"]) for action in actions] == [
        ("token.create", None),
        ("token.revoke", None),
    ]
    assert all("@" in action["address"] for action in actions)


@pytest.mark.parametrize("api_settings", [ApiSettings(tenant_rate=0.01)])
def test_a_tenant_that_sends_too_many_requests_is_refused_and_others_are_not(client, resources):
    eager, other = token_for(resources, tenant="eager"), token_for(resources, tenant="other")
    statuses = [client.get("/v1/jobs", headers=eager).status_code for _ in range(3)]
    refused = client.get("/v1/jobs", headers=eager)

    assert statuses == [200, 429, 429]
    assert refused.json()["type"].endswith("/rate-limited")
    assert refused.headers["retry-after"]
    assert client.get("/v1/jobs", headers=other).status_code == 200
    assert client.get("/healthz").status_code == 200


def test_the_first_request_is_permitted_at_any_rate():
    for number in range(1, 10_000):
        RateLimits(rate=number / 20_000).check("a")


def test_bursts_are_permitted_up_to_two_seconds():
    limits = RateLimits(rate=50)

    def send(count):
        for _ in range(count):
            limits.check("a")

    send(100)
    with pytest.raises(RateLimitError):
        send(1000)  # some of which may come late enough
    limits.check("b")
