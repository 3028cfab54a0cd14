"""No body but that of an upload may be large: it is held in memory."""

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 8 << 20
UPLOADS = "/v1/datasets"
"""Counts for itself, as it streams."""


class BodyLimit:
    """An ASGI layer that stops reading after `MOST_BYTES`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["path"].rstrip("/") == UPLOADS:
            await self._app(scope, receive, send)
            return
        left = MOST_BYTES

        async def counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, f"The body is larger than {MOST_BYTES:,} bytes.")
            return message

        await self._app(scope, counted, send)
