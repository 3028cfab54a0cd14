"""Jobs over HTTP: submission, idempotency, validation and control."""

import pytest
from sklearn.datasets import load_breast_cancer

from maabo_dist.contract import names
from maabo_dist.contract.job import JobRecord, JobState, Obstacle
from scheduler.api import dependencies
from scheduler.ledger.tenants import QuotaRow
from tests.api_data import stored_table, token_for

MINING = {"trees": 20, "seed": 3}


@pytest.fixture(scope="session")
def frame():
    return load_breast_cancer(as_frame=True).frame.iloc[:, -8:]


@pytest.fixture
def table(resources, tmp_path, frame):
    return stored_table(resources, tmp_path, frame)


@pytest.fixture
def job_request(table):
    return {"dataset": table.id, "table": {"target": "target"}, "settings": MINING}


def test_a_submitted_job_is_accepted_with_its_location(client, job_request):
    response = client.post("/v1/jobs", json=job_request)

    assert response.status_code == 202
    job = response.json()
    assert response.headers["location"] == f"/v1/jobs/{job['id']}"
    assert job["state"] == "queued"
    assert job["dataset"] == job_request["dataset"]
    assert client.get(response.headers["location"]).json()["settings"]["trees"] == 20


def test_the_same_key_and_body_return_the_same_job(client, job_request):
    first = client.post("/v1/jobs", json=job_request, headers={"Idempotency-Key": "one"})
    again = client.post("/v1/jobs", json=job_request | {"priority": "normal"}, headers={"Idempotency-Key": "one"})

    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json()["id"] == first.json()["id"]


def test_a_key_stays_valid_after_its_table_is_deleted(client, job_request):
    first = client.post("/v1/jobs", json=job_request, headers={"Idempotency-Key": "one"})
    client.app.state.api.resources.ledger.datasets.delete("default", job_request["dataset"])
    again = client.post("/v1/jobs", json=job_request, headers={"Idempotency-Key": "one"})

    assert again.json()["id"] == first.json()["id"]


def test_the_same_key_with_another_body_is_rejected(client, job_request):
    client.post("/v1/jobs", json=job_request, headers={"Idempotency-Key": "one"})
    response = client.post("/v1/jobs", json=job_request | {"priority": "high"}, headers={"Idempotency-Key": "one"})

    assert response.status_code == 409
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["type"].endswith("/key-reused")


def test_the_same_data_and_settings_return_the_earlier_job_unless_fresh(client, job_request):
    first = client.post("/v1/jobs", json=job_request).json()["id"]
    same = client.post("/v1/jobs", json=job_request)
    fresh = client.post("/v1/jobs", json=job_request | {"fresh": True})
    other = client.post("/v1/jobs", json=job_request | {"settings": MINING | {"seed": 4}})

    assert (same.status_code, same.json()["id"]) == (200, first)
    assert len({first, fresh.json()["id"], other.json()["id"]}) == 3


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"dataset": "nowhere"}, 404, "dataset"),
        ({"dataset": "../etc"}, 422, "dataset"),
        ({"settings": {"trees": -1}}, 422, "settings.trees"),
        ({"settings": {"subset_size": 100}}, 422, None),
        ({"settings": {"colour": "red"}}, 422, "settings.colour"),
        ({"table": {"target": "nope"}}, 422, None),
        ({"callback": {"task": "theirs", "queue": "maabo.jobs"}}, 422, "callback.queue"),
        ({"callback": {"url": "http://169.254.1.1/"}}, 422, None),
        ({"surprise": 1}, 422, "surprise"),
    ],
)
def test_an_invalid_job_is_rejected_with_its_field_and_not_stored(client, job_request, change, status, field):
    response = client.post("/v1/jobs", json=job_request | change)

    problem = response.json()
    assert (response.status_code, problem["status"]) == (status, status)
    assert response.headers["content-type"] == "application/problem+json"
    assert problem["detail"]
    if field:
        assert problem["field"] == field
    assert client.get("/v1/jobs").json() == {"items": [], "next": None}


