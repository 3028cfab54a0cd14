import pytest
import redis

from tests.servers import redis_server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def client(server):
    with redis.Redis.from_url(server) as client:
        client.flushall()
        yield client
