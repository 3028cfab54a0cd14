"""`/metrics` and `/v1/load`: the metrics of the cluster and of this API process.

    metrics in Redis, one record per scheduler ─┐
    lengths of streams and of queues ───────────┼─► `ClusterCollector` ─► the text that Prometheus scrapes
    worker records in Redis ────────────────────┤
    jobs in the ledger ─────────────────────────┘

A component that cannot be reached is reported as `maabo_up 0`, and its metrics are left out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, ValidationError
from redis import RedisError
from starlette.responses import Response

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.settings import ClusterSettings
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState
from maabo_dist.contract.record import WorkerRecord
from maabo_dist.errors import FormatError
from scheduler import metrics
from scheduler.api.auth import Reader, authorize
from scheduler.api.problems import documented
from scheduler.api.state import api_state
from scheduler.broker import Broker, BrokerError
from scheduler.ledger.database import LedgerError
from scheduler.ledger.ledger import Ledger
from scheduler.metrics import MetricDefinition, MetricsSnapshot
from scheduler.resources import Resources

logger = StructuredLogger("maabo.api.metrics")

router = APIRouter(tags=["health"])

QUEUES = (names.EVALUATE_QUEUE, names.RULES_QUEUE, names.JOBS_QUEUE)
# Only the tenants with the most jobs are shown, because anyone with access to Redis can create tenants.
MAX_TENANTS = 50
_TEXT = {"description": "Prometheus text format", "content": {"text/plain": {"schema": {"type": "string"}}}}


@router.get("/metrics", response_class=Response, responses={200: _TEXT, **documented()})
def get_metrics(request: Request) -> Response:
    """Return all metrics. Needs the scope `admin`, because they cover all tenants, unless MAABO_OPEN_METRICS is set."""
    api = api_state(request)
    if not api.settings.open_metrics:
        authorize(request, "admin")
    return Response(api.metrics.text(), media_type=CONTENT_TYPE_LATEST)


class ApiMetrics:
    """The metrics of this process, by method, route and status, together with those of the cluster."""

    def __init__(self, resources: Resources) -> None:
        self._registry = CollectorRegistry()
        cluster = ClusterCollector(
            resources.ledger, resources.redis, resources.broker, resources.settings, resources.clock
        )
        self._registry.register(cluster)
        self._latency = Histogram(
            "maabo_http_request_duration_seconds",
            "Time from a request to the start of its response.",
            ["method", "route", "status"],
            buckets=metrics.SHORT,
            registry=self._registry,
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._latency.labels(method, route, str(status)).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the text format."""
        return generate_latest(self._registry)


