"""Results over HTTP: rules in every format, trees, explanations, reports and comparisons."""

import csv
import io
import json
from contextlib import closing
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from uuid import uuid4

import numpy as np
import pytest
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator
from sklearn.datasets import load_breast_cancer

from maabo_dist.contract import names
from maabo_dist.contract.job import JobSpec
from maabo_dist.contract.result import ResultDocument, load_schema
from maabo_dist.data.preparation import prepare
from maabo_dist.data.readers import read_table
from maabo_dist.mining.local import mine
from maabo_dist.report.exports import to_sql
from maabo_dist.report.figures import dump_figures, figures_of
from maabo_dist.report.tables import to_csv, to_markdown
from maabo_dist.settings import MiningSettings, TableSettings
from maabo_dist.study import split_for
from maabo_dist.trees.training import TrainingTable, depth_search
from maabo_dist.trees.wire import pack_forest
from scheduler.api import tree_reader
from scheduler.api.app import create_app
from scheduler.api.problems import NotAcceptableError
from scheduler.api.results import RulesFormat, choose_format
from scheduler.api.settings import ApiSettings
from scheduler.api.tree_reader import TreeReader
from scheduler.ledger.search import BatchRow, ResultRow
from scheduler.messaging.publishers import MAX_RULES
from scheduler.resources import Resources
from tests import factories, servers
from tests.api_data import stored_table, token_for
from tests.api_events import a_server, following
from tests.cluster import a_scheduler, cluster_settings, ended, store_table

pytestmark = pytest.mark.xdist_group("http-results")  # one cluster for all of them

MINING = {"trees": 60, "seed": 3, "min_samples": 15, "subset_size": 2, "holdout": 0.1, "probes": 2, "preset": "paper"}


def table():
    """Numbers, levels and missing cells."""
    frame = load_breast_cancer(as_frame=True).frame.copy()
    draw = np.random.default_rng(1)
    frame["site"] = np.where(frame["worst area"] > 700, "north", draw.choice(["east", "west", "?"], len(frame)))
    frame.loc[draw.random(len(frame)) < 0.1, "worst area"] = np.nan
    return frame


@pytest.fixture(scope="module")
def cluster(redis_url, tmp_path_factory):
    """A cluster with a worker: one job that is done, and one that is paused in the middle of its search."""
    path = tmp_path_factory.mktemp("cluster")
    settings = cluster_settings(redis_url, path, prefix=f"{uuid4().hex[:8]}:", partial_seconds=0.1, task_seconds=0.1)
    with (
        TemporaryDirectory(prefix="maabo-worker-") as directory,
        servers.worker(settings, directory, "-c", "1"),
        a_scheduler(settings),
        closing(Resources.connect(settings)) as resources,
        TestClient(create_app(resources, ApiSettings()), base_url="http://127.0.0.1") as client,
    ):
        frame = table()
        data = stored_table(resources, path, frame)
        job_request = {"dataset": data.id, "table": {"target": "target", "na_values": ["?"]}, "settings": MINING}
        done = client.post("/v1/jobs", json=job_request).json()["id"]
        ended(resources.ledger, done)
        slow = {"settings": MINING | {"trees": 100_000, "subset_size": "2-5"}, "priority": "low"}
        paused = client.post("/v1/jobs", json=job_request | slow).json()["id"]
        key = settings.key(f"{names.JOB_DOCUMENT}:{paused}")
        servers.wait_for(
            lambda: resources.redis.exists(key) and resources.ledger.jobs.get(paused).trees > 20, what="rules so far"
        )
        client.post(f"/v1/jobs/{paused}/pause")
        servers.wait_for(lambda: resources.ledger.jobs.get(paused).state.value == "paused", what="a pause")
        yield SimpleNamespace(
            resources=resources, client=client, done=done, paused=paused, frame=frame, job_request=job_request
        )


def get(cluster, job, path, **options):
    return cluster.client.get(f"/v1/jobs/{job}/{path}", **options)


