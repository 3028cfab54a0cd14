"""The words in which flows say what is to be done, and hear what came of it. No I/O is done here.

A flow is a generator. It yields steps, gets the outcome of each back, and returns a value in the end:

    flow ──Send(request)──► client ──► server
         ◄──Answer|Failure──

`Emit` hands a value to whoever iterates over the flow.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Request:
    """One request; `path` is relative to the server's address."""

    method: str
    path: str
    params: Mapping[str, str | int] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | Path | None = None
    """A file is read anew for each attempt."""
    repeatable: bool = False
    """Whether nothing is done twice when the request comes twice."""
    slow: bool = False
    """Whether the server may work for minutes before it answers."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server said. Of a stream, only errors have content here."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    content: bytes = b""
    server: str = ""
    """The address that was asked."""


@dataclass(frozen=True, slots=True)
class Failure:
    """No answer came."""

    reason: str
    sent: bool
    """Whether the server may have got the request."""
    server: str = ""


@dataclass(frozen=True, slots=True)
class Send:
    """Gives an Answer or a Failure."""

    request: Request


@dataclass(frozen=True, slots=True)
class Open:
    """Gives an Answer, whose content is then had piece by piece, or a Failure. The stream before it is closed."""

    request: Request
    silence: float
    """Seconds without a word after which the stream counts as broken."""


@dataclass(frozen=True, slots=True)
class NextChunk:
    """Gives some bytes of the open stream, None at its end, or a Failure."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Gives None after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Emit:
    """Gives None when the value was taken."""

    value: Any


Step = Send | Open | NextChunk | Pause | Emit
Flow = Generator[Step, Any, Value]
