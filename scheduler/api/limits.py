"""No body but that of an upload may be large: it is held in memory. And no body is read on after its answer."""

from math import inf

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
