"""`/v1/jobs/{job}/events`: what happens to a job, as it happens (server-sent events)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.errors import MaaboError
from scheduler.api.callers import Reader
from scheduler.api.fanout import Fanout
from scheduler.api.followers import ANEW, OVER, Follower
from scheduler.api.jobs import JobPath, owned
from scheduler.api.problems import documented
from scheduler.api.sse import HEARTBEAT, ID, RETRY, START, Event, EventStream, Place, place_of
from scheduler.api.state import service_of

logger = StructuredLogger("maabo.service.events")

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
    await run_in_threadpool(owned, service_of(request), caller, job)
    fanout: Fanout = request.app.state.fanout
    follower = fanout.followers.join(job, request.headers.get("authorization"))
    given = last or after
    chunks = followed(fanout, follower, None if given is None else place_of(given))
    return EventStream(chunks, lambda: fanout.followers.leave(follower))


async def followed(fanout: Fanout, follower: Follower, after: Place | None) -> AsyncIterator[bytes]:
    """What a client is sent, until its job has ended or it is let go."""
    yield RETRY
    async for event in _events(fanout, follower, after):
        if event.chunk:
            yield event.chunk
        if event.end is not None:
            yield event.end
            return


_BEAT = Event(None, HEARTBEAT)


async def _events(fanout: Fanout, follower: Follower, after: Place | None) -> AsyncIterator[Event]:
    """Each event once; what came again in a beginning is passed over."""
    place, event = START, ANEW
    while event is not OVER and not follower.over:
        if event is ANEW:
            try:
                beginning = await fanout.begin(follower.job, after)
            except MaaboError as error:  # no ledger: the client comes again, and is told then
                logger.warning("events ended", job=follower.job, reason=error)
                return
            after, place = None, beginning.place
            for first in _ended_last(beginning.events):
                yield first
        elif event.place is None:
            yield event
        elif event.place > place:
            place = event.place
            yield event
        event = await _next(follower)


def _ended_last(events: list[Event]) -> list[Event]:
    """The news of a job's end may be followed by more, which is sent before the stream ends."""
    ends = [event.end for event in events if event.end is not None]
    if not ends:
        return events
    plain = [Event(event.place, event.chunk) for event in events]
    return [*plain[:-1], Event(plain[-1].place, plain[-1].chunk, ends[-1])]


async def _next(follower: Follower) -> Event:
    try:
        async with asyncio.timeout(HEARTBEAT_SECONDS):
            return await follower.queue.get()
    except TimeoutError:
        return _BEAT
