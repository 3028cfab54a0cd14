"""Plans of jobs, and information about the server and its load."""

from math import comb

import numpy as np
import pandas as pd
import pytest
from fastapi.testclient import TestClient

from maabo_dist._version import __version__
from maabo_dist.contract import names
from maabo_dist.contract.job import WorkerRecord
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
def plan_request(resources, tmp_path, frame):
    return {"dataset": stored_table(resources, tmp_path, frame).id, "table": {"target": "y"}}


def test_a_plan_contains_the_size_of_the_search_and_queues_nothing(client, resources, plan_request):
    plan = client.post("/v1/plans", json=plan_request | {"settings": {"subset_size": 35, "trees": 500}}).json()

    assert plan["space"] == str(comb(70, 35))  # more than a double holds
    assert plan["space_text"] == "1.1×10²⁰"
    assert (plan["features"], plan["rows"], plan["classes"], plan["trees"]) == (70, 60, 2, 500)
    assert plan["subset_sizes"] == [35]
    assert plan["screened"]
    assert plan["core_seconds"] > 0
    assert any(line.startswith("trees: 500") for line in plan["explained"])
    assert client.get("/v1/jobs").json()["items"] == []


@pytest.mark.parametrize("path", ["/v1/plans", "/v1/jobs"])
def test_an_unknown_class_is_refused_at_the_request(path, client, plan_request):
    answer = client.post(path, json=plan_request | {"settings": {"for_class": ["1", "yes"]}})

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"].endswith("invalid-settings")
    assert problem["field"] == "settings.for_class"
    assert problem["detail"] == "--for-class 'yes': this table has no such class; it has '0', '1'."
    assert client.get("/v1/jobs").json()["items"] == []


def test_rows_that_are_not_independent_are_certified_by_shuffles(client, resources, tmp_path, frame):
    described = frame.assign(who=np.arange(60) // 3, when=np.arange(60), share=np.linspace(0.5, 1.5, 60))
    table = {"target": "y", "group": "who", "time": "when", "weight": "share"}
    request = {"dataset": stored_table(resources, tmp_path, described).id, "table": table}

    plan = client.post("/v1/plans", json=request).json()
    refused = client.post("/v1/jobs", json=request | {"table": table | {"group": "whose"}})

    assert plan["features"] == 70
    assert "(as rows come in groups or have weights)" in plan["explained"][-1]
    assert "Rows with the same 'who' stay together: 20 groups of 3 rows." in plan["notes"]
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith("--group 'whose': the table has no such column.")


def test_limits_of_subsets_are_resolved_by_the_columns_of_the_table(client, plan_request):
    limits = {"always": ["x3"], "one_of": [["x1", "x2"]], "subset_size": 2, "probes": 5}

    plan = client.post("/v1/plans", json=plan_request | {"settings": limits}).json()
    problem = client.post("/v1/jobs", json=plan_request | {"settings": {"always": ["x33", "x333"]}}).json()

    assert plan["space"] == "74"  # one of the other 69 columns or of the 5 probes
    assert "always: every subset has 'x3' (--always)" in plan["explained"]
    assert problem["field"] == "settings.always"
    assert "--always 'x333': the table has no such column, or it was left out. Did you mean 'x33'" in problem["detail"]


def test_plans_leave_nothing_in_the_store(client, resources, plan_request):
    for left_out in ("x1", "x2"):
        table = plan_request["table"] | {"exclude": [left_out]}
        assert client.post("/v1/plans", json=plan_request | {"table": table}).json()["features"] == 69

    assert [artifact.name for artifact in resources.store.list() if artifact.name.startswith("columns/")] == []


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [
        ({"table": {"target": "y", "include": ["x1", "x2"]}, "settings": {"subset_size": 4}}, 422, "invalid-settings"),
        ({"settings": {"max_depth": 99}}, 422, "invalid-document"),
        ({"settings": {"always": ["z1"]}}, 422, "invalid-settings"),
        ({"settings": {"one_of": [["x1", "y"]]}}, 422, "invalid-settings"),
        ({"settings": {"one_of": ["x1", "x2"]}}, 422, "invalid-document"),
        ({"table": {"target": "z"}}, 422, "invalid-dataset"),
        ({"dataset": "nowhere"}, 404, "not-found"),
        ({"priority": "high"}, 422, "invalid-document"),
    ],
)
def test_a_plan_rejects_what_a_job_would_reject(client, plan_request, change, status, kind):
    response = client.post("/v1/plans", json=plan_request | change)

    assert (response.status_code, response.json()["type"].rpartition("/")[2]) == (status, kind)