def test_final_rules_are_the_document_of_the_ledger_and_conform_to_its_schema(cluster):
    response = get(cluster, cluster.done, "rules")

    document = response.json()
    assert response.headers["maabo-partial"] == "false"
    assert document == json.loads(cluster.resources.ledger.jobs.document(cluster.done)) | {"partial": False}
    assert document["rules"]
    Draft202012Validator(load_schema()).validate(document)


def test_figures_equal_those_of_the_library(cluster, tmp_path):
    settings = TableSettings.parse(cluster.job_request["table"])
    cluster.frame.to_csv(tmp_path / "table.csv", index=False)
    columns = prepare(read_table(tmp_path / "table.csv", na_values=settings.na_values), settings).columns
    mined = mine(columns, MiningSettings.parse(MINING), keep_records=True)

    figures = get(cluster, cluster.done, "figures").json()
    assert figures == json.loads(dump_figures(figures_of(mined, columns)))
    assert get(cluster, cluster.paused, "figures").status_code == 404


@pytest.mark.parametrize(
    ("params", "accept", "media_type"),
    [
        ({}, "text/csv", "text/csv"),
        ({}, "text/markdown;q=0.9, text/csv;q=0.2", "text/markdown"),
        ({}, "application/*;q=0.5, application/json;q=0.1", "application/sql"),
        ({"format": "markdown"}, "image/png", "text/markdown"),
        ({"format": "sql"}, "*/*", "application/sql"),
        ({}, "text/html, */*;q=0.1", "application/json"),
    ],
)
def test_rules_are_returned_in_the_requested_format(cluster, params, accept, media_type):
    response = get(cluster, cluster.done, "rules", params=params, headers={"Accept": accept})

    assert response.status_code == 200
    assert response.headers["content-type"].split(";")[0] == media_type
    assert response.headers["vary"].startswith("Accept")


def test_each_format_equals_that_of_the_library(cluster):
    document = ResultDocument.parse(get(cluster, cluster.done, "rules").json())
    texts = {name: get(cluster, cluster.done, f"rules?format={name}").text for name in ("csv", "markdown", "sql")}

    assert texts == {"csv": to_csv(document), "markdown": to_markdown(document), "sql": to_sql(document)}
    named = get(cluster, cluster.done, "rules?format=sql&table_name=patients").text
    assert named == to_sql(document, "patients")
    assert get(cluster, cluster.done, "rules?format=sql&table_name=a;b").status_code == 422


def test_an_unavailable_format_is_rejected(cluster):
    response = get(cluster, cluster.done, "rules", headers={"Accept": "image/png, text/csv;q=0"})

    assert response.status_code == 406
    assert response.json()["type"].endswith("/not-acceptable")


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, "json"),
        ("", "json"),
        ("nonsense, text/csv", "csv"),
        ("*/*;q=0.2, text/*", "csv"),
        ("TEXT/CSV ; Q=1", "csv"),
    ],
)
def test_accept_chooses_the_format(accept, chosen):
    assert choose_format(accept) == RulesFormat(chosen)


@pytest.mark.parametrize("accept", ["nonsense", "*/*;q=0", "text/csv;q=2.5", "text/csv;q=high"])
def test_accept_without_a_supported_format_is_rejected(accept):
    with pytest.raises(NotAcceptableError):
        choose_format(accept)


def test_cached_final_rules_are_not_sent_again(cluster):
    for path in ("rules", "rules?format=csv", "report"):
        tag = get(cluster, cluster.done, path).headers["etag"]
        again = get(cluster, cluster.done, path, headers={"If-None-Match": f'"other", W/{tag}'})

        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert get(cluster, cluster.done, path, headers={"If-None-Match": '"other"'}).status_code == 200
    tags = {get(cluster, cluster.done, f"rules?format={form.value}").headers["etag"] for form in RulesFormat}
    assert len(tags) == len(RulesFormat)


