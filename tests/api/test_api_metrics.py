"""/metrics: its content and its permissions."""

from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from scheduler.api.app import create_app
from scheduler.api.settings import ApiSettings
from tests.api_data import token_for


def samples(response):
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


def test_requests_are_counted_by_route_and_not_by_path(client):
    for number in range(3):
        client.get(f"/v1/jobs/{number:032x}")
    client.get("/no/such/path")

    values = samples(client.get("/metrics"))
    count = "maabo_http_request_duration_seconds_count"
    assert values[count, (("method", "GET"), ("route", "/v1/jobs/{job}"), ("status", "404"))] == 3
    assert values[count, (("method", "GET"), ("route", "none"), ("status", "404"))] == 1
    assert values["maabo_up", (("part", "redis"),)] == 1


def test_requests_cannot_create_metrics_by_inventing_methods_and_paths(client):
    before = len(client.get("/metrics").content)
    for number in range(300):
        client.request(f"METHOD{number}", "/v1/jobs")
        client.request(f"METHOD{number}", f"/{number}")
        client.get(f"/{number}/{number}")
    response = client.get("/metrics")

    count = "maabo_http_request_duration_seconds_count"
    values = samples(response)
    assert values[count, (("method", "other"), ("route", "/v1/jobs"), ("status", "405"))] == 300
    assert values[count, (("method", "other"), ("route", "none"), ("status", "404"))] == 300
    assert values[count, (("method", "GET"), ("route", "none"), ("status", "404"))] == 300
    assert len(response.content) < before + 10_000


def test_metrics_need_the_scope_admin_unless_they_are_open(resources):
    token, admin = token_for(resources), token_for(resources, scopes=("admin",))
    for settings, expected in [(ApiSettings(), [401, 403, 200]), (ApiSettings(open_metrics=True), [200] * 3)]:
        with TestClient(create_app(resources, settings), base_url="http://127.0.0.1") as client:
            responses = [client.get("/metrics", headers=headers) for headers in ({}, token, admin)]

        assert [response.status_code for response in responses] == expected
