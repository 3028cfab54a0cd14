"""ASGI middleware: correlation IDs with the access log, and limits on request bodies."""

import re
from collections.abc import Callable
from math import inf
from secrets import token_hex
from time import perf_counter

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maabo_dist.cluster.logs import StructuredLogger

logger = StructuredLogger("maabo.api.access")

HEADER = "X-Request-ID"
PROBES = {"/healthz", "/readyz", "/metrics"}  # polled by monitoring; logged at debug level
MAX_BYTES = 8 << 20
UPLOADS = "/v1/datasets"  # limits the size of its bodies itself
_SAFE_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,100}")  # IDs that cannot forge a line of the log


class CorrelationMiddleware:
    """Gives every request an ID, its own or a new one, and writes the access log, which contains no headers.

    Calls `observe` with method, route, status and seconds. Durations are measured until the response starts, because
    event streams do not end.
    """

    def __init__(self, app: ASGIApp, observe: Callable[[str, str, int, float], None]) -> None:
        self._app, self._observe = app, observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        correlation = given if _SAFE_ID.fullmatch(given) else token_hex(8)
        scope.setdefault("state", {})["correlation"] = correlation
        started, status, seconds = perf_counter(), 500, 0.0

        async def send_with_id(message: Message) -> None:
            nonlocal status, seconds
            if message["type"] == "http.response.start":
                status, seconds = message["status"], perf_counter() - started
                message["headers"] = [*message["headers"], (HEADER.lower().encode(), correlation.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            # The path with parameter names instead of values, which would create a metric for each ID.
            route = getattr(scope.get("route"), "path", "none")
            self._observe(scope["method"], route, status, seconds)
            log = logger.debug if scope["path"] in PROBES and status < 500 else logger.info
            request = f"{scope['method']} {scope['path'][:200]!r}"
            log(request, status=status, seconds=seconds, correlation=correlation)


class BodyLimitMiddleware:
    """Rejects bodies above `MAX_BYTES`, and closes the connection if the response starts before the body ends."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        remaining = inf if scope["path"].rstrip("/") == UPLOADS else MAX_BYTES
        headers = Headers(scope=scope)
        more_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"

        async def receive_limited() -> Message:
            nonlocal remaining, more_body
            message = await receive()
            more_body = more_body and message.get("more_body", False)
            remaining -= len(message.get("body", b""))
            if remaining < 0:
                raise HTTPException(413, f"The body is larger than {MAX_BYTES:,} bytes.")
            return message

        async def send_and_close(message: Message) -> None:
            if more_body and message["type"] == "http.response.start":
                # Otherwise the server would read the rest of the body, whatever its size, to reuse the connection.
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        await self._app(scope, receive_limited, send_and_close)
