"""Waiting for a job: by its events, and where there are none by looking now and then."""

from collections.abc import Callable
from time import monotonic

from maabo_dist.client.errors import JobFailedError, ProblemError, ServerUnreachableError, WaitTimeoutError
from maabo_dist.client.shapes import JobStatus
from maabo_dist.client.steps import Emit, Flow, Pause
from maabo_dist.client.stream import Deadline, Event, Place, heard
from maabo_dist.contract.job import JobState

LOOK_PAUSE = 1.0
LONGEST_LOOK_PAUSE = 10.0
OUTAGE_SECONDS = 60.0
"""Who has waited for hours does not give up because a server starts again."""

Look = Callable[[], Flow[JobStatus]]


def watched(path: str, look: Look, timeout: float | None = None, after: str | None = None) -> Flow[JobStatus]:
    """Emit the events of a job, and give its status when it has ended. `look` asks for the status.

    From a server without events, or through a proxy that keeps them, changes of the status stand for them.
    """
    deadline, place, pause = Deadline(timeout), Place(after), LOOK_PAUSE
    known: JobStatus | None = None
    while True:
        if place.supported:
            yield from heard(path, place, deadline)
        latest = yield from _patiently(look)
        if not place.supported and latest != known:
            yield Emit(Event(None, "status", latest.model_dump(mode="json")))
            pause = LOOK_PAUSE
        if latest.state.ended:
            return latest
        if deadline.over:
            raise WaitTimeoutError(latest.id, timeout or 0.0)
        known = latest
        yield Pause(min(pause, deadline.left))
        pause = min(LONGEST_LOOK_PAUSE, pause * 1.5)


def succeeded(status: JobStatus) -> JobStatus:
    """The status, if the job is done."""
    if status.state is JobState.DONE:
        return status
    raise JobFailedError(status.id, status.state.value, status.reason)


def _patiently(look: Look) -> Flow[JobStatus]:
    deadline = Deadline(OUTAGE_SECONDS, monotonic)
    while True:
        try:
            return (yield from look())
        except (ServerUnreachableError, ProblemError) as error:
            refused = isinstance(error, ProblemError) and error.status < 500
            if refused or deadline.over:
                raise
        yield Pause(LOOK_PAUSE)
