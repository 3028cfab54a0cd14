"""Callbacks of jobs that have ended, and what is kept of them."""

import json
import time
from base64 import b64decode

import pytest

from maabo_dist.cluster.store import FileStore
from maabo_dist.cluster.streams import open_redis
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from scheduler.core.maintenance import Maintenance
from scheduler.messaging.publishers import StatusPublisher, TaskPublisher
from scheduler.resources import Resources
from tests import servers
from tests.cluster import a_scheduler, ask, ended, submit
from tests.scheduler.jobs.job_actions import QUICK, SLOW, digest_of, in_state

pytestmark = pytest.mark.xdist_group("jobs")  # they share a cluster


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
