"""`EventBroadcaster`: passes the events of jobs from Redis to the queues of all subscribers.

    stream of job a ─┐                    ┌─► queue of a subscriber of a
    stream of job b ─┼─► one reader task ─┼─► queue of another
    …                ┘  (one connection)  └─► …

Each API process has one reader, whatever the number of subscribers. A slow subscriber is disconnected, and can resume.
Whenever events may be missing (Redis was emptied or unavailable), all subscribers start again with a snapshot. Another
task checks the ledger periodically for revoked tokens and for jobs that ended without an event.
"""

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Any

import redis.asyncio
from pydantic_core import from_json
from redis import RedisError, ResponseError
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.streams import SOCKET_SECONDS
from maabo_dist.contract import names
from maabo_dist.contract.api import JobProgress
from maabo_dist.contract.job import JobRecord, JobState
from maabo_dist.errors import MaaboError
from scheduler.api.dependencies import ApiState, find_token
from scheduler.api.details import JobDetails, all_details, progress_fields
from scheduler.api.problems import UnauthorizedError
from scheduler.api.subscribers import STREAM_START, Event, StreamId, Subscribers, format_id, parse_id
from scheduler.messaging.publishers import PROGRESS, RULES, STATE

logger = StructuredLogger("maabo.api.events")

# Maximum duration of a read, and so the delay until new jobs are included. Well below all timeouts.
BLOCK_MILLISECONDS = 250
MAX_ENTRIES = 100
LOOKUP_CONNECTIONS = 4
RETRY_SECONDS = 0.5
IDLE_SECONDS = 0.02
# Intervals of the checks for an emptied Redis, for revoked tokens and for ended jobs.
EPOCH_SECONDS, TOKEN_SECONDS, JOB_SECONDS = 1.0, 2.5, 5.0


