"""Steps carried out in an event loop."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import anyio
import httpx

from maabo_dist.client.address import Address
from maabo_dist.client.steps import Answer, Emit, Flow, NextChunk, Open, Pause, Request, Send, Step
from maabo_dist.client.wire import End, Wire, advanced

Value = TypeVar("Value")
_CHUNK = 1 << 18


class AsyncWire(Wire):
    """Carries flows out, in the event loop that awaits it."""

    def __init__(self, address: Address, timeout: float, transport: httpx.AsyncBaseTransport | None) -> None:
        super().__init__(address, timeout)
        self._http = httpx.AsyncClient(transport=transport, **self.options())

    async def run(self, flow: Flow[Value]) -> Value:
        """What the flow gives in the end."""
        outcome: Any = None
        with closing(flow):
            async with _AsyncStream(self) as stream:
                while not isinstance(step := advanced(flow, outcome), End):
                    outcome = None if isinstance(step, Emit) else await self._outcome(step, stream)
        value: Value = step.value
        return value

    async def iterate(self, flow: Flow[Any]) -> AsyncGenerator[Any, None]:
        """What the flow emits."""
        outcome: Any = None
        with closing(flow):
            async with _AsyncStream(self) as stream:
                while not isinstance(step := advanced(flow, outcome), End):
                    if isinstance(step, Emit):
                        outcome = None
                        yield step.value
                    else:
                        outcome = await self._outcome(step, stream)

    async def _outcome(self, step: Step, stream: "_AsyncStream") -> object:
        try:
            match step:
                case Send(request):
                    return await self._send(request)
                case Open():
                    return await stream.open(step)
                case NextChunk():
                    return await stream.next()
                case Pause(seconds):
                    await anyio.sleep(seconds)
                case _:
                    raise TypeError(step)
        except httpx.RequestError as error:
            return self.failure(error)
        return None

    async def _send(self, request: Request) -> Answer:
        content = _async_file(request.content) if isinstance(request.content, Path) else request.content
        response = await self._http.request(**self.arguments(request), content=content)
        return self.answer(response, response.content)

    async def begin(self, step: Open) -> httpx.Response:
        """A response whose content is still to come."""
        return await self._http.send(self._http.build_request(**self.stream_arguments(step)), stream=True)

    async def close(self) -> None:
        """Let go of all connections."""
        await self._http.aclose()


async def _async_file(path: Path) -> AsyncIterator[bytes]:
    async with await anyio.open_file(path, "rb") as file:
        while chunk := await file.read(_CHUNK):
            yield chunk


class _AsyncStream:
    """The stream that is open, if one is."""

    def __init__(self, wire: AsyncWire) -> None:
        self._wire = wire
        self._response: httpx.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self, step: Open) -> Answer:
        await self.close()
        self._response = await self._wire.begin(step)
        if self._response.status_code != 200:
            return self._wire.answer(self._response, await self._response.aread())
        self._chunks = self._response.aiter_bytes()
        return self._wire.answer(self._response, b"")

    async def next(self) -> bytes | None:
        return None if self._chunks is None else await anext(self._chunks, None)

    async def close(self) -> None:
        if self._response is not None:
            await self._response.aclose()
        self._response, self._chunks = None, None
