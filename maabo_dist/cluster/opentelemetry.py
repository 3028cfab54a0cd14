"""Tracing with OpenTelemetry. Imported only if MAABO_TRACES is set; needs the extra `tracing`."""

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

_HEADERS = TraceContextTextMapPropagator()


class OpenTelemetryTracing(Tracing):
    """Tracing that is on. Each process has its own provider, because threads that send spans do not survive a fork."""

    def __init__(self, exporter: str, service: str) -> None:
        self._exporter, self._service = exporter, service
        self._providers: dict[int, TracerProvider] = {}
        _make_exporter(exporter)  # reports errors now

    def span(self, name: str, parent: str | None = None, kind: Kind = "internal", **attributes: object) -> Span:
        """Start a span."""
        traceparent = valid_traceparent(parent)
        context = _HEADERS.extract({} if traceparent is None else {"traceparent": traceparent})
        tracer = self._provider().get_tracer("maabo")
        span = OpenTelemetrySpan(tracer.start_span(name, context, trace.SpanKind[kind.upper()]))
        span.annotate(**attributes)
        return span

    def close(self) -> None:
        """Send all spans that are not sent yet. Later spans get a new provider."""
        provider = self._providers.pop(os.getpid(), None)
        if provider is not None:
            provider.shutdown()

    def _provider(self) -> TracerProvider:
        process = os.getpid()
        if process not in self._providers:
            provider = TracerProvider(resource=Resource.create({SERVICE_NAME: self._service}))
            exporter = _make_exporter(self._exporter)
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

    def annotate(self, **attributes: object) -> None:
        """Set attributes of the span; `error` marks it as failed."""
        for name, value in attributes.items():
            if value is not None:
                plain = value if isinstance(value, bool | int | float) else str(value)
                self._span.set_attribute(name if "." in name else f"maabo.{name}", plain)
            if name == "error":
                self._span.set_status(trace.StatusCode.ERROR)

    def end(self) -> None:
        """End the span."""
        self._span.end()


class LineExporter(SpanExporter):
    """Appends a line of JSON for each span to a file that processes may share."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write the spans."""
        lines = "".join(f"{json.dumps(_to_json(span))}\n" for span in spans)
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(lines)
        except OSError:
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS


def _to_json(span: ReadableSpan) -> dict[str, object]:
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


def _make_exporter(exporter: str) -> SpanExporter:
    if exporter != "otlp":
        path = Path(exporter.removeprefix("file:"))
        try:
            with path.open("a"):
                return LineExporter(path)
        except OSError as error:
            raise SettingsError(f"MAABO_TRACES = file:{path}: the file cannot be written: {error.strerror}.") from error
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415 - 0.1 s

    return OTLPSpanExporter()
