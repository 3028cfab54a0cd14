"""The client over answers that a test makes up: what it asks, what it repeats, and what it makes of problems."""

import asyncio
import inspect
import json
import logging
import subprocess
import sys

import httpx
import pandas as pd
import pytest

from maabo_dist.client import (
    AsyncClient,
    AsyncRemoteJob,
    Client,
    JobFailedError,
    ProblemError,
    RemoteJob,
    Retrying,
    ServerUnreachableError,
    WaitTimeoutError,
)
from maabo_dist.errors import DatasetError, InputError, MaaboError, SettingsError
from tests.cli.tables import numbers, write_csv
from tests.client.http_answers import IMPATIENT, JOB, TOKEN, URL, Answers, answer, job, problem, stream

DATASET = {
    "id": "d1", "name": "t.csv", "format": "csv", "size": 1, "rows": 1, "columns": 2, "fingerprint": "f", "created": 1.0
}  # fmt: skip


def client_of(*answers, token=TOKEN, retrying=IMPATIENT, url=URL):
    heard = Answers(*answers)
    return Client(url, token, retrying=retrying, transport=httpx.MockTransport(heard)), heard


def a_job(*answers):
    client, heard = client_of(answer(job()), *answers)
    return client.job(JOB), heard


def test_a_table_is_uploaded_and_mined_with_the_settings_where_they_belong(tmp_path):
    client, heard = client_of(answer(DATASET, 201), answer(job(), 202))
    table = write_csv(tmp_path, numbers())

    found = client.submit(table, target="y", trees=20, seed=5, exclude=["x1"])

    upload, submit = heard.requests
    assert upload.content == table.read_bytes()
    assert (upload.url.params["name"], upload.headers["content-type"]) == ("table.csv", "text/csv")
    assert upload.headers["content-length"] == str(table.stat().st_size)
    assert json.loads(submit.content) == {
        "dataset": "d1",
        "table": {"target": "y", "exclude": ["x1"]},
        "settings": {"trees": 20, "seed": 5},
        "priority": "normal",
        "fresh": False,
    }
    assert (found.id, found.state) == (JOB, "queued")


def test_every_job_has_a_key_of_its_own_unless_one_is_given():
    client, heard = client_of(answer(DATASET), answer(job(), 202))
    dataset = client.dataset("d1")

    for key in (None, None, "mine"):
        client.submit(dataset, target="y", key=key)

    keys = [request.headers["idempotency-key"] for request in heard.requests[1:]]
    assert keys[2] == "mine"
    assert len(set(keys)) == 3


@pytest.mark.parametrize(
    "failure",
    [httpx.Response(503, headers={"Retry-After": "0"}), httpx.Response(502), httpx.Response(504), httpx.ReadError,
     httpx.ConnectError, httpx.Response(429, headers={"Retry-After": "0"})],
)  # fmt: skip
def test_a_submission_is_repeated_with_the_same_key(failure):
    client, heard = client_of(answer(DATASET), failure, failure, answer(job(), 202))

    assert client.submit(client.dataset("d1"), target="y").id == JOB

    assert len({request.headers["idempotency-key"] for request in heard.requests[1:]}) == 1
    assert len({request.content for request in heard.requests[1:]}) == 1
    assert len(heard.requests) == 4


def test_an_upload_is_repeated_from_its_beginning(tmp_path):
    client, heard = client_of(httpx.ReadError, answer(DATASET, 201))
    table = write_csv(tmp_path, numbers())

    client.upload(table)

    assert [request.content for request in heard.requests] == [table.read_bytes()] * 2


def test_what_is_not_safe_to_repeat_is_not():
    found, heard = a_job(httpx.ReadError)

    with pytest.raises(ServerUnreachableError):
        found.pause()
    assert len(heard.requests) == 2


def test_what_was_never_sent_may_be_sent_again():
    found, heard = a_job(httpx.ConnectError, answer(job("paused"), 202))

    assert found.pause().state == "paused"
    assert len(heard.requests) == 3


def test_deleting_what_an_unheard_attempt_deleted_is_no_error():
    found, _ = a_job(httpx.ReadError, problem("not-found"))

    found.delete()


