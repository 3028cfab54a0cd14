"""Values that the client returns. Those that the service fills are declared in `maabo_dist.contract.api`."""

import json
from dataclasses import dataclass
from typing import Any, Self

from httpx_sse import ServerSentEvent
from pydantic import ValidationError

from maabo_dist.contract.api import Job, JobProgress

_STATUS_EVENTS = frozenset({"state", "progress", "status"})


class JobStatus(Job):
    """The status of a job; the last four fields are None in lists of jobs.

    Settings are plain values here, so that an older client can read the jobs of a newer server.
    """

    settings: dict[str, Any] | None = None
    table: dict[str, Any] | None = None
    correlation: str | None = None
    funnel: dict[str, Any] | None = None
    """Number of leaves that each filter kept."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a job.

    Attributes
    ----------
    id : str or None
        Pass it to ``events(after=…)`` to continue after this event.
    kind : str
        ``state`` and ``progress`` carry the status of the job, ``rules`` new rules; ``end`` is the last event.
    data : dict
        The content of the event.
    """

    id: str | None
    kind: str
    data: dict[str, Any]

    @classmethod
    def parse(cls, event_id: str | None, message: ServerSentEvent) -> Self | None:
        """Return the event of a message; None for one without JSON, which only keeps the connection alive."""
        try:
            data = json.loads(message.data)
        except ValueError:
            return None
        return cls(event_id, message.event, data if isinstance(data, dict) else {"value": data})

    @property
    def status(self) -> JobProgress | None:
        """The status of the job, if this kind of event carries it."""
        try:
            return JobProgress.model_validate(self.data) if self.kind in _STATUS_EVENTS else None
        except ValidationError:
            return None
