"""A mock server that returns a list of responses, each once, and records the requests."""

import json

import httpx

from maabo_dist.client import Client, JobStatus, Retrying
from maabo_dist.contract.problem import MEDIA_TYPE, Problem

TOKEN = "maabo_0123456789ab_" + "s3cret" * 7
URL = "http://127.0.0.1:9"
JOB = "7f3a" + "0" * 28
DATASET = {
    "id": "d1", "name": "t.csv", "format": "csv", "size": 1, "rows": 1, "columns": 2, "fingerprint": "f",
    "created": 1.0, "features": [],
}  # fmt: skip
IMPATIENT = Retrying(attempts=4, first_pause=0.0)


class MockServer:
    """A handler for `httpx.MockTransport`. The last response is repeated; an exception class is raised."""

    def __init__(self, *responses):
        self.responses, self.requests = list(responses), []

    def __call__(self, request):
        request.read()
        return self._next(request)

    async def asynchronously(self, request):
        await request.aread()
        return self._next(request)

    def _next(self, request):
        self.requests.append(request)
        response = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        if isinstance(response, type):
            raise response("broken", request=request)
        # A response can be read once, and the last one is repeated.
        return httpx.Response(response.status_code, headers=response.headers, content=response.content)


def problem(kind, detail="It is wrong.", headers=None, **fields):
    document = Problem.of(kind, detail, **fields)
    return httpx.Response(
        document.status, content=json.dumps(document.to_json()), headers={"content-type": MEDIA_TYPE} | (headers or {})
    )


def job(state="queued", **values):
    return JobStatus(
        id=JOB, state=state, created=1.0, wanted="run", dataset="d1", progress=None, eta_seconds=None, **values
    ).model_dump(mode="json")


def json_response(value, status=200):
    return httpx.Response(status, json=value)


def stream(*events, status=200):
    """Server-sent events: (id, kind, data)."""
    text = "".join(f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n" for number, kind, data in events)
    return httpx.Response(status, content=f": hello\n\n{text}", headers={"content-type": "text/event-stream"})


def client_of(*responses, token=TOKEN, retrying=IMPATIENT, url=URL):
    server = MockServer(*responses)
    return Client(url, token, retrying=retrying, transport=httpx.MockTransport(server)), server


def job_of(*responses):
    client, server = client_of(json_response(job()), *responses)
    return client.job(JOB), server