def test_rules_so_far_are_marked_in_every_format(cluster):
    document = get(cluster, cluster.paused, "rules")

    assert document.headers["maabo-partial"] == "true"
    assert document.json()["partial"] is True
    assert "etag" not in document.headers
    assert get(cluster, cluster.paused, "rules?format=sql").text.startswith("-- partial")
    assert "Rules so far" in get(cluster, cluster.paused, "rules?format=markdown").text.splitlines()[0]
    assert "so far for target" in get(cluster, cluster.paused, "report").text
    rows = csv.DictReader(io.StringIO(get(cluster, cluster.paused, "rules?format=csv").text))
    assert len(list(rows)) == len(document.json()["rules"])


def test_a_job_without_rules_yet_returns_when_to_try_again(client, resources, tmp_path, cluster):
    data = stored_table(resources, tmp_path, cluster.frame)
    job = client.post("/v1/jobs", json=cluster.job_request | {"dataset": data.id}).json()["id"]
    waiting = [client.get(f"/v1/jobs/{job}/{path}") for path in ("rules", "report", f"diff/{job}")]
    trees = client.get(f"/v1/jobs/{job}/trees")
    client.post(f"/v1/jobs/{job}/cancel")
    over = client.get(f"/v1/jobs/{job}/rules")

    assert [(response.status_code, response.headers["retry-after"]) for response in waiting] == [(409, "5")] * 3
    assert waiting[0].json()["type"].endswith("/no-rules-yet")
    assert trees.json() == {"items": [], "next": None}
    assert over.json()["type"].endswith("/conflict")
    assert "retry-after" not in over.headers


def pages(cluster, job, count=10**9, **params):
    trees, cursor = [], None
    while len(trees) < count:
        page = get(cluster, job, "trees", params=params | ({"cursor": cursor} if cursor else {})).json()
        trees += page["items"]
        cursor = page["next"]
        if cursor is None:
            break
    return trees


def test_trees_are_listed_in_the_order_of_the_search(cluster):
    trees = pages(cluster, cluster.done, limit=7)

    assert [tree["number"] for tree in trees] == list(range(60))
    assert {feature for tree in trees for feature in tree["features"]} <= {
        *cluster.frame.columns, "site = east", "site = north", "site = west", "(probe 1)", "(probe 2)"
    }  # fmt: skip
    assert all(1 <= tree["depth"] <= 5 and 0 <= tree["score"] <= 1 for tree in trees)
    assert all(len(tree["features"]) == 2 and tree["leaves"] >= 2 for tree in trees)


def test_rules_refer_to_their_trees(cluster):
    trees = pages(cluster, cluster.done, limit=200)

    for rule in get(cluster, cluster.done, "rules").json()["rules"]:
        tree, source = trees[rule["source"]["tree"]], rule["source"]
        assert (tree["features"], tree["depth"], tree["score"]) == (source["subset"], source["depth"], source["score"])


def test_trees_are_listed_by_score(cluster):
    trees = pages(cluster, cluster.done, limit=200)
    best = pages(cluster, cluster.done, order="best", limit=9)

    assert best == sorted(trees, key=lambda tree: (-tree["score"], tree["number"]))


def test_trees_of_an_unfinished_job_come_from_the_ledger(cluster):
    trees = pages(cluster, cluster.paused, count=600, limit=200)

    assert [tree["number"] for tree in trees] == list(range(len(trees)))
    assert len(trees) > 20
    assert {len(tree["features"]) for tree in trees} <= {2, 3, 4, 5}
    assert get(cluster, cluster.paused, "trees?order=best&limit=1").json()["items"][0]["score"] > 0.8
    assert get(cluster, cluster.paused, "trees?cursor=bm9uZQ").status_code == 422


