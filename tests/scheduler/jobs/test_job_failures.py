"""Jobs that are refused or fail, and outages at bad moments."""

import json
from threading import Event
from uuid import uuid4

import pytest
import redis

from maabo_dist.cluster.store import FileStore
from maabo_dist.cluster.streams import BODY, HEADER, RULES_HEADER, answer_entry, open_redis, results_stream
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.contract.messages import RulesAnswer
from scheduler.core import loop
from scheduler.core.job import SearchingJob
from scheduler.messaging.publishers import StatusPublisher, TaskPublisher
from scheduler.resources import BrokerError
from tests import servers
from tests.cluster import a_scheduler, ask, ended, submit
from tests.scheduler.jobs.job_actions import QUICK, digest_of, in_state, no_slots, queues_paused

pytestmark = pytest.mark.xdist_group("jobs")  # they share a cluster

# Refusals and failures.


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"settings": {"trees": 0}}, "settings.trees"),
        ({"colour": "red"}, "colour: Extra inputs are not permitted"),
        ({"id": "b" * 32}, "the document is for job bbbb"),
        ({"dataset": {"fingerprint": "short"}}, "dataset.fingerprint"),
        ({"version": 7}, "version"),
    ],
    ids=["bad setting", "unknown field", "another id", "no fingerprint", "another version"],
)
def test_a_refused_document_is_answered_and_stored_with_its_reason(cluster, client, changes, reason):
    job = uuid4().hex
    document = {"id": job, "dataset": {"fingerprint": "a" * 64}} | changes
    with a_scheduler(cluster) as ledger:
        ask(cluster, "submit", job, document=document)
        record = in_state(client, job, JobState.FAILED)
        row = ledger.jobs.get(job)

    assert reason in record.reason
    assert row is None
    request, stored_reason = last_refused(cluster)
    assert json.loads(request)["document"] == document
    assert stored_reason == record.reason


@pytest.mark.parametrize("entry", [{HEADER: b"\xff not JSON"}, {HEADER: b'{"kind": "dance"}'}, {b"other": b"field"}])
def test_an_invalid_request_is_stored_with_its_reason(cluster, columns, tmp_path, entry):
    with a_scheduler(cluster) as ledger, open_redis(cluster) as server:
        server.xadd(cluster.key(names.INTAKE_STREAM), entry)
        row = ended(ledger, submit(cluster, tmp_path, columns, **QUICK))

    request, stored_reason = last_refused(cluster)
    assert row.state is JobState.DONE
    assert request == entry.get(HEADER, b"")
    assert "Request is invalid" in stored_reason


def last_refused(cluster):
    with open_redis(cluster) as server:
        ((_, fields),) = server.xrevrange(cluster.key(names.REFUSED_STREAM), count=1)
    return fields[b"request"], fields[b"reason"].decode()


def test_a_job_whose_plan_is_invalid_fails_without_affecting_others(cluster, columns, client, tmp_path):
    with a_scheduler(cluster) as ledger:
        bad = submit(cluster, tmp_path, columns, **QUICK | {"subset_size": 40})
        good = submit(cluster, tmp_path, columns, **QUICK)
        rows = [ended(ledger, job) for job in (bad, good)]
        record = in_state(client, bad, JobState.FAILED)

    assert [row.state for row in rows] == [JobState.FAILED, JobState.DONE]
    assert "--subset-size 40 needs a table of more features" in rows[0].reason == record.reason


def test_a_table_under_a_wrong_fingerprint_fails_the_job_with_a_reason(cluster, columns, client, tmp_path):
    job, wrong = uuid4().hex, "d" * 64
    columns.save(tmp_path / "table")
    FileStore(cluster.store_url).put(f"columns/{wrong}", tmp_path / "table")
    with a_scheduler(cluster):
        ask(cluster, "submit", job, document={"id": job, "dataset": {"fingerprint": wrong}})
        record = in_state(client, job, JobState.FAILED)

    assert "columns/dddd" in record.reason
    assert "Submit the table again" in record.reason


@pytest.fixture
def faulty(monkeypatch):
    """Causes an internal error in one job, when it is opened or when its first answer arrives."""

    def make(job, moment):
        def fail(*_):
            raise ZeroDivisionError("an internal error here")

        def open_job(ledger, lease, *rest):
            opened = original(ledger, lease, *rest) if lease.job != job or moment == "answered" else fail()
            if lease.job == job:
                opened.speed = type("Speed", (), {"observe": fail, "task_size": lambda *_: 8, "expected": lambda *_: 1})
            return opened

        original = loop.open_job
        monkeypatch.setattr(loop, "open_job", open_job)

    return make


@pytest.mark.parametrize("moment", ["opened", "answered"])
def test_an_internal_error_in_one_job_fails_only_that_job(cluster, columns, client, tmp_path, faulty, moment):
    job = uuid4().hex
    faulty(job, moment)
    with a_scheduler(cluster) as ledger:
        submit(cluster, tmp_path, columns, job, **QUICK)
        good = ended(ledger, submit(cluster, tmp_path, columns, **QUICK))
        record = in_state(client, job, JobState.FAILED)

    assert "an internal error here" in record.reason
    assert good.digest == digest_of(columns, QUICK)


def test_unreadable_rules_are_not_accepted_as_the_result_of_a_job(cluster, columns, client, tmp_path):
    with a_scheduler(cluster) as ledger, open_redis(cluster) as server:
        with queues_paused(cluster, names.RULES_QUEUE):
            job = submit(cluster, tmp_path, columns, **QUICK)
            in_state(client, job, JobState.MINING)
            header = RulesAnswer(kind="done", job=job, attempt=1, final=True, worker="other", digest="0" * 64)
            server.xadd(results_stream(cluster, job), {RULES_HEADER: header.model_dump_json(), BODY: b"\xff\xfe"})
            servers.wait_for(lambda: not server.xlen(results_stream(cluster, job)), what="an answer that is read")
        row = ended(ledger, job)

    assert (row.state, row.digest) == (JobState.DONE, digest_of(columns, QUICK))


