"""The number of workers, and a scheduler that is behind with reading their answers."""

import json
from base64 import b64decode
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from maabo_dist.cluster.streams import open_redis, send_answer
from maabo_dist.contract import names
from maabo_dist.contract.job import WorkerRecord
from maabo_dist.contract.messages import EvaluationAnswer, unpack_subsets
from maabo_dist.settings import MiningSettings
from maabo_dist.study import Study
from maabo_dist.trees.training import depth_search
from maabo_dist.trees.wire import pack_forest
from scheduler.core.loop import MAX_ENTRIES, Scheduler
from scheduler.messaging.fleet import COUNT_SECONDS, Fleet
from scheduler.resources import Resources
from tests import factories
from tests.cluster import Clock, cluster_settings, submit

MINING = {"preset": "paper", "strategy": "random", "trees": 2000, "batch": 500, "in_flight": 4, "subset_size": 2}


@pytest.fixture
def resources(server, tmp_path):
    settings = cluster_settings(server, tmp_path, prefix=f"{tmp_path.name}:", task_seconds=1e-6, lease_seconds=600.0)
    with closing(replace(Resources.connect(settings), clock=Clock())) as connected:
        yield connected


def beat(resources, node, processes):
    key = resources.settings.key(f"{names.WORKERS}:{node}")
    resources.redis.set(key, WorkerRecord(processes=processes, busy=0).model_dump_json())
    return key


def test_processes_are_counted_by_the_heartbeats_of_their_workers(resources):
    for number in range(1200):
        beat(resources, f"node{number}", 8)
    resources.redis.set(resources.settings.key(f"{names.WORKERS}:other"), "of another version")
    fleet = Fleet(resources)

    assert (fleet.workers, fleet.processes) == (1201, 9600)


def test_workers_are_not_counted_again_at_once(resources):
    clock = Clock(100.0)
    fleet = Fleet(resources, clock)
    key = beat(resources, "node", 4)
    assert fleet.processes == 4
    resources.redis.delete(key)
    assert fleet.processes == 4

    clock.now += COUNT_SECONDS
    assert fleet.processes == 0


def take(resources):
    """Take all messages from the queue; return their tasks."""
    items = resources.redis.rpop(resources.settings.key(names.EVALUATE_QUEUE), 10_000) or []
    return [json.loads(b64decode(json.loads(item)["body"]))[1] for item in items]


def answer(resources, table, task):
    subsets = unpack_subsets(task["subsets"], task["stop"] - task["start"], task["subset_size"])
    body = pack_forest(depth_search(table, subsets, task["max_depth"], whole=task["whole"]))
    key = {name: task[name] for name in ("job", "batch", "start", "stop", "attempt")}
    found = EvaluationAnswer(kind="done", worker="here:1", seconds=0.001, **key)
    send_answer(resources.redis, resources.settings, found, body)


@pytest.mark.slow
def test_answers_that_wait_to_be_read_are_not_missing(resources, tmp_path):
    """Fault: tasks whose answers were in the stream were sent again, and made a late scheduler later."""
    columns = factories.make_columns(np.random.default_rng(1), rows=80, features=60)
    study = Study.build(columns, MiningSettings.parse(MINING))
    job = submit(resources.settings, tmp_path, columns, **MINING)
    scheduler, tasks = Scheduler(resources, "one"), []
    for _ in range(100):
        scheduler.turn()
        tasks += take(resources)
        if len(tasks) > 2.5 * MAX_ENTRIES:
            break
    resources.clock.now += 2.0  # so that the scheduler notices that they are taken
    scheduler.turn()
    tasks += take(resources)
    for task in tasks:
        answer(resources, study.table, task)
    resources.clock.now += 1000.0
    for _ in range(5):
        scheduler.turn()
        tasks += take(resources)

    assert scheduler.jobs.by_id[job].trees > 0
    keys = [(task["batch"], task["start"]) for task in tasks]
    assert len(keys) == len(set(keys))


def test_without_permission_to_read_heartbeats_each_worker_counts_as_one_process(resources):
    """Users of Redis that an earlier release made may list heartbeats, but not read them."""
    for number in range(3):
        beat(resources, f"node{number}", 8)
    resources.redis.acl_setuser(
        "limited", enabled=True, nopass=True, keys="*", channels="*", commands=["+@all", "-mget"], reset=True
    )
    url = resources.settings.redis_url.replace("redis://", "redis://limited:any@")
    limited = resources.settings.model_copy(update={"redis_url": url})
    with open_redis(limited) as client:
        fleet = Fleet(replace(resources, redis=client))

        assert fleet.processes == 3
