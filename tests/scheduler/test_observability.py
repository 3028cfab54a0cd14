"""What can be seen of a job from outside: meters, logs, traces. On real parts."""

import pytest

from maabo_dist.cluster.streams import open_redis
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.data import load_bundled, prepare
from scheduler import loop, meters
from scheduler.meters import Reading
from tests import servers
from tests.cluster import a_scheduler, cluster_settings, ended, submit

MINING = {"trees": 40, "batch": 8, "seed": 2, "max_depth": 3}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("cluster")
    with servers.redis_server(directory) as url:
        settings = cluster_settings(url, directory, prefix="t:", lease_seconds=2)
        with servers.worker(settings, directory, "--pool", "threads", "-c", "1"):
            yield settings


@pytest.fixture(autouse=True)
def brisk(monkeypatch):
    monkeypatch.setattr(loop, "LISTEN_IDLE", 0.05)


@pytest.fixture(scope="module")
def columns():
    return prepare(*load_bundled("breast_cancer")).columns


class Doubling:
    """A Redis from which everything is read twice."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def xread(self, *arguments, **named):
        return [(stream, entries + entries) for stream, entries in self._inner.xread(*arguments, **named)]


def reading_of(cluster, owner):
    with open_redis(cluster) as client:
        return Reading.read(client.get(cluster.key(f"{names.METERS}:{owner}")))


def test_after_a_job_the_meters_agree_with_the_ledger_and_second_answers_are_counted_as_dropped(
    cluster, columns, tmp_path
):
    with a_scheduler(cluster, "here:1", redis=Doubling(open_redis(cluster))) as ledger:
        row = ended(ledger, submit(cluster, tmp_path, columns, **MINING))
    reading = reading_of(cluster, "here:1")

    amounts, answered = reading.amounts, sum(reading.timings[meters.TASK_SECONDS.name]["evaluate"].counts)
    assert (row.state, amounts[meters.TREES.name][""]) == (JobState.DONE, row.trees)
    assert amounts[meters.DROPPED.name]["evaluate"] == answered == amounts[meters.TASKS_SENT.name]["evaluate"]
    assert amounts[meters.ENDED.name] == {"done": 1, "failed": 0, "cancelled": 0}
    assert amounts[meters.LEASES.name] == {"taken": 1, "lost": 0, "given_back": 0}
    assert sum(reading.timings[meters.JOB_WAIT.name][""].counts) == 1
    assert sum(reading.timings[meters.COMMIT_SECONDS.name][""].counts) > 3
    assert set(amounts[meters.TASKS_IN_FLIGHT.name].values()) == {0}
