"""How requests are put to httpx, and what its errors mean: what both ways of carrying steps out share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from maabo_dist._version import __version__
from maabo_dist.client.address import Address
from maabo_dist.client.steps import Answer, Failure, Flow, Open, Request, Step

SLOW_SECONDS = 900.0
"""For calls in which the server reads a table."""
CONNECT_SECONDS = 10.0
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


@dataclass(frozen=True, slots=True)
class End:
    """The end of a flow."""

    value: Any


def advanced(flow: Flow[Any], outcome: object) -> Step | End:
    """What the flow wants next."""
    try:
        return flow.send(outcome)
    except StopIteration as end:
        return End(end.value)


class Wire:
    """What both ways of sending share: how requests are put, and what errors mean."""

    def __init__(self, address: Address, timeout: float) -> None:
        self.address, self._timeout = address, timeout

    def options(self) -> dict[str, Any]:
        """Of an httpx client. A redirect would take the token along; what is on this machine needs no proxy."""
        agent = {"User-Agent": f"maabo-dist/{__version__}"}
        headers = agent | self.address.headers
        return {"headers": headers, "follow_redirects": False, "trust_env": not self.address.loopback}

    def arguments(self, request: Request) -> dict[str, Any]:
        """Of a request, but for its content."""
        return {
            "method": request.method,
            "url": self.address.url + request.path,
            "params": dict(request.params),
            "headers": dict(request.headers) | _length(request),
            "timeout": self._timeouts(max(self._timeout, SLOW_SECONDS) if request.slow else self._timeout),
        }

    def stream_arguments(self, step: Open) -> dict[str, Any]:
        """Of a request whose answer does not end soon."""
        return self.arguments(step.request) | {"timeout": self._timeouts(step.silence)}

    def _timeouts(self, seconds: float) -> httpx.Timeout:
        return httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))

    def answer(self, response: httpx.Response, content: bytes) -> Answer:
        """What was said, as flows read it."""
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, headers, content, self.address.url)

    def failure(self, error: httpx.RequestError) -> Failure:
        """What became of a request without an answer."""
        said = str(error) or type(error).__name__
        timed_out = "it does not answer in time" if isinstance(error, httpx.TimeoutException) else said
        return Failure(timed_out, not isinstance(error, _UNSENT), self.address.url)


def _length(request: Request) -> dict[str, str]:
    """A file's size is known before it is read."""
    return {"Content-Length": str(request.content.stat().st_size)} if isinstance(request.content, Path) else {}
