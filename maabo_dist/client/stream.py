"""The events of a job: server-sent events read line by line, and followed across broken connections."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any

from pydantic import ValidationError

from maabo_dist.client.shapes import JobStatus
from maabo_dist.client.steps import Answer, Emit, Failure, Flow, NextChunk, Open, Request

SILENCE = 60.0
"""Servers say something every few seconds, if only a comment; after so long without a word there is none any more."""
MOST_BREAKS = 5
LONGEST_LINE = 16 << 20
_UNSUPPORTED = frozenset({404, 405, 406, 501})
_STANDING = frozenset({"state", "progress", "status"})
END = "end"
"""The last event of a job."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job."""

    id: str | None
    """Give it back as `after` to hear what came later."""
    kind: str
    """state and progress tell where the job stands, rules that some were found, end that nothing more will come."""
    data: dict[str, Any]

    @property
    def status(self) -> JobStatus | None:
        """Where the job stands, if the event tells that."""
        try:
            return JobStatus.model_validate(self.data) if self.kind in _STANDING else None
        except ValidationError:
            return None


class Deadline:
    """A moment by which something is to have happened; never, if there are no seconds."""

    def __init__(self, seconds: float | None, clock: Callable[[], float] = monotonic) -> None:
        self.seconds, self._clock = seconds, clock
        self._end = inf if seconds is None else clock() + seconds

    @property
    def left(self) -> float:
        """Seconds, a little more than none."""
        return max(0.01, self._end - self._clock())

    @property
    def over(self) -> bool:
        """Whether it has passed."""
        return self._clock() >= self._end


class EventReader:
    """Bytes in, events out, as the HTML standard has it (but that lines end with a line feed)."""

    def __init__(self, last: str | None = None) -> None:
        self.last = last
        """The id of the last event."""
        self._rest, self._kind = b"", ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that end in this piece."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST_LINE:
            self._rest = b""
        for line in lines:
            event = self._line(line.removesuffix(b"\r").decode(errors="replace"))
            if event is not None:
                yield event

    def _line(self, line: str) -> Event | None:
        if not line:
            return self._finished()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._kind = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self.last = value
        return None

    def _finished(self) -> Event | None:
        kind, lines = self._kind or "message", self._data
        self._kind, self._data = "", []
        if not lines:
            return None
        try:
            data = json.loads("\n".join(lines))
        except ValueError:
            return None
        return Event(self.last, kind, data if isinstance(data, dict) else {"value": data})


@dataclass(slots=True)
class Place:
    """How far a job's events were heard."""

    last: str | None = None
    """The id of the last event."""
    supported: bool = True
    """Whether there is any use in asking for more."""
    breaks: int = 0
    """Connections in a row that brought nothing."""


def heard(path: str, place: Place, deadline: Deadline) -> Flow[None]:
    """Emit the events of one connection, from the last one on, until it ends; how far it got stands in `place`.

    No way in which it ends is an error: whoever calls this looks at the job anyway, and meets it there.
    """
    headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": place.last} if place.last else {})
    opened: Answer | Failure = yield Open(Request("GET", path, headers=headers), min(SILENCE, deadline.left))
    place.breaks += 1
    if not isinstance(opened, Answer) or opened.status != 200:
        gone = isinstance(opened, Answer) and opened.status in _UNSUPPORTED
        place.supported = not gone and place.breaks < MOST_BREAKS
        return
    reader = EventReader(place.last)
    while isinstance(chunk := (yield NextChunk()), bytes) and not deadline.over:
        for event in reader.feed(chunk):
            place.last, place.breaks = event.id, 0
            yield Emit(event)
            if event.kind == END:
                return
    place.supported = place.breaks < MOST_BREAKS
