"""The operations that block, each for an event loop and for a thread. Generated code uses the second of each pair."""

from collections.abc import AsyncIterator, Callable, Iterator
from itertools import takewhile
from pathlib import Path
from time import sleep
from typing import TypeVar, cast

import anyio
import httpx
from anyio import sleep as async_sleep

from maabo_dist.client.requests import Deadline

__all__ = ["TimedStream", "async_call", "async_read_chunks", "async_sleep", "call", "read_chunks", "sleep"]

Result = TypeVar("Result")
_CHUNK_BYTES = 1 << 18


async def async_call(function: Callable[[], Result]) -> Result:
    """Call a function that blocks in a thread."""
    return await anyio.to_thread.run_sync(function)


def call(function: Callable[[], Result]) -> Result:
    """Call a function that blocks."""
    return function()


async def async_read_chunks(path: Path) -> AsyncIterator[bytes]:
    """Read a file piece by piece."""
    async with await anyio.open_file(path, "rb") as file:
        while chunk := await file.read(_CHUNK_BYTES):
            yield chunk


def read_chunks(path: Path) -> Iterator[bytes]:
    """Read a file piece by piece."""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


class TimedStream(httpx.AsyncByteStream, httpx.SyncByteStream):
    """The content of a response until a deadline, which comments that keep the connection alive do not extend."""

    def __init__(self, response: httpx.Response, deadline: Deadline) -> None:
        self._stream, self._deadline = response.stream, deadline

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in cast("httpx.AsyncByteStream", self._stream):
            if self._deadline.passed:
                return
            yield chunk

    def __iter__(self) -> Iterator[bytes]:
        return takewhile(lambda _: not self._deadline.passed, cast("httpx.SyncByteStream", self._stream))

    async def aclose(self) -> None:
        """Close the connection."""
        await cast("httpx.AsyncByteStream", self._stream).aclose()

    def close(self) -> None:
        """Close the connection."""
        cast("httpx.SyncByteStream", self._stream).close()
