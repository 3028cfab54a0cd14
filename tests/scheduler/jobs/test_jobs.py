"""The life of a job as clients see it, on a real Redis with a real scheduler and worker."""

import json
from uuid import uuid4

import jsonschema
import pytest

from maabo_dist.cluster.broker import make_celery
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.contract.result import load_schema
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings
from tests import servers
from tests.cluster import a_scheduler, ask, ended, submit
from tests.scheduler.jobs.job_actions import PATIENT, QUICK, SLOW, digest_of, in_state, no_slots, queues_paused

pytestmark = pytest.mark.xdist_group("jobs")  # they share a cluster


def test_a_job_is_queued_runs_is_mined_and_done(cluster, columns, client, tmp_path, monkeypatch):
    records = []
    with a_scheduler(cluster):
        with queues_paused(cluster, names.RULES_QUEUE):
            with queues_paused(cluster, names.EVALUATE_QUEUE):
                with no_slots(monkeypatch):
                    job = submit(cluster, tmp_path, columns, **QUICK)
                    records.append(in_state(client, job, JobState.QUEUED))
                records.append(in_state(client, job, JobState.RUNNING))
            records.append(in_state(client, job, JobState.MINING))
        records.append(in_state(client, job, JobState.DONE))

    queued, running, mining, done = records
    assert (queued.started, queued.planned, queued.trees) == (None, None, 0)
    assert (running.planned, running.trees, running.finished) == (40, 0, None)
    assert (mining.trees, mining.digest, mining.finished) == (40, None, None)
    assert (done.trees, done.reason, done.digest) == (40, None, digest_of(columns, QUICK))
    assert done.rules == len(client.final_document(job).rules)
    assert queued.created <= running.started <= done.finished


def test_a_record_contains_the_progress_of_the_search(cluster, columns, client, tmp_path):
    mining = SLOW | {"trees": 240, "subset_size": 5}  # long enough for a record, one per second, in between
    with a_scheduler(cluster):
        job = submit(cluster, tmp_path, columns, **mining)
        records = list(client.follow(job))

    halfway = [record for record in records if 0 < record.trees < 240]
    assert halfway
    assert all(record.planned == 240 and record.seconds > 0 and 0 < record.best_score <= 1 for record in halfway)
    assert [record.trees for record in records] == sorted(record.trees for record in records)
    assert [record.seconds for record in records] == sorted(record.seconds for record in records)
    assert (records[-1].state, records[-1].trees) == (JobState.DONE, 240)


def test_rules_so_far_can_be_read_while_the_search_runs(cluster, columns, client, maabo, tmp_path):
    with a_scheduler(cluster.model_copy(update={"partial_seconds": 0.2})):
        job = submit(cluster, tmp_path, columns, **SLOW | {"trees": 1000})
        document = servers.wait_for(lambda: client.document(job), what="rules so far").to_json()
        code, out, err = maabo("rules", job[:8], "--json")
        record = servers.wait_for(lambda: client.record(job).rules is not None and client.record(job), what="a count")
        ask(cluster, "cancel", job)
        in_state(client, job, JobState.CANCELLED)

    for partial in (document, json.loads(out)):
        jsonschema.validate(partial, load_schema())
        assert partial["search"]["stopped"] == "running"
        assert 0 < partial["search"]["trees"] < 1000
    assert code == 0
    assert "rules found so far" in err
    assert record.state is JobState.RUNNING


def test_a_job_submitted_by_the_command_line_has_the_result_of_mine(cluster, maabo, columns):
    options = ("--dataset", "breast_cancer", "--trees", "40", "--batch", "8", "--seed", "2", "--max-depth", "3")
    with a_scheduler(cluster):
        code, out, _ = maabo("submit", *options, "--wait", "--json")
        job = json.loads(maabo("jobs", "--json", "--limit", "1")[1])[0]["id"]
        status = json.loads(maabo("status", job, "--json")[1])
        watched = maabo("watch", job)

    document = json.loads(out)
    jsonschema.validate(document, load_schema())
    assert (code, document["digest"]) == (0, digest_of(columns, QUICK))
    assert (status["state"], status["name"], status["digest"]) == ("done", "breast_cancer", document["digest"])
    assert watched[0] == 0
    assert "is done" in watched[1]


def test_a_document_sent_as_a_celery_task_becomes_a_job(cluster, columns, client, tmp_path):
    job = uuid4().hex
    document = {"id": job, "dataset": {"fingerprint": columns.fingerprint}, "settings": QUICK, "tenant": "billing"}
    with a_scheduler(cluster) as ledger:
        submit(cluster, tmp_path, columns, **QUICK)  # stores the table
        make_celery(cluster).send_task(names.SUBMIT, kwargs=document, queue=names.JOBS_QUEUE)
        row = ended(ledger, job)

    assert (row.state, row.digest, row.spec.tenant) == (JobState.DONE, digest_of(columns, QUICK), "billing")
    assert client.record(job).tenant == "billing"


@pytest.mark.parametrize(
    "mining",
    [
        PATIENT,
        {"trees": 60, "batch": 8, "similarity_by": "rows", "min_samples": 20},
        {"trees": 60, "batch": 8, "strategy": "random"},
        {"subset_size": 2, "batch": 64, "in_flight": 4, "strategy": "exhaustive"},
        {"strategy": "single", "max_depth": 4},
        {"trees": 60, "batch": 8, "holdout": 0.2, "stratify": True},
        {"trees": 60, "batch": 8, "class_weight": "none", "min_samples_leaf": 5, "split_seed": 9},
    ],
    ids=["patience", "rows", "random", "exhaustive", "single", "holdout", "weights"],
)
def test_all_kinds_of_settings_give_the_digest_of_one_process(cluster, columns, client, tmp_path, mining):
    expected = mine(columns, MiningSettings.parse(mining))
    with a_scheduler(cluster) as ledger:
        row = ended(ledger, submit(cluster, tmp_path, columns, **mining))
        document = client.final_document(row.id).to_json()

    assert (row.state, row.digest, row.trees) == (JobState.DONE, expected.digest, expected.search.trees)
    assert document["search"]["stopped"] == expected.search.stopped
    assert document["notes"] == list(expected.notes)


def test_the_record_of_a_search_that_ends_by_patience_has_this_reason(cluster, columns, tmp_path):
    with a_scheduler(cluster) as ledger:
        row = ended(ledger, submit(cluster, tmp_path, columns, **PATIENT))

    assert (row.state, row.reason) == (JobState.DONE, "no new rule for as many trees as --patience allows")