def test_jobs_are_listed_newest_first_in_pages_and_filtered(client, job_request):
    ids = [client.post("/v1/jobs", json=job_request | {"settings": {"seed": seed}}).json()["id"] for seed in range(5)]
    client.post(f"/v1/jobs/{ids[0]}/cancel")

    pages, cursor = [], None
    while True:
        page = client.get("/v1/jobs", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        pages.append([job["id"] for job in page["items"]])
        cursor = page["next"]
        if cursor is None:
            break
    assert pages == [ids[4:2:-1], ids[2:0:-1], ids[:1]]
    assert [job["id"] for job in client.get("/v1/jobs?state=cancelled").json()["items"]] == ids[:1]
    assert client.get("/v1/jobs?dataset=other").json()["items"] == []
    assert client.get("/v1/jobs?cursor=bm9uZQ").status_code == 422


def test_a_queued_job_can_be_paused_resumed_cancelled_and_deleted(client, job_request):
    job = client.post("/v1/jobs", json=job_request).json()["id"]

    assert client.post(f"/v1/jobs/{job}/pause").json()["state"] == "paused"
    assert client.post(f"/v1/jobs/{job}/resume").json()["state"] == "queued"
    assert client.delete(f"/v1/jobs/{job}").status_code == 409
    assert client.post(f"/v1/jobs/{job}/cancel").json()["state"] == "cancelled"
    assert client.post(f"/v1/jobs/{job}/pause").status_code == 409
    assert client.delete(f"/v1/jobs/{job}").status_code == 204
    assert client.get(f"/v1/jobs/{job}").status_code == 404


def test_quotas_are_enforced(client, resources, job_request):
    resources.ledger.quotas.set(QuotaRow("default", queued=1, trees=30))

    assert client.post("/v1/jobs", json=job_request | {"settings": {"trees": 40}}).status_code == 429
    assert client.post("/v1/jobs", json=job_request).status_code == 202
    refused = client.post("/v1/jobs", json=job_request | {"fresh": True})
    assert refused.status_code == 429
    assert refused.json()["type"].endswith("/quota-exceeded")
    assert client.get("/v1/quota").json()["queued"] == 1


def test_a_tenant_cannot_access_jobs_of_another(client, resources, job_request, tmp_path, frame):
    mine, theirs = token_for(resources, "default"), token_for(resources, "other")
    job = client.post("/v1/jobs", json=job_request, headers=mine).json()["id"]
    copy = stored_table(resources, tmp_path, frame, "other")

    for method, path in [
        ("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("POST", "/pause"), ("POST", "/resume")
    ]:  # fmt: skip
        assert client.request(method, f"/v1/jobs/{job}{path}", headers=theirs).status_code == 404
    assert client.get("/v1/jobs", headers=theirs).json()["items"] == []
    assert client.post("/v1/jobs", json=job_request, headers=theirs).status_code == 404
    own = client.post("/v1/jobs", json=job_request | {"dataset": copy.id}, headers=theirs)
    assert own.status_code == 202, "an equal table of theirs must not find our job"
    assert own.json()["id"] != job


def test_a_body_that_is_too_large_is_rejected(client):
    response = client.post(
        "/v1/jobs", content=b"[" + b"1," * (5 << 20) + b"1]", headers={"content-type": "application/json"}
    )

    assert response.status_code == 413
    assert response.headers["content-type"] == "application/problem+json"


def test_the_request_id_is_kept_in_the_response_and_the_job(client, job_request):
    response = client.post("/v1/jobs", json=job_request, headers={"X-Request-ID": "order-7"})
    forged = client.get("/healthz", headers={"X-Request-ID": "a b\tc"})

    assert response.headers["x-request-id"] == response.json()["correlation"] == "order-7"
    assert " " not in forged.headers["x-request-id"]


def test_a_job_is_named_and_noted_by_its_owner(client, resources, job_request):
    job = client.post("/v1/jobs", json=job_request).json()
    path = f"/v1/jobs/{job['id']}"

    assert (job["title"], job["note"]) == (None, None)
    assert client.patch(path, json={"title": "Spring"}).json()["title"] == "Spring"
    labelled = client.patch(path, json={"note": "without prices"}).json()
    assert (labelled["title"], labelled["note"], labelled["name"]) == ("Spring", "without prices", job["name"])
    assert client.get("/v1/jobs").json()["items"][0]["title"] == "Spring"
    assert client.patch(path, json={"title": None}).json()["title"] is None
    assert client.patch(path, json={"title": ""}).status_code == 422
    assert client.patch(path, json={"name": "x"}).status_code == 422
    other, reader = (token_for(resources, "other"), token_for(resources, scopes=("read",)))
    assert client.patch(path, json={"title": "x"}, headers=other).status_code == 404
    assert client.patch(path, json={"title": "x"}, headers=reader).status_code == 403


def test_a_job_shows_the_outage_of_its_scheduler_and_its_end(client, resources, job_request, monkeypatch):
    monkeypatch.setattr(dependencies, "OUTAGE_SECONDS", -1.0)
    job, other = (client.post("/v1/jobs", json=job_request | {"settings": {"seed": seed}}).json() for seed in (1, 2))
    for scheduler in ("here", "elsewhere"):
        (lease,) = resources.ledger.leases.acquire(scheduler, resources.ledger.now, 60.0, 1)
        resources.ledger.search.write(lease, resources.clock(), {"state": "running"})
    outage = Obstacle(kind="redis", text="Redis cannot be used", remedy="Start Redis.")
    resources.ledger.outages.write("here", outage, resources.ledger.database.steady_clock()())

    during = [client.get(f"/v1/jobs/{each['id']}").json()["obstacle"] for each in (job, other)]
    listed = [each["obstacle"] for each in client.get("/v1/jobs").json()["items"]]
    resources.ledger.outages.clear("here")

    assert sorted(map(bool, during)) == sorted(map(bool, listed)) == [False, True]
    assert next(filter(None, during))["text"] == "Redis cannot be used"
    assert [client.get(f"/v1/jobs/{each['id']}").json()["obstacle"] for each in (job, other)] == [None, None]


def test_a_status_that_was_asked_for_before_shows_every_change(client, resources, job_request):
    """Documents are remembered, and must never be older than the ledger and Redis."""
    job = client.post("/v1/jobs", json=job_request).json()
    url = f"/v1/jobs/{job['id']}"
    key = resources.settings.key(f"{names.JOB_RECORD}:{job['id']}")

    def look():
        (listed,) = client.get("/v1/jobs").json()["items"]
        details = client.get(url).json()
        assert listed.items() <= details.items()
        return details

    seen = [look()]
    client.patch(url, json={"title": "named"})
    seen.append(look())
    for trees in (5, 6):
        resources.redis.set(key, JobRecord(id=job["id"], state=JobState.QUEUED, trees=trees).model_dump_json())
        seen.append(look())
    client.post(f"{url}/cancel")
    seen.append(look())

    assert job == seen[0]
    assert [each["title"] for each in seen] == [None, *["named"] * 4]
    assert [each["trees"] for each in seen] == [0, 0, 5, 6, 0]
    assert [each["state"] for each in seen] == ["queued"] * 4 + ["cancelled"]