def test_a_quota_is_not_waited_for():
    client, heard = client_of(answer(DATASET), problem("quota-exceeded", headers={"Retry-After": "5"}))

    with pytest.raises(ProblemError) as caught:
        client.submit(client.dataset("d1"), target="y")
    assert (caught.value.name, caught.value.status, len(heard.requests)) == ("quota-exceeded", 429, 2)


def test_a_server_that_stays_away_is_given_up():
    client, heard = client_of(httpx.Response(503, headers={"Retry-After": "0"}))

    with pytest.raises(ProblemError, match="answers 503") as caught:
        client.job(JOB)
    assert not isinstance(caught.value, InputError)
    assert len(heard.requests) == IMPATIENT.attempts


def test_a_server_that_asks_for_too_much_patience_is_not_waited_for():
    client, heard = client_of(problem("unavailable", headers={"Retry-After": "3600"}))

    with pytest.raises(ProblemError):
        client.job(JOB)
    assert len(heard.requests) == 1


def test_pauses_grow_up_to_a_longest_and_differ():
    retrying = Retrying(first_pause=1.0, longest_pause=8.0)
    pauses = [[retrying.pause(attempt) for _ in range(50)] for attempt in (1, 2, 3, 9)]

    for each, longest in zip(pauses, (1, 2, 4, 8), strict=True):
        assert longest / 2 <= min(each) <= max(each) <= longest
    assert len(set(pauses[0])) > 1


def test_a_problem_is_told_with_its_field_and_remedy():
    client, _ = client_of(problem("invalid-settings", "Too many.", field="settings.trees", remedy="Give fewer."))

    with pytest.raises(ProblemError, match=r"Too many\. Give fewer\.") as caught:
        client.job(JOB)
    error = caught.value
    assert (error.name, error.status, error.field, error.remedy) == (
        "invalid-settings", 422, "settings.trees", "Give fewer."
    )  # fmt: skip
    assert isinstance(error, InputError)


def test_a_fault_of_the_server_is_no_mistake_of_the_caller():
    client, _ = client_of(problem("internal"))

    with pytest.raises(ProblemError) as caught:
        client.job(JOB)
    assert not isinstance(caught.value, InputError)


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (httpx.Response(404, content="<html>", headers={"content-type": "text/html"}), "does not speak as a maabo"),
        (httpx.Response(200, content="<html>", headers={"content-type": "text/html"}), "does not speak as a maabo"),
        (answer({"hello": 1}), "does not speak as a maabo"),
        (httpx.Response(307, headers={"location": "https://other.example/"}), "sends callers on to"),
        (httpx.ConnectError, "cannot be reached"),
        (httpx.ReadTimeout, "does not answer in time"),
    ],
)
def test_what_is_no_server_is_said_to_be_none(found, word):
    client, heard = client_of(found)

    with pytest.raises(ServerUnreachableError, match=word) as caught:
        client.job(JOB)
    assert URL in str(caught.value)
    assert {request.url.host for request in heard.requests} == {"127.0.0.1"}, "a token must not travel on"


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("localhost:8080", "neither http"),
        ("ftp://host", "neither http"),
        ("http://", "no host"),
        ("http://host:99999", "does not read"),
        ("http://user:pass@host", "holds a user"),
        ("http://host/?a=1", r"has a \?"),
        ("http://hö.example", "beyond ASCII"),
    ],
)
def test_what_is_no_address_is_refused(url, word):
    with pytest.raises(SettingsError, match=word) as caught:
        Client(url)
    assert "pass@" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "tök"])
def test_what_cannot_be_a_token_is_refused_and_not_shown(token):
    with pytest.raises(SettingsError) as caught:
        Client(URL, token)
    assert not token or token not in str(caught.value)


def test_a_token_goes_to_other_machines_over_https_alone():
    with pytest.raises(SettingsError, match="plain http"):
        Client("http://maabo.example", TOKEN)

    for url, insecure in (
        ("https://maabo.example", False), ("http://localhost:1", False), ("http://[::1]:1", False),
        ("http://maabo.example", True),
    ):  # fmt: skip
        Client(url, TOKEN, insecure=insecure).close()
    Client("http://maabo.example").close()


