"""One id for a request, from its arrival to the worker's log line: the caller's own, or one that is made here.

A plain ASGI layer around the application: it also writes the access log, which names paths and never headers, and
tells how long answers took to begin (those of event streams never end).
"""

import re
from collections.abc import Callable
from math import inf
from secrets import token_hex
from time import perf_counter
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maabo_dist.cluster.logs import StructuredLogger

logger = StructuredLogger("maabo.api.access")

HEADER = "X-Request-ID"
PROBES = {"/healthz", "/readyz", "/metrics"}
"""Asked all the time, by machines."""
_FORM = re.compile(r"[A-Za-z0-9._:/+=-]{1,100}")
"""What cannot forge a line of a log."""

Observe = Callable[[str, str, int, float], None]
"""Method, route, status, seconds."""


class Correlation:
    """Gives every request its id, and says of each what became of it."""

    def __init__(self, app: ASGIApp, observe: Observe) -> None:
        self._app, self._observe = app, observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        correlation = _given(scope) or token_hex(8)
        scope.setdefault("state", {})["correlation"] = correlation
        started, status, seconds = perf_counter(), 500, 0.0

        async def answer(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status, seconds = message["status"], perf_counter() - started
                message["headers"] = [*message["headers"], (HEADER.lower().encode(), correlation.encode())]
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            self._tell(scope, status, seconds, correlation)

    def _tell(self, scope: Scope, status: int, seconds: float, correlation: str) -> None:
        self._observe(scope["method"], _route(scope), status, seconds)
        say = logger.debug if scope["path"] in PROBES and status < 500 else logger.info
        facts: dict[str, Any] = {"status": status, "seconds": seconds, "correlation": correlation}
        say(f"{scope['method']} {scope['path'][:200]!r}", **facts)


def _given(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == HEADER.lower().encode():
            text: str = value.decode("latin-1")
            return text if _FORM.fullmatch(text) else None
    return None


def _route(scope: Scope) -> str:
    """The path with its parameters' names: ids in labels of metrics would grow without end."""
    found = getattr(scope.get("route"), "path", None)
    return str(found) if found is not None else "none"


MOST_BYTES = 8 << 20
UPLOADS = "/v1/datasets"
"""Counts for itself, as it streams."""


class BodyLimit:
    """An ASGI layer that stops reading after `MOST_BYTES`, and hangs up on whoever is answered while still sending."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        left = inf if scope["path"].rstrip("/") == UPLOADS else MOST_BYTES
        coming = _has_body(scope)

        async def counted() -> Message:
            nonlocal left, coming
            message = await receive()
            coming = coming and message.get("more_body", False)
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, f"The body is larger than {MOST_BYTES:,} bytes.")
            return message

        async def answer(message: Message) -> None:
            if coming and message["type"] == "http.response.start":
                # Else the server would take in the rest, however long it is, to keep the connection.
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        await self._app(scope, counted, answer)


def _has_body(scope: Scope) -> bool:
    headers = dict(scope["headers"])
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
