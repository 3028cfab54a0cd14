"""Clients that follow the events of jobs, each with a queue of its own, and the encoding of events for them.

The ID of an event is that of its entry in the job's stream in Redis, so any API process can resume after it.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from fastapi.responses import StreamingResponse
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from maabo_dist.contract.api import JobProgress
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import JobRecord
from scheduler.api.models import JobDetails, job_progress
from scheduler.api.problems import BusyError
from scheduler.messaging.status import PROGRESS, RULES, STATE

StreamId = tuple[int, int]  # the ID of an entry of a Redis stream, as numbers
STREAM_START: StreamId = (0, 0)
ID_PATTERN = r"^[0-9]{1,20}-[0-9]{1,20}$"
MAX_ID = 2**64 - 1
STALLED_SECONDS = 60.0  # A client that accepts no data for this long is disconnected
MAX_QUEUED = 200  # events that may wait for one subscriber
HEARTBEAT_SECONDS = 15.0
RETRY = b"retry: 2000\n\n"  # milliseconds after which a browser that lost the connection reconnects


@dataclass(frozen=True, slots=True)
class Event:
    """An encoded event; `id` is None if it does not come from a stream."""

    id: StreamId | None
    chunk: bytes
    end: bytes | None = None  # the last event of the stream, if this event ends the job


# Markers in a queue: start again with a snapshot; no more events will follow.
RESTART, CLOSED = Event(None, b""), Event(None, b"")
_HEARTBEAT = Event(None, b": still here\n\n")


def parse_id(text: str) -> StreamId | None:
    """Return the ID as numbers; None if it is not valid."""
    if not re.fullmatch(ID_PATTERN, text):
        return None
    time, number = map(int, text.split("-"))
    return (time, number) if max(time, number) <= MAX_ID else None


def format_id(id_: StreamId) -> str:
    """Return the ID as Redis and clients write it."""
    return f"{id_[0]}-{id_[1]}"


def encode_entry(entry: bytes, fields: Mapping[bytes, bytes]) -> Event | None:
    """Encode an entry of a job's stream; None if another version wrote it in an unknown form."""
    id_ = parse_id(entry.decode())
    for kind in (STATE, PROGRESS):
        if (data := fields.get(kind.encode())) is not None:
            with suppress(ValidationError):
                job = job_progress(JobRecord.model_validate_json(data))
                return Event(id_, _encode(kind, job.model_dump_json(exclude={"tenant"}), id_), _encode_end(job))
    if (data := fields.get(RULES.encode())) is not None:
        return Event(id_, _encode(RULES, data.decode(), id_))
    return None


def encode_snapshot(job: JobDetails, id_: StreamId | None) -> Event:
    """Encode everything about a job, as of an entry of its stream."""
    return Event(id_, _encode(STATE, job.model_dump_json(), id_), _encode_end(job))


def encode_deleted(job: str) -> Event:
    """Encode the end of a job that was deleted."""
    data = json.dumps({"id": job, "state": None, "digest": None, "reason": "The job was deleted."})
    return Event(None, b"", _encode("end", data, None))


def _encode_end(job: JobProgress) -> bytes | None:
    if not JobState(job.state).ended:
        return None
    return _encode("end", job.model_dump_json(include={"id", "state", "digest", "reason"}), None)


def _encode(kind: str, data: str, id_: StreamId | None) -> bytes:
    """`data` is JSON without line breaks, so it is one line."""
    header = "" if id_ is None else f"id: {format_id(id_)}\n"
    return f"{header}event: {kind}\ndata: {data}\n\n".encode()


