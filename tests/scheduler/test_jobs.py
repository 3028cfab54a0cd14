"""The life of a job as clients see it, on a real Redis with a real scheduler and one Celery worker of one process."""

import json
import sys
import time
from base64 import b64decode
from contextlib import contextmanager
from threading import Event
from uuid import uuid4

import jsonschema
import pytest
import redis

from maabo_dist.cli import main
from maabo_dist.cluster.broker import make_celery
from maabo_dist.cluster.queue_client import QueueClient
from maabo_dist.cluster.store import FileStore
from maabo_dist.cluster.streams import BODY, HEADER, RULES_HEADER, open_redis, results_stream
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.contract.messages import RulesAnswer
from maabo_dist.contract.result import load_schema
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from maabo_dist.mining.local import mine
from maabo_dist.settings import MiningSettings
from scheduler.core import dispatch, loop
from scheduler.core.job import SearchingJob
from scheduler.core.maintenance import Maintenance
from scheduler.messaging.publishers import StatusPublisher, TaskPublisher
from scheduler.resources import BrokerError, Resources
from tests import servers
from tests.cluster import a_scheduler, ask, cluster_settings, ended, some_trees, submit

SLOW = {"trees": 100, "batch": 1, "seed": 3}
"""One tree at a time: slow enough for tests to act while it runs."""
QUICK = {"trees": 40, "batch": 8, "seed": 2, "max_depth": 3}
PATIENT = {"trees": 400, "batch": 8, "patience": 24, "similarity": 0.2}
"""Stops before its budget, when no new rule is found for a while."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    with servers.redis_server(directory) as url:
        settings = cluster_settings(url, directory, prefix="t:", lease_seconds=2)
        with servers.worker(settings, directory, "--pool", "threads", "-c", "1"):
            yield settings


@pytest.fixture(autouse=True)
def _short_idle_reads(monkeypatch):
    """Idle schedulers stop sooner."""
    monkeypatch.setattr(loop, "IDLE_READ_SECONDS", 0.05)


@pytest.fixture(scope="module")
def columns():
    return prepare(*load_bundled("breast_cancer")).columns


@pytest.fixture(scope="module")
def client(cluster):
    return QueueClient(cluster, open_redis(cluster))


@pytest.fixture
def maabo(cluster, monkeypatch, capsys):
    """Runs the command line in this process; returns exit code, stdout and stderr."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["maabo", *map(str, arguments), "--redis", cluster.redis_url])
        monkeypatch.setenv("MAABO_PREFIX", cluster.prefix)
        with pytest.raises(SystemExit) as exit_info:
            main()
        captured = capsys.readouterr()
        return exit_info.value.code, captured.out, captured.err

    return call


def digest_of(columns, mining):
    return mine(columns, MiningSettings.parse(mining)).digest


def in_state(client, job, state):
    return servers.wait_for(
        lambda: (record := client.record(job)).state is state and record, what=f"a job that is {state}"
    )


@contextmanager
def queues_paused(cluster, *queues):
    """Pause the worker's consumption of these queues."""
    control = make_celery(cluster).control
    for queue in queues:
        assert control.cancel_consumer(queue, reply=True, timeout=5, limit=1)
    try:
        yield
    finally:
        for queue in queues:
            assert control.add_consumer(queue, reply=True, timeout=5, limit=1)


@contextmanager
def no_slots(monkeypatch):
    """Let schedulers queue jobs without starting any."""
    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "MAX_JOBS", 0)
        patch.setattr(dispatch, "URGENT_SLOTS", 0)
        patch.setattr(dispatch, "IDLE_TENANT_SLOTS", 0)
        yield


# From the queue to the rules.


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


# Pause, resume, cancel.


