"""`Tracing`: spans of what is done for a job, wherever it is done. Off unless MAABO_TRACES says where they go.

    request (HTTP) ─traceparent in JobSpec─► job (scheduler) ─traceparent in tasks─► evaluate, screen, rules (workers)

When it is off, OpenTelemetry is not imported, spans do nothing, and a `traceparent` that comes in is passed on.
"""

import re
from collections.abc import Mapping
from types import TracebackType
from typing import Literal, Self

from maabo_dist.errors import SettingsError

VARIABLE = "MAABO_TRACES"
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

Kind = Literal["internal", "server", "consumer"]


class Span:
    """Something that is done, from when it is made until its end. This one is not recorded."""

    def __init__(self, traceparent: str | None) -> None:
        self.traceparent = traceparent
        """For whoever goes on with it; None if there is nothing to go on with."""

    def annotate(self, **facts: object) -> None:
        """Say more about it."""

    def end(self) -> None:
        """It is done."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.annotate(error=repr(error))
        self.end()


class Tracing:
    """Opens spans. This one is off."""

    @staticmethod
    def from_environment(environment: Mapping[str, str], service_name: str) -> "Tracing":
        """As MAABO_TRACES says: `otlp`, to where OTEL_… variables say, or `file:PATH`, as lines of JSON."""
        wanted = environment.get(VARIABLE, "")
        if not wanted:
            return Tracing()
        if wanted != "otlp" and not re.fullmatch(r"file:.+", wanted):
            raise SettingsError(f"{VARIABLE} = {wanted!r}: give otlp or file:PATH, or leave it out.")
        try:
            from maabo_dist.cluster.opentelemetry import OpenTelemetryTracing  # noqa: PLC0415 - optional
        except ImportError as error:
            raise SettingsError(f"{VARIABLE} needs the extra `tracing`: pip install 'maabo-dist[tracing]'.") from error
        return OpenTelemetryTracing(wanted, environment.get("OTEL_SERVICE_NAME", service_name))

    def span(self, name: str, parent: str | None = None, kind: Kind = "internal", **facts: object) -> Span:  # noqa: ARG002
        """A span that begins now, under a `traceparent` from elsewhere; without a parent it begins a trace."""
        return Span(valid_traceparent(parent))

    def close(self) -> None:
        """Send what is not sent yet."""


def valid_traceparent(traceparent: str | None) -> str | None:
    """A `traceparent` from outside if it is one; else nothing, as W3C asks."""
    return traceparent if traceparent is not None and _TRACEPARENT.fullmatch(traceparent) else None
