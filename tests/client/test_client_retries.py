"""Which requests the client repeats, how often, and when it gives up."""

import httpx
import pytest

from maabo_dist.client import (
    ProblemError,
    Retrying,
    ServerUnreachableError,
)
from maabo_dist.errors import InputError
from tests.cli.tables import numbers, write_csv
from tests.client.mock_server import (
    DATASET,
    IMPATIENT,
    JOB,
    client_of,
    job,
    job_of,
    json_response,
    problem,
)


def test_every_submission_has_a_new_key_unless_one_is_given():
    client, server = client_of(json_response(DATASET), json_response(job(), 202))
    dataset = client.dataset("d1")

    for key in (None, None, "mine"):
        client.submit(dataset, target="y", key=key)

    keys = [request.headers["idempotency-key"] for request in server.requests[1:]]
    assert keys[2] == "mine"
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    "failure",
    [httpx.Response(503, headers={"Retry-After": "0"}), httpx.Response(502), httpx.Response(504), httpx.ReadError,
     httpx.ConnectError, httpx.Response(429, headers={"Retry-After": "0"})],
)  # fmt: skip
def test_a_submission_is_repeated_with_the_same_key(failure):
    client, server = client_of(json_response(DATASET), failure, failure, json_response(job(), 202))

    assert client.submit(client.dataset("d1"), target="y").id == JOB

    assert len({request.headers["idempotency-key"] for request in server.requests[1:]}) == 1
    assert len({request.content for request in server.requests[1:]}) == 1
    assert len(server.requests) == 4


def test_an_upload_is_repeated_from_its_beginning(tmp_path):
    client, server = client_of(httpx.ReadError, json_response(DATASET, 201))
    table = write_csv(tmp_path, numbers())

    client.upload(table)

    assert [request.content for request in server.requests] == [table.read_bytes()] * 2


def test_requests_that_are_not_safe_to_repeat_are_sent_once():
    job_handle, server = job_of(httpx.ReadError)

    with pytest.raises(ServerUnreachableError):
        job_handle.pause()
    assert len(server.requests) == 2


def test_a_request_that_was_never_sent_is_repeated():
    job_handle, server = job_of(httpx.ConnectError, json_response(job("paused"), 202))

    assert job_handle.pause().state == "paused"
    assert len(server.requests) == 3


def test_deleting_a_job_that_an_earlier_attempt_deleted_succeeds():
    job_handle, server = job_of(httpx.ReadError, problem("not-found"))

    job_handle.delete()

    assert [request.method for request in server.requests] == ["GET", "DELETE", "DELETE"]


def test_a_quota_is_not_waited_for():
    client, server = client_of(json_response(DATASET), problem("quota-exceeded", headers={"Retry-After": "5"}))

    with pytest.raises(ProblemError) as caught:
        client.submit(client.dataset("d1"), target="y")
    assert (caught.value.name, caught.value.status, len(server.requests)) == ("quota-exceeded", 429, 2)


def test_the_client_gives_up_on_a_server_that_stays_unavailable():
    client, server = client_of(httpx.Response(503, headers={"Retry-After": "0"}))

    with pytest.raises(ProblemError, match="answers 503") as caught:
        client.job(JOB)
    assert not isinstance(caught.value, InputError)
    assert len(server.requests) == IMPATIENT.attempts


def test_the_client_does_not_wait_if_the_server_asks_for_a_long_pause():
    client, server = client_of(problem("unavailable", headers={"Retry-After": "3600"}))

    with pytest.raises(ProblemError):
        client.job(JOB)
    assert len(server.requests) == 1


def test_pauses_grow_to_a_maximum_and_are_random():
    retrying = Retrying(first_pause=1.0, max_pause=8.0)
    pauses = [[retrying.pause(attempt) for _ in range(50)] for attempt in (1, 2, 3, 9)]

    for interval, longest in zip(pauses, (1, 2, 4, 8), strict=True):
        assert longest / 2 <= min(interval) <= max(interval) <= longest
    assert len(set(pauses[0])) > 1
