"""Clients that follow the events of jobs, each with a queue of its own.

The ID of an event is that of its entry in the job's stream in Redis, so any API process can resume after it.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from scheduler.api.problems import BusyError

StreamId = tuple[int, int]  # the ID of an entry of a Redis stream, as numbers
STREAM_START: StreamId = (0, 0)
ID_PATTERN = r"^[0-9]{1,20}-[0-9]{1,20}$"
MAX_ID = 2**64 - 1
MAX_QUEUED = 200  # events that may wait for one subscriber
HEARTBEAT_SECONDS = 15.0


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
        self._closed = False
        self.present = asyncio.Event()  # set while there are any

    def __len__(self) -> int:
        return sum(len(job.subscribers) for job in self._jobs.values())

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
        if self._closed or len(self) >= self._max_count:
            detail = "The server is stopping." if self._closed else f"{len(self):,} clients follow events already."
            raise BusyError(detail, remedy="Try again soon, or poll GET /v1/jobs/{id}.")
        subscriber = Subscriber(job, authorization)
        self._jobs.setdefault(job, JobSubscribers()).subscribers.add(subscriber)
        self.present.set()
        return subscriber

    def remove(self, subscriber: Subscriber) -> None:
        """Remove a client that is gone or finished."""
        job = self._jobs.get(subscriber.job)
        if job is None or subscriber not in job.subscribers:
            return
        job.subscribers.remove(subscriber)
        if not job.subscribers:
            del self._jobs[subscriber.job]
        if not self._jobs:
            self.present.clear()

    def close(self) -> None:
        """Disconnect all clients and accept no more."""
        self._closed = True
        for subscriber in self:
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
