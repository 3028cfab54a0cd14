"""Server-sent events: how an event is written for a client, and the answer that carries them.

The id of an event is that of its entry in the job's stream in Redis, so that any server can resume after it.
"""

import asyncio
import json
import re
from asyncio import timeout
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from fastapi.responses import StreamingResponse
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import JobRecord
from scheduler.api.models import JobDetails, JobProgress
from scheduler.api.problems import BusyError
from scheduler.messaging.status import PROGRESS, RULES, STATE

Place = tuple[int, int]
"""The id of an entry of a stream, as numbers."""
START: Place = (0, 0)
ID = r"^[0-9]{1,20}-[0-9]{1,20}$"
LARGEST = 2**64 - 1
STALLED_SECONDS = 60.0
"""A client that takes nothing for so long is gone."""
HEARTBEAT = b": still here\n\n"
RETRY = b"retry: 2000\n\n"
"""Milliseconds after which a browser that lost the connection comes again."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event, ready to be sent; `place` is None where it is of no stream."""

    place: Place | None
    chunk: bytes
    end: bytes | None = None
    """What is sent last, if the event says that the job has ended."""


def place_of(text: str) -> Place | None:
    """The place that an id stands for; None if it stands for none that there can be."""
    if not re.fullmatch(ID, text):
        return None
    time, number = map(int, text.split("-"))
    return (time, number) if max(time, number) <= LARGEST else None


def id_of(place: Place) -> str:
    """The id of a place."""
    return f"{place[0]}-{place[1]}"


def event_of_entry(entry: bytes, fields: Mapping[bytes, bytes]) -> Event | None:
    """An entry of a job's stream; None if another version wrote it in a form that this one does not know."""
    place = place_of(entry.decode())
    for kind in (STATE, PROGRESS):
        if (data := fields.get(kind.encode())) is not None:
            with suppress(ValidationError):
                told = JobProgress.of(JobRecord.model_validate_json(data))
                return Event(place, _chunk(kind, told.model_dump_json(), place), _end(told))
    if (data := fields.get(RULES.encode())) is not None:
        return Event(place, _chunk(RULES, data.decode(), place))
    return None


def event_of_job(job: JobDetails, place: Place | None) -> Event:
    """All that there is to say of a job, at a place of its stream."""
    return Event(place, _chunk(STATE, job.model_dump_json(), place), _end(job))


def gone_event(job: str) -> Event:
    """The job was forgotten while somebody followed it."""
    data = json.dumps({"id": job, "state": None, "digest": None, "reason": "The job was deleted."})
    return Event(None, b"", _chunk("end", data, None))


class EventStream(StreamingResponse):
    """The answer. `leave` is called when it is over, however it ends."""

    media_type = "text/event-stream"

    def __init__(self, chunks: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        super().__init__(chunks, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()

    async def stream_response(self, send: Send) -> None:
        """As chunks come; one that the client does not take in time is the last."""

        async def timely(message: object) -> None:
            async with timeout(STALLED_SECONDS):
                await send(message)  # type: ignore[arg-type]  # what Starlette gives is passed on

        with suppress(TimeoutError):
            await super().stream_response(timely)


def _end(job: JobProgress) -> bytes | None:
    if not JobState(job.state).ended:
        return None
    return _chunk("end", job.model_dump_json(include={"id", "state", "digest", "reason"}), None)


def _chunk(kind: str, data: str, place: Place | None) -> bytes:
    """JSON has no line breaks of its own, so that the data is one line."""
    number = "" if place is None else f"id: {id_of(place)}\n"
    return f"{number}event: {kind}\ndata: {data}\n\n".encode()


QUEUED = 200
"""Events that wait for one subscriber."""

ANEW, OVER = Event(None, b""), Event(None, b"")
"""Marks in a queue: begin anew with a snapshot; there will be no more."""


@dataclass(slots=True, eq=False)
class Subscriber:
    """One client that follows a job."""

    job: str
    authorization: str | None = field(repr=False)
    queue: asyncio.Queue[Event] = field(default_factory=lambda: asyncio.Queue(QUEUED), repr=False)
    over: bool = False

    def give(self, event: Event) -> None:
        """Put an event into the queue; who has no room for it is too slow, and let go."""
        try:
            self.queue.put_nowait(event)
        except asyncio.QueueFull:
            self.over = True

    def end(self) -> None:
        """There is no more for it, from now on."""
        self.over = True
        with suppress(asyncio.QueueFull):  # it does not wait for anything then
            self.queue.put_nowait(OVER)


@dataclass(slots=True)
class Channel:
    """The subscribers of one job."""

    subscribers: set[Subscriber] = field(default_factory=set)
    cursor: Place | None = None
    """All have what came up to here; None until the first of them has found out where the stream is."""


class Subscribers:
    """All clients of one server, by their jobs."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._channels: dict[str, Channel] = {}
        self._count = 0
        self._closed = False
        self.some = asyncio.Event()
        """Set while there are any."""

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Subscriber]:
        return (subscriber for channel in self._channels.values() for subscriber in channel.subscribers)

    @property
    def jobs(self) -> list[str]:
        """Those that somebody follows."""
        return list(self._channels)

    @property
    def cursors(self) -> dict[str, Place]:
        """Up to where the stream of each job was read, where that is known."""
        return {job: channel.cursor for job, channel in self._channels.items() if channel.cursor is not None}

    def join(self, job: str, authorization: str | None) -> Subscriber:
        """A place for one more client; it must `leave`."""
        if self._closed or self._count >= self._most:
            said = "The server is stopping." if self._closed else f"{self._count:,} clients follow events already."
            raise BusyError(said, remedy="Try again soon, or ask GET /v1/jobs/{id} now and then.")
        subscriber = Subscriber(job, authorization)
        self._channels.setdefault(job, Channel()).subscribers.add(subscriber)
        self._count += 1
        self.some.set()
        return subscriber

    def leave(self, subscriber: Subscriber) -> None:
        """The client is gone, or has been told everything."""
        channel = self._channels.get(subscriber.job)
        if channel is None or subscriber not in channel.subscribers:
            return
        channel.subscribers.remove(subscriber)
        self._count -= 1
        if not channel.subscribers:
            del self._channels[subscriber.job]
        if not self._channels:
            self.some.clear()

    def close(self) -> None:
        """End all, and take on no more."""
        self._closed = True
        for subscriber in self:
            subscriber.end()

    def end(self, authorizations: Collection[str | None]) -> None:
        """End those who came with one of these."""
        for subscriber in self:
            if subscriber.authorization in authorizations:
                subscriber.end()

    def set_out(self, job: str, place: Place) -> None:
        """Reading goes on from the place of whoever came first; others pass over what they have."""
        channel = self._channels.get(job)
        if channel is not None and channel.cursor is None:
            channel.cursor = place

    def begin_anew(self, jobs: Iterable[str]) -> None:
        """Tell the subscribers of these jobs that something may be missing."""
        for job in jobs:
            channel = self._channels.get(job)
            if channel is not None:
                channel.cursor = None
                _give(channel, ANEW)

    def deliver(self, job: str, place: Place, event: Event | None) -> None:
        """What stands in a job's stream at a place; None for what nobody understands."""
        channel = self._channels.get(job)
        if channel is not None and channel.cursor is not None and place > channel.cursor:
            channel.cursor = place
            if event is not None:
                _give(channel, event)


def _give(channel: Channel, event: Event) -> None:
    for subscriber in channel.subscribers:
        subscriber.give(event)
