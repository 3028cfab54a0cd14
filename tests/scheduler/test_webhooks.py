"""Webhooks with a real HTTP receiver: retried until accepted, signed, and recorded once."""

import hmac
import json
import logging
import socket
import time
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.contract.job import JobSpec, JobState, Webhook
from scheduler.ledger import Ledger
from scheduler.messaging.webhooks import (
    ForbiddenAddressError,
    UndeliveredError,
    check_address,
    event_of,
    post,
    signature,
)
from tests import servers
from tests.cluster import a_scheduler, cluster_settings

SECRET = "hush-hush-4711"
JOB = "0123456789abcdef" * 2
SLOWLY, REDIRECTED = "slowly", "redirected"


@contextmanager
def receiver(*responses):
    """Respond with these in turn, then always with the last one; yield the address and the received requests."""
    requests, remaining = [], list(responses)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            requests.append((self.path, dict(self.headers), body))
            response = remaining.pop(0) if len(remaining) > 1 else remaining[0]
            if response == SLOWLY:
                self.drip()
            else:
                self.send_response(302 if response == REDIRECTED else response)
                self.send_header("Location", "/elsewhere")
                self.end_headers()

        def drip(self):
            for _ in range(100):
                try:
                    self.wfile.write(b"H")
                    time.sleep(0.05)
                except OSError:
                    return

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()


def ledger_with_ended_job(tmp_path, callback):
    """Create a ledger with a job that has ended; return its URL."""
    url = f"sqlite:///{tmp_path}/ledger.db"
    ledger = Ledger(url)
    spec = JobSpec.parse({"id": JOB, "dataset": {"fingerprint": "a" * 64}, "callback": callback})
    ledger.jobs.add([spec], time.time())
    ledger.jobs.set_command(JOB, "cancel", time.time())
    ledger.close()
    return url


def quick_settings(redis_url, tmp_path, **changes):
    quick = {"lease_seconds": 1, "webhook_pause": 0.01, "webhook_seconds": 1.0, "webhook_hosts": "127.0.0.0/8"}
    return cluster_settings(redis_url, tmp_path, **quick | changes)


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory):
    with servers.redis_server(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, "maabo")

    def of(event):
        return [record for record in caplog.records if record.getMessage() == event]

    return of


def test_a_receiver_that_fails_five_times_is_called_until_it_accepts(redis_url, tmp_path, lines, caplog):
    with receiver(500, 503, REDIRECTED, 404, 500, 204) as (address, requests):
        ledger_with_ended_job(tmp_path, {"url": f"{address}/hook?x=1", "secret": SECRET})
        with a_scheduler(quick_settings(redis_url, tmp_path)) as ledger:
            servers.wait_for(lambda: ledger.jobs.get(JOB).called_back, what="a delivery")
            time.sleep(0.5)  # two rounds of maintenance
            row = ledger.jobs.get(JOB)

    assert (len(requests), row.callback_attempts, row.called_back > 2.0) == (6, 6, True)
    assert len(lines("webhook delivered")) == 1
    for path, headers, body in requests:
        event = json.loads(body)
        moment, code = (part.split("=")[1] for part in headers["Maabo-Signature"].split(","))
        expected = hmac.new(SECRET.encode(), f"{moment}.".encode() + body, sha256).hexdigest()
        assert (path, headers["Content-Type"], code) == ("/hook?x=1", "application/json", expected)
        assert abs(int(moment) - time.time()) < 60
        assert event == event_of(row) | {"type": "job.ended", "job": JOB, "state": "cancelled", "digest": None}
        assert headers["Maabo-Event"] == event["id"]
    assert SECRET not in caplog.text + "".join(str(vars(record)) for record in caplog.records)


def test_another_scheduler_continues_the_attempts(redis_url, tmp_path):
    with receiver(500, 500, 500, 200) as (address, requests):
        ledger_with_ended_job(tmp_path, {"url": address})
        with a_scheduler(quick_settings(redis_url, tmp_path, webhook_pause=0.4)) as ledger:
            servers.wait_for(lambda: ledger.jobs.get(JOB).callback_attempts, what="a first attempt")
        with a_scheduler(quick_settings(redis_url, tmp_path), "second") as ledger:
            servers.wait_for(lambda: ledger.jobs.get(JOB).called_back, what="a delivery")

    assert len(requests) >= 4
    assert {headers["Maabo-Event"] for _, headers, _ in requests} == {event_id(requests)}
    assert not any("Maabo-Signature" in headers for _, headers, _ in requests)


def event_id(requests):
    return json.loads(requests[0][2])["id"]


