"""The HTTP API on real resources: in the process of the test for most tests, in its own for some."""

import tempfile
from contextlib import closing
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest
from fastapi.testclient import TestClient
from sklearn.datasets import load_breast_cancer

from scheduler.api.app import create_app
from scheduler.api.readers import ReaderProcesses
from scheduler.api.settings import ApiSettings
from scheduler.resources import Resources
from tests import servers
from tests.api_data import files_in
from tests.cluster import a_scheduler, cluster_settings


@pytest.fixture(scope="session")
def redis_url():
    with TemporaryDirectory(prefix="maabo-redis-") as directory, servers.redis_server(directory) as url:
        yield url


@pytest.fixture(scope="session")
def shared_cluster(redis_url, tmp_path_factory):
    """A cluster shared by tests: API process, worker and scheduler. Yields its settings and the address of the API."""
    path = tmp_path_factory.mktemp("standing")
    settings = cluster_settings(redis_url, path, prefix="standing:", partial_seconds=0.2)
    with (
        servers.http_server(settings, path) as address,
        servers.worker(settings, path, "-P", "threads", "-c", "1", "--without-mingle", "--without-gossip"),
        a_scheduler(settings),
    ):
        yield settings, address


@pytest.fixture
def settings(redis_url, tmp_path):
    """The settings of a separate cluster; all clusters share a Redis server, with different prefixes."""
    return cluster_settings(redis_url, tmp_path, prefix=f"{uuid4().hex[:8]}:")


@pytest.fixture
def resources(settings):
    with closing(Resources.connect(settings)) as resources:
        yield resources


@pytest.fixture
def api_settings():
    return ApiSettings()


@pytest.fixture(scope="session")
def reader_processes():
    """Shared by all tests, because starting it takes a second."""
    with closing(ReaderProcesses()) as reader_processes:
        yield reader_processes


@pytest.fixture
def app(resources, api_settings, reader_processes):
    return create_app(resources, api_settings, reader_processes)


@pytest.fixture
def client(app):
    """A client on this machine, without a token."""
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The directory for temporary files of the server."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def table_directory(tmp_path):
    folder = tmp_path / "tables"
    (folder / "sales").mkdir(parents=True)
    return folder


@pytest.fixture
def nothing_left(resources, temporary):
    def check():
        assert files_in(temporary) == []
        assert list(resources.store.list()) == []
        assert resources.ledger.datasets.page(None) == []

    return check


@pytest.fixture(scope="session")
def frame():
    return load_breast_cancer(as_frame=True).frame.iloc[:, -8:]
