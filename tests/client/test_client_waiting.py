"""Waiting for a job: events, polling, timeouts and restarts."""

from time import monotonic

import httpx
import pytest

from maabo_dist.client import (
    Client,
    JobFailedError,
    ProblemError,
    WaitTimeoutError,
)
from tests.client.mock_server import (
    IMPATIENT,
    JOB,
    TOKEN,
    URL,
    job,
    job_of,
    json_response,
    problem,
    stream,
)


def test_waiting_resumes_events_after_a_broken_connection():
    events = [("1", "progress", {"trees": 1}), ("2", "progress", {"trees": 2})]
    job_handle, server = job_of(
        json_response(job("running")),
        stream(*events),
        json_response(job("running")),
        stream(("3", "state", {"state": "done"})),
        json_response(job("done", rules=3)),
    )
    received = []

    job_handle.wait(on_event=received.append)

    assert [event.id for event in received] == ["1", "2", "3"]
    streams = [request for request in server.requests if request.url.path.endswith("/events")]
    assert [request.headers.get("last-event-id") for request in streams] == [None, "2"]
    assert (job_handle.state, job_handle.last_status.rules) == ("done", 3)


def test_without_events_the_status_is_polled(monkeypatch):
    monkeypatch.setattr("maabo_dist.client._sync.jobs.FIRST_POLL_PAUSE", 0.0)
    job_handle, server = job_of(
        json_response(job("running")),
        problem("not-found"),
        json_response(job("running", trees=1)),
        json_response(job("running", trees=2)),
        json_response(job("done", trees=3)),
    )
    received = []

    job_handle.wait(on_event=received.append)

    assert [event.data["trees"] for event in received] == [1, 2, 3]
    assert sum(request.url.path.endswith("/events") for request in server.requests) == 1


@pytest.mark.parametrize(("state", "word"), [("failed", "failed: no luck"), ("cancelled", "was cancelled: no luck")])
def test_waiting_for_a_job_without_a_result_is_an_error_with_the_reason(state, word):
    job_handle, _ = job_of(json_response(job(state, reason="no luck")))

    with pytest.raises(JobFailedError, match=word) as caught:
        job_handle.wait()
    assert caught.value.reason == "no luck"


def test_waiting_has_a_timeout():
    job_handle, _ = job_of(json_response(job("running")), stream(), json_response(job("running")))

    with pytest.raises(WaitTimeoutError, match="keeps running"):
        job_handle.wait(timeout=0.0)


def test_comments_that_keep_a_connection_alive_do_not_extend_the_timeout():
    now = monotonic()

    class Comments(httpx.SyncByteStream):
        def __iter__(self):
            while monotonic() < now + 30:
                yield b": still here\n\n"

    def handle(request):
        if request.url.path.endswith("/events"):
            return httpx.Response(200, stream=Comments(), headers={"content-type": "text/event-stream"})
        return json_response(job("running"))

    client = Client(URL, TOKEN, transport=httpx.MockTransport(handle))
    with pytest.raises(WaitTimeoutError):
        client.job(JOB).wait(timeout=0.2)
    assert monotonic() < now + 20


def test_a_restart_of_the_server_does_not_end_the_waiting(monkeypatch):
    monkeypatch.setattr("maabo_dist.client._sync.jobs.FIRST_POLL_PAUSE", 0.0)
    away = [httpx.ConnectError] * (2 * IMPATIENT.attempts)
    job_handle, _ = job_of(json_response(job("running")), httpx.ReadError, *away, json_response(job("done")))

    assert job_handle.wait().state == "done"


def test_a_token_that_is_revoked_ends_the_waiting():
    job_handle, _ = job_of(json_response(job("running")), problem("unauthorized"))

    with pytest.raises(ProblemError, match="Give a valid token"):
        job_handle.wait()
