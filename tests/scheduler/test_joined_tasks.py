"""Small tasks of a job share a message. Each is answered for itself, and sent alone once it has failed."""

import json
from base64 import b64decode
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from maabo_dist.cluster.streams import send_answer
from maabo_dist.contract import names
from maabo_dist.contract.messages import EvaluateMessage, EvaluationAnswer
from scheduler.core.loop import Scheduler
from scheduler.core.machines import TaskKey
from scheduler.core.outbox import Outbox
from scheduler.resources import Resources
from tests import factories
from tests.cluster import Clock, cluster_settings, submit

MINING = {"preset": "paper", "trees": 30, "initial": 10, "batch": 2, "subset_size": 2}


@pytest.fixture
def resources(server, tmp_path):
    settings = cluster_settings(server, tmp_path, prefix=f"{tmp_path.name}:", lease_seconds=600.0)
    with closing(replace(Resources.connect(settings), clock=Clock())) as connected:
        yield connected


def messages_of(resources, scheduler):
    """Run the scheduler until it has sent messages; take them from the queue."""
    for _ in range(100):
        scheduler.turn()
        items = resources.redis.rpop(resources.settings.key(names.EVALUATE_QUEUE), 100)
        if items:
            return [EvaluateMessage.read(json.loads(b64decode(json.loads(item)["body"]))[1]) for item in items]
    raise AssertionError("no message was sent")


@pytest.fixture
def started(resources, tmp_path):
    """A scheduler that has just sent the first message of a job."""
    columns = factories.make_columns(np.random.default_rng(1), rows=80, features=10)
    job = submit(resources.settings, tmp_path, columns, **MINING)
    scheduler = Scheduler(resources, "one")
    (message,) = messages_of(resources, scheduler)
    return scheduler, scheduler.jobs.by_id[job], message


def test_the_initial_batches_of_a_small_job_are_one_message(started):
    _, job, message = started

    assert [(part.batch, part.start, part.stop) for part in message.parts] == [(batch, 0, 2) for batch in range(5)]
    assert message.argsrepr == f"job {message.job[:4]} · batches 0–4 · 10 subsets of 2"
    assert (len(job.outbox.sent), job.outbox.messages) == (5, 1)


def test_a_lost_message_is_one_loss_and_its_tasks_are_sent_alone(resources, started):
    scheduler, job, message = started
    for number, part in enumerate(message.parts):
        key = {name: getattr(part, name) for name in ("batch", "start", "stop", "attempt")}
        lost = EvaluationAnswer(kind="lost", worker="here:1", reason="signal 9 (", job=message.job, part=number, **key)
        send_answer(resources.redis, resources.settings, lost)

    halves = messages_of(resources, scheduler)
    assert job.losses.lost == 1
    assert sum(len(each.parts) for each in halves) == 10  # each task in halves, which have not failed yet

    for each in halves:
        for number, part in enumerate(each.parts):
            key = {name: getattr(part, name) for name in ("batch", "start", "stop", "attempt")}
            lost = EvaluationAnswer(kind="lost", worker="here:1", reason="crash", job=each.job, part=number, **key)
            send_answer(resources.redis, resources.settings, lost)
    singles = messages_of(resources, scheduler)
    assert job.losses.lost == 1 + len(halves)
    assert {(len(each.parts), each.attempt) for each in singles} == {(1, 1)}


def test_tasks_are_sent_alone_while_workers_cannot_begin(resources, started):
    """Workers of earlier releases refuse messages of several parts, and answer the first part only."""
    scheduler, job, message = started
    key = {name: getattr(message, name) for name in ("job", "batch", "start", "stop", "attempt")}
    refusal = EvaluationAnswer(kind="unavailable", worker="old:1", reason="EvaluateMessage is invalid", **key)
    send_answer(resources.redis, resources.settings, refusal)
    scheduler.turn()
    resources.clock.now += 2.0

    again = messages_of(resources, scheduler)
    assert [len(each.parts) for each in again] == [1]
    resources.clock.now += 60.0  # the answers to the other parts are overdue
    assert {len(each.parts) for each in messages_of(resources, scheduler)} == {1}
    assert job.outbox.messages == len(job.outbox.sent)


def test_the_answer_to_a_joined_task_is_due_when_that_to_the_message_is():
    outbox, keys = Outbox(), [TaskKey(batch, 0, 2) for batch in range(3)]
    for key in keys:
        outbox.mark_sent(key, 0, 1.0)
    outbox.note_joined(keys)
    outbox.mark_taken(1.0, 1.0)

    assert outbox.resend_unanswered(6.9, float) == []
    assert outbox.resend_unanswered(7.1, float) == keys
    assert (outbox.messages, outbox.in_flight) == (0, 0)
