"""Tenants on a real Redis with a real scheduler, without workers: admission, quotas and job slots."""

import json
from base64 import b64decode
from uuid import uuid4

import numpy as np
import pytest

from maabo_dist.cluster.streams import open_redis
from maabo_dist.contract import names
from maabo_dist.contract.job import JobRecord, JobState
from scheduler.core import dispatch, loop
from scheduler.ledger.tenants import QuotaRow
from tests import factories, servers
from tests.cluster import a_scheduler, ask, cluster_settings, store_table, submit

SECRET = "hush-hush-4711"
TASK = {"task": "orders.mined", "queue": "orders"}
MINING = {"trees": 20, "batch": 4, "subset_size": 2}


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory):
    with servers.redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def cluster(redis_url, tmp_path):
    settings = cluster_settings(redis_url, tmp_path, lease_seconds=1)
    with open_redis(settings) as client:
        client.flushall()
    return settings


@pytest.fixture(scope="module")
def columns():
    return factories.make_clear(np.random.default_rng(5), 60, 8)


@pytest.fixture(autouse=True)
def _short_idle_reads(monkeypatch):
    monkeypatch.setattr(loop, "IDLE_READ_SECONDS", 0.05)


def refusal(cluster, **changes):
    """Request a job; return its record, the refused request, its problem, and the calls of its callback."""
    job = uuid4().hex
    ask(cluster, "submit", job, document={"id": job, "dataset": {"fingerprint": "a" * 64}} | changes)
    with open_redis(cluster) as client:
        ((_, refused),) = servers.wait_for(
            lambda: client.xrevrange(cluster.key(names.REFUSED_STREAM), count=1), what="a refused request"
        )
        key = cluster.key(f"{names.JOB_RECORD}:{job}")
        record = JobRecord.model_validate_json(servers.wait_for(lambda: client.get(key), what="a record"))
        servers.wait_for(lambda: not client.xlen(cluster.key(names.INTAKE_STREAM)), what="an empty intake")
        messages = [json.loads(message) for message in client.lrange(cluster.key("orders"), 0, -1)]
    calls = [json.loads(b64decode(message["body"]))[1] for message in messages]
    return record, refused, json.loads(refused[b"problem"]), calls


def test_a_job_beyond_the_quota_is_refused_answered_and_stored(cluster):
    with a_scheduler(cluster) as ledger:
        ledger.quotas.set(QuotaRow("ann", queued=0))
        record, refused, problem, calls = refusal(cluster, tenant="ann", callback=TASK, correlation="c1")

    assert (problem["type"], problem["status"]) == ("https://maabo.dev/problems/quota-exceeded", 429)
    assert (problem["instance"], "Wait" in problem["remedy"]) == ("c1", True)
    assert calls == [{"job": record.id, "state": "refused", "digest": None, "problem": problem}]
    assert (record.state, record.reason) == (JobState.FAILED, problem["detail"])
    assert json.loads(refused[b"request"])["job"] == record.id


def test_a_webhook_to_an_internal_address_is_refused_and_its_secret_is_not_exposed(cluster, caplog):
    callback = {"url": "http://127.0.0.1:6379/", "secret": SECRET}
    with a_scheduler(cluster):
        record, refused, problem, calls = refusal(cluster, callback=callback)

    assert (problem["status"], problem["field"], calls) == (422, "callback.url", [])
    assert "MAABO_WEBHOOK_HOSTS" in problem["remedy"]
    assert json.loads(refused[b"request"])["document"]["callback"]["secret"] == "…"
    assert SECRET not in caplog.text + record.model_dump_json() + str(refused)


def test_an_admitted_job_is_not_refused_when_it_is_submitted_again(cluster):
    job = uuid4().hex
    document = {"id": job, "dataset": {"fingerprint": "a" * 64}, "tenant": "ann"}
    with a_scheduler(cluster) as ledger, open_redis(cluster) as client:
        ledger.quotas.set(QuotaRow("ann", queued=1, running=0))
        for _ in range(2):
            ask(cluster, "submit", job, document=document)
        servers.wait_for(lambda: not client.xlen(cluster.key(names.INTAKE_STREAM)), what="an empty intake")
        refused = client.xlen(cluster.key(names.REFUSED_STREAM))
        row = ledger.jobs.get(job)

    assert (refused, row.state) == (0, JobState.QUEUED)


def test_a_reused_id_with_another_document_is_refused_and_the_job_continues(cluster):
    job = uuid4().hex
    with a_scheduler(cluster) as ledger, open_redis(cluster) as client:
        ledger.quotas.set(QuotaRow("ann", queued=1, running=0))
        for fingerprint in ("a" * 64, "b" * 64):
            ask(cluster, "submit", job, document={"id": job, "dataset": {"fingerprint": fingerprint}, "tenant": "ann"})
        ((_, refused),) = servers.wait_for(
            lambda: client.xrevrange(cluster.key(names.REFUSED_STREAM), count=1), what="a refused request"
        )
        row = ledger.jobs.get(job)

    assert json.loads(refused[b"problem"])["type"] == "https://maabo.dev/problems/key-reused"
    assert (row.state, row.spec.dataset.fingerprint) == (JobState.QUEUED, "a" * 64)


def test_more_trees_than_the_quota_allows_fail_the_job(cluster, columns, tmp_path):
    with a_scheduler(cluster) as ledger:
        ledger.quotas.set(QuotaRow("ann", trees=19))
        job = submit(cluster, tmp_path, columns, document={"tenant": "ann"}, **MINING)
        row = servers.wait_for(lambda: (row := ledger.jobs.get(job)) and row.state.ended and row, what="an end")

    assert (row.state, "19 trees in a job" in row.reason) == (JobState.FAILED, True)


def test_a_tenant_with_a_single_job_does_not_wait_for_one_with_many(cluster, columns, tmp_path, monkeypatch):
    monkeypatch.setattr(dispatch, "MAX_JOBS", 2)
    store_table(cluster, tmp_path, columns)
    with a_scheduler(cluster) as ledger:
        many = [submit(cluster, tmp_path, columns, document={"tenant": "ann"}, **MINING) for _ in range(5)]
        servers.wait_for(lambda: len(running(ledger, many)) == 2, what="two jobs that run")
        others = [
            submit(cluster, tmp_path, columns, document={"tenant": tenant}, **MINING)
            for tenant in ("bob", "bob", "cid")
        ]
        servers.wait_for(lambda: len(running(ledger, others)) == 2, what="a job of each that runs")
        counts = [len(running(ledger, jobs)) for jobs in (many, others[:2], others[2:])]

    assert counts == [2, 1, 1]


def running(ledger, jobs):
    return [row for row in ledger.jobs.get_many(jobs) if row.state is JobState.RUNNING]
