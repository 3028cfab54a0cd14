"""Errors of the client, and how responses become errors.

MaaboError
├── ProblemError             the server answered with a problem document (RFC 9457)
│   └── RefusedError         … about a mistake of the caller (4xx); also an InputError
├── JobFailedError           the job failed or was cancelled while the caller waited for it
├── WaitTimeoutError         the job did not end in time; it keeps running
└── InputError
    └── ServerUnreachableError   no server answers at the address, or a different kind of server does
"""

import json
from typing import TypeVar

import httpx
from pydantic import TypeAdapter

from maabo_dist.contract.problem import MEDIA_TYPE, TYPE_PREFIX, Problem
from maabo_dist.errors import InputError, MaaboError, SettingsError

Value = TypeVar("Value")
# For callers of this client, who do not write headers.
_REMEDIES = {
    401: "Give a valid token: token=… in Python, --token-file or MAABO_TOKEN on the command line.",
}


class ProblemError(MaaboError):
    """The server refused a request or failed; the attributes are those of its problem document.

    Attributes
    ----------
    type : str
        URI of the kind of problem. It never changes and is meant for programs.
    title, detail : str
        What went wrong, in general and in this case.
    status : int
        HTTP status code.
    field : str or None
        Path of the value that is wrong, for example ``settings.trees``.
    remedy : str or None
        What to do about it.
    instance : str or None
        ID of the request, which also appears in the server's logs.
    """

    def __init__(self, problem: Problem) -> None:
        remedy = _REMEDIES.get(problem.status, problem.remedy)
        super().__init__(f"{problem.detail} {remedy}" if remedy else problem.detail)
        self.type, self.title, self.status = problem.type, problem.title, problem.status
        self.detail, self.field, self.remedy = problem.detail, problem.field, remedy
        self.instance = problem.instance

    @property
    def name(self) -> str:
        """The last part of the type, for example ``quota-exceeded``."""
        return self.type.removeprefix(TYPE_PREFIX)


class RefusedError(ProblemError, InputError):
    """The request was wrong; repeating it without a change is useless."""


class ServerUnreachableError(SettingsError):
    """No server answers at the address, or something that is not a maabo server does."""

    kind = "unavailable"


class JobFailedError(MaaboError):
    """The job failed or was cancelled; `reason` says why."""

    def __init__(self, job: str, state: str, reason: str | None) -> None:
        verb = "failed" if state == "failed" else "was cancelled"
        super().__init__(f"Job {job} {verb}{f': {reason}' if reason else '.'}")
        self.job, self.state, self.reason = job, state, reason


class WaitTimeoutError(MaaboError, TimeoutError):
    """The job did not end in time. It keeps running."""

    def __init__(self, job: str, seconds: float) -> None:
        super().__init__(f"Job {job} did not end within {seconds:g} s. It keeps running; wait again, or cancel it.")
        self.job, self.seconds = job, seconds


def check_response(response: httpx.Response, server: str) -> httpx.Response:
    """Return a successful response; raise the error that any other one stands for."""
    if response.is_success:
        return response
    problem = parse_problem(response)
    if problem is not None:
        raise RefusedError(problem) if 400 <= problem.status < 500 else ProblemError(problem)
    if response.has_redirect_location:
        raise ServerUnreachableError(
            f"The server at {server} redirects to {response.headers['location'][:200]!r}. The client does not follow "
            "redirects, because they could leak the token. Use that address if it is the server's."
        )
    if response.status_code in {502, 503, 504}:
        detail = f"A proxy in front of the server at {server} answers {response.status_code}."
        raise ProblemError(Problem.of("unavailable", detail, remedy="Try again later."))
    raise _unexpected_response(response, server)


def parse_response(kind: type[Value], response: httpx.Response, server: str) -> Value:
    """Return the JSON of a response as this type."""
    try:
        return TypeAdapter(kind).validate_python(json.loads(response.content))
    except ValueError:  # also pydantic's ValidationError
        raise _unexpected_response(response, server) from None


def parse_problem(response: httpx.Response) -> Problem | None:
    """Return the problem document of a response, if it has one. A different version may leave out fields."""
    if not response.headers.get("content-type", "").startswith(MEDIA_TYPE):
        return None
    status = response.status_code
    try:
        document = json.loads(response.content)
        detail = document.get("detail") or document.get("title") or f"The server answers {status}."
        fields = {name: document[name] for name in Problem.model_fields if name in document}
        return Problem(**{"type": "about:blank", "title": ""} | fields | {"status": status, "detail": detail})
    except (ValueError, AttributeError, TypeError):
        return None


def unreachable_error(error: httpx.RequestError, server: str) -> ServerUnreachableError:
    """Describe a request that got no response."""
    timed_out = isinstance(error, httpx.TimeoutException)
    reason = "it does not answer in time" if timed_out else str(error) or type(error).__name__
    return ServerUnreachableError(
        f"The server at {server} cannot be reached ({reason}). Check that it runs, and the address."
    )


def _unexpected_response(response: httpx.Response, server: str) -> ServerUnreachableError:
    kind = response.headers.get("content-type", "no content type")[:100]
    return ServerUnreachableError(
        f"The server at {server} ({response.status_code}, {kind}) does not answer like a maabo server of this "
        "version. Check the address."
    )
