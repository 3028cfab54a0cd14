"""Load on an HTTP server: open connections, each of which sends the next request as soon as it has its answer."""

import asyncio
from collections.abc import Callable
from time import perf_counter

import numpy as np

Request = Callable[[int], tuple[str, str, bytes]]
"""Returns method, path and body of the request with this number."""


def latencies(url: str, request: Request, requests: int, connections: int, headers: str = "") -> np.ndarray:
    """Seconds of each request, sorted; every answer must be a success. `headers` are lines that end with CRLF."""
    return np.sort(np.concatenate(asyncio.run(_all(url, request, requests, connections, headers))))


async def _all(url: str, request: Request, requests: int, connections: int, headers: str) -> list[list[float]]:
    host, port = url.removeprefix("http://").split(":")
    numbers = iter(range(requests))
    return await asyncio.gather(*(_one(host, int(port), request, numbers, headers) for _ in range(connections)))


async def _one(host: str, port: int, request: Request, numbers, headers: str) -> list[float]:
    reader, writer = await asyncio.open_connection(host, port)
    seconds = []
    for number in numbers:
        method, path, body = request(number)
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n{headers}"
        start = perf_counter()
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        content = await reader.readexactly(int(length.split(b":")[1]))
        seconds.append(perf_counter() - start)
        if answer[9:10] != b"2":
            raise RuntimeError(f"{method} {path}: {answer[:15]!r} {content[:300]!r}")
    writer.close()
    return seconds
