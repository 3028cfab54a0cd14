"""`/v1/jobs/{job}/events`: the events of a job as they happen (server-sent events)."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from starlette.concurrency import run_in_threadpool

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.errors import MaaboError
from scheduler.api.auth import Reader
from scheduler.api.broadcaster import EventBroadcaster
from scheduler.api.jobs import JobPath, find_job
from scheduler.api.problems import documented
from scheduler.api.subscribers import (
    CLOSED,
    ID_PATTERN,
    RESTART,
    RETRY,
    STREAM_START,
    Event,
    EventStream,
    StreamId,
    Subscriber,
    parse_id,
)

logger = StructuredLogger("maabo.api.events")

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

LastId = Annotated[str | None, Header(alias="Last-Event-ID", pattern=ID_PATTERN, description="As browsers send it.")]
After = Annotated[str | None, Query(pattern=ID_PATTERN, description="The same, for clients that cannot set headers.")]
_EXAMPLE = 'id: 1763270000000-0\nevent: progress\ndata: {"id": "0123…", "state": "running", "trees": 1200, …}\n\n'
_ONE_EVENT = {
    "type": "object",
    "description": "One event of the stream.",
    "properties": {
        "id": {"type": "string", "pattern": ID_PATTERN},
        "event": {"enum": ["state", "progress", "rules", "end"]},
        "data": {"type": "string", "contentMediaType": "application/json"},
        "retry": {"type": "integer"},
    },
}
_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "A stream of events, which ends after the event `end`",
        "content": {"text/event-stream": {"schema": _ONE_EVENT, "example": _EXAMPLE}},
    },
    **documented("not-found", "busy"),
}


@router.get("/{job}/events", status_code=200, response_class=EventStream, response_model=None, responses=_STREAM)
async def follow_job(
    request: Request, job: JobPath, caller: Reader, last: LastId = None, after: After = None
) -> EventStream:
    """Follow a job: first its current state (`state`), then changes (`state`, `progress`, `rules`), finally `end`.

    With the ID of the last event received, the stream continues after it without gaps or repetitions. If that event is
    no longer available, the stream starts with the current state.
    """
    await run_in_threadpool(find_job, caller, job)
    broadcaster: EventBroadcaster = request.app.state.broadcaster
    subscriber = broadcaster.subscribers.add(job, request.headers.get("authorization"))
    last_id = last or after
    chunks = _chunks(broadcaster, subscriber, None if last_id is None else parse_id(last_id))
    return EventStream(chunks, lambda: broadcaster.subscribers.remove(subscriber))


async def _chunks(
    broadcaster: EventBroadcaster, subscriber: Subscriber, after: StreamId | None
) -> AsyncIterator[bytes]:
    """Yield what the client is sent until the job has ended or the client is disconnected."""
    yield RETRY
    async for event in _events(broadcaster, subscriber, after):
        if event.chunk:
            yield event.chunk
        if event.end is not None:
            yield event.end
            return


async def _events(
    broadcaster: EventBroadcaster, subscriber: Subscriber, after: StreamId | None
) -> AsyncIterator[Event]:
    """Yield each event once; queued events that the first events already cover are skipped."""
    position, event = STREAM_START, RESTART
    while event is not CLOSED and not subscriber.closed:
        if event is RESTART:
            try:
                first = await broadcaster.first_events(subscriber.job, after)
            except MaaboError as error:  # no ledger: the client reconnects, and then gets a problem document
                logger.warning("event stream closed", job=subscriber.job, reason=error)
                return
            after, position = None, first.position
            for each in _end_last(first.events):
                yield each
        elif event.id is None:
            yield event
        elif event.id > position:
            position = event.id
            yield event
        event = await subscriber.next_event()


def _end_last(events: list[Event]) -> list[Event]:
    """Move the end of the job behind all events, since some may follow the one that ends the job."""
    ends = [event.end for event in events if event.end is not None]
    if not ends:
        return events
    plain = [Event(event.id, event.chunk) for event in events]
    return [*plain[:-1], Event(plain[-1].id, plain[-1].chunk, ends[-1])]
