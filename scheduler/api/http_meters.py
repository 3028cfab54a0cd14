"""`HttpMeters`: what Prometheus is told: this server's latencies, and all that the cluster's parts say."""

from prometheus_client import CollectorRegistry, Histogram, generate_latest

from scheduler.api.exposition import ClusterCollector
from scheduler.metrics import SHORT
from scheduler.resources import Parts


class HttpMeters:
    """Counts requests by method, route and status; the rest is asked for when it is wanted."""

    def __init__(self, parts: Parts) -> None:
        self._registry = CollectorRegistry()
        cluster = ClusterCollector(parts.ledger, parts.redis, parts.broker, parts.settings, parts.clock)
        self._registry.register(cluster)
        self._latency = Histogram(
            "maabo_http_request_duration_seconds",
            "From a request to the beginning of its answer.",
            ["method", "route", "status"],
            buckets=SHORT,
            registry=self._registry,
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._latency.labels(method, route, str(status)).observe(seconds)

    def text(self) -> bytes:
        """Everything, as it is scraped."""
        return generate_latest(self._registry)
