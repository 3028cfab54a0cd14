"""What a job would be: told without queueing one, refused as one would be. And what the server says of itself."""

from math import comb

import numpy as np
import pandas as pd
import pytest
from fastapi.testclient import TestClient

from maabo_dist._version import __version__
from maabo_dist.contract import names
from maabo_dist.contract.record import WorkerRecord
from scheduler import metrics
from scheduler.api.app import create_app
from scheduler.api.settings import ApiSettings
from tests.api_data import stored_table, token_for


@pytest.fixture(scope="module")
def frame():
    draws = np.random.default_rng(0)
    columns = {f"x{number}": draws.normal(size=60) for number in range(70)}
    return pd.DataFrame(columns | {"y": draws.integers(0, 2, 60)})


@pytest.fixture
def asked(resources, tmp_path, frame):
    return {"dataset": stored_table(resources, tmp_path, frame).id, "table": {"target": "y"}}


def test_a_plan_tells_the_size_of_the_search_and_queues_nothing(client, resources, asked):
    plan = client.post("/v1/plans", json=asked | {"settings": {"subset_size": 35, "trees": 500}}).json()

    assert plan["space"] == str(comb(70, 35))  # more than a double holds
    assert plan["space_text"] == "1.1×10²⁰"
    assert (plan["features"], plan["rows"], plan["classes"], plan["trees"]) == (70, 60, 2, 500)
    assert plan["subset_sizes"] == [35]
    assert plan["screened"]
    assert plan["core_seconds"] > 0
    assert any(line.startswith("trees: 500") for line in plan["explained"])
    assert client.get("/v1/jobs").json()["items"] == []


def test_trying_settings_out_leaves_nothing_in_the_store(client, resources, asked):
    for left_out in ("x1", "x2"):
        table = asked["table"] | {"exclude": [left_out]}
        assert client.post("/v1/plans", json=asked | {"table": table}).json()["features"] == 69

    prepared = client.app.state.api.tables.prepare(
        resources.ledger.datasets.get("default", asked["dataset"]), _table(asked), keep=False
    )
    assert not resources.store.has(f"columns/{prepared.fingerprint}")


def _table(asked):
    from maabo_dist.settings import TableSettings

    return TableSettings(**asked["table"])


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [
        ({"table": {"target": "y", "include": ["x1", "x2"]}}, 422, "invalid-settings"),
        ({"settings": {"max_depth": 99}}, 422, "invalid-document"),
        ({"table": {"target": "z"}}, 422, "invalid-dataset"),
        ({"dataset": "nowhere"}, 404, "not-found"),
        ({"priority": "high"}, 422, "invalid-document"),
    ],
)
def test_what_a_job_would_be_refused_for_is_refused(client, asked, change, status, kind):
    answer = client.post("/v1/plans", json=asked | change)

    assert (answer.status_code, answer.json()["type"].rpartition("/")[2]) == (status, kind)


def test_another_tenants_table_is_not_there(client, resources, asked):
    answer = client.post("/v1/plans", json=asked, headers=token_for(resources, tenant="other"))

    assert answer.status_code == 404


def test_anyone_learns_whether_a_token_is_needed(resources, reader_processes):
    app = create_app(resources, ApiSettings(flower_url="http://flower.example:5555"), reader_processes)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        before = client.get("/v1/about").json()
        token_for(resources)
        after = client.get("/v1/about").json()

    assert before == {"version": __version__, "needs_token": False, "flower": "http://flower.example:5555"}
    assert after["needs_token"]


def test_a_place_of_flower_that_a_browser_would_run_is_refused():
    with pytest.raises(ValueError, match="flower_url"):
        ApiSettings(flower_url="javascript:alert(1)")


def test_the_load_is_what_schedulers_sent_and_nobody_answered(client, resources):
    counted = metrics.Metrics()
    counted.set(metrics.TASKS_IN_FLIGHT, 3, "evaluate")
    counted.observe(metrics.TASK_SECONDS, 1.5, "evaluate")
    counted.observe(metrics.TASK_SECONDS, 0.25, "rules")
    resources.redis.set(resources.settings.key(f"{names.METERS}:here:1"), counted.snapshot().model_dump_json())
    resources.redis.rpush(resources.settings.key(names.EVALUATE_QUEUE), "one", "two")
    for node, processes in (("a", 4), ("b", 2)):
        resources.redis.set(
            resources.settings.key(f"{names.WORKERS}:{node}"),
            WorkerRecord(processes=processes, busy=1).model_dump_json(),
        )

    assert client.get("/v1/load").json() == {"tasks": 3, "waiting": 2, "work_seconds": 1.75, "processes": 6}