def test_a_job_paused_while_it_runs_has_the_same_result(cluster, columns, client, maabo, tmp_path):
    with a_scheduler(cluster) as ledger:
        job = submit(cluster, tmp_path, columns, **SLOW)
        some_trees(ledger, job, 20)
        paused = maabo("pause", job)
        trees = ledger.jobs.get(job).trees
        paused_seconds = (in_state(client, job, JobState.PAUSED).seconds, time.sleep(1.2), client.record(job).seconds)
        still = ledger.jobs.get(job).trees
        resumed = maabo("resume", job)
        row = ended(ledger, job)

    assert paused[:2] == (0, f"Job {job[:8]} is paused.\n")
    assert resumed[0] == 0
    assert 20 <= trees == still < 100
    assert paused_seconds[0] == paused_seconds[2]
    assert (row.state, row.trees, row.digest) == (JobState.DONE, 100, digest_of(columns, SLOW))


def test_a_job_paused_in_the_queue_is_not_started_before_it_is_resumed(cluster, columns, client, tmp_path, monkeypatch):
    with a_scheduler(cluster) as ledger:
        with no_slots(monkeypatch):
            job = submit(cluster, tmp_path, columns, **QUICK)
            in_state(client, job, JobState.QUEUED)
            client.send_command(job, "pause")
        other = ended(ledger, submit(cluster, tmp_path, columns, **QUICK))
        untouched = ledger.jobs.get(job)
        client.send_command(job, "resume")
        row = ended(ledger, job)

    assert (untouched.state, untouched.started) == (JobState.PAUSED, None)
    assert row.digest == other.digest == digest_of(columns, QUICK)


def test_a_job_paused_while_its_rules_are_mined_is_done_once_resumed(cluster, columns, client, tmp_path):
    with a_scheduler(cluster) as ledger:
        with queues_paused(cluster, names.RULES_QUEUE):
            job = submit(cluster, tmp_path, columns, **QUICK)
            in_state(client, job, JobState.MINING)
            client.send_command(job, "pause")
        client.send_command(job, "resume")
        row = ended(ledger, job)

    assert (row.state, row.digest) == (JobState.DONE, digest_of(columns, QUICK))


def test_a_paused_job_stays_paused_when_the_scheduler_changes(cluster, columns, client, tmp_path):
    with a_scheduler(cluster) as ledger:
        job = submit(cluster, tmp_path, columns, **SLOW)
        some_trees(ledger, job, 5)
        client.send_command(job, "pause")
    with a_scheduler(cluster, "second") as ledger:
        other = ended(ledger, submit(cluster, tmp_path, columns, **QUICK))
        still = ledger.jobs.get(job).state
        client.send_command(job, "resume")
        row = ended(ledger, job)

    assert (other.state, still) == (JobState.DONE, JobState.PAUSED)
    assert row.digest == digest_of(columns, SLOW)


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING, JobState.PAUSED, JobState.MINING])
def test_a_cancelled_job_ends_and_leaves_nothing_behind(cluster, columns, client, maabo, tmp_path, monkeypatch, state):
    with a_scheduler(cluster) as ledger, queues_paused(cluster, names.RULES_QUEUE), monkeypatch.context() as patch:
        if state is JobState.QUEUED:
            patch.setattr(dispatch, "MAX_JOBS", 0)
            patch.setattr(dispatch, "IDLE_TENANT_SLOTS", 0)
        job = submit(cluster, tmp_path, columns, **(QUICK if state is JobState.MINING else SLOW))
        if state is JobState.PAUSED:
            some_trees(ledger, job, 5)
            client.send_command(job, "pause")
        in_state(client, job, state)
        code, out, _ = maabo("cancel", job)
        row = ledger.jobs.get(job)

    assert (code, out) == (0, f"Job {job[:8]} is cancelled.\n")
    assert (row.state, row.digest) == (JobState.CANCELLED, None)
    assert (list(ledger.search.batches(job)), list(ledger.search.results(job)), ledger.search.tasks(job)) == (
        [],
        [],
        [],
    )
    assert maabo("cancel", job)[0] == 2


# A budget of time.


