"""`Fanout`: the events of all jobs that somebody follows, from Redis to every follower's queue.

    stream of job a ─┐                    ┌─► queue of a follower of a
    stream of job b ─┼─► one reader task ─┼─► queue of another
    …                ┘  (one connection)  └─► …

A process has one reader however many follow. A follower who is slow is let go, and may resume where it was. Whenever
events may be missing (Redis was emptied, or away for a while) all are told to begin anew, with a snapshot. One task for
all looks into the ledger now and then: for tokens that are of use no more, and for ends that nobody told of.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

import redis.asyncio
from redis import RedisError, ResponseError
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.streams import SOCKET_SECONDS
from maabo_dist.contract import names
from maabo_dist.errors import MaaboError
from scheduler.api.callers import still_valid
from scheduler.api.followers import Followers
from scheduler.api.snapshots import Snapshots
from scheduler.api.sse import START, Event, Place, event_of_entry, event_of_job, gone_event, id_of, place_of
from scheduler.api.state import Service

logger = StructuredLogger("maabo.service.events")

BLOCK = 250
"""Milliseconds that the reader waits: a job that is newly followed waits as long. Well below any time-out."""
ENTRIES = 100
LOOKUPS = 4
"""Connections for those who begin."""
PAUSE = 0.5
EPOCH_EVERY, CALLERS_EVERY, JOBS_EVERY = 1.0, 2.5, 5.0
"""Seconds between two looks: at whether Redis was emptied, for tokens, for jobs that have ended."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a follower is sent first; after that comes whatever is behind `place`."""

    events: list[Event]
    place: Place


class Fanout:
    """Started and closed with the application, in its event loop."""

    def __init__(self, service: Service) -> None:
        self._service, self._settings = service, service.parts.settings
        self.followers = Followers(service.settings.event_streams)
        self._snapshots = Snapshots(service)
        self._epoch: bytes | None = None
        self._next_epoch = 0.0
        self._disturbed = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "Fanout":
        self._reader, self._lookups = _open(self._settings.redis_url, 1), _open(self._settings.redis_url, LOOKUPS)
        self._tasks = [asyncio.create_task(work) for work in (self._read(), self._look())]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._reader.aclose()
        await self._lookups.aclose()

    def stop(self) -> None:
        """End all streams, and take on no more."""
        self.followers.close()

    # How a follower begins.

    async def begin(self, job: str, after: Place | None) -> Beginning:
        """All after a place if the stream still has it, else how the job stands now."""
        found = None if after is None else await self._resumed(job, after)
        if found is not None:
            self.followers.set_out(job, found.place)
            return found
        place = await self._last_place(job)
        now = await self._snapshots.of(job)  # not before: it must have all that is not behind `place`
        return Beginning([gone_event(job) if now is None else event_of_job(now, place)], place or START)

    async def _last_place(self, job: str) -> Place | None:
        """Where the stream is; None without Redis: the ledger has to do, and the reader says when there is more."""
        try:
            last = await self._lookups.xrevrange(self._key(job), count=1)
        except (RedisError, OSError):
            self._disturbed = True
            return None
        place = _place(last[0][0]) if last else START
        self.followers.set_out(job, place)
        return place

    async def _resumed(self, job: str, after: Place) -> Beginning | None:
        now = await self._snapshots.of(job)  # before: if it has ended, all but the news of that is in the stream
        try:
            entries = await self._lookups.xrange(self._key(job), min=id_of(after))
        except (RedisError, OSError):
            return None
        if not entries or _place(entries[0][0]) != after or now is None:
            return None
        place = _place(entries[-1][0])
        events = [event for entry in entries[1:] if (event := event_of_entry(*entry)) is not None]
        if now.state.ended and not any(event.end for event in events):
            events.append(event_of_job(now, place))
        return Beginning(events, place)

    # Events.

    async def _read(self) -> None:
        while True:
            await self.followers.some.wait()
            try:
                await self._turn()
            except (RedisError, OSError) as error:
                if not self._disturbed:
                    logger.warning("events cannot be read; trying again", reason=error)
                self._disturbed = True
                await asyncio.sleep(PAUSE)

    async def _turn(self) -> None:
        await self._check_epoch()
        streams = {self._key(job): id_of(place) for job, place in self.followers.cursors.items()}
        if not streams:  # those who follow are about to find out where to begin
            await asyncio.sleep(0.02)
            return
        for stream, entries in _pairs(await self._reader.xread(streams, count=ENTRIES, block=BLOCK)):
            job = stream.decode().rsplit(":", 1)[1]
            for entry in entries:
                self.followers.deliver(job, _place(entry[0]), event_of_entry(*entry))

    async def _check_epoch(self) -> None:
        """Whether Redis is still the one that it was, with all that was in it."""
        now = asyncio.get_running_loop().time()
        if now < self._next_epoch and not self._disturbed:
            return
        self._next_epoch = now + EPOCH_EVERY
        known, self._epoch = self._epoch, await self._current_epoch()
        if self._disturbed or (known is not None and self._epoch != known):
            self._disturbed = False
            self.followers.begin_anew(self.followers.jobs)

    async def _current_epoch(self) -> bytes | None:
        key = self._settings.key(names.EVENTS_EPOCH)
        found: bytes | None = await self._reader.get(key)
        if found is None:
            with suppress(ResponseError):  # Redis is full
                await self._reader.set(key, token_hex(8), nx=True)
            found = await self._reader.get(key)
        return found

    # The ledger.

    async def _look(self) -> None:
        loop, next_jobs = asyncio.get_running_loop(), 0.0
        while True:
            await asyncio.sleep(CALLERS_EVERY)
            try:
                if self.followers:
                    await self._check_callers()
                if self.followers and loop.time() >= next_jobs:
                    next_jobs = loop.time() + JOBS_EVERY
                    await self._check_jobs()
            except (MaaboError, OSError) as error:
                logger.warning("those who follow events could not be checked", reason=error)

    async def _check_callers(self) -> None:
        given = {follower.authorization for follower in self.followers}
        self.followers.end(await asyncio.to_thread(self._refused, given))

    def _refused(self, given: Collection[str | None]) -> set[str | None]:
        if not self._service.needs_tokens():
            return set()
        parts = self._service.parts
        now = parts.clock()
        return {text for text in given if not still_valid(parts.ledger.registry, text, now)}

    async def _check_jobs(self) -> None:
        """A job that has ended, and of whose end nobody told: Redis was away."""
        watched = self.followers.jobs
        rows = await asyncio.to_thread(self._service.parts.ledger.jobs, watched)
        going = {row.id for row in rows if not row.state.ended}
        self.followers.begin_anew(set(watched) - going)

    def _key(self, job: str) -> str:
        return self._settings.key(f"{names.JOB_EVENTS}:{job}")


def _open(url: str, connections: int) -> Any:
    """As `open_redis`. Who finds all connections taken waits."""
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        url,
        max_connections=connections,
        timeout=2 * SOCKET_SECONDS,
        socket_timeout=SOCKET_SECONDS,
        socket_connect_timeout=SOCKET_SECONDS,
        socket_keepalive=True,
        health_check_interval=5,
        retry=Retry(NoBackoff(), 1),
    )
    return redis.asyncio.Redis.from_pool(pool)


def _place(entry: bytes) -> Place:
    return place_of(entry.decode()) or START


def _pairs(found: Any) -> Any:
    """What XREAD gives: pairs or, in a newer protocol, a dictionary."""
    return found.items() if isinstance(found, dict) else found or ()
