"""The address of a server, requests to it, the rules for repeating them, and operations that block.

Each such operation is there for an event loop and for a thread; generated code uses the second of each pair.
No message contains a token.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from itertools import takewhile
from math import inf
from pathlib import Path
from time import monotonic, time
from typing import Any, Self, TypeVar, cast
from urllib.parse import SplitResult, quote, urlsplit

import anyio
import httpx

from maabo_dist._util.network import backoff_delay, is_loopback, jittered
from maabo_dist._version import __version__
from maabo_dist.client.errors import parse_problem
from maabo_dist.errors import SettingsError

EXAMPLE = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class Address:
    """A server's URL without a slash at its end, and the token for it."""

    url: str
    token: str | None = field(default=None, repr=False)
    # True if the server is on this machine.
    loopback: bool = False

    @classmethod
    def parse(cls, url: str, token: str | None, *, insecure: bool) -> Self:
        """Check an address; `insecure` permits sending a token over plain http to another machine."""
        parts = _split(url)
        loopback = is_loopback(parts.hostname or "")
        if token is not None:
            # Line breaks could forge headers; a wrong file may contain anything.
            if not token or not _is_plain(token):
                raise SettingsError("The token is empty or contains characters that no token has. Copy all of it.")
            if parts.scheme == "http" and not loopback and not insecure:
                raise SettingsError(
                    f"The token would be sent to {parts.netloc} over plain http, where others can read it. Use the "
                    "server's https:// address or, on a network that you trust, insecure=True (--insecure)."
                )
        return cls(url.rstrip("/"), token, loopback)

    def httpx_options(self) -> dict[str, Any]:
        """Arguments of an httpx client. A redirect could leak the token; a loopback server needs no proxy."""
        headers = {"User-Agent": f"maabo-dist/{__version__}"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        return {
            "base_url": self.url,
            "headers": headers,
            "follow_redirects": False,
            "trust_env": not self.loopback,
        }


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        problem = _problem(url, parts)
    except ValueError:
        problem = "is not a valid URL"
    if problem:
        text = repr(url) if "@" not in url else "(hidden, it contains an @)"
        raise SettingsError(f"The server address {text} {problem}. A valid address looks like {EXAMPLE}.")
    return parts


def _problem(url: str, parts: SplitResult) -> str | None:
    if parts.scheme not in {"http", "https"}:
        return "does not begin with http:// or https://"
    if not parts.hostname or parts.port == 0:  # reading the port raises ValueError if it is out of range
        return "has no host, or a port that cannot be used"
    if "@" in parts.netloc:
        return "contains a user name; pass the token separately"
    if parts.query or parts.fragment:
        return "contains a ? or #"
    if not _is_plain(url):
        return "contains spaces or non-ASCII characters"
    return None


def _is_plain(text: str) -> bool:
    """True for printable ASCII characters without spaces."""
    return text.isascii() and text.isprintable() and " " not in text


# Timeout of requests for which the server reads a table.
SLOW_SECONDS = 900.0
CONNECT_SECONDS = 10.0
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
_TEMPORARY = frozenset({502, 503, 504})
_TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `path` is relative to the server's address."""

    method: str
    path: str
    params: Mapping[str, str | int] = field(default_factory=dict)
    # Sent as JSON.
    document: Any = None
    # Sent as the body; read again for each attempt.
    file: Path | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    # True if sending it twice has the same effect as sending it once.
    idempotent: bool = False
    # True if the server may need minutes for its response.
    slow: bool = False
    # The file that a successful response is written to, piece by piece, instead of being held in memory.
    save_to: Path | None = None

    def httpx_arguments(self, timeout: float) -> dict[str, Any]:
        """All arguments of an httpx request except the content of the file."""
        headers, content = dict(self.headers), None
        if self.file is not None:
            headers["Content-Length"] = str(self.file.stat().st_size)
        elif self.document is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(self.document).encode()
        seconds = max(timeout, SLOW_SECONDS) if self.slow else timeout
        return {
            "method": self.method,
            "url": self.path,
            "params": dict(self.params),
            "headers": headers,
            "timeout": httpx.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
            "content": content,
        }


def get(path: str, params: Mapping[str, str | int | None] | None = None, *, slow: bool = False) -> Request:
    """Return a GET request, without the parameters that are None."""
    present = {name: value for name, value in (params or {}).items() if value is not None}
    return Request("GET", path, present, idempotent=True, slow=slow)


def quote_id(text: str) -> str:
    """Return an ID as a single segment of a path, whatever characters it contains."""
    return quote(text, safe="")


@dataclass(frozen=True, slots=True)
class Retrying:
    """The number of retries of requests, and the pauses before them.

    Parameters
    ----------
    attempts : int, default 5
        Attempts in all; 1 repeats nothing.
    first_pause : float, default 0.25
        Seconds after the first attempt; the pause doubles after each further one. The actual pause is a random one
        between half of it and all of it, so that many clients do not retry in step.
    max_pause : float, default 8.0
        Upper bound of the pause in seconds.
    max_retry_after : float, default 60.0
        If the server asks for a longer pause than this (``Retry-After``), the client gives up.
    """

    attempts: int = 5
    first_pause: float = 0.25
    max_pause: float = 8.0
    max_retry_after: float = 60.0

    def pause(self, attempt: int) -> float:
        """Seconds to wait after this attempt, counted from 1."""
        return jittered(backoff_delay(self.first_pause, attempt - 1, self.max_pause))

    def pause_after(self, outcome: httpx.Response | httpx.RequestError, request: Request, attempt: int) -> float | None:
        """Seconds to wait before the request is repeated; None if it must not or need not be repeated."""
        if attempt >= self.attempts:
            return None
        if isinstance(outcome, httpx.RequestError):
            return self.pause(attempt) if request.idempotent or isinstance(outcome, _UNSENT) else None
        retry_after = _retry_after(outcome)
        status = outcome.status_code
        temporary = status in _TEMPORARY or (status == _TOO_MANY_REQUESTS and retry_after is not None)
        if not temporary or not request.idempotent or _is_quota_problem(outcome):
            return None
        if retry_after is None:
            return self.pause(attempt)
        return None if retry_after > self.max_retry_after else max(retry_after, self.pause(attempt))


class Deadline:
    """A time limit; None for no limit."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._end = inf if seconds is None else monotonic() + seconds

    @property
    def remaining(self) -> float:
        """Seconds until the deadline, always more than 0."""
        return max(0.01, self._end - monotonic())

    @property
    def passed(self) -> bool:
        """True once the time is up."""
        return monotonic() >= self._end


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds of the Retry-After header, which holds a number or a date."""
    text = response.headers.get("retry-after", "").strip()
    if text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time())
    except (ValueError, TypeError):
        return None


def _is_quota_problem(response: httpx.Response) -> bool:
    """True if a quota is used up, which waiting a few seconds does not change."""
    problem = parse_problem(response)
    return problem is not None and problem.type.endswith("/quota-exceeded")


Result = TypeVar("Result")
_CHUNK_BYTES = 1 << 18


async def async_call(function: Callable[[], Result]) -> Result:
    """Call a blocking function in a thread."""
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
