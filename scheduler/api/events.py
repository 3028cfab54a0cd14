"""`/v1/jobs/{job}/events`: the events of a job as they happen (server-sent events)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Annotated, Any

from fastapi import Header, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.errors import MaaboError
from scheduler.api.broadcaster import EventBroadcaster
from scheduler.api.dependencies import Reader
from scheduler.api.jobs import JobPath, find_job
from scheduler.api.problems import documented
from scheduler.api.routing import Router
from scheduler.api.subscribers import CLOSED, ID_PATTERN, RESTART, STREAM_START, StreamId, Subscriber, parse_id

logger = StructuredLogger("maabo.api.events")

router = Router(prefix="/v1/jobs", tags=["jobs"])

RETRY = b"retry: 2000\n\n"  # milliseconds after which a browser that lost the connection reconnects
STALLED_SECONDS = 60.0  # A client that accepts no data for this long is disconnected
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
    """Yield each event once, until the job has ended or the client is disconnected."""
    yield RETRY
    position, event = STREAM_START, RESTART
    while event is not CLOSED and not subscriber.closed:
        events = [event]
        if event is RESTART:
            try:
                events, position = await broadcaster.first_events(subscriber.job, after)
            except MaaboError as error:  # no ledger: the client reconnects, and then gets a problem document
                logger.warning("event stream closed", job=subscriber.job, reason=error)
                return
            after = None
        elif event.id is not None:
            events = [event] if event.id > position else []  # the first events include older ones
            position = max(position, event.id)
        for each in events:
            if each.chunk:
                yield each.chunk
        ends = [each.end for each in events if each.end is not None]
        if ends:  # sent last, since more events may follow the one that ends the job
            yield ends[-1]
            return
        event = await subscriber.next_event()
