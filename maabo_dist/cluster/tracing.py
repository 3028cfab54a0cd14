"""`Tracing`: spans of the work on a job in all processes. Off unless MAABO_TRACES is set.

    request (HTTP) ─traceparent in JobSpec─► job (scheduler) ─traceparent in tasks─► evaluate, screen, rules (workers)

When it is off, OpenTelemetry is not imported, spans do nothing, and an incoming `traceparent` is passed on.
"""

import re
from collections.abc import Mapping
from typing import Literal, Self

from maabo_dist.errors import SettingsError

VARIABLE = "MAABO_TRACES"
_TRACEPARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

Kind = Literal["internal", "server", "consumer"]


class Span:
    """An operation from its start to `end`. This base class records nothing."""

    def __init__(self, traceparent: str | None) -> None:
        # The parent of spans in other processes; None if there is no trace.
        self.traceparent = traceparent

    def annotate(self, **attributes: object) -> None:
        """Set attributes of the span."""

    def end(self) -> None:
        """End the span."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: object, _traceback: object) -> None:
        if error is not None:
            self.annotate(error=repr(error))
        self.end()


class Tracing:
    """Creates spans. This base class is off."""

    @staticmethod
    def from_environment(environment: Mapping[str, str], service_name: str) -> "Tracing":
        """Read MAABO_TRACES: `otlp`, configured by OTEL_… variables, or `file:PATH` for lines of JSON."""
        exporter = environment.get(VARIABLE, "")
        if not exporter:
            return Tracing()
        if exporter != "otlp" and not re.fullmatch(r"file:.+", exporter):
            raise SettingsError(f"{VARIABLE} = {exporter!r} must be otlp or file:PATH.")
        try:
            from maabo_dist.cluster.opentelemetry import OpenTelemetryTracing  # noqa: PLC0415 - optional
        except ImportError as error:
            raise SettingsError(f"{VARIABLE} needs the extra `tracing`: pip install 'maabo-dist[tracing]'.") from error
        return OpenTelemetryTracing(exporter, environment.get("OTEL_SERVICE_NAME", service_name))

    def span(self, name: str, parent: str | None = None, kind: Kind = "internal", **attributes: object) -> Span:  # noqa: ARG002
        """Start a span under a `traceparent` from another process; without one, it starts a trace."""
        return Span(valid_traceparent(parent))

    def close(self) -> None:
        """Send all spans that are not sent yet."""


def valid_traceparent(traceparent: str | None) -> str | None:
    """Return a `traceparent` if it is valid, else None, as W3C requires."""
    return traceparent if traceparent is not None and _TRACEPARENT.fullmatch(traceparent) else None
