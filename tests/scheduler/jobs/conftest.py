"""A real Redis with one Celery worker of one process, and clients of it."""

import sys

import pytest

from maabo_dist.cli import main
from maabo_dist.cluster.queue_client import QueueClient
from maabo_dist.cluster.streams import open_redis
from maabo_dist.data.bundled import load_bundled
from maabo_dist.data.preparation import prepare
from scheduler.core import loop
from tests import servers
from tests.cluster import cluster_settings


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
def columns():
    return prepare(*load_bundled("breast_cancer")).columns


@pytest.fixture(scope="session")
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
