"""Invalid messages are rejected with a reason, and the job continues."""

import json
import pickle
import signal
from pathlib import Path

import pytest

from maabo_dist.cluster.broker import make_celery
from maabo_dist.cluster.streams import BODY, HEADER, RULES_HEADER
from maabo_dist.contract import names
from maabo_dist.contract.messages import (
    MAX_SUBSETS,
    EvaluateMessage,
    EvaluationAnswer,
    RulesAnswer,
    TableSplit,
    pack_subsets,
)
from maabo_dist.settings import MiningSettings
from tests import servers
from tests.faults.world import MINING, table

pytestmark = pytest.mark.xdist_group("faults")
SHORT = MINING | {"trees": 400}


@pytest.fixture
def celery(world):
    app = make_celery(world.settings)
    yield app
    app.close()


def evaluate(job, **changes):
    """Return a message like those of the scheduler."""
    message = EvaluateMessage(
        job=job,
        batch=0,
        start=0,
        stop=1,
        attempt=0,
        columns=table().fingerprint,
        split=TableSplit.of(MiningSettings.parse(MINING)),
        max_depth=5,
        subset_size=2,
        subsets=pack_subsets(table().labels[:2].reshape(1, 2)),
    )
    return message.model_dump(mode="json") | changes


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def wait_for_log(process, text, before, seconds=15):
    servers.wait_for(lambda: text in process.log[before:], seconds, what=f"{text!r} in the log")


def test_a_pickle_is_refused_unread(world, celery, tmp_path):
    before, path = len(world.first_worker.log), tmp_path / "unpickled"
    task_message = celery.amqp.create_task_message("1", names.EVALUATE, (), {})
    with celery.producer_pool.acquire() as producer:
        producer.publish(
            pickle.dumps(([Trap(path)], {}, {})),
            headers=task_message.headers,
            content_type="application/x-python-serialize",
            content_encoding="binary",
            exchange="",
            routing_key=names.EVALUATE_QUEUE,
        )
    job = world.submit(SHORT)

    wait_for_log(world.first_worker, "is not accepted; use application/json", before)
    world.check_done(job, SHORT)
    assert not path.exists()


def test_an_unknown_task_is_refused(world, celery):
    before = len(world.first_worker.log)
    celery.send_task("os.system", args=["true"], queue=names.EVALUATE_QUEUE)
    job = world.submit(SHORT)

    wait_for_log(world.first_worker, "There is no task", before)
    world.check_done(job, SHORT)


@pytest.mark.parametrize("version", [1, 3])
def test_a_task_of_another_version_is_refused(world, celery, version):
    job, before = world.submit(), len(world.first_scheduler.log)
    world.under_way(job)
    celery.send_task(names.EVALUATE, kwargs=evaluate(job, version=version), queue=names.EVALUATE_QUEUE)

    wait_for_log(world.first_scheduler, f"contract version {version}", before)
    world.check_done(job)


@pytest.mark.soak
def test_an_oversized_task_is_refused(world, celery):
    job, before = world.submit(), len(world.first_scheduler.log)
    world.under_way(job)
    message = evaluate(job, subsets="A" * (MAX_SUBSETS * 96 + 1))
    celery.send_task(names.EVALUATE, kwargs=message, queue=names.EVALUATE_QUEUE, argsrepr="", kwargsrepr="")

    wait_for_log(world.first_scheduler, "at most", before)
    world.check_done(job)


@pytest.mark.parametrize("damage", [lambda body: b"", lambda body: body[: len(body) // 2]])
def test_a_truncated_answer_is_refused(world, damage):
    world.first_worker.signal(signal.SIGSTOP)
    job, before = world.submit(SHORT), len(world.first_scheduler.log)
    task = servers.wait_for(lambda: world.ledger.search.tasks(job), 20, what="a task")[0]
    key = {"job": job, "batch": task.batch, "start": task.start, "stop": task.stop, "attempt": task.attempt}
    header = EvaluationAnswer.read(key | {"kind": "done", "worker": "unknown"}).model_dump_json()
    world.client.xadd(world.stream(job), {HEADER: header, BODY: damage(bytes(range(256)) * 8)})
    wait_for_log(world.first_scheduler, "answer refused", before)
    world.first_worker.signal(signal.SIGCONT)

    world.check_done(job, SHORT)


@pytest.mark.parametrize(
    "document",
    [pytest.param('{"a": "–'.encode()[:-1], id="truncated"), pytest.param(b"[" * 100_000, id="deep"), b"1", b"\xff"],
)
def test_an_invalid_document_is_refused_and_kept(world, document):
    """A worker's document of 100,000 brackets failed the job with an internal error."""
    world.first_worker.signal(signal.SIGSTOP)
    world.client.delete(world.settings.key(names.REFUSED_STREAM))
    job, before = world.submit(SHORT), len(world.first_scheduler.log)
    servers.wait_for(lambda: world.ledger.search.tasks(job), 20, what="a task")
    header = RulesAnswer.read({"kind": "done", "job": job, "attempt": 1, "final": True, "worker": "unknown"})
    world.client.xadd(world.stream(job), {RULES_HEADER: header.model_dump_json(), BODY: document})
    wait_for_log(world.first_scheduler, "answer refused", before)
    world.first_worker.signal(signal.SIGCONT)

    world.check_done(job, SHORT)
    ((_, fields),) = world.client.xrange(world.settings.key(names.REFUSED_STREAM))
    assert fields[b"source"].decode() == f"stream maabo:results:{job}"
    assert "The result document" in fields[b"reason"].decode()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({b"nothing": b"known"}, "is invalid"),
        ({HEADER: b"\xff\xfe"}, "is invalid"),
        ({HEADER: json.dumps({"kind": "submit", "job": "../../etc"})}, "job"),
        ({HEADER: json.dumps({"version": 9, "kind": "submit", "job": "a" * 32})}, "version 9"),
        ({HEADER: json.dumps({"kind": "submit", "job": "a" * 32, "document": {"id": "a" * 32}})}, "dataset"),
        ({HEADER: b"[" * 100_000}, "recursion limit"),
        ({HEADER: b'{"a":' * 100_000}, "recursion limit"),
        ({HEADER: b'{"version": ' + b"9" * 10_000 + b"}"}, "is invalid"),
        ({HEADER: b'{"kind": "submit", "job": "\\ud800"}'}, "is invalid"),
    ],
)
def test_an_invalid_request_is_refused_and_kept_with_its_reason(world, fields, reason):
    world.client.delete(world.settings.key(names.REFUSED_STREAM))
    world.client.xadd(world.settings.key(names.INTAKE_STREAM), fields)

    (entry,) = servers.wait_for(lambda: world.client.xrange(world.settings.key(names.REFUSED_STREAM)), 15)
    assert reason in entry[1][b"reason"].decode()
    assert entry[1][b"source"] == b"stream maabo:intake"
    servers.wait_for(lambda: world.client.xlen(world.settings.key(names.INTAKE_STREAM)) == 0, 5, "its removal")
    assert len(world.client.xrange(world.settings.key(names.REFUSED_STREAM))) == 1
    assert world.first_scheduler.alive


@pytest.mark.slow
def test_a_worker_of_another_version_refuses_and_the_others_do_the_work(world):
    world.worker("tests.faults.other_version_app")
    mining = MINING | {"trees": 500}
    job, before = world.submit(mining), len(world.first_scheduler.log)

    row = world.check_done(job, mining, seconds=60)
    log = world.first_scheduler.log[before:]
    assert "task unavailable" in log
    assert "contract version 2; this program supports version 3" in log
    assert row.failed == 0
