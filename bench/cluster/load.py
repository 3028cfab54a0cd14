"""Load on an HTTP server: connections that stay open, each of which asks again as soon as it was answered."""

import asyncio
from collections.abc import Callable
from time import perf_counter

import numpy as np

Ask = Callable[[int], tuple[str, str, bytes]]
"""Method, path and body of the request of this number."""


def latencies(url: str, ask: Ask, requests: int, connections: int) -> np.ndarray:
    """Seconds of each request, sorted; every answer must be a success."""
    return np.sort(np.concatenate(asyncio.run(_all(url, ask, requests, connections))))


async def _all(url: str, ask: Ask, requests: int, connections: int) -> list[list[float]]:
    host, port = url.removeprefix("http://").split(":")
    numbers = iter(range(requests))
    return await asyncio.gather(*(_one(host, int(port), ask, numbers) for _ in range(connections)))


async def _one(host: str, port: int, ask: Ask, numbers) -> list[float]:
    reader, writer = await asyncio.open_connection(host, port)
    found = []
    for number in numbers:
        method, path, body = ask(number)
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
        start = perf_counter()
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        content = await reader.readexactly(int(length.split(b":")[1]))
        found.append(perf_counter() - start)
        if answer[9:10] != b"2":
            raise RuntimeError(f"{method} {path}: {answer[:15]!r} {content[:300]!r}")
    writer.close()
    return found
