"""A server as a client sees it: a list of answers, each given once, and the requests that came."""

import json

import httpx

from maabo_dist.client import Retrying
from maabo_dist.contract.problem import MEDIA_TYPE, Problem

TOKEN = "maabo_0123456789ab_" + "s3cret" * 7
URL = "http://127.0.0.1:9"
JOB = "7f3a" + "0" * 28
IMPATIENT = Retrying(attempts=4, first_pause=0.0)


class Answers:
    """For `httpx.MockTransport`; the last answer is given again and again. An exception is raised."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), []

    def __call__(self, request):
        request.read()
        return self._next(request)

    async def asynchronously(self, request):
        await request.aread()
        return self._next(request)

    def _next(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, type):
            raise answer("broken", request=request)
        # A response is used up when it is read; the last one may be given again.
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


def problem(kind, detail="It is wrong.", headers=None, **more):
    found = Problem.of(kind, detail, **more)
    return httpx.Response(
        found.status, content=json.dumps(found.to_json()), headers={"content-type": MEDIA_TYPE} | (headers or {})
    )


def job(state="queued", **values):
    return {"id": JOB, "state": state, "created": 1.0, "wanted": "run"} | values


def answer(value, status=200):
    return httpx.Response(status, json=value)


def stream(*events, status=200):
    """Server-sent events: (id, kind, data)."""
    text = "".join(f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n" for number, kind, data in events)
    return httpx.Response(status, content=f": hello\n\n{text}", headers={"content-type": "text/event-stream"})
