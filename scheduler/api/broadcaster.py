"""`JobSnapshots`: jobs as they are now, for many that ask at once, with one thread and a query for all of them."""

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
from scheduler.api.auth import still_valid
from scheduler.api.jobs import details
from scheduler.api.models import JobDetails
from scheduler.api.state import ApiState
from scheduler.api.subscribers import (
    START,
    Event,
    Place,
    Subscribers,
    event_of_entry,
    event_of_job,
    gone_event,
    id_of,
    place_of,
)


class JobSnapshots:
    """Who asks gets what was looked up after asking, never before; those who ask meanwhile are served together."""

    def __init__(self, api: ApiState) -> None:
        self._api = api
        self._asked: dict[str, asyncio.Future[JobDetails | None]] = {}
        self._serving: asyncio.Task[None] | None = None

    async def of(self, job: str) -> JobDetails | None:
        """One job; None if it is gone."""
        if job not in self._asked:
            self._asked[job] = asyncio.get_running_loop().create_future()
        answer = self._asked[job]
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        return await asyncio.shield(answer)  # others wait for it too

    async def _serve(self) -> None:
        while self._asked:
            asked, self._asked = self._asked, {}
            try:
                found = await asyncio.to_thread(self._look, list(asked))
            except Exception as error:  # noqa: BLE001 - it is for those who asked, and the next are served anyway
                _fail(asked, error)
                continue
            for job, answer in asked.items():
                answer.set_result(found.get(job))

    def _look(self, jobs: list[str]) -> dict[str, JobDetails]:
        return {row.id: details(self._api, row) for row in self._api.resources.ledger.jobs.get_many(jobs)}


def _fail(asked: dict[str, "asyncio.Future[JobDetails | None]"], error: Exception) -> None:
    for answer in asked.values():
        answer.set_exception(error)
        answer.exception()  # whoever asked may have left


logger = StructuredLogger("maabo.api.events")

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
    """What a subscriber is sent first; after that comes whatever is behind `place`."""

    events: list[Event]
    place: Place


class EventBroadcaster:
    """Started and closed with the application, in its event loop."""

    def __init__(self, api: ApiState) -> None:
        self._api, self._settings = api, api.resources.settings
        self.subscribers = Subscribers(api.settings.event_streams)
        self._snapshots = JobSnapshots(api)
        self._epoch: bytes | None = None
        self._next_epoch = 0.0
        self._disturbed = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "EventBroadcaster":
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
        self.subscribers.close()

    # How a subscriber begins.

    async def begin(self, job: str, after: Place | None) -> Beginning:
        """All after a place if the stream still has it, else how the job stands now."""
        found = None if after is None else await self._resumed(job, after)
        if found is not None:
            self.subscribers.set_out(job, found.place)
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
        self.subscribers.set_out(job, place)
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
            await self.subscribers.some.wait()
            try:
                await self._turn()
            except (RedisError, OSError) as error:
                if not self._disturbed:
                    logger.warning("events cannot be read; trying again", reason=error)
                self._disturbed = True
                await asyncio.sleep(PAUSE)

    async def _turn(self) -> None:
        await self._check_epoch()
        streams = {self._key(job): id_of(place) for job, place in self.subscribers.cursors.items()}
        if not streams:  # those who follow are about to find out where to begin
            await asyncio.sleep(0.02)
            return
        for stream, entries in _pairs(await self._reader.xread(streams, count=ENTRIES, block=BLOCK)):
            job = stream.decode().rsplit(":", 1)[1]
            for entry in entries:
                self.subscribers.deliver(job, _place(entry[0]), event_of_entry(*entry))

    async def _check_epoch(self) -> None:
        """Whether Redis is still the one that it was, with all that was in it."""
        now = asyncio.get_running_loop().time()
        if now < self._next_epoch and not self._disturbed:
            return
        self._next_epoch = now + EPOCH_EVERY
        known, self._epoch = self._epoch, await self._current_epoch()
        if self._disturbed or (known is not None and self._epoch != known):
            self._disturbed = False
            self.subscribers.begin_anew(self.subscribers.jobs)

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
                if self.subscribers:
                    await self._check_callers()
                if self.subscribers and loop.time() >= next_jobs:
                    next_jobs = loop.time() + JOBS_EVERY
                    await self._check_jobs()
            except (MaaboError, OSError) as error:
                logger.warning("those who follow events could not be checked", reason=error)

    async def _check_callers(self) -> None:
        given = {subscriber.authorization for subscriber in self.subscribers}
        self.subscribers.end(await asyncio.to_thread(self._refused, given))

    def _refused(self, given: Collection[str | None]) -> set[str | None]:
        if not self._api.needs_tokens():
            return set()
        resources = self._api.resources
        now = resources.clock()
        return {text for text in given if not still_valid(resources.ledger, text, now)}

    async def _check_jobs(self) -> None:
        """A job that has ended, and of whose end nobody told: Redis was away."""
        watched = self.subscribers.jobs
        rows = await asyncio.to_thread(self._api.resources.ledger.jobs.get_many, watched)
        going = {row.id for row in rows if not row.state.ended}
        self.subscribers.begin_anew(set(watched) - going)

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
