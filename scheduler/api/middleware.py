"""Middleware: correlation IDs, the access log, and limits on the size and the speed of request bodies."""

import asyncio
import re
from collections.abc import Callable
from math import inf
from secrets import token_hex
from time import perf_counter

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maabo_dist.cluster.logs import StructuredLogger
from scheduler.api.dependencies import Caller

access_log = StructuredLogger("maabo.api.access")

HEADER = "X-Request-ID"
PROBES = {"/healthz", "/readyz", "/metrics"}  # polled by monitoring; logged at debug level
MAX_BYTES = 8 << 20
MIN_BYTES_PER_SECOND = 4096  # a body must arrive at least this fast on average
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
        header = Headers(scope=scope).get(HEADER, "")
        correlation = header if _SAFE_ID.fullmatch(header) else token_hex(8)
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
            log = access_log.debug if scope["path"] in PROBES and status < 500 else access_log.info
            request = f"{scope['method'][:20]} {scope['path'][:200]!r}"
            log(request, status=status, seconds=seconds, correlation=correlation, **_log_fields(scope))


def _log_fields(scope: Scope) -> dict[str, str | None]:
    """Return who sent the request: the address and, if its token is valid, the tenant and the ID of the token."""
    caller: Caller | None = scope["state"].get("caller")
    address = scope["client"][0] if scope.get("client") else None
    if caller is None:
        return {"address": address}
    return {"address": address, "tenant": caller.tenant, "token": caller.token}


class BodyLimitMiddleware:
    """Rejects bodies that are larger than `MAX_BYTES` or that do not arrive in time.

    `seconds` is how long a body may take in addition to its size over `MIN_BYTES_PER_SECOND`. Only the time counts in
    which the server waits for the client. If the response starts before the body ends, the connection is closed.
    """

    def __init__(self, app: ASGIApp, seconds: float) -> None:
        self._app, self._seconds = app, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        headers = Headers(scope=scope) if scope["type"] == "http" else {}
        if "transfer-encoding" not in headers and headers.get("content-length", "0") == "0":
            await self._app(scope, receive, send)
            return
        max_bytes = inf if scope["path"].rstrip("/") == UPLOADS else MAX_BYTES
        received, waited, more_body = 0, 0.0, True

        async def receive_limited() -> Message:
            nonlocal received, waited, more_body
            if not more_body:
                return await receive()  # waits until the client disconnects
            started = perf_counter()
            try:
                async with asyncio.timeout(max(0.0, self._seconds + received / MIN_BYTES_PER_SECOND - waited)):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(408, self._timeout_text(received)) from None
            waited += perf_counter() - started
            more_body = message.get("more_body", False)
            received += len(message.get("body", b""))
            if received > max_bytes:
                raise HTTPException(413, f"The body is larger than {max_bytes:,} bytes.")
            return message

        async def send_and_close(message: Message) -> None:
            if more_body and message["type"] == "http.response.start":
                # Otherwise the server would read the rest of the body, whatever its size, to reuse the connection.
                message["headers"] = [*message["headers"], (b"connection", b"close")]
            await send(message)

        await self._app(scope, receive_limited, send_and_close)

    def _timeout_text(self, received: int) -> str:
        return (
            f"The body did not arrive in time: {received:,} bytes came in {self._seconds:g} seconds and the time that "
            f"their number takes at {MIN_BYTES_PER_SECOND:,} bytes a second."
        )