def test_trees_are_listed_up_to_the_first_missing_one_including_failures(resources, tmp_path, monkeypatch):
    monkeypatch.setattr(tree_reader, "LEDGER_BATCHES", 1)
    columns = factories.make_columns(np.random.default_rng(2), 60, 6, 2)
    store_table(resources.settings, tmp_path, columns)
    subsets = factories.every_subset(6, 2)
    training = TrainingTable.build(columns, split_for(columns, MiningSettings()))
    job, document = uuid4().hex, {"fingerprint": columns.fingerprint}
    spec = JobSpec.model_validate({"id": job, "dataset": document, "settings": {"subset_size": 2, "max_depth": 3}})
    resources.ledger.jobs.add([spec], 0.0)
    (lease,) = resources.ledger.leases.acquire("one", resources.clock(), 60, 1)

    def result(batch, start, stop):
        rows = subsets[5 * batch + start : 5 * batch + stop]
        return ResultRow(batch, start, stop, pack_forest(depth_search(training, rows, 3)))

    batches = [BatchRow(number, subsets[5 * number : 5 * number + 5].tobytes()) for number in range(3)]
    results = [
        result(0, 0, 3),
        ResultRow(0, 3, 4, b"", "It never ends."),
        result(0, 4, 5),
        result(1, 0, 2),
        result(2, 0, 5),
    ]
    resources.ledger.search.write(lease, 0.0, new_batches=batches, new_results=results)
    trees = TreeReader(resources, resources.ledger.jobs.get(job))

    assert [(tree.number, tree.score is None) for tree in trees.in_order(0, 100)] == [(n, n == 3) for n in range(7)]
    assert [tree.number for tree in trees.in_order(4, 2)] == [4, 5]
    assert [tree.number for tree in trees.in_order(7, 5)] == []
    assert sorted(tree.number for tree in trees.best(None, 100)) == [0, 1, 2, 4, 5, 6]
    resources.ledger.search.write(lease, 0.0, new_results=[result(1, 2, 5)])
    assert [tree.number for tree in trees.in_order(6, 100)] == list(range(6, 15))


