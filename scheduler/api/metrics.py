"""The cluster's metrics for Prometheus: what schedulers counted, and what ledger and Redis hold at this moment.

    meters in Redis, one for each scheduler ─┐
    lengths of streams, and of queues ───────┼─► collect ─► `ClusterCollector` ─► the text that is scraped
    what workers say of themselves ──────────┤
    jobs in the ledger ──────────────────────┘

A part that cannot be reached shows as `maabo_up 0`, and what it would have said is left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import redis as redis_client
from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import ValidationError
from starlette.responses import Response

from maabo_dist.cluster.broker import make_celery
from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import WorkerRecord
from maabo_dist.errors import FormatError
from scheduler import metrics
from scheduler.api.auth import require
from scheduler.api.problems import documented
from scheduler.api.state import api_state
from scheduler.ledger.database import LedgerError
from scheduler.ledger.ledger import Ledger
from scheduler.messaging.broker import Broker, BrokerError, open_broker
from scheduler.metrics import SHORT, MetricDefinition, MetricsSnapshot
from scheduler.resources import Resources

logger = StructuredLogger("maabo.exposition")

QUEUES = (names.EVALUATE_QUEUE, names.RULES_QUEUE, names.JOBS_QUEUE)
TENANTS = 50
"""Of the tenants with the most jobs so many are shown: whoever can write to Redis can name any number of them."""


def collect(ledger: Ledger, redis: Any, broker: Broker, settings: ClusterSettings, now: float) -> Iterator[Metric]:
    """Every metric of the cluster, once."""
    up = GaugeMetricFamily("maabo_up", "Whether a part can be reached.", labels=["part"])
    found: list[Metric] = [up]
    parts: dict[str, Callable[[], list[Metric]]] = {
        "ledger": lambda: _of_ledger(ledger, settings, now),
        "redis": lambda: _of_redis(redis, broker, settings) + ([] if broker.apart else _of_broker(broker)),
    }
    if broker.apart:
        parts["broker"] = lambda: _of_broker(broker)
    for part, ask in parts.items():
        try:
            found += ask()
            up.add_metric([part], 1)
        except (LedgerError, BrokerError, redis_client.RedisError, OSError) as error:
            logger.warning("part cannot be reached", part=part, reason=error)
            up.add_metric([part], 0)
    return iter(found)


class ClusterCollector(Collector):
    """For a registry of prometheus_client: asks anew each time it is scraped."""

    def __init__(
        self, ledger: Ledger, redis: Any, broker: Broker, settings: ClusterSettings, clock: Callable[[], float]
    ) -> None:
        self._ledger, self._redis, self._broker, self._settings, self._clock = ledger, redis, broker, settings, clock

    def collect(self) -> Iterable[Metric]:
        """What there is now."""
        return collect(self._ledger, self._redis, self._broker, self._settings, self._clock())

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: to be registered, it need not be able to reach anyone."""
        return ()


def exposed(ledger: Ledger, redis: Any, settings: ClusterSettings, now: float) -> bytes:
    """The text that Prometheus reads, where there is no other registry."""
    registry, broker = CollectorRegistry(), open_broker(settings, redis, make_celery(settings))
    registry.register(ClusterCollector(ledger, redis, broker, settings, lambda: now))
    try:
        return generate_latest(registry)
    finally:
        broker.close()


@dataclass(frozen=True, slots=True)
class Work:
    """What the workers have to do and have done, all jobs together."""

    tasks: int
    """Sent and not answered."""
    waiting: int
    """Messages that no worker has taken."""
    seconds: float
    """That workers have spent on tasks since the schedulers started."""
    processes: int
    """Tasks that the workers can do at a time."""


def work_of(redis: Any, broker: Broker, settings: ClusterSettings) -> Work:
    """As schedulers told it last, a second ago at most."""
    waiting = sum(broker.waiting((names.EVALUATE_QUEUE, names.RULES_QUEUE)))
    keys = _Keys.found(redis, settings)
    readings = _readings(redis, keys.meters).values()
    sent = sum(sum(reading.amounts.get(metrics.TASKS_IN_FLIGHT.name, {}).values()) for reading in readings)
    timings = (reading.timings.get(metrics.TASK_SECONDS.name, {}) for reading in readings)
    seconds = sum(timing.sum for each in timings for timing in each.values())
    return Work(int(sent), waiting, seconds, sum(one.processes for one in _workers(redis, keys.workers)))


