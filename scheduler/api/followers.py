"""`Followers`: the clients that follow jobs, each with a queue of its own. Nothing here waits for anybody."""

import asyncio
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from scheduler.api.problems import BusyError
from scheduler.api.sse import Event, Place

QUEUED = 200
"""Events that wait for one follower."""

ANEW, OVER = Event(None, b""), Event(None, b"")
"""Marks in a queue: begin anew with a snapshot; there will be no more."""


@dataclass(slots=True, eq=False)
class Follower:
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
    """The followers of one job."""

    followers: set[Follower] = field(default_factory=set)
    cursor: Place | None = None
    """All have what came up to here; None until the first of them has found out where the stream is."""


class Followers:
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

    def __iter__(self) -> Iterator[Follower]:
        return (follower for channel in self._channels.values() for follower in channel.followers)

    @property
    def jobs(self) -> list[str]:
        """Those that somebody follows."""
        return list(self._channels)

    @property
    def cursors(self) -> dict[str, Place]:
        """Up to where the stream of each job was read, where that is known."""
        return {job: channel.cursor for job, channel in self._channels.items() if channel.cursor is not None}

    def join(self, job: str, authorization: str | None) -> Follower:
        """A place for one more client; it must `leave`."""
        if self._closed or self._count >= self._most:
            said = "The server is stopping." if self._closed else f"{self._count:,} clients follow events already."
            raise BusyError(said, remedy="Try again soon, or ask GET /v1/jobs/{id} now and then.")
        follower = Follower(job, authorization)
        self._channels.setdefault(job, Channel()).followers.add(follower)
        self._count += 1
        self.some.set()
        return follower

    def leave(self, follower: Follower) -> None:
        """The client is gone, or has been told everything."""
        channel = self._channels.get(follower.job)
        if channel is None or follower not in channel.followers:
            return
        channel.followers.remove(follower)
        self._count -= 1
        if not channel.followers:
            del self._channels[follower.job]
        if not self._channels:
            self.some.clear()

    def close(self) -> None:
        """End all, and take on no more."""
        self._closed = True
        for follower in self:
            follower.end()

    def end(self, authorizations: Collection[str | None]) -> None:
        """End those who came with one of these."""
        for follower in self:
            if follower.authorization in authorizations:
                follower.end()

    def set_out(self, job: str, place: Place) -> None:
        """Reading goes on from the place of whoever came first; others pass over what they have."""
        channel = self._channels.get(job)
        if channel is not None and channel.cursor is None:
            channel.cursor = place

    def begin_anew(self, jobs: Iterable[str]) -> None:
        """Tell the followers of these jobs that something may be missing."""
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
    for follower in channel.followers:
        follower.give(event)
