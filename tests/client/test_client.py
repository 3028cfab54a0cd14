"""The client against a mock server: its requests, retries and error messages."""

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
    ProblemError,
    RemoteJob,
    ServerUnreachableError,
)
from maabo_dist.client.requests import Address
from maabo_dist.errors import DatasetError, InputError, MaaboError, SettingsError
from tests.cli.tables import numbers, write_csv
from tests.client.mock_server import (
    DATASET,
    IMPATIENT,
    JOB,
    TOKEN,
    URL,
    MockServer,
    client_of,
    job,
    job_of,
    json_response,
    problem,
    stream,
)


def test_a_table_is_uploaded_and_settings_go_to_their_sections_of_the_document(tmp_path):
    client, server = client_of(json_response(DATASET, 201), json_response(job(), 202))
    table = write_csv(tmp_path, numbers())

    job_handle = client.submit(table, target="y", trees=20, seed=5, exclude=["x1"])

    upload, submit = server.requests
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
    assert (job_handle.id, job_handle.state) == (JOB, "queued")


def test_a_problem_is_reported_with_its_field_and_remedy():
    client, _ = client_of(problem("invalid-settings", "Too many.", field="settings.trees", remedy="Give fewer."))

    with pytest.raises(ProblemError, match=r"Too many\. Give fewer\.") as caught:
        client.job(JOB)
    error = caught.value
    assert (error.name, error.status, error.field, error.remedy) == (
        "invalid-settings", 422, "settings.trees", "Give fewer."
    )  # fmt: skip
    assert isinstance(error, InputError)


def test_a_server_error_is_not_an_input_error():
    client, _ = client_of(problem("internal"))

    with pytest.raises(ProblemError) as caught:
        client.job(JOB)
    assert not isinstance(caught.value, InputError)


@pytest.mark.parametrize(
    ("response", "word"),
    [
        (httpx.Response(404, content="<html>", headers={"content-type": "text/html"}), "does not answer like a maabo"),
        (httpx.Response(200, content="<html>", headers={"content-type": "text/html"}), "does not answer like a maabo"),
        (json_response({"hello": 1}), "does not answer like a maabo"),
        (httpx.Response(307, headers={"location": "https://other.example/"}), "redirects to"),
        (httpx.ConnectError, "cannot be reached"),
        (httpx.ReadTimeout, "does not answer in time"),
    ],
)
def test_a_different_kind_of_server_is_recognized(response, word):
    client, server = client_of(response)

    with pytest.raises(ServerUnreachableError, match=word) as caught:
        client.job(JOB)
    assert URL in str(caught.value)
    assert {request.url.host for request in server.requests} == {"127.0.0.1"}, "a token must not travel on"


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("localhost:8080", "does not begin with http"),
        ("ftp://host", "does not begin with http"),
        ("http://", "has no host"),
        ("http://host:99999", "is not a valid URL"),
        ("http://user:pass@host", "contains a user name"),
        ("http://host/?a=1", r"contains a \?"),
        ("http://hö.example", "non-ASCII"),
    ],
)
def test_an_invalid_address_is_refused(url, word):
    with pytest.raises(SettingsError, match=word) as caught:
        Client(url)
    assert "pass@" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "tök"])
def test_an_invalid_token_is_refused_and_not_shown(token):
    with pytest.raises(SettingsError) as caught:
        Client(URL, token)
    assert not token or token not in str(caught.value)


def test_a_token_is_sent_to_other_machines_over_https_only():
    with pytest.raises(SettingsError, match="over plain http"):
        Client("http://maabo.example", TOKEN)

    for url, insecure in (
        ("https://maabo.example", False), ("http://localhost:1", False), ("http://[::1]:1", False),
        ("http://maabo.example", True),
    ):  # fmt: skip
        Client(url, TOKEN, insecure=insecure).close()
    Client("http://maabo.example").close()