def of_schedulers(readings: Mapping[str, MetricsSnapshot]) -> list[Metric]:
    """The meters of schedulers, by their names; meters that this version does not know are left out."""
    return [(_timings if meter.kind == "histogram" else _amounts)(meter, readings) for meter in metrics.ALL]


def _amounts(meter: MetricDefinition, readings: Mapping[str, MetricsSnapshot]) -> Metric:
    kind = CounterMetricFamily if meter.kind == "counter" else GaugeMetricFamily
    family = kind(f"maabo_{meter.name}", meter.help, labels=_labels(meter))
    for scheduler, reading in readings.items():
        for value, amount in reading.amounts.get(meter.name, {}).items():
            family.add_metric(_label_values(meter, scheduler, value), amount)
    return family


def _timings(meter: MetricDefinition, readings: Mapping[str, MetricsSnapshot]) -> Metric:
    family = HistogramMetricFamily(f"maabo_{meter.name}", meter.help, labels=_labels(meter))
    for scheduler, reading in readings.items():
        for value, timing in reading.timings.get(meter.name, {}).items():
            family.add_metric(_label_values(meter, scheduler, value), timing.cumulative(), timing.sum)
    return family


def _labels(meter: MetricDefinition) -> list[str]:
    return ["scheduler", meter.label] if meter.label else ["scheduler"]


def _label_values(meter: MetricDefinition, scheduler: str, value: str) -> list[str]:
    return [scheduler, value] if meter.label else [scheduler]


def _of_ledger(ledger: Ledger, settings: ClusterSettings, now: float) -> list[Metric]:
    counts, oldest, tenants = ledger.jobs.count_by_state(), ledger.jobs.oldest(), ledger.jobs.count_by_tenant(TENANTS)
    states = {state.value: float(counts.get(state.value, 0)) for state in JobState}
    queued = 0.0 if oldest.queued is None else max(0.0, now - oldest.queued)
    renewed = now if oldest.lease_until is None else oldest.lease_until - settings.lease_seconds
    return [
        _by_label("jobs", "Jobs in the ledger.", "state", states),
        _single("oldest_queued_job_age_seconds", "Since the oldest of the queued jobs was submitted.", queued),
        _single("oldest_lease_age_seconds", "Since the stalest lease was renewed.", max(0.0, now - renewed)),
        _single(
            "job_leases_most", "How often the open job that changed hands most was taken.", float(oldest.max_takeovers)
        ),
        _of_tenants(tenants),
    ]


def _of_redis(redis: Any, broker: Broker, settings: ClusterSettings) -> list[Metric]:
    keys = _Keys.found(redis, settings)
    with redis.pipeline(transaction=False) as pipe:
        pipe.xlen(settings.key(names.INTAKE_STREAM))
        pipe.xlen(settings.key(names.REFUSED_STREAM))
        for stream in keys.results:
            pipe.xlen(stream)
        intake, refused, *results = pipe.execute()
    streams = {"intake": float(intake), "refused": float(refused), "results": float(sum(results))}
    readings = _readings(redis, keys.meters)
    wanted = _wanted(readings) + _documents(broker)
    return [
        _by_label("stream_entries", "Entries of streams in Redis; results are those of all jobs.", "stream", streams),
        _single("schedulers", "Schedulers that were heard of in the last minute.", float(len(readings))),
        _single("tasks_wanted", "Tasks that workers could do now: sent or to be sent, and documents.", wanted),
        *_of_workers(_workers(redis, keys.workers)),
        *of_schedulers(readings),
    ]


def _of_broker(broker: Broker) -> list[Metric]:
    queues = dict(zip(QUEUES, map(float, broker.waiting(QUEUES)), strict=True))
    found = [_by_label("queue_messages", "Messages that no worker has taken.", "queue", queues)]
    unacked = broker.unacked()
    if unacked is not None:
        text = "Messages that workers have taken and not acknowledged."
        found.append(_single("queue_unacked_messages", text, float(unacked)))
    return found