class EventBroadcaster:
    """Runs in the event loop of the application, for as long as it is running."""

    def __init__(self, api: ApiState) -> None:
        self._api, self._settings = api, api.resources.settings
        self.subscribers = Subscribers(api.settings.event_streams)
        # Identifies the content of Redis, which is lost together with it; None before the first check.
        self.epoch: bytes | None = None
        self._next_epoch_check = 0.0
        self._interrupted = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "EventBroadcaster":
        url = self._settings.redis_url
        self._reader, self._lookups = _open_redis(url, 1), _open_redis(url, LOOKUP_CONNECTIONS)
        self._tasks = [asyncio.create_task(work) for work in (self._read_events(), self._check_ledger())]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.subscribers.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._reader.aclose()
        await self._lookups.aclose()

    # First events of a subscriber

    async def first_events(self, job: str, after: StreamId | None) -> tuple[list[Event], StreamId]:
        """Return the first events of a subscriber and the position after which its queue continues.

        These are all events after `after`, if the stream still has it, or else a snapshot of the job.
        """
        try:
            return await self._find_first_events(job, after)
        finally:
            self._api.forget()  # a client that knows the new state must not read the former one

    async def _find_first_events(self, job: str, after: StreamId | None) -> tuple[list[Event], StreamId]:
        resumed = None if after is None else await self._resume(job, after)
        if resumed is not None:
            self.subscribers.start_reading(job, resumed[1])
            return resumed
        position = await self._stream_end(job)
        details = await self._api.call(_load_details, job)  # afterwards: it must include everything up to `position`
        event = encode_deleted(job) if details is None else encode_snapshot(details, position)
        return [event], position or STREAM_START

    async def _stream_end(self, job: str) -> StreamId | None:
        """Return the last ID of the stream; None without Redis, when a restart follows once it is back."""
        try:
            last = await self._lookups.xrevrange(self._key(job), count=1)
        except (RedisError, OSError):
            self._interrupted = True
            return None
        position = _entry_id(last[0]) if last else STREAM_START
        self.subscribers.start_reading(job, position)
        return position

    async def _resume(self, job: str, after: StreamId) -> tuple[list[Event], StreamId] | None:
        # Loaded before the events: if the job has ended, at most the end itself is not in the stream.
        details = await self._api.call(_load_details, job)
        try:
            entries = await self._lookups.xrange(self._key(job), min=format_id(after))
        except (RedisError, OSError):
            return None
        if not entries or _entry_id(entries[0]) != after or details is None:
            return None
        position = _entry_id(entries[-1])
        events = [event for entry in entries[1:] if (event := encode_entry(*entry)) is not None]
        if details.state.ended and not any(event.end for event in events):
            events.append(encode_snapshot(details, position))
        return events, position

    # Events in Redis

    async def _read_events(self) -> None:
        while True:
            await self.subscribers.present.wait()
            try:
                await self._read_once()
            except (RedisError, OSError) as error:
                if not self._interrupted:
                    logger.warning("events cannot be read; trying again", reason=error)
                self._interrupted = True
                await asyncio.sleep(RETRY_SECONDS)

    async def _read_once(self) -> None:
        await self._check_epoch()
        streams = {self._key(job): format_id(cursor) for job, cursor in self.subscribers.cursors.items()}
        if not streams:  # all subscribers are about to look up their first events
            await asyncio.sleep(IDLE_SECONDS)
            return
        answer = await self._reader.xread(streams, count=MAX_ENTRIES, block=BLOCK_MILLISECONDS)
        # Pairs or, in a newer protocol, a dictionary.
        for stream, entries in answer.items() if isinstance(answer, dict) else answer or ():
            job = stream.decode().rsplit(":", 1)[1]
            for entry in entries:
                if STATE.encode() in entry[1]:
                    self._api.forget()  # as after the first events
                self.subscribers.deliver(job, _entry_id(entry), encode_entry(*entry))

    async def _check_epoch(self) -> None:
        """Restart all subscribers if Redis was emptied or unavailable."""
        now = asyncio.get_running_loop().time()
        if now < self._next_epoch_check and not self._interrupted:
            return
        self._next_epoch_check = now + EPOCH_SECONDS
        key, previous = self._settings.key(names.EVENTS_EPOCH), self.epoch
        self.epoch = await self._reader.get(key)
        if self.epoch is None:
            with suppress(ResponseError):  # Redis is full
                await self._reader.set(key, token_hex(8), nx=True)
            self.epoch = await self._reader.get(key)
        if self._interrupted or (previous is not None and self.epoch != previous):
            self._interrupted = False
            self.subscribers.restart(self.subscribers.jobs)

    # The ledger

    async def _check_ledger(self) -> None:
        loop, next_jobs = asyncio.get_running_loop(), 0.0
        while True:
            await asyncio.sleep(TOKEN_SECONDS)
            try:
                if self.subscribers:
                    authorizations = {subscriber.authorization for subscriber in self.subscribers}
                    needed = await self._api.needs_tokens()
                    invalid = await asyncio.to_thread(self._find_invalid, authorizations) if needed else set()
                    for subscriber in self.subscribers:
                        if subscriber.authorization in invalid:
                            subscriber.close()
                if self.subscribers and loop.time() >= next_jobs:
                    next_jobs = loop.time() + JOB_SECONDS
                    # Restart the subscribers of jobs that have ended, in case the event was lost.
                    jobs = self.subscribers.jobs
                    rows = await asyncio.to_thread(self._api.ledger.jobs.get_many, jobs)
                    self.subscribers.restart(set(jobs) - {row.id for row in rows if not row.state.ended})
            except (MaaboError, OSError) as error:
                logger.warning("event subscribers could not be checked", reason=error)

    def _find_invalid(self, authorizations: Collection[str | None]) -> set[str | None]:
        invalid = set()
        for authorization in authorizations:
            try:
                find_token(self._api.ledger, authorization, self._api.resources.clock())
            except UnauthorizedError:
                invalid.add(authorization)
        return invalid

    def _key(self, job: str) -> str:
        return self._settings.key(f"{names.JOB_EVENTS}:{job}")


def _load_details(api: ApiState, jobs: Sequence[str]) -> dict[str, JobDetails]:
    rows = api.ledger.jobs.get_many(jobs)
    return {row.id: details for row, details in zip(rows, all_details(api, rows), strict=True)}


def encode_entry(entry: bytes, fields: Mapping[bytes, bytes]) -> Event | None:
    """Encode an entry of a job's stream; None if it has an unknown form, because another version wrote it."""
    id_ = parse_id(entry.decode())
    for kind in (STATE, PROGRESS):
        if (data := fields.get(kind.encode())) is not None:
            with suppress(ValueError):
                job = JobProgress(**progress_fields(JobRecord.model_validate_json(data)))
                return Event(id_, _encode(kind, job.model_dump_json(exclude={"tenant"}), id_), _encode_end(job))
    if (data := fields.get(RULES.encode())) is not None:
        with suppress(ValueError):
            return Event(id_, _encode(RULES, json.dumps(from_json(data)), id_))
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


def _open_redis(url: str, connections: int) -> Any:
    """Open a pool whose users wait while all connections are in use."""
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


def _entry_id(entry: Any) -> StreamId:
    return parse_id(entry[0].decode()) or STREAM_START
