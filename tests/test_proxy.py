"""The proxy of the fault tests, against a real Redis."""

import socket
import threading
import time

import pytest
import redis

from tests import servers
from tests.proxy import end_of, proxy


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    with servers.redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield int(url.rsplit(":", 1)[1].split("/")[0])


@pytest.fixture
def between(port):
    with proxy(port) as between:
        yield between


@pytest.fixture
def client(between):
    """Return a client that does not retry, so that every fault of a connection is visible."""
    with redis.Redis(port=between.port, socket_timeout=1, retry=None) as client:
        client.flushall()
        yield client


def test_commands_and_replies_pass(client):
    client.set("a", b"\r\n$5\r\n" * 1000)
    with client.pipeline() as pipe:
        pipe.get("a").rpush("b", 1, 2).lrange("b", 0, -1)

        assert pipe.execute() == [b"\r\n$5\r\n" * 1000, 2, [b"1", b"2"]]


def test_a_large_value_passes(client):
    value = bytes(3_000_000)
    client.set("large", value)

    assert client.get("large") == value


def test_a_delay_holds_a_reply_back(between, client):
    client.ping()
    between.delay(0.1)
    started = time.monotonic()
    client.ping()

    assert time.monotonic() - started >= 0.2  # there and back


def test_a_cut_resets_connections_and_a_new_one_works(between, client):
    with socket.create_connection(("127.0.0.1", between.port), timeout=5) as connection:
        connection.sendall(b"PING\r\n")
        connection.recv(100)
        between.cut()

        with pytest.raises(ConnectionResetError):
            connection.recv(100)
    assert client.ping()


def test_refused_clients_can_connect_again_once_accepted(between, client):
    client.ping()
    between.refuse()
    for _ in range(2):
        with pytest.raises(redis.ConnectionError):
            client.ping()
    between.accept()

    assert client.ping()


def test_a_frozen_proxy_sends_nothing_to_old_and_new_connections(between, client):
    client.ping()
    between.freeze()
    for _ in range(2):
        with pytest.raises(redis.TimeoutError):
            client.ping()
    between.thaw()

    assert client.ping()


def test_data_held_by_a_frozen_proxy_is_forwarded_when_it_thaws(between, port):
    patient = redis.Redis(port=between.port, socket_timeout=20, retry=None)
    patient.ping()
    between.freeze()
    thread = threading.Thread(target=patient.set, args=("waited", 1))
    thread.start()
    between.thaw()
    thread.join()

    assert redis.Redis(port=port).get("waited") == b"1"


def test_a_stranded_connection_is_silent_and_a_new_one_works(between, client):
    client.ping()
    between.strand()

    with pytest.raises(redis.TimeoutError):
        client.ping()
    assert client.ping()


def test_a_duplicated_command_is_executed_twice_and_answered_once(between, client):
    between.duplicate_commands(b"XADD", b"LPUSH")
    client.xadd("stream", {"a": 1})
    client.lpush("list", "x")
    between.duplicate_commands()

    assert (client.xlen("stream"), client.llen("list")) == (2, 2)
    assert between.seen == {b"XADD": 1, b"LPUSH": 1}


def test_a_duplicated_command_in_a_pipeline_leaves_the_other_replies_alone(between, client):
    between.duplicate_commands(b"XADD")
    with client.pipeline(transaction=False) as pipe:
        pipe.set("a", 1).xadd("stream", {"a": 1}, id="5-1").get("a")
        replies = pipe.execute(raise_on_error=False)

    assert replies == [True, b"5-1", b"1"]


def test_a_transaction_is_not_torn(between, client):
    between.duplicate_commands(b"XADD")
    with client.pipeline(transaction=True) as pipe:
        pipe.xadd("stream", {"a": 1}, id="5-1").get("a")

        assert pipe.execute() == [b"5-1", None]


def test_a_command_whose_reply_is_lost_is_executed(between, client):
    between.lose_reply(b"XADD")
    with pytest.raises(redis.ConnectionError):
        client.xadd("stream", {"a": 1})

    assert client.xlen("stream") == 1


def test_a_client_that_retries_after_a_lost_reply_executes_the_command_twice(between):
    client = redis.Redis(port=between.port, socket_timeout=1)
    client.delete("stream")
    between.lose_reply(b"XADD")
    client.xadd("stream", {"a": 1})

    assert client.xlen("stream") == 2


def test_published_messages_pass(between, client):
    with client.pubsub() as listener:
        listener.subscribe("news")
        listener.get_message(timeout=1)
        client.publish("news", "x")

        assert listener.get_message(timeout=1)["data"] == b"x"


@pytest.mark.parametrize(
    "value",
    [
        b"+OK\r\n",
        b":5\r\n",
        b"$-1\r\n",
        b"$3\r\na\r\n\r\n",
        b"*2\r\n$1\r\na\r\n*0\r\n",
        b"%1\r\n+a\r\n:1\r\n",
        b"_\r\n",
    ],
)
def test_the_end_of_a_value_is_found(value):
    assert end_of(value + b"+more\r\n", 0) == len(value)
    assert all(end_of(value[:length], 0) is None for length in range(len(value)))