class ClusterCollector(Collector):
    """Collects the metrics of the cluster whenever Prometheus scrapes them."""

    def __init__(
        self, ledger: Ledger, redis: Any, broker: Broker, settings: ClusterSettings, clock: Callable[[], float]
    ) -> None:
        self._ledger, self._redis, self._broker, self._settings, self._clock = ledger, redis, broker, settings, clock

    def collect(self) -> Iterable[Metric]:
        """Return the current metrics."""
        up = GaugeMetricFamily("maabo_up", "1 if a component can be reached.", labels=["part"])
        families: list[Metric] = [up]
        for component, collect in self._components().items():
            try:
                families += collect()
                up.add_metric([component], 1)
            except (LedgerError, BrokerError, RedisError, OSError) as error:
                logger.warning("component cannot be reached", part=component, reason=error)
                up.add_metric([component], 0)
        return families

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering the collector needs no connections."""
        return ()

    def _components(self) -> dict[str, Callable[[], list[Metric]]]:
        if self._broker.apart:
            return {"ledger": self._ledger_metrics, "redis": self._redis_metrics, "broker": self._broker_metrics}
        return {"ledger": self._ledger_metrics, "redis": lambda: self._redis_metrics() + self._broker_metrics()}

    def _ledger_metrics(self) -> list[Metric]:
        now, counts, oldest = self._clock(), self._ledger.jobs.count_by_state(), self._ledger.jobs.oldest()
        states = {state.value: float(counts.get(state.value, 0)) for state in JobState}
        queued = 0.0 if oldest.queued is None else max(0.0, now - oldest.queued)
        renewed = now if oldest.lease_until is None else oldest.lease_until - self._settings.lease_seconds
        return [
            _by_label("jobs", "Jobs in the ledger.", "state", states),
            _gauge("oldest_queued_job_age_seconds", "Age of the oldest queued job.", queued),
            _gauge("oldest_lease_age_seconds", "Time since the oldest lease was renewed.", max(0.0, now - renewed)),
            _gauge(
                "job_leases_most",
                "Highest number of leases of any job that has not ended.",
                float(oldest.max_takeovers),
            ),
            self._tenant_metrics(),
        ]

    def _tenant_metrics(self) -> Metric:
        text = f"Jobs that have not ended, of the {MAX_TENANTS} tenants with the most of them."
        family = GaugeMetricFamily("maabo_tenant_jobs", text, labels=["tenant", "state"])
        for (tenant, state), number in self._ledger.jobs.count_by_tenant(MAX_TENANTS).items():
            family.add_metric([tenant, state], number)
        return family

    def _redis_metrics(self) -> list[Metric]:
        keys = _Keys.scan(self._redis, self._settings)
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.xlen(self._settings.key(names.INTAKE_STREAM))
            pipe.xlen(self._settings.key(names.REFUSED_STREAM))
            for stream in keys.results:
                pipe.xlen(stream)
            intake, refused, *results = pipe.execute()
        streams = {"intake": float(intake), "refused": float(refused), "results": float(sum(results))}
        readings, workers = _read_meters(self._redis, keys.meters), _read_workers(self._redis, keys.workers)
        sent = (metrics.TASKS_IN_FLIGHT, metrics.TASKS_UNSENT)
        wanted = sum(_total(readings, meter) for meter in sent) + self._queued_documents()
        processes, busy = sum(one.processes for one in workers), sum(one.busy for one in workers)
        return [
            _by_label("stream_entries", "Entries of streams in Redis; results of all jobs.", "stream", streams),
            _gauge("schedulers", "Schedulers active in the last minute.", float(len(readings))),
            _gauge("tasks_wanted", "Tasks that workers could run now: sent, to be sent, and job documents.", wanted),
            _gauge("workers", "Workers active in the last seconds.", float(len(workers))),
            _gauge("worker_processes", "Tasks that these workers can run at the same time.", float(processes)),
            _gauge("worker_processes_busy", "Tasks that these workers are running.", float(busy)),
            *scheduler_metrics(readings),
        ]

    def _broker_metrics(self) -> list[Metric]:
        queues = dict(zip(QUEUES, map(float, self._broker.waiting(QUEUES)), strict=True))
        families = [_by_label("queue_messages", "Messages that no worker has taken.", "queue", queues)]
        unacked = self._broker.unacked()
        if unacked is not None:
            text = "Messages that workers have taken and not acknowledged."
            families.append(_gauge("queue_unacked_messages", text, float(unacked)))
        return families

    def _queued_documents(self) -> int:
        """A RabbitMQ that cannot be reached must not hide the metrics in Redis."""
        try:
            return self._broker.waiting([names.JOBS_QUEUE])[0]
        except BrokerError:
            return 0


class Load(BaseModel):
    """The load of the cluster, over the jobs of all tenants."""

    tasks: int  # tasks sent to workers and not answered yet
    waiting: int  # those of them that no worker has started
    # Time that workers have spent on tasks so far. Its increase per second is the number of busy processes.
    work_seconds: float
    processes: int  # tasks that the workers can run at the same time


@router.get("/v1/load", responses=documented())
def load(caller: Reader) -> Load:
    """Return the number of tasks, of waiting tasks and of worker processes, and the time spent on tasks.

    Schedulers report these numbers every second.
    """
    redis, broker = caller.api.resources.redis, caller.api.resources.broker
    waiting = sum(broker.waiting((names.EVALUATE_QUEUE, names.RULES_QUEUE)))
    keys = _Keys.scan(redis, caller.api.resources.settings)
    readings = _read_meters(redis, keys.meters)
    tasks = int(_total(readings, metrics.TASKS_IN_FLIGHT))
    timings = (reading.timings.get(metrics.TASK_SECONDS.name, {}) for reading in readings.values())
    return Load(
        tasks=tasks,
        waiting=min(tasks, waiting),
        work_seconds=sum(timing.sum for each in timings for timing in each.values()),
        processes=sum(one.processes for one in _read_workers(redis, keys.workers)),
    )


def scheduler_metrics(readings: Mapping[str, MetricsSnapshot]) -> list[Metric]:
    """Return the metrics of schedulers, by scheduler name, without those that this version does not know."""
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


def _total(readings: Mapping[str, MetricsSnapshot], meter: MetricDefinition) -> float:
    return sum(sum(reading.amounts.get(meter.name, {}).values()) for reading in readings.values())


@dataclass(frozen=True, slots=True)
class _Keys:
    results: list[bytes]
    meters: dict[str, bytes]  # by scheduler
    workers: list[bytes]

    @classmethod
    def scan(cls, redis: Any, settings: ClusterSettings) -> "_Keys":
        """Find all keys in one pass."""
        results, meters, workers = (
            settings.key(f"{name}:").encode() for name in (names.RESULTS_STREAM, names.METERS, names.WORKERS)
        )
        keys = sorted(set(redis.scan_iter(match=settings.key("maabo:[rmw][eo]*"), count=1000)))
        return cls(
            [key for key in keys if key.startswith(results)],
            {key[len(meters) :].decode(errors="replace"): key for key in keys if key.startswith(meters)},
            [key for key in keys if key.startswith(workers)],
        )


def _read_meters(redis: Any, keys: Mapping[str, bytes]) -> dict[str, MetricsSnapshot]:
    """Return the readings of schedulers, without those that have expired in between or are not valid."""
    readings = {}
    for scheduler, text in zip(keys, redis.mget(keys.values()) if keys else [], strict=True):
        try:
            if text is not None:
                readings[scheduler] = MetricsSnapshot.read(text)
        except FormatError as error:
            logger.warning("invalid metrics of a scheduler", scheduler=scheduler, reason=error)
    return readings


def _read_workers(redis: Any, keys: Sequence[bytes]) -> list[WorkerRecord]:
    """Return the records of workers, without those that have expired in between or are not valid."""
    workers = []
    for text in redis.mget(keys) if keys else []:
        with suppress(ValidationError):  # of another version, or forged
            if text is not None:
                workers.append(WorkerRecord.model_validate_json(text))
    return workers


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"maabo_{name}", text, value=value)


def _by_label(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"maabo_{name}", text, labels=[label])
    for value, amount in values.items():
        family.add_metric([value], amount)
    return family