def test_a_receiver_that_never_answers_is_given_up_with_a_warning(redis_url, tmp_path, lines):
    with receiver(500) as (address, requests):
        ledger_with_ended_job(tmp_path, {"url": f"{address}/token-in-the-path"})
        with a_scheduler(quick_settings(redis_url, tmp_path, webhook_attempts=3)) as ledger:
            servers.wait_for(lambda: ledger.jobs.get(JOB).called_back, what="the end of the attempts")
            time.sleep(0.3)
            row = ledger.jobs.get(JOB)

    assert (row.called_back, row.callback_attempts, len(requests)) == (-1.0, 3, 3)
    (line,) = lines("webhook given up")
    assert (line.maabo_fields["attempt"], line.maabo_fields["to"]) == (3, address)
    assert "status 500" in line.maabo_fields["reason"]


def test_a_forbidden_address_is_not_called(redis_url, tmp_path, lines):
    with receiver(200) as (address, requests):
        ledger_with_ended_job(tmp_path, {"url": address})
        with a_scheduler(quick_settings(redis_url, tmp_path, webhook_hosts="")) as ledger:
            servers.wait_for(lambda: ledger.jobs.get(JOB).called_back, what="the end of the attempts")

    assert requests == []
    assert "not a public address" in str(lines("webhook given up")[0].maabo_fields["reason"])


# One attempt.


def attempt(url, seconds=1.0, hosts="127.0.0.0/8"):
    settings = ClusterSettings(webhook_seconds=seconds, webhook_hosts=hosts)
    post(Webhook(url=url), {"id": "e1"}, settings, time.time)


def test_no_redirect_is_followed():
    with receiver(REDIRECTED) as (address, requests):
        with pytest.raises(UndeliveredError, match="302"):
            attempt(address)

        assert [path for path, _, _ in requests] == ["/"]


def test_a_receiver_that_answers_byte_by_byte_is_cut_off():
    with receiver(SLOWLY) as (address, _):
        begun = time.monotonic()
        with pytest.raises(UndeliveredError, match="not answered in"):
            attempt(address, seconds=0.3)

        assert time.monotonic() - begun < 3


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_silent_or_missing_receiver_is_an_error(scheme):
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(UndeliveredError, match=r"in 0\.2 s"):
        attempt(f"{scheme}://127.0.0.1:{silent.getsockname()[1]}/", seconds=0.2)
    with pytest.raises(OSError, match="refused"):
        attempt(f"{scheme}://127.0.0.1:{servers.free_port()}/")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "224.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[fe80::1]",
        "[fd00::1]",
        "192.0.0.8",
        "192.88.99.1",
        "[::127.0.0.1]",
        "[::93.184.215.14]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::808:808]",
        "[2002:7f00:1::]",
        "[2001:0:5db8:d70e::80ff:fffe]",
        "localhost",
        "a.localhost",
    ],
)
def test_addresses_that_are_not_public_are_refused_unless_they_are_named(host):
    webhook = Webhook(url=f"http://{host}/")

    for hosts in ("", "other.example, *.other", "198.51.100.0/24"):
        with pytest.raises(ForbiddenAddressError, match="not a public address"):
            check_address(webhook, ClusterSettings(webhook_hosts=hosts))
        with pytest.raises((ForbiddenAddressError, socket.gaierror)):  # some systems cannot resolve a.localhost
            attempt(webhook.url, hosts=hosts)
    check_address(webhook, ClusterSettings(webhook_hosts="*"))
    check_address(webhook, ClusterSettings(webhook_hosts=f"x, {host.strip('[]')}"))


@pytest.mark.parametrize("hosts", ["hook.test", "*.test", "10.0.0.0/8", "*"])
def test_a_name_with_an_internal_address_is_refused_unless_it_or_its_network_is_named(monkeypatch, hosts):
    looked_up = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.9.8.7", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: looked_up)
    connections = []

    def connect(address, *_):
        connections.append(address)
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(ForbiddenAddressError):
        attempt("http://hook.test/", hosts="test, 192.168.0.0/16")
    assert connections == []
    with pytest.raises(ConnectionRefusedError):
        attempt("http://hook.test/", hosts=hosts)
    assert connections == [("10.9.8.7", 80)]


def test_a_public_address_needs_no_permission():
    check_address(Webhook(url="https://93.184.215.14/x"), ClusterSettings())
    check_address(Webhook(url="https://example.org/x"), ClusterSettings())


def test_a_signature_is_the_hmac_of_time_and_body():
    assert signature("secret", 1700000000, b'{"a":1}') == (
        "t=1700000000,v1=" + hmac.new(b"secret", b'1700000000.{"a":1}', "sha256").hexdigest()
    )


def test_an_ended_job_has_the_same_event_each_time(tmp_path):
    ledger = Ledger(ledger_with_ended_job(tmp_path, {"url": "https://example.org/"}))
    row = ledger.jobs.get(JOB)
    ledger.close()

    assert row.state is JobState.CANCELLED
    assert event_of(row) == event_of(row)