@pytest.mark.parametrize("state", ["done", "paused"])
def test_a_score_history_samples_the_whole_search(cluster, state, monkeypatch):
    job = getattr(cluster, state)
    trees = pages(cluster, job, count=10_000, limit=200)
    monkeypatch.setattr(tree_reader, "SAMPLE_RUNS", 5)
    resources, row = cluster.resources, cluster.resources.ledger.jobs.get(job)
    history = get(cluster, job, "score-history").json()

    assert history["trees"] == row.trees
    # The ledger of a paused job may have answers that its row does not count yet.
    expected = [tree for tree in trees if tree["score"] is not None and tree["number"] < row.trees]
    if row.trees <= 1000:
        assert (history["numbers"], history["scores"]) == (
            [tree["number"] for tree in expected],
            [tree["score"] for tree in expected],
        )
    some = [tree.number for tree in TreeReader(resources, row).sample(15)]
    assert some == [row.trees * stretch // 5 + step for stretch in range(5) for step in range(3)]
    assert [tree.number for tree in TreeReader(resources, row).sample(2)] == [0, row.trees // 2]


def test_a_rule_matches_exactly_its_rows(cluster):
    document = get(cluster, cluster.done, "rules").json()
    frame = cluster.frame.drop(columns="target").astype(object)
    rows = frame.where(frame.notna(), None).to_dict("records")
    response = cluster.client.post(f"/v1/jobs/{cluster.done}/explain", json={"rows": rows})

    explained = response.json()
    splits = ("train", "validation", "holdout")
    for rule in document["rules"]:
        fires = sum(rule["id"] in row["rules"] for row in explained["rows"])
        assert fires == sum(rule[split]["n"] for split in splits)
        assert explained["rules"][rule["id"]]["predicts"] == rule["class"]
    assert all((row["predicts"] is None) == (not row["rules"]) for row in explained["rows"])


@pytest.mark.parametrize(
    ("rows", "field", "message"),
    [
        ([], "rows", "at least 1"),
        ([{}] * 1001, "rows", "at most 1000"),
        ([{"worst area": 1}], "rows.0", "lacks"),
        ([{"a": [1]}], None, "a"),
        ("no", "rows", "list"),
    ],
)
def test_invalid_rows_are_rejected(cluster, rows, field, message):
    response = cluster.client.post(f"/v1/jobs/{cluster.done}/explain", json={"rows": rows})

    assert response.status_code == 422
    assert message in response.json()["detail"]
    if field:
        assert response.json()["field"] == field


def test_the_report_has_a_strict_content_security_policy(cluster):
    response = get(cluster, cluster.done, "report")

    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert get(cluster, cluster.done, "rules").json()["digest"] in response.text


def test_two_jobs_are_compared_by_their_rules(cluster):
    same = get(cluster, cluster.done, f"diff/{cluster.done}").json()
    other = get(cluster, cluster.done, f"diff/{cluster.paused}").json()

    count = len(get(cluster, cluster.done, "rules").json()["rules"])
    assert (same["same"], same["only_in_one"], same["one"]["job"]) == (count, [], cluster.done)
    assert (other["one"]["partial"], other["other"]["partial"]) == (False, True)
    assert other["same"] + sum(len(other[name]) for name in ("changed", "moved", "only_in_one")) == count


def test_the_events_of_a_real_job_contain_all_its_rules(cluster):
    with a_server(cluster.resources) as (url, _):
        job = cluster.client.post("/v1/jobs", json=cluster.job_request | {"fresh": True}).json()["id"]
        with following(url, job) as events:
            received = [next(events)]
            early = get(cluster, job, "rules")  # a late client reads the current rules, and receives the new ones
            received += events

    kinds = [event.kind for event in received]
    assert (kinds[0], kinds[-2:]) == ("state", ["state", "end"])
    assert "rules" in kinds
    final = get(cluster, job, "rules").json()
    assert received[-1].data == {"id": job, "state": "done", "digest": final["digest"], "reason": None}
    changes = [event.data for event in received if event.kind == "rules"]
    assert (changes[-1]["digest"], changes[-1]["rules"]) == (final["digest"], len(final["rules"]))
    early_rules = {rule["text"] for rule in early.json()["rules"]} if early.is_success else set()
    published = {rule["text"] for each in changes for rule in each["new"]}
    left_out = sum(each["new_total"] - len(each["new"]) for each in changes)  # an event contains 20 rules at most
    assert all(len(each["new"]) == min(MAX_RULES, each["new_total"]) for each in changes)
    assert len({rule["text"] for rule in final["rules"]} - early_rules - published) <= left_out


def test_the_results_of_a_job_are_not_found_by_another_tenant(client, resources, tmp_path, cluster):
    ours, theirs = token_for(resources), token_for(resources, "other")
    job_request = cluster.job_request | {"dataset": stored_table(resources, tmp_path, cluster.frame).id}
    job = client.post("/v1/jobs", json=job_request, headers=ours).json()["id"]
    copy = cluster.job_request | {"dataset": stored_table(resources, tmp_path, cluster.frame, "other").id}
    own = client.post("/v1/jobs", json=copy, headers=theirs).json()["id"]

    for path in ("rules", "trees", "report", "events", f"diff/{own}"):
        assert client.get(f"/v1/jobs/{job}/{path}", headers=theirs).status_code == 404
    assert client.post(f"/v1/jobs/{job}/explain", headers=theirs, json={"rows": [{}]}).status_code == 404
    assert "no job" in client.get(f"/v1/jobs/{own}/diff/{job}", headers=ours).json()["detail"]


def test_rules_and_reports_are_compressed_for_clients_that_accept_it(cluster):
    for path in ("rules?format=json", "report"):
        plain = get(cluster, cluster.done, path, headers={"Accept-Encoding": "identity"})
        packed = get(cluster, cluster.done, path, headers={"Accept-Encoding": "gzip"})

        assert plain.text == packed.text
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert int(packed.headers["content-length"]) < int(plain.headers["content-length"]) / 2
        assert plain.headers["etag"] != packed.headers["etag"]
        assert "Accept-Encoding" in packed.headers["vary"]
        again = {"Accept-Encoding": "gzip", "If-None-Match": packed.headers["etag"]}
        assert get(cluster, cluster.done, path, headers=again).status_code == 304
