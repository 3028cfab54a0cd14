"""Spans that are recorded, by OpenTelemetry. Imported only where MAABO_TRACES asks for it (extra `tracing`)."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from maabo_dist.cluster.tracing import Kind, Span, Tracing, valid_traceparent
from maabo_dist.errors import SettingsError

_KINDS = {
    "internal": trace.SpanKind.INTERNAL,
    "server": trace.SpanKind.SERVER,
    "consumer": trace.SpanKind.CONSUMER,
}
_HEADERS = TraceContextTextMapPropagator()


class OpenTelemetryTracing(Tracing):
    """Tracing that is on. Each process has a provider of its own: threads that send spans do not survive a fork."""

    def __init__(self, place: str, service: str) -> None:
        self._place, self._service = place, service
        self._providers: dict[int, TracerProvider] = {}
        _exporter(place)  # what cannot work is said at once

    def span(self, name: str, parent: str | None = None, kind: Kind = "internal", **facts: object) -> Span:
        """A span that begins now."""
        known = valid_traceparent(parent)
        context = _HEADERS.extract({} if known is None else {"traceparent": known})
        tracer = self._provider().get_tracer("maabo")
        started = OpenTelemetrySpan(tracer.start_span(name, context, _KINDS[kind]))
        started.annotate(**facts)
        return started

    def close(self) -> None:
        """Send what is not sent yet; what comes after begins anew."""
        provider = self._providers.pop(os.getpid(), None)
        if provider is not None:
            provider.shutdown()

    def _provider(self) -> TracerProvider:
        process = os.getpid()
        if process not in self._providers:
            provider = TracerProvider(resource=Resource.create({SERVICE_NAME: self._service}))
            exporter = _exporter(self._place)
            in_file = isinstance(exporter, LineExporter)
            provider.add_span_processor((SimpleSpanProcessor if in_file else BatchSpanProcessor)(exporter))
            self._providers = {process: provider}
        return self._providers[process]


class OpenTelemetrySpan(Span):
    """A span that is sent when it ends."""

    def __init__(self, span: trace.Span) -> None:
        headers: dict[str, str] = {}
        _HEADERS.inject(headers, trace.set_span_in_context(span))
        super().__init__(headers.get("traceparent"))
        self._span = span

    def annotate(self, **facts: object) -> None:
        """Say more about it."""
        for name, value in facts.items():
            if value is not None:
                said = value if isinstance(value, bool | int | float) else str(value)
                self._span.set_attribute(name if "." in name else f"maabo.{name}", said)
            if name == "error":
                self._span.set_status(trace.StatusCode.ERROR)

    def end(self) -> None:
        """It is done."""
        self._span.end()


class LineExporter(SpanExporter):
    """A line of JSON for each span, at the end of a file that processes may share."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write them."""
        lines = "".join(f"{json.dumps(_plain(span))}\n" for span in spans)
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(lines)
        except OSError:
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS


def _plain(span: ReadableSpan) -> dict[str, object]:
    context, parent = span.get_span_context(), span.parent
    return {
        "service": span.resource.attributes.get(SERVICE_NAME),
        "name": span.name,
        "trace": None if context is None else trace.format_trace_id(context.trace_id),
        "span": None if context is None else trace.format_span_id(context.span_id),
        "parent": None if parent is None else trace.format_span_id(parent.span_id),
        "start": (span.start_time or 0) / 1e9,
        "end": (span.end_time or 0) / 1e9,
        "facts": dict(span.attributes or {}),
    }


def _exporter(place: str) -> SpanExporter:
    if place != "otlp":
        return LineExporter(_writable(Path(place.removeprefix("file:"))))
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - 0.1 s

    return OTLPSpanExporter()


def _writable(path: Path) -> Path:
    try:
        with path.open("a"):
            return path
    except OSError as error:
        raise SettingsError(f"MAABO_TRACES = file:{path}: the file cannot be written: {error.strerror}.") from error