def test_rules_that_were_damaged_are_not_accepted_as_the_result_of_a_job(cluster, columns, client, tmp_path):
    """The damaged document is valid JSON. It was the result of the job, with the digest of its header."""
    with a_scheduler(cluster) as ledger, open_redis(cluster) as server:
        with queues_paused(cluster, names.RULES_QUEUE):
            job = submit(cluster, tmp_path, columns, **QUICK)
            in_state(client, job, JobState.MINING)
            header = RulesAnswer(kind="done", job=job, attempt=1, final=True, worker="other", digest="0" * 64)
            entry = answer_entry(header, b'{"rules": [1]}')
            server.xadd(results_stream(cluster, job), entry | {BODY: b'{"rules": [7]}'})
            servers.wait_for(lambda: not server.xlen(results_stream(cluster, job)), what="an answer that is read")
        row = ended(ledger, job)

    assert (row.state, row.digest) == (JobState.DONE, digest_of(columns, QUICK))
    assert "its checksum does not match" in last_refused(cluster)[1]


# Outages at bad moments.


def fail_once(monkeypatch, owner, name, error, when=lambda *_: True):
    """Let the method raise the error on the first call that fulfils `when`; return an event that is then set."""
    original, failed = getattr(owner, name), Event()

    def method(self, *arguments, **named):
        if not failed.is_set() and when(*arguments):
            failed.set()
            raise error
        return original(self, *arguments, **named)

    monkeypatch.setattr(owner, name, method)
    return failed


def test_a_broker_failure_between_two_jobs_blocks_neither(cluster, columns, tmp_path, monkeypatch):
    failed = fail_once(monkeypatch, TaskPublisher, "publish", BrokerError("the broker is gone"))
    monkeypatch.setattr(SearchingJob, "allowance", lambda *_: 1.0)
    with a_scheduler(cluster) as ledger:
        with no_slots(monkeypatch):
            jobs = [submit(cluster, tmp_path, columns, **QUICK) for _ in range(3)]
            servers.wait_for(lambda: len(ledger.jobs.get_many(jobs)) == 3, what="three jobs")
        rows = [ended(ledger, job) for job in jobs]

    assert failed.is_set()
    assert {row.digest for row in rows} == {digest_of(columns, QUICK)}


def test_a_redis_failure_between_two_answers_loses_neither(cluster, columns, tmp_path, monkeypatch):
    with open_redis(cluster) as server:
        with a_scheduler(cluster) as ledger, queues_paused(cluster, names.EVALUATE_QUEUE):
            job = submit(cluster, tmp_path, columns, **QUICK)
            servers.wait_for(lambda: ledger.search.tasks(job), what="sent tasks")
        servers.wait_for(lambda: server.exists(results_stream(cluster, job)), what="an answer that no scheduler reads")
        so_far = RulesAnswer(kind="done", job=job, attempt=0, final=False, worker="other", rules=1)
        server.xadd(results_stream(cluster, job), {RULES_HEADER: so_far.model_dump_json(), BODY: b"{}"})
    failed = fail_once(monkeypatch, StatusPublisher, "publish_document", redis.ConnectionError("gone"))
    with a_scheduler(cluster, "second") as ledger:
        row = ended(ledger, job)

    assert failed.is_set()
    assert (row.state, row.trees, row.digest) == (JobState.DONE, 40, digest_of(columns, QUICK))


def test_an_end_during_an_outage_of_redis_is_published_afterwards(cluster, columns, client, tmp_path, monkeypatch):
    def publishes_the_end(records):
        return isinstance(records, list) and any(record.state is JobState.DONE for record in records)

    with a_scheduler(cluster) as ledger:
        with queues_paused(cluster, names.RULES_QUEUE):
            job = submit(cluster, tmp_path, columns, **QUICK)
            in_state(client, job, JobState.MINING)
            failed = fail_once(
                monkeypatch, StatusPublisher, "publish", redis.ConnectionError("gone"), publishes_the_end
            )
        row = ended(ledger, job)
        record = in_state(client, job, JobState.DONE)

    assert failed.is_set()
    assert record.digest == row.digest == digest_of(columns, QUICK)


def test_an_unpublished_end_is_published_by_the_next_scheduler(cluster, columns, client, tmp_path):
    with a_scheduler(cluster) as ledger:
        job = submit(cluster, tmp_path, columns, **QUICK)
        ended(ledger, job)
        in_state(client, job, JobState.DONE)
    done = client.record(job)
    with open_redis(cluster) as server:
        stale = done.model_copy(update={"state": JobState.MINING, "digest": None})
        server.set(cluster.key(f"{names.JOB_RECORD}:{job}"), stale.model_dump_json())
    with a_scheduler(cluster, "second"):
        record = in_state(client, job, JobState.DONE)

    assert record.digest == done.digest


def test_records_missing_in_redis_are_restored_when_a_client_reads_them(cluster, columns, client, maabo, tmp_path):
    with a_scheduler(cluster) as ledger:
        row = ended(ledger, submit(cluster, tmp_path, columns, **QUICK))
        before = (in_state(client, row.id, JobState.DONE), client.final_document(row.id))
        with open_redis(cluster) as server:
            server.flushall()
        after = (client.record(row.id), client.final_document(row.id))
        code, out, _ = maabo("rules", row.id, "--json")

    assert after == before
    assert (code, json.loads(out)["digest"]) == (0, row.digest)
