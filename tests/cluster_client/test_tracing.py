"""Spans: off by default, recorded to the target of MAABO_TRACES."""

import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from maabo_dist.cluster.tracing import Tracing
from maabo_dist.errors import SettingsError
from tests import servers

PARENT = f"00-{'a' * 32}-{'b' * 16}-01"


def spans(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_disabled_tracing_imports_nothing_and_passes_the_trace_on():
    program = "import sys; from maabo_dist.cluster.tracing import Tracing"
    program += f"; span = Tracing.from_environment({{}}, 'x').span('job', '{PARENT}', job='1'); span.end()"
    program += "; print(span.traceparent, 'opentelemetry' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], cwd=servers.ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.split() == [PARENT, "False"]


def test_a_span_and_its_children_continue_the_given_trace(tmp_path):
    tracing = Tracing.from_environment({"MAABO_TRACES": f"file:{tmp_path}/spans"}, "maabo-test")
    with tracing.span("request", PARENT, "server") as request:
        tracing.span("job", request.traceparent, job="7f3a", correlation=None).end()

    job, outer = spans(tmp_path / "spans")
    assert (outer["trace"], outer["parent"], outer["service"]) == ("a" * 32, "b" * 16, "maabo-test")
    assert (job["trace"], job["parent"], job["facts"]) == ("a" * 32, outer["span"], {"maabo.job": "7f3a"})


def test_a_span_without_a_parent_starts_a_trace(tmp_path):
    tracing = Tracing.from_environment({"MAABO_TRACES": f"file:{tmp_path}/spans"}, "maabo-test")
    with pytest.raises(ZeroDivisionError), tracing.span("job") as span:
        raise ZeroDivisionError("a fault")

    (recorded,) = spans(tmp_path / "spans")
    assert (recorded["parent"], span.traceparent.split("-")[1]) == (None, recorded["trace"])
    assert "a fault" in recorded["facts"]["maabo.error"]


@pytest.mark.parametrize("parent", ["", "nonsense", f"00-{'0' * 32}-{'b' * 16}-01", f"{PARENT}\n", None])
@pytest.mark.parametrize("on", [True, False])
def test_an_invalid_traceparent_is_ignored(tmp_path, parent, on):
    environment = {"MAABO_TRACES": f"file:{tmp_path}/spans"} if on else {}

    span = Tracing.from_environment(environment, "maabo-test").span("job", parent)

    assert (span.traceparent is not None) == on
    if on:
        assert span.traceparent.split("-")[1] not in {"0" * 32, "a" * 32}


@pytest.mark.parametrize("value", ["yes", "file:", "file:/nowhere/at/all"])
def test_an_invalid_exporter_is_rejected_by_variable(value):
    with pytest.raises(SettingsError, match=f"MAABO_TRACES = '?{value}"):
        Tracing.from_environment({"MAABO_TRACES": value}, "maabo-test")


def test_spans_are_sent_to_the_collector_of_the_otel_variables(monkeypatch):
    received = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        tracing = Tracing.from_environment({"MAABO_TRACES": "otlp"}, "maabo-test")
        tracing.span("job", PARENT, job="7f3a").end()
        tracing.close()
        server.shutdown()

    ((path, body),) = received
    assert path == "/v1/traces"
    assert b"maabo-test" in body