def test_a_token_is_never_shown(caplog):
    caplog.set_level(logging.DEBUG)
    client, server = client_of(json_response(job()), problem("unauthorized"), httpx.ReadError)
    job_handle = client.job(JOB)
    texts = [repr(client), repr(job_handle), str(vars(client)), repr(Address.parse(URL, TOKEN, insecure=False))]
    for _ in range(2):
        with pytest.raises(MaaboError) as caught:
            job_handle.status()
        texts += [str(caught.value), repr(caught.value), repr(caught.value.__cause__)]

    assert server.requests[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert not [text for text in [*texts, caplog.text] if "s3cret" in text]


def test_the_repr_of_a_new_token_hides_its_text():
    document = {
        "id": "0" * 12,
        "tenant": "t",
        "name": "",
        "scopes": ["read"],
        "created": 1,
        "expires": None,
        "revoked": None,
    }
    client, _ = client_of(json_response(document | {"token": TOKEN}, 201))

    token = client.create_token("t")

    assert token.token == TOKEN
    assert "s3cret" not in repr(token) + str(token)


def test_an_unknown_setting_is_named_before_anything_is_sent(tmp_path):
    client, server = client_of(json_response(DATASET))
    for settings, word in (
        ({"tres": 5}, "There is no setting 'tres'. Did you mean 'trees'?"),
        ({"trees": -1}, "--trees -1"),
        ({"priority": "urgent"}, "'urgent' is not one of low, normal, high"),
        ({"callback": {"url": "mailto:x", "secret": "12345678"}}, "callback.url"),
    ):
        with pytest.raises(SettingsError) as caught:
            client.submit(tmp_path / "never-read.csv", target="y", **settings)
        assert word in str(caught.value)
        assert "12345678" not in str(caught.value)
    assert server.requests == []


def test_the_secret_of_a_webhook_reaches_the_server():
    client, server = client_of(json_response(DATASET), json_response(job(), 202))
    hook = {"url": "https://billing.example/", "secret": "12345678"}

    client.submit(client.dataset("d1"), callback=hook)

    assert json.loads(server.requests[-1].content)["callback"] == hook


@pytest.mark.parametrize("name", ["none.csv", "table.xlsx"])
def test_a_file_that_cannot_be_sent_is_refused_before_the_request(tmp_path, name):
    (tmp_path / "table.xlsx").write_bytes(b"x")
    client, server = client_of(json_response(DATASET))

    with pytest.raises(DatasetError, match=name):
        client.upload(tmp_path / name)
    assert server.requests == []


def test_jobs_are_requested_page_by_page():
    pages = [{"items": [job(), job()], "next": "cursor1"}, {"items": [job()], "next": None}]
    client, server = client_of(*map(json_response, pages))

    listed_jobs = client.jobs(state="done")

    assert next(listed_jobs).id == JOB
    assert len(server.requests) == 1, "the second page is asked for when it is needed"
    assert len(list(listed_jobs)) == 2
    assert [dict(request.url.params).get("cursor") for request in server.requests] == [None, "cursor1"]
    assert server.requests[1].url.params["state"] == "done"


def test_an_id_cannot_change_the_path():
    client, server = client_of(json_response(job()))

    client.job("../tokens?x=1")

    assert server.requests[0].url.raw_path == b"/v1/jobs/..%2Ftokens%3Fx%3D1"


def test_a_server_may_have_a_path():
    client, server = client_of(json_response(job()), url="https://example.org/maabo/")

    client.job(JOB)

    assert str(server.requests[0].url) == f"https://example.org/maabo/v1/jobs/{JOB}"


def test_rows_to_explain_are_plain_json():
    job_handle, server = job_of(json_response({"partial": False, "digest": "", "rules": {}, "rows": []}))
    frame = pd.DataFrame({"n": [1.5, None], "i": [1, 2], "t": ["a", None], "b": [True, False]})

    job_handle.explain(frame)

    assert json.loads(server.requests[-1].content)["rows"] == [
        {"n": 1.5, "i": 1, "t": "a", "b": True},
        {"n": None, "i": 2, "t": None, "b": False},
    ]


def test_both_clients_have_the_same_methods():
    for one, other in ((Client, AsyncClient), (RemoteJob, AsyncRemoteJob)):
        calls = {name: value for name, value in vars(one).items() if not name.startswith("_")}
        async_calls = {name: value for name, value in vars(other).items() if not name.startswith("_")}
        assert calls.keys() == async_calls.keys()
        for name, call in calls.items():
            if inspect.isfunction(call):
                assert list(inspect.signature(call).parameters) == list(inspect.signature(async_calls[name]).parameters)


def test_the_asynchronous_client_uploads_waits_and_pages(tmp_path):
    table = write_csv(tmp_path, numbers())
    server = MockServer(
        httpx.ConnectError,
        json_response(DATASET, 201),
        json_response(job(), 202),
        json_response(job("running")),
        stream(("1", "state", {"state": "done"})),
        json_response(job("done")),
        json_response({"items": [job(), job()], "next": None}),
        stream(("1", "state", {"state": "done"})),
        json_response(job("done")),
    )

    async def use():
        transport = httpx.MockTransport(server.asynchronously)
        async with AsyncClient(URL, TOKEN, retrying=IMPATIENT, transport=transport) as client:
            job_handle = await client.submit(table, target="y")
            received = []
            await job_handle.wait(on_event=received.append)
            return (
                job_handle,
                received,
                [listed_job.id async for listed_job in client.jobs()],
                [event.id async for event in job_handle.events()],
            )

    job_handle, received, ids, events = asyncio.run(use())

    assert (job_handle.state, [event.id for event in received], ids, events) == ("done", ["1"], [JOB, JOB], ["1"])
    assert server.requests[1].content == table.read_bytes()


def test_importing_the_library_loads_no_httpx_and_without_it_the_error_names_the_remedy():
    program = (
        "import sys, maabo_dist, maabo_dist.cli; assert 'httpx' not in sys.modules\n"
        "sys.modules['httpx'] = None\n"
        "from maabo_dist.client import Client"
    )

    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert finished.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: httpx is not installed, which the client needs. Run: pip install 'maabo-dist[client]'"
    )


def test_the_client_loads_no_tables_and_no_kernels():
    program = (
        "import sys; from maabo_dist.client import AsyncClient, Client, RuleRecord\n"
        "print([name for name in ('numpy', 'pandas', 'numba', 'sklearn', 'pyarrow', 'redis') if name in sys.modules])"
    )

    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
