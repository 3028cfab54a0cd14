import sys

import pytest

from maabo_dist.cli import main
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import open_redis
from tests import servers
from tests.cli.tables import numbers, write_csv
from tests.cluster_client.fake_scheduler import FakeScheduler, running


@pytest.fixture
def maabo(monkeypatch, capsysbinary):
    """Runs the console entry in this process, as the installed script does; returns exit code, stdout and stderr."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["maabo", *map(str, arguments)])
        with pytest.raises(SystemExit) as ending:
            main()
        captured = capsysbinary.readouterr()
        return ending.value.code, captured.out.decode(), captured.err.decode()

    return call


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with servers.redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield ClusterSettings(redis_url=url)


@pytest.fixture
def redis(server):
    client = open_redis(server)
    yield client
    client.flushall()
    client.close()


@pytest.fixture
def scheduler(server, redis):
    with running(FakeScheduler(server, redis, mines=True)) as working:
        yield working


@pytest.fixture
def run(maabo, server, monkeypatch):
    monkeypatch.setenv("MAABO_REDIS", server.redis_url)
    return maabo


@pytest.fixture
def table(tmp_path):
    return write_csv(tmp_path, numbers().assign(constant=1))
