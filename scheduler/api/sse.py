"""Server-sent events: how an event is written for a client, and the answer that carries them.

The id of an event is that of its entry in the job's stream in Redis, so that any server can resume after it.
"""

import json
import re
from asyncio import timeout
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from fastapi.responses import StreamingResponse
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import JobRecord
from scheduler.api.shapes import JobDetails, JobProgress
from scheduler.messaging.status import PROGRESS, RULES, STATE

Place = tuple[int, int]
"""The id of an entry of a stream, as numbers."""
START: Place = (0, 0)
ID = r"^[0-9]{1,20}-[0-9]{1,20}$"
LARGEST = 2**64 - 1
STALLED_SECONDS = 60.0
"""A client that takes nothing for so long is gone."""
HEARTBEAT = b": still here\n\n"
RETRY = b"retry: 2000\n\n"
"""Milliseconds after which a browser that lost the connection comes again."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event, ready to be sent; `place` is None where it is of no stream."""

    place: Place | None
    chunk: bytes
    end: bytes | None = None
    """What is sent last, if the event says that the job has ended."""


def place_of(text: str) -> Place | None:
    """The place that an id stands for; None if it stands for none that there can be."""
    if not re.fullmatch(ID, text):
        return None
    time, number = map(int, text.split("-"))
    return (time, number) if max(time, number) <= LARGEST else None


def id_of(place: Place) -> str:
    """The id of a place."""
    return f"{place[0]}-{place[1]}"


def event_of_entry(entry: bytes, fields: Mapping[bytes, bytes]) -> Event | None:
    """An entry of a job's stream; None if another version wrote it in a form that this one does not know."""
    place = place_of(entry.decode())
    for kind in (STATE, PROGRESS):
        if (data := fields.get(kind.encode())) is not None:
            with suppress(ValidationError):
                told = JobProgress.of(JobRecord.model_validate_json(data))
                return Event(place, _chunk(kind, told.model_dump_json(), place), _end(told))
    if (data := fields.get(RULES.encode())) is not None:
        return Event(place, _chunk(RULES, data.decode(), place))
    return None


def event_of_job(job: JobDetails, place: Place | None) -> Event:
    """All that there is to say of a job, at a place of its stream."""
    return Event(place, _chunk(STATE, job.model_dump_json(), place), _end(job))


def gone_event(job: str) -> Event:
    """The job was forgotten while somebody followed it."""
    data = json.dumps({"id": job, "state": None, "digest": None, "reason": "The job was deleted."})
    return Event(None, b"", _chunk("end", data, None))


class EventStream(StreamingResponse):
    """The answer. `leave` is called when it is over, however it ends."""

    media_type = "text/event-stream"

    def __init__(self, chunks: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        super().__init__(chunks, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()

    async def stream_response(self, send: Send) -> None:
        """As chunks come; one that the client does not take in time is the last."""

        async def timely(message: object) -> None:
            async with timeout(STALLED_SECONDS):
                await send(message)  # type: ignore[arg-type]  # what Starlette gives is passed on

        with suppress(TimeoutError):
            await super().stream_response(timely)


def _end(job: JobProgress) -> bytes | None:
    if not JobState(job.state).ended:
        return None
    return _chunk("end", job.model_dump_json(include={"id", "state", "digest", "reason"}), None)


def _chunk(kind: str, data: str, place: Place | None) -> bytes:
    """JSON has no line breaks of its own, so that the data is one line."""
    number = "" if place is None else f"id: {id_of(place)}\n"
    return f"{number}event: {kind}\ndata: {data}\n\n".encode()
