"""Requests to one server and streams of events from it; requests are repeated where that is safe."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import httpx
from anyio import sleep
from httpx_sse import EventSource

from maabo_dist.client.errors import check_response, parse_response, unreachable_error
from maabo_dist.client.payloads import Event
from maabo_dist.client.requests import (
    Address,
    Deadline,
    Request,
    Retrying,
    TimedStream,
    async_call,
    async_read_chunks,
    get,
)
from maabo_dist.contract.api import Page

PAGE_SIZE = 200
# Seconds. Servers send at least a comment every few seconds; a connection that is silent for this long is dead.
MAX_SILENCE = 60.0
# Event connections in a row without any event, after which the client stops opening them.
MAX_FAILURES = 5
# Status codes of servers and proxies that do not deliver events.
NO_EVENTS = frozenset({404, 405, 406, 501})

Value = TypeVar("Value")


class AsyncTransport:
    """Sends requests to one server."""

    def __init__(
        self, address: Address, timeout: float, retrying: Retrying, transport: httpx.AsyncBaseTransport | None
    ) -> None:
        self.server = address.url
        self._timeout, self._retrying = timeout, retrying
        self._http = httpx.AsyncClient(transport=transport, **address.httpx_options())

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def send(self, request: Request, *, check: bool = True) -> httpx.Response:
        """Return the response; with `check`, raise an error unless it is a success."""
        for attempt in count(1):
            outcome = await self._attempt(request)
            pause = self._retrying.pause_after(outcome, request, attempt)
            if pause is None:
                break
            await sleep(pause)
        if isinstance(outcome, httpx.RequestError):
            raise unreachable_error(outcome, self.server) from outcome
        # An earlier attempt may have deleted it, and its response was lost.
        deleted = request.method == "DELETE" and attempt > 1 and outcome.status_code == 404
        return check_response(outcome, self.server) if check and not deleted else outcome

    async def fetch(self, kind: type[Value], request: Request, *, check: bool = True) -> Value:
        """Return the JSON of the response as this type."""
        response = await self.send(request, check=check)
        return parse_response(kind, response, self.server)

    async def fetch_pages(
        self, kind: type[Page[Value]], path: str, params: Mapping[str, str | None]
    ) -> AsyncGenerator[Value, None]:
        """Yield the items of all pages; a page is requested when its first item is needed."""
        cursor = None
        while True:
            page = await self.fetch(kind, get(path, {"limit": PAGE_SIZE, **params, "cursor": cursor}))
            for item in page.items:
                yield item
            cursor = page.next
            if cursor is None:
                return

    async def open_events(self, path: str, last_id: str | None, deadline: Deadline) -> httpx.Response:
        """Return a response whose content, the events after the last one received, is still to come."""
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": last_id} if last_id else {})
        timeout = min(MAX_SILENCE, deadline.remaining)
        arguments = Request("GET", path, headers=headers).httpx_arguments(timeout)
        response = await self._http.send(self._http.build_request(**arguments), stream=True)
        response.stream = TimedStream(response, deadline)
        return response

    async def _attempt(self, request: Request) -> httpx.Response | httpx.RequestError:
        arguments = request.httpx_arguments(self._timeout)
        if request.file is not None:
            arguments["content"] = async_read_chunks(request.file)
        try:
            if request.save_to is not None:
                return await self._download(arguments, request.save_to)
            return await self._http.request(**arguments)
        except httpx.RequestError as error:
            return error

    async def _download(self, arguments: dict[str, Any], path: Path) -> httpx.Response:
        async with self._http.stream(**arguments) as response:
            if not response.is_success:
                await response.aread()
                return response
            with path.open("wb") as file:
                async for chunk in response.aiter_bytes():
                    await async_call(partial(file.write, chunk))
        return response


class AsyncEventStream:
    """The events of one job over several connections, each of which continues after the last event received."""

    def __init__(self, transport: AsyncTransport, path: str, after: str | None, deadline: Deadline) -> None:
        # False if the server or a proxy does not deliver events.
        self.supported = True
        self._transport, self._path, self._deadline = transport, path, deadline
        self._last_id = after
        self._failures = 0

    async def read(self) -> AsyncGenerator[Event, None]:
        """Yield the events of one connection until it ends, for whatever reason."""
        self._failures += 1
        try:
            connection = await self._transport.open_events(self._path, self._last_id, self._deadline)
            async with aclosing(connection) as response:
                self.supported = response.status_code not in NO_EVENTS
                if response.status_code == 200:
                    async with aclosing(EventSource(response).aiter_sse()) as messages:
                        async for message in messages:
                            self._last_id = message.id or self._last_id
                            event = Event.parse(self._last_id, message)
                            if event is not None:
                                self._failures = 0
                                yield event
                                if event.kind == "end":
                                    return
        except httpx.RequestError:
            pass  # the caller asks for the status next, and that request reports a server that is gone
        self.supported = self.supported and self._failures < MAX_FAILURES