def test_a_time_limit_ends_the_search_after_a_complete_batch_with_a_note(cluster, columns, client, tmp_path):
    mining = {"trees": 4000, "initial": 12, "batch": 8, "seed": 3}
    with a_scheduler(cluster) as ledger:
        row = ended(ledger, submit(cluster, tmp_path, columns, **mining, time_limit=1.0))
        document = client.final_document(row.id).to_json()

    assert (row.state, row.reason, document["search"]["stopped"]) == (
        JobState.DONE,
        "the time limit was reached",
        "time",
    )
    assert 0 < row.trees == document["search"]["trees"] < 4000
    assert any("The time limit ended the search" in note and "faster machine" in note for note in document["notes"])
    assert row.digest == digest_of(columns, mining | {"trees": row.trees})


def test_another_scheduler_keeps_the_batches_that_the_time_limit_allowed(cluster, columns, tmp_path):
    mining = {"trees": 4000, "initial": 12, "batch": 8, "in_flight": 3, "seed": 3}
    with queues_paused(cluster, names.EVALUATE_QUEUE):
        with a_scheduler(cluster) as ledger:
            job = submit(cluster, tmp_path, columns, **mining, time_limit=0.5)
            first = servers.wait_for(lambda: (row := ledger.jobs.get(job)) and row.stop_after, what="the time's end")
        with a_scheduler(cluster, "second") as ledger:
            servers.wait_for(lambda: ledger.jobs.get(job).fence > 1, what="another holder")
            batches = list(ledger.search.batches(job))
    with a_scheduler(cluster, "third") as ledger:
        row = ended(ledger, job)

    assert (row.state, row.reason, row.stop_after) == (JobState.DONE, "the time limit was reached", first)
    assert len(batches) == first
    assert row.digest == digest_of(columns, mining | {"trees": row.trees})


def test_time_that_runs_out_after_the_last_tree_changes_nothing(cluster, columns, client, tmp_path):
    with a_scheduler(cluster) as ledger:
        with queues_paused(cluster, names.RULES_QUEUE):
            job = submit(cluster, tmp_path, columns, **QUICK, time_limit=1.5)
            in_state(client, job, JobState.MINING)
            time.sleep(2.0)
        row = ended(ledger, job)
        document = client.final_document(job).to_json()

    assert (row.state, row.reason, document["search"]["stopped"]) == (JobState.DONE, None, "budget")


# Waiting, and priorities.


def test_without_a_worker_a_job_waits(cluster, columns, client, tmp_path):
    with a_scheduler(cluster) as ledger:
        with queues_paused(cluster, names.EVALUATE_QUEUE, names.RULES_QUEUE):
            job = submit(cluster, tmp_path, columns, **QUICK)
            in_state(client, job, JobState.RUNNING)
            time.sleep(2)
            waiting = client.record(job)
        row = ended(ledger, job)

    assert (waiting.state, waiting.trees, waiting.reason) == (JobState.RUNNING, 0, None)
    assert row.digest == digest_of(columns, QUICK)


def test_a_small_urgent_job_does_not_wait_for_a_wide_one(cluster, columns, client, tmp_path):
    wide = {"trees": 27_000, "subset_size": 4, "batch": 256, "in_flight": 16, "strategy": "random"}
    with a_scheduler(cluster.model_copy(update={"task_seconds": 0.02})) as ledger:
        low = submit(cluster, tmp_path, columns, document={"priority": "low"}, **wide)
        some_trees(ledger, low, 500)
        high = ended(ledger, submit(cluster, tmp_path, columns, document={"priority": "high"}, **QUICK))
        others = ledger.jobs.get(low)
        client.send_command(low, "cancel")

    assert high.digest == digest_of(columns, QUICK)
    assert (others.state, others.trees < 18_000) == (JobState.RUNNING, True)


def test_equal_jobs_progress_concurrently(cluster, columns, tmp_path):
    mining = {"trees": 1200, "batch": 64, "in_flight": 8}
    with a_scheduler(cluster.model_copy(update={"task_seconds": 0.005})) as ledger:
        jobs = [submit(cluster, tmp_path, columns, **mining, seed=seed) for seed in (1, 2)]
        rows = servers.wait_for(
            lambda: (rows := ledger.jobs.get_many(jobs)) and any(row.state.ended for row in rows) and rows,
            what="an end",
        )
        digests = {row.spec.settings.seed: row.digest for row in [ended(ledger, job) for job in jobs]}

    assert min(row.trees for row in rows) >= 400
    assert digests == {seed: digest_of(columns, mining | {"seed": seed}) for seed in (1, 2)}


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