def _documents(broker: Broker) -> int:
    """That wait for a worker; a RabbitMQ that is away says nothing of them, and takes nothing else with it."""
    try:
        return broker.waiting([names.JOBS_QUEUE])[0]
    except BrokerError:
        return 0


def _wanted(readings: Mapping[str, MetricsSnapshot]) -> float:
    kinds = (metrics.TASKS_IN_FLIGHT.name, metrics.TASKS_UNSENT.name)
    return sum(sum(reading.amounts.get(kind, {}).values()) for reading in readings.values() for kind in kinds)


def _of_workers(workers: Sequence[WorkerRecord]) -> list[Metric]:
    processes, busy = sum(one.processes for one in workers), sum(one.busy for one in workers)
    return [
        _single("workers", "Workers that were heard of in the last seconds.", float(len(workers))),
        _single("worker_processes", "Tasks that these workers can do at a time.", float(processes)),
        _single("worker_processes_busy", "Of these, those that do one.", float(busy)),
    ]


def _of_tenants(counts: Mapping[tuple[str, str], int]) -> Metric:
    text = f"Jobs that have not ended, of the {TENANTS} tenants with the most of them."
    family = GaugeMetricFamily("maabo_tenant_jobs", text, labels=["tenant", "state"])
    for (tenant, state), number in counts.items():
        family.add_metric([tenant, state], number)
    return family


@dataclass(frozen=True, slots=True)
class _Keys:
    results: list[bytes]
    meters: dict[str, bytes]
    """By scheduler."""
    workers: list[bytes]

    @classmethod
    def found(cls, redis: Any, settings: ClusterSettings) -> "_Keys":
        """In one pass over the keys."""
        results, owners = settings.key(f"{names.RESULTS_STREAM}:").encode(), settings.key(f"{names.METERS}:").encode()
        workers = settings.key(f"{names.WORKERS}:").encode()
        found = set(redis.scan_iter(match=settings.key("maabo:[rmw][eo]*"), count=1000))
        return cls(
            sorted(key for key in found if key.startswith(results)),
            {key[len(owners) :].decode(errors="replace"): key for key in sorted(found) if key.startswith(owners)},
            sorted(key for key in found if key.startswith(workers)),
        )


def _readings(redis: Any, keys: Mapping[str, bytes]) -> dict[str, MetricsSnapshot]:
    """Of schedulers whose meters have not expired meanwhile and can be read."""
    found = {}
    for scheduler, text in zip(keys, redis.mget(keys.values()) if keys else [], strict=True):
        try:
            if text is not None:
                found[scheduler] = MetricsSnapshot.read(text)
        except FormatError as error:
            logger.warning("meters refused", scheduler=scheduler, reason=error)
    return found


def _workers(redis: Any, keys: Sequence[bytes]) -> list[WorkerRecord]:
    """Those that have not fallen silent meanwhile and can be read."""
    found = []
    for text in redis.mget(keys) if keys else []:
        with suppress(ValidationError):  # of another version, or of whoever can write to Redis
            if text is not None:
                found.append(WorkerRecord.model_validate_json(text))
    return found


def _single(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"maabo_{name}", text, value=value)


def _by_label(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"maabo_{name}", text, labels=[label])
    for value, amount in values.items():
        family.add_metric([value], amount)
    return family


class ApiMetrics:
    """Counts requests by method, route and status; the rest is asked for when it is wanted."""

    def __init__(self, resources: Resources) -> None:
        self._registry = CollectorRegistry()
        cluster = ClusterCollector(
            resources.ledger, resources.redis, resources.broker, resources.settings, resources.clock
        )
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


router = APIRouter(tags=["health"])

_TEXT = {"description": "Prometheus' text format", "content": {"text/plain": {"schema": {"type": "string"}}}}


@router.get("/metrics", response_class=Response, responses={200: _TEXT, **documented("unauthorized", "forbidden")})
def get_metrics(request: Request) -> Response:
    """All metrics. They are the whole cluster's, and so the operator's, unless the server was told otherwise."""
    api = api_state(request)
    if not api.settings.open_metrics:
        require(request, "admin")
    return Response(api.meters.text(), media_type=CONTENT_TYPE_LATEST)
