"""Requests that do not arrive: a real server ends them, with a reason, and serves others meanwhile."""

import json
import socket
from http.client import HTTPResponse
from threading import Event, Thread
from urllib.parse import urlsplit

import httpx
import pytest

from maabo_dist.contract.problem import MEDIA_TYPE
from tests import servers
from tests.cluster import cluster_settings

PATIENCE = 60.0  # seconds until a test fails; far more than the server needs
HEAD = b"Host: 127.0.0.1\r\nContent-Type: text/csv\r\n"
NOTHING = b""
HALF_LINE = b"GET /v1/jobs HT"
HALF_HEADERS = b"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: "
SILENT_DOCUMENT = b"POST /v1/jobs HTTP/1.1\r\n" + HEAD + b"Content-Length: 100\r\n\r\n"
HALF_DOCUMENT = SILENT_DOCUMENT + b'{"dataset": '
SILENT_UPLOAD = b"POST /v1/datasets HTTP/1.1\r\n" + HEAD + b"Content-Length: 1000000\r\n\r\n"
HALF_UPLOAD = SILENT_UPLOAD + b"age,smokes\n61,yes\n"
SILENT_CHUNKS = b"POST /v1/datasets HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nage,\r\n"
HALF_OPEN = [
    *(NOTHING, HALF_LINE, HALF_HEADERS),
    *(SILENT_DOCUMENT, HALF_DOCUMENT, SILENT_UPLOAD, HALF_UPLOAD, SILENT_CHUNKS),
]


@pytest.fixture(scope="module")
def address(redis_url, tmp_path_factory):
    path = tmp_path_factory.mktemp("timeouts")
    settings = cluster_settings(redis_url, path, prefix="timeouts:")
    limits = {"MAABO_HTTP_HEADER_SECONDS": "1", "MAABO_HTTP_BODY_SECONDS": "1"}
    with servers.http_server(settings, path, **limits) as url:
        yield url


def connect(address, data):
    url = urlsplit(address)
    sock = socket.create_connection((url.hostname, url.port), timeout=PATIENCE)
    sock.sendall(data)
    return sock


def read_response(sock):
    response = HTTPResponse(sock)
    response.begin()
    return response, response.read()


def assert_timeout(sock):
    response, body = read_response(sock)
    assert response.status == 408
    assert response.headers["content-type"] == MEDIA_TYPE
    assert response.will_close
    problem = json.loads(body)
    assert problem["type"].endswith("/timeout")
    assert "did not arrive in time" in problem["detail"]


def test_half_open_requests_end_with_a_reason_while_others_are_answered(address):
    sockets = [connect(address, data) for data in HALF_OPEN * 25]
    assert httpx.get(f"{address}/v1/jobs", timeout=PATIENCE).status_code == 200

    for sock in sockets:
        with sock:
            assert_timeout(sock)
            assert sock.recv(1) == b""
    assert httpx.get(f"{address}/v1/datasets").json()["items"] == []


@pytest.mark.parametrize(
    "data",
    [HALF_HEADERS, HALF_DOCUMENT, HALF_UPLOAD, SILENT_CHUNKS],
    ids=["headers", "document", "upload", "chunked upload"],
)
def test_a_request_that_arrives_byte_by_byte_ends_too(address, data):
    sock, ended = connect(address, data), Event()
    drip = b"1\r\na\r\n" if data is SILENT_CHUNKS else b"a"

    def send_slowly():
        try:
            while not ended.wait(0.05):
                sock.sendall(drip)
        except OSError:
            pass

    thread = Thread(target=send_slowly)
    thread.start()
    try:
        assert_timeout(sock)
    finally:
        ended.set()
        thread.join()
        sock.close()


def test_a_slow_body_that_keeps_arriving_is_accepted(address):
    """Ten parts take longer than the limit of one second, but are fast enough on average."""
    part = b"61,yes\n" * 2000
    body = b"age,smokes\n34,no\n" + part * 10
    head = b"POST /v1/datasets?name=slow.csv HTTP/1.1\r\n" + HEAD
    sock, pause = connect(address, head + b"Content-Length: %d\r\n\r\n" % len(body)), Event()
    for start in range(0, len(body), len(part)):
        sock.sendall(body[start : start + len(part)])
        pause.wait(0.2)

    with sock:
        assert read_response(sock)[0].status == 201


def test_an_idle_connection_between_two_requests_can_be_used_again(address):
    with httpx.Client(base_url=address) as client:
        assert client.get("/healthz").status_code == 200
        Event().wait(1.5)  # longer than the time for headers, shorter than that of an idle connection
        assert client.get("/healthz").status_code == 200
