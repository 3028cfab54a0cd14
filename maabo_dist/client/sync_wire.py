"""Steps carried out by blocking calls."""

import time
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from maabo_dist.client.address import Address
from maabo_dist.client.steps import Answer, Emit, Flow, NextChunk, Open, Pause, Request, Send, Step
from maabo_dist.client.wire import End, Wire, advanced

Value = TypeVar("Value")


class SyncWire(Wire):
    """Carries flows out, in the thread that calls it."""

    def __init__(self, address: Address, timeout: float, transport: httpx.BaseTransport | None) -> None:
        super().__init__(address, timeout)
        self._http = httpx.Client(transport=transport, **self.options())

    def run(self, flow: Flow[Value]) -> Value:
        """What the flow gives in the end."""
        values = self.iterate(flow)
        with closing(values):
            while True:
                try:
                    next(values)
                except StopIteration as end:
                    value: Value = end.value
                    return value

    def iterate(self, flow: Flow[Value]) -> Generator[Any, None, Value]:
        """What the flow emits."""
        outcome: Any = None
        with closing(flow), closing(_SyncStream(self)) as stream:
            while not isinstance(step := advanced(flow, outcome), End):
                if isinstance(step, Emit):
                    outcome = None
                    yield step.value
                else:
                    outcome = self._outcome(step, stream)
        value: Value = step.value
        return value

    def _outcome(self, step: Step, stream: "_SyncStream") -> object:
        try:
            match step:
                case Send(request):
                    return self._send(request)
                case Open():
                    return stream.open(step)
                case NextChunk():
                    return stream.next()
                case Pause(seconds):
                    time.sleep(seconds)
                case _:
                    raise TypeError(step)
        except httpx.RequestError as error:
            return self.failure(error)
        return None

    def _send(self, request: Request) -> Answer:
        with _content(request) as content:
            response = self._http.request(**self.arguments(request), content=content)
        return self.answer(response, response.content)

    def begin(self, step: Open) -> httpx.Response:
        """A response whose content is still to come."""
        return self._http.send(self._http.build_request(**self.stream_arguments(step)), stream=True)

    def close(self) -> None:
        """Let go of all connections."""
        self._http.close()


@contextmanager
def _content(request: Request) -> Iterator[Any]:
    if isinstance(request.content, Path):
        with request.content.open("rb") as file:
            yield file
    else:
        yield request.content


class _SyncStream:
    """The stream that is open, if one is."""

    def __init__(self, wire: SyncWire) -> None:
        self._wire = wire
        self._response: httpx.Response | None = None
        self._chunks: Iterator[bytes] = iter(())

    def open(self, step: Open) -> Answer:
        self.close()
        self._response = self._wire.begin(step)
        if self._response.status_code != 200:
            return self._wire.answer(self._response, self._response.read())
        self._chunks = self._response.iter_bytes()
        return self._wire.answer(self._response, b"")

    def next(self) -> bytes | None:
        return next(self._chunks, None)

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
        self._response, self._chunks = None, iter(())