def test_the_table_of_another_tenant_is_not_found(client, resources, plan_request):
    response = client.post("/v1/plans", json=plan_request, headers=token_for(resources, tenant="other"))

    assert response.status_code == 404


def test_about_says_whether_a_token_is_needed(resources, reader_processes):
    app = create_app(resources, ApiSettings(flower_url="http://flower.example:5555"), reader_processes)
    with TestClient(app, base_url="http://127.0.0.1") as client:
        before = client.get("/v1/about").json()
        token_for(resources)
        after = client.get("/v1/about").json()

    assert before == {"version": __version__, "needs_token": False, "flower": "http://flower.example:5555"}
    assert after["needs_token"]


def test_a_flower_address_with_a_script_is_rejected():
    with pytest.raises(ValueError, match="flower_url"):
        ApiSettings(flower_url="javascript:alert(1)")


def test_the_load_counts_unanswered_tasks_of_all_schedulers_for_operators_only(client, resources):
    recorded = metrics.Metrics()
    recorded.set(metrics.TASKS_IN_FLIGHT, 3, "evaluate")
    recorded.observe(metrics.TASK_SECONDS, 1.5, "evaluate")
    recorded.observe(metrics.TASK_SECONDS, 0.25, "rules")
    resources.redis.set(resources.settings.key(f"{names.METERS}:here:1"), recorded.snapshot().model_dump_json())
    resources.redis.rpush(resources.settings.key(names.EVALUATE_QUEUE), "one", "two")
    for node, processes in (("a", 4), ("b", 2)):
        resources.redis.set(
            resources.settings.key(f"{names.WORKERS}:{node}"),
            WorkerRecord(processes=processes, busy=1).model_dump_json(),
        )

    everything = {"tasks": 3, "waiting": 2, "work_seconds": 1.75, "processes": 6, "busy": 2, "schedulers": 1}
    assert client.get("/v1/load").json() == everything
    own = client.get("/v1/load", headers=token_for(resources, tenant="other")).json()
    hidden = {"tasks": None, "waiting": None, "work_seconds": None, "busy": None}
    assert own == everything | hidden
    admin = token_for(resources, scopes=("read", "admin"))
    assert client.get("/v1/load", headers=admin).json()["tasks"] == 3


def test_the_estimate_of_a_plan_counts_the_workers(client, resources, plan_request):
    request = plan_request | {"settings": {"trees": 50_000, "batch": 1000, "certify": "off"}}
    none = client.post("/v1/plans", json=request).json()
    resources.redis.set(
        resources.settings.key(f"{names.WORKERS}:a"), WorkerRecord(processes=4, busy=0).model_dump_json()
    )
    resources.redis.set(resources.settings.key(f"{names.WORKERS}:b"), "of another version")
    four = client.post("/v1/plans", json=request).json()

    assert (none["processes"], four["processes"]) == (0, 4)
    assert none["seconds"] - four["seconds"] == pytest.approx(0.75 * none["core_seconds"])


def test_a_plan_names_columns_that_nearly_repeat_the_target(client, resources, tmp_path):
    draws = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{number}": draws.normal(size=300) for number in range(5)})
    frame["y"] = np.where(draws.random(300) < 0.4, "yes", "no")
    frame["afterwards"] = frame["y"].map({"yes": "refund", "no": "none"})
    request = {"dataset": stored_table(resources, tmp_path, frame).id, "table": {"target": "y"}}

    assert client.post("/v1/plans", json=request).json()["leaks"] == ["afterwards"]
    request["table"]["exclude"] = ["afterwards"]
    assert client.post("/v1/plans", json=request).json()["leaks"] == []