def test_a_token_is_shown_nowhere(caplog):
    caplog.set_level(logging.DEBUG)
    client, heard = client_of(answer(job()), problem("unauthorized"), httpx.ReadError)
    found = client.job(JOB)
    told = [repr(client), repr(found), str(vars(client)), repr(client._wire.address)]
    for _ in range(2):
        with pytest.raises(MaaboError) as caught:
            found.status()
        told += [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]

    assert heard.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert not [text for text in [*told, caplog.text] if "s3cret" in text]


def test_a_token_that_is_made_is_not_shown_either():
    made = {
        "id": "0" * 12,
        "tenant": "t",
        "name": "",
        "scopes": ["read"],
        "created": 1,
        "expires": None,
        "revoked": None,
    }
    client, _ = client_of(answer(made | {"token": TOKEN}, 201))

    token = client.create_token("t")

    assert token.token == TOKEN
    assert "s3cret" not in repr(token) + str(token)


def test_an_unknown_setting_is_named_before_anything_is_sent(tmp_path):
    client, heard = client_of(answer(DATASET))
    for settings, word in (
        ({"tres": 5}, "There is no setting 'tres'. Is 'trees' meant?"),
        ({"trees": -1}, "--trees -1"),
        ({"priority": "urgent"}, "'urgent' is none of low, normal, high"),
        ({"callback": {"url": "mailto:x", "secret": "12345678"}}, "callback.url"),
    ):
        with pytest.raises(SettingsError) as caught:
            client.submit(tmp_path / "never-read.csv", target="y", **settings)
        assert word in str(caught.value)
        assert "12345678" not in str(caught.value)
    assert heard.requests == []


def test_the_secret_of_a_webhook_reaches_the_server():
    client, heard = client_of(answer(DATASET), answer(job(), 202))
    hook = {"url": "https://billing.example/", "secret": "12345678"}

    client.submit(client.dataset("d1"), callback=hook)

    assert json.loads(heard.requests[-1].content)["callback"] == hook


@pytest.mark.parametrize("name", ["none.csv", "table.xlsx"])
def test_a_file_that_cannot_be_sent_is_refused_here(tmp_path, name):
    (tmp_path / "table.xlsx").write_bytes(b"x")
    client, heard = client_of(answer(DATASET))

    with pytest.raises(DatasetError, match=name):
        client.upload(tmp_path / name)
    assert heard.requests == []


def test_jobs_are_had_page_by_page():
    pages = [{"items": [job(), job()], "next": "cursor1"}, {"items": [job()], "next": None}]
    client, heard = client_of(*map(answer, pages))

    found = client.jobs(state="done")

    assert next(found).id == JOB
    assert len(heard.requests) == 1, "the second page is asked for when it is needed"
    assert len(list(found)) == 2
    assert [dict(request.url.params).get("cursor") for request in heard.requests] == [None, "cursor1"]
    assert heard.requests[1].url.params["state"] == "done"


def test_waiting_hears_the_events_from_where_a_connection_broke():
    events = [("1", "progress", {"trees": 1}), ("2", "progress", {"trees": 2})]
    found, heard = a_job(
        answer(job("running")),
        stream(*events),
        answer(job("running")),
        stream(("3", "state", {"state": "done"})),
        answer(job("done", rules=3)),
    )
    told = []

    found.wait(on_event=told.append)

    assert [event.id for event in told] == ["1", "2", "3"]
    streams = [request for request in heard.requests if request.url.path.endswith("/events")]
    assert [request.headers.get("last-event-id") for request in streams] == [None, "2"]
    assert (found.state, found.known.rules) == ("done", 3)


def test_without_events_the_status_is_looked_at(monkeypatch):
    monkeypatch.setattr("maabo_dist.client.waiting.LOOK_PAUSE", 0.0)
    found, heard = a_job(
        answer(job("running")),
        problem("not-found"),
        answer(job("running", trees=1)),
        answer(job("running", trees=2)),
        answer(job("done", trees=3)),
    )
    told = []

    found.wait(on_event=told.append)

    assert [event.data["trees"] for event in told] == [1, 2, 3]
    assert sum(request.url.path.endswith("/events") for request in heard.requests) == 1


@pytest.mark.parametrize(("state", "word"), [("failed", "failed: no luck"), ("cancelled", "was cancelled: no luck")])
def test_waiting_for_a_job_without_a_result_is_an_error_with_the_reason(state, word):
    found, _ = a_job(answer(job(state, reason="no luck")))

    with pytest.raises(JobFailedError, match=word) as caught:
        found.wait()
    assert caught.value.reason == "no luck"