# Callbacks and retention.


@pytest.mark.parametrize(("mining", "state"), [(QUICK, "done"), ({"subset_size": 40}, "failed")])
def test_the_callback_of_a_job_is_called_once(cluster, columns, tmp_path, mining, state):
    queue = f"orders.{state}"
    callback = {"callback": {"task": "orders.mined", "queue": queue}}
    with a_scheduler(cluster) as ledger, open_redis(cluster) as server:
        row = ended(ledger, submit(cluster, tmp_path, columns, document=callback, **mining))
        servers.wait_for(lambda: server.llen(cluster.key(queue)), what="a callback")
        ended(ledger, submit(cluster, tmp_path, columns, **QUICK))
        time.sleep(1)  # two or three rounds of maintenance
        calls = [json.loads(message) for message in server.lrange(cluster.key(queue), 0, -1)]

    assert [call["headers"]["task"] for call in calls] == ["orders.mined"]
    _, arguments, _ = json.loads(b64decode(calls[0]["body"]))
    assert arguments == {"job": row.id, "state": state, "digest": row.digest}


def with_own_ledger(cluster, tmp_path, **changes):
    """Return the cluster with a separate ledger, so that jobs of other tests are not purged."""
    return cluster.model_copy(update={"ledger_url": f"sqlite:///{tmp_path}/ledger.db"} | changes)


def test_after_the_retention_time_nothing_is_left_of_a_job(cluster, columns, client, tmp_path):
    patient, brief = with_own_ledger(cluster, tmp_path), with_own_ledger(cluster, tmp_path, retention=1.0)
    refused = "c" * 32
    with a_scheduler(patient) as ledger:
        done = ended(ledger, submit(cluster, tmp_path, columns, **QUICK))
        artifacts = ledger.artifacts()
    with a_scheduler(brief) as ledger, open_redis(cluster) as server:
        ask(cluster, "submit", refused, document={"id": refused})
        in_state(client, refused, JobState.FAILED)

        def gone():
            listed = set(server.zrange(cluster.key(names.JOB_LIST), 0, -1))
            return ledger.jobs.get(done.id) is None and not {done.id.encode(), refused.encode()} & listed

        servers.wait_for(gone, what="the end of the retention time")
        keys = [key for job in (done.id, refused) for key in server.keys(f"{cluster.prefix}*{job}*")]
    collect(brief, time.time() + 3)

    assert {name.split("/")[0] for name in artifacts} == {"columns", "figures", "trees"}
    assert keys == []
    assert not {item.name for item in FileStore(cluster.store_url).list()} & artifacts


@pytest.mark.soak
def test_data_of_a_running_job_is_kept_beyond_the_retention_time(cluster, columns, client, tmp_path):
    patient, brief = (
        with_own_ledger(cluster, tmp_path),
        with_own_ledger(cluster, tmp_path, retention=1.0, partial_seconds=0.1),
    )
    with a_scheduler(brief) as ledger:
        job = submit(cluster, tmp_path, columns, **SLOW)
        servers.wait_for(lambda: (row := ledger.jobs.get(job)) and row.segments, what="trees in the store")
        client.send_command(job, "pause")
        time.sleep(2)
        paused = client.record(job)
    collect(brief, time.time() + 3)
    with a_scheduler(patient) as ledger:
        client.send_command(job, "resume")
        row = ended(ledger, job)

    assert paused.state is JobState.PAUSED
    assert (row.state, row.digest) == (JobState.DONE, digest_of(columns, SLOW))


def collect(settings, now):
    """Remove unused artifacts, as a scheduler does once an hour."""
    resources = Resources.connect(settings)
    Maintenance(resources, StatusPublisher(resources), TaskPublisher(resources)).run(now, set())
    resources.close()