class EventStream(StreamingResponse):
    """A response of server-sent events. `on_close` is called however it ends."""

    media_type = "text/event-stream"

    def __init__(self, chunks: AsyncIterator[bytes], on_close: Callable[[], None]) -> None:
        super().__init__(chunks, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._on_close = on_close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_close()

    async def stream_response(self, send: Send) -> None:
        """Send chunks until the client fails to accept one in time."""

        async def send_in_time(message: object) -> None:
            async with asyncio.timeout(STALLED_SECONDS):
                await send(message)  # type: ignore[arg-type]  # messages of Starlette are passed on

        with suppress(TimeoutError):
            await super().stream_response(send_in_time)


@dataclass(slots=True, eq=False)
class Subscriber:
    """One client that follows a job."""

    job: str
    authorization: str | None = field(repr=False)
    queue: asyncio.Queue[Event] = field(default_factory=lambda: asyncio.Queue(MAX_QUEUED), repr=False)
    closed: bool = False

    def put(self, event: Event) -> None:
        """Queue an event; a subscriber with a full queue is too slow and is disconnected."""
        try:
            self.queue.put_nowait(event)
        except asyncio.QueueFull:
            self.closed = True

    async def next_event(self) -> Event:
        """Return the next event, or a heartbeat if there is none for a while."""
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                return await self.queue.get()
        except TimeoutError:
            return _HEARTBEAT

    def close(self) -> None:
        """Disconnect the client."""
        self.closed = True
        with suppress(asyncio.QueueFull):  # then it is not waiting, and checks `closed` before it does
            self.queue.put_nowait(CLOSED)


@dataclass(slots=True)
class JobSubscribers:
    """The subscribers of one job."""

    subscribers: set[Subscriber] = field(default_factory=set)
    # All have the events up to here; None until the first of them has found the end of the stream.
    cursor: StreamId | None = None

    def put(self, event: Event) -> None:
        """Queue an event for all of them."""
        for subscriber in self.subscribers:
            subscriber.put(event)


class Subscribers:
    """All subscribers of one API process, by job. No method blocks."""

    def __init__(self, max_count: int) -> None:
        self._max_count = max_count
        self._jobs: dict[str, JobSubscribers] = {}
        self._count = 0
        self._closed = False
        self.present = asyncio.Event()  # set while there are any

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Subscriber]:
        return (subscriber for job in self._jobs.values() for subscriber in job.subscribers)

    @property
    def jobs(self) -> list[str]:
        """The jobs that have subscribers."""
        return list(self._jobs)

    @property
    def cursors(self) -> dict[str, StreamId]:
        """The last entry read of each job's stream, where it is known."""
        return {name: job.cursor for name, job in self._jobs.items() if job.cursor is not None}

    def add(self, job: str, authorization: str | None) -> Subscriber:
        """Add a client; the caller must `remove` it."""
        if self._closed or self._count >= self._max_count:
            detail = "The server is stopping." if self._closed else f"{self._count:,} clients follow events already."
            raise BusyError(detail, remedy="Try again soon, or poll GET /v1/jobs/{id}.")
        subscriber = Subscriber(job, authorization)
        self._jobs.setdefault(job, JobSubscribers()).subscribers.add(subscriber)
        self._count += 1
        self.present.set()
        return subscriber

    def remove(self, subscriber: Subscriber) -> None:
        """Remove a client that is gone or finished."""
        job = self._jobs.get(subscriber.job)
        if job is None or subscriber not in job.subscribers:
            return
        job.subscribers.remove(subscriber)
        self._count -= 1
        if not job.subscribers:
            del self._jobs[subscriber.job]
        if not self._jobs:
            self.present.clear()

    def close(self) -> None:
        """Disconnect all clients and accept no more."""
        self._closed = True
        for subscriber in self:
            subscriber.close()

    def close_authorized_by(self, authorizations: Collection[str | None]) -> None:
        """Disconnect the clients that sent one of these `Authorization` headers."""
        for subscriber in self:
            if subscriber.authorization in authorizations:
                subscriber.close()

    def start_reading(self, job: str, cursor: StreamId) -> None:
        """Set the cursor of a job that has none; its subscribers skip what they have."""
        subscribers = self._jobs.get(job)
        if subscribers is not None and subscribers.cursor is None:
            subscribers.cursor = cursor

    def restart(self, jobs: Iterable[str]) -> None:
        """Make the subscribers of these jobs start again with a snapshot, because events may be missing."""
        for job in jobs:
            subscribers = self._jobs.get(job)
            if subscribers is not None:
                subscribers.cursor = None
                subscribers.put(RESTART)

    def deliver(self, job: str, id_: StreamId, event: Event | None) -> None:
        """Advance the cursor of a job to this entry, and queue its event unless it is None."""
        subscribers = self._jobs.get(job)
        if subscribers is not None and subscribers.cursor is not None and id_ > subscribers.cursor:
            subscribers.cursor = id_
            if event is not None:
                subscribers.put(event)
