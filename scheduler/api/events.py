"""`/v1/jobs/{job}/events`: what happens to a job, as it happens (server-sent events)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.errors import MaaboError
from scheduler.api.auth import Reader
from scheduler.api.broadcaster import EventBroadcaster
from scheduler.api.jobs import JobPath, owned
from scheduler.api.problems import documented
from scheduler.api.state import api_state
from scheduler.api.subscribers import (
    ANEW,
    HEARTBEAT,
    ID,
    OVER,
    RETRY,
    START,
    Event,
    EventStream,
    Place,
    Subscriber,
    place_of,
)

logger = StructuredLogger("maabo.api.events")

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

HEARTBEAT_SECONDS = 15.0
LastId = Annotated[str | None, Header(alias="Last-Event-ID", pattern=ID, description="As browsers send it.")]
After = Annotated[str | None, Query(pattern=ID, description="The same, where no header can be sent.")]
_EXAMPLE = 'id: 1763270000000-0\nevent: progress\ndata: {"id": "0123…", "state": "running", "trees": 1200, …}\n\n'
_ONE_EVENT = {
    "type": "object",
    "description": "One event of the stream.",
    "properties": {
        "id": {"type": "string", "pattern": ID},
        "event": {"enum": ["state", "progress", "rules", "end"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
        "retry": {"type": "integer"},
    },
}
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Events as they come; ends after the event `end`",
        "content": {"text/event-stream": {"schema": _ONE_EVENT, "example": _EXAMPLE}},
    },
    **documented("invalid-document", "unauthorized", "forbidden", "not-found", "busy"),
}


@router.get("/{job}/events", status_code=200, response_class=EventStream, response_model=None, responses=_STREAM)
async def follow_job(
    request: Request, job: JobPath, caller: Reader, last: LastId = None, after: After = None
) -> EventStream:
    """Follow a job: first how it stands (`state`), then what comes (`state`, `progress`, `rules`), and `end`.

    With the id of the last event that came, all after it, each once; or how the job stands now if that is too long ago.
    """
    await run_in_threadpool(owned, api_state(request), caller, job)
    broadcaster: EventBroadcaster = request.app.state.broadcaster
    subscriber = broadcaster.subscribers.join(job, request.headers.get("authorization"))
    given = last or after
    chunks = followed(broadcaster, subscriber, None if given is None else place_of(given))
    return EventStream(chunks, lambda: broadcaster.subscribers.leave(subscriber))


async def followed(broadcaster: EventBroadcaster, subscriber: Subscriber, after: Place | None) -> AsyncIterator[bytes]:
    """What a client is sent, until its job has ended or it is let go."""
    yield RETRY
    async for event in _events(broadcaster, subscriber, after):
        if event.chunk:
            yield event.chunk
        if event.end is not None:
            yield event.end
            return


_BEAT = Event(None, HEARTBEAT)


async def _events(broadcaster: EventBroadcaster, subscriber: Subscriber, after: Place | None) -> AsyncIterator[Event]:
    """Each event once; what came again in a beginning is passed over."""
    place, event = START, ANEW
    while event is not OVER and not subscriber.over:
        if event is ANEW:
            try:
                beginning = await broadcaster.begin(subscriber.job, after)
            except MaaboError as error:  # no ledger: the client comes again, and is told then
                logger.warning("events ended", job=subscriber.job, reason=error)
                return
            after, place = None, beginning.place
            for first in _ended_last(beginning.events):
                yield first
        elif event.place is None:
            yield event
        elif event.place > place:
            place = event.place
            yield event
        event = await _next(subscriber)


def _ended_last(events: list[Event]) -> list[Event]:
    """The news of a job's end may be followed by more, which is sent before the stream ends."""
    ends = [event.end for event in events if event.end is not None]
    if not ends:
        return events
    plain = [Event(event.place, event.chunk) for event in events]
    return [*plain[:-1], Event(plain[-1].place, plain[-1].chunk, ends[-1])]


async def _next(subscriber: Subscriber) -> Event:
    try:
        async with asyncio.timeout(HEARTBEAT_SECONDS):
            return await subscriber.queue.get()
    except TimeoutError:
        return _BEAT