def test_waiting_ends_in_time():
    found, _ = a_job(answer(job("running")), stream(), answer(job("running")))

    with pytest.raises(WaitTimeoutError, match="goes on"):
        found.wait(timeout=0.0)


def test_a_restart_of_the_server_does_not_end_the_waiting(monkeypatch):
    monkeypatch.setattr("maabo_dist.client.waiting.LOOK_PAUSE", 0.0)
    away = [httpx.ConnectError] * (2 * IMPATIENT.attempts)
    found, _ = a_job(answer(job("running")), httpx.ReadError, *away, answer(job("done")))

    assert found.wait().state == "done"


def test_a_token_that_is_revoked_ends_the_waiting():
    found, _ = a_job(answer(job("running")), problem("unauthorized"))

    with pytest.raises(ProblemError, match="Give a valid token"):
        found.wait()


def test_an_id_cannot_lead_elsewhere():
    client, heard = client_of(answer(job()))

    client.job("../tokens?x=1")

    assert heard.requests[0].url.raw_path == b"/v1/jobs/..%2Ftokens%3Fx%3D1"


def test_a_server_may_have_a_path():
    client, heard = client_of(answer(job()), url="https://example.org/maabo/")

    client.job(JOB)

    assert str(heard.requests[0].url) == f"https://example.org/maabo/v1/jobs/{JOB}"


def test_rows_to_explain_are_plain_json():
    found, heard = a_job(answer({"partial": False, "digest": "", "rules": {}, "rows": []}))
    frame = pd.DataFrame({"n": [1.5, None], "i": [1, 2], "t": ["a", None], "b": [True, False]})

    found.explain(frame)

    assert json.loads(heard.requests[-1].content)["rows"] == [
        {"n": 1.5, "i": 1, "t": "a", "b": True},
        {"n": None, "i": 2, "t": None, "b": False},
    ]


def test_the_two_clients_have_the_same_calls():
    for one, other in ((Client, AsyncClient), (RemoteJob, AsyncRemoteJob)):
        calls = {name: value for name, value in vars(one).items() if not name.startswith("_")}
        twins = {name: value for name, value in vars(other).items() if not name.startswith("_")}
        assert calls.keys() == twins.keys()
        for name, call in calls.items():
            if inspect.isfunction(call):
                assert list(inspect.signature(call).parameters) == list(inspect.signature(twins[name]).parameters)


def test_the_asynchronous_client_uploads_waits_and_pages(tmp_path):
    table = write_csv(tmp_path, numbers())
    heard = Answers(
        httpx.ConnectError,
        answer(DATASET, 201),
        answer(job(), 202),
        answer(job("running")),
        stream(("1", "state", {"state": "done"})),
        answer(job("done")),
        answer({"items": [job(), job()], "next": None}),
        stream(("1", "state", {"state": "done"})),
        answer(job("done")),
    )

    async def use():
        transport = httpx.MockTransport(heard.asynchronously)
        async with AsyncClient(URL, TOKEN, retrying=IMPATIENT, transport=transport) as client:
            found = await client.submit(table, target="y")
            told = []
            await found.wait(on_event=told.append)
            return found, told, [each.id async for each in client.jobs()], [each.id async for each in found.events()]

    found, told, ids, events = asyncio.run(use())

    assert (found.state, [event.id for event in told], ids, events) == ("done", ["1"], [JOB, JOB], ["1"])
    assert heard.requests[1].content == table.read_bytes()


def test_importing_the_library_loads_no_httpx_and_without_it_the_remedy_is_said():
    program = (
        "import sys, maabo_dist, maabo_dist.cli, maabo_dist.client; assert 'httpx' not in sys.modules\n"
        "sys.modules['httpx'] = None\n"
        "from maabo_dist.client import Client"
    )

    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert finished.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: httpx is not installed, which the client needs. Run: pip install 'maabo-dist[client]'"
    )


def test_asking_a_server_loads_no_table_and_no_kernel():
    program = (
        "import sys; from maabo_dist.client import AsyncClient, Client, Rule\n"
        "print([name for name in ('numpy', 'pandas', 'numba', 'sklearn', 'pyarrow', 'redis') if name in sys.modules])"
    )

    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
