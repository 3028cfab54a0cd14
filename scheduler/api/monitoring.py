"""`/metrics` and `/v1/load`: the load of this process and of the cluster.

    metrics in Redis, one record per scheduler ─┐
    lengths of streams and of queues ───────────┼─► `ClusterCollector` ─► the text that Prometheus scrapes
    worker records in Redis ────────────────────┤
    jobs in the ledger ─────────────────────────┘

A component that cannot be reached is reported as `maabo_up 0`, and its metrics are left out; so is a Redis that refuses
writes, with its metrics.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from secrets import token_hex
from typing import Any

from fastapi import Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, ValidationError
from redis import RedisError
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState, WorkerRecord
from maabo_dist.errors import FormatError
from scheduler import metrics
from scheduler.api.dependencies import Reader, api_state, authorize
from scheduler.api.problems import documented
from scheduler.api.routing import Router
from scheduler.ledger.database import LedgerError
from scheduler.metrics import MetricDefinition, MetricsSnapshot, Timing
from scheduler.resources import BrokerError, Resources

logger = StructuredLogger("maabo.api.metrics")

router = Router(tags=["health"])

QUEUES = (names.EVALUATE_QUEUE, names.RULES_QUEUE, names.JOBS_QUEUE)
# Only the tenants with the most jobs are shown, because anyone with access to Redis can create tenants.
MAX_TENANTS = 50
_FAMILIES: dict[str, Any] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}
# All other methods are counted together: a request can name any method, and needs no token for that.
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_TEXT = {"description": "Prometheus text format", "content": {"text/plain": {"schema": {"type": "string"}}}}


@router.get("/metrics", response_class=Response, responses={200: _TEXT, **documented()})
async def get_metrics(request: Request) -> Response:
    """Return all metrics. Needs the scope `admin`, because they cover all tenants, unless MAABO_OPEN_METRICS is set."""
    api = api_state(request)
    if not api.settings.open_metrics:
        await authorize(request, "admin")
    content = await run_in_threadpool(generate_latest, api.metrics.registry)
    return Response(content, media_type=CONTENT_TYPE_LATEST)


class ApiMetrics:
    """The metrics of this process, by method, route and status, together with those of the cluster."""

    def __init__(self, resources: Resources) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(ClusterCollector(resources))
        self._latency = Histogram(
            "maabo_http_request_duration_seconds",
            "Time from a request to the start of its response.",
            ["method", "route", "status"],
            buckets=metrics.SHORT,
            registry=self.registry,
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request. `route` is the path of a route of this application, or `none`."""
        self._latency.labels(method if method in METHODS else "other", route, str(status)).observe(seconds)


class ClusterCollector(Collector):
    """Collects the metrics of the cluster whenever Prometheus scrapes them."""

    def __init__(self, resources: Resources) -> None:
        self._resources, self._broker = resources, resources.broker

    def collect(self) -> Iterable[Metric]:
        """Return the current metrics."""
        components = {"ledger": self._ledger_metrics, "redis": self._redis_metrics, "broker": self._broker_metrics}
        if not self._broker.is_separate:
            del components["broker"]
            components["redis"] = lambda: self._redis_metrics() + self._broker_metrics()
        up = GaugeMetricFamily("maabo_up", "1 if a component can be reached.", labels=["part"])
        families: list[Metric] = [up]
        for component, collect in components.items():
            try:
                families += collect()
                if component == "redis":
                    check_writable(self._resources)
                up.add_metric([component], 1)
            except (LedgerError, BrokerError, RedisError, OSError) as error:
                logger.warning("component cannot be reached", part=component, reason=error)
                up.add_metric([component], 0)
        return families

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registering the collector needs no connections."""
        return ()

    def _ledger_metrics(self) -> list[Metric]:
        jobs, now = self._resources.ledger.jobs, self._resources.clock()
        counts, oldest = jobs.count_by_state(), jobs.oldest()
        states = {(state.value,): counts.get(state.value, 0) for state in JobState}
        queued = 0.0 if oldest.queued is None else max(0.0, now - oldest.queued)
        lease = self._resources.settings.lease_seconds
        lease_age = 0.0 if oldest.lease_seconds is None else max(0.0, lease - oldest.lease_seconds)
        text = f"Jobs that have not ended, of the {MAX_TENANTS} tenants with the most of them."
        return [
            _gauge("jobs", "Jobs in the ledger.", states, "state"),
            _gauge("oldest_queued_job_age_seconds", "Age of the oldest queued job.", queued),
            _gauge("oldest_lease_age_seconds", "Time since the oldest lease was renewed.", lease_age),
            _gauge("job_leases_most", "Highest number of leases of any job that has not ended.", oldest.max_takeovers),
            _gauge("tenant_jobs", text, jobs.count_by_tenant(MAX_TENANTS), "tenant", "state"),
            _gauge("scheduler_outages", "Schedulers that cannot use a part of the cluster.", self._outages(), "part"),
        ]

    def _outages(self) -> dict[tuple[str, ...], float]:
        """Schedulers write them to the ledger: Redis may be what is missing, or refuse writes."""
        kinds = [outage.kind for outage in self._resources.ledger.outages.current()]
        return {(part,): float(kinds.count(part)) for part in ("redis", "broker", "store")}

    def _redis_metrics(self) -> list[Metric]:
        redis, key = self._resources.redis, self._resources.settings.key
        readings, workers, result_streams = read_records(self._resources)
        with redis.pipeline(transaction=False) as pipe:
            for stream in (key(names.INTAKE_STREAM), key(names.REFUSED_STREAM), *result_streams):
                pipe.xlen(stream)
            intake, refused, *results = pipe.execute()
        streams = {("intake",): intake, ("refused",): refused, ("results",): sum(results)}
        tasks = _total(readings, metrics.TASKS_IN_FLIGHT) + _total(readings, metrics.TASKS_UNSENT)
        with suppress(BrokerError):  # an unreachable RabbitMQ must not hide the metrics in Redis
            tasks += self._broker.waiting([names.JOBS_QUEUE])[0]
        processes, busy = sum(one.processes for one in workers), sum(one.busy for one in workers)
        return [
            _gauge("stream_entries", "Entries of streams in Redis; results of all jobs.", streams, "stream"),
            _gauge("schedulers", "Schedulers active in the last minute.", len(readings)),
            _gauge("tasks_wanted", "Tasks that workers could run now: sent, to be sent, and job documents.", tasks),
            _gauge("workers", "Workers active in the last seconds.", len(workers)),
            _gauge("worker_processes", "Tasks that these workers can run at the same time.", processes),
            _gauge("worker_processes_busy", "Tasks that these workers are running.", busy),
            *scheduler_metrics(readings),
        ]

    def _broker_metrics(self) -> list[Metric]:
        queues = {(queue,): count for queue, count in zip(QUEUES, self._broker.waiting(QUEUES), strict=True)}
        families = [_gauge("queue_messages", "Messages that no worker has taken.", queues, "queue")]
        unacked = self._broker.unacked()
        if unacked is not None:
            text = "Messages that workers have taken and not acknowledged."
            families.append(_gauge("queue_unacked_messages", text, unacked))
        return families


class Load(BaseModel):
    """The load of the cluster.

    What tells about the jobs of all tenants is null for callers without the scope `admin`.
    """

    tasks: int | None = None  # tasks sent to workers and not answered yet
    waiting: int | None = None  # those of them that no worker has started
    # Time that workers have spent on tasks so far. Its increase per second is the number of busy processes.
    work_seconds: float | None = None
    processes: int  # tasks that the workers can run at the same time
    busy: int | None = None  # tasks that the workers are running, as of some seconds ago
    schedulers: int  # schedulers that were active in the last minute


@router.get("/v1/load", responses=documented())
def load(caller: Reader) -> Load:
    """Return the number of worker processes and schedulers and, with the scope `admin`, the tasks and their time.

    Schedulers report these numbers every second.
    """
    resources = caller.api.resources
    readings, workers, _ = read_records(resources)
    processes = sum(worker.processes for worker in workers)
    if not caller.may("admin"):
        return Load(processes=processes, schedulers=len(readings))
    waiting = sum(resources.broker.waiting((names.EVALUATE_QUEUE, names.RULES_QUEUE)))
    tasks = int(_total(readings, metrics.TASKS_IN_FLIGHT))
    timings = (reading.timings.get(metrics.TASK_SECONDS.name, {}) for reading in readings.values())
    return Load(
        tasks=tasks,
        waiting=min(tasks, waiting),
        work_seconds=sum(timing.sum for each in timings for timing in each.values()),
        processes=processes,
        busy=sum(worker.busy for worker in workers),
        schedulers=len(readings),
    )


def scheduler_metrics(readings: Mapping[str, MetricsSnapshot]) -> list[Metric]:
    """Return the metrics of schedulers, by scheduler name, without those that this version does not know."""
    families: list[Metric] = []
    for meter in metrics.ALL:
        labels = ["scheduler", meter.label] if meter.label else ["scheduler"]
        family = _FAMILIES[meter.kind](f"maabo_{meter.name}", meter.help, labels=labels)
        for scheduler, reading in readings.items():
            values = (reading.timings if meter.kind == "histogram" else reading.amounts).get(meter.name, {})
            for label, value in values.items():
                sample = (value.cumulative(), value.sum) if isinstance(value, Timing) else (value,)
                family.add_metric([scheduler, label][: len(labels)], *sample)
        families.append(family)
    return families


def _total(readings: Mapping[str, MetricsSnapshot], meter: MetricDefinition) -> float:
    return sum(sum(reading.amounts.get(meter.name, {}).values()) for reading in readings.values())


def read_records(resources: Resources) -> tuple[dict[str, MetricsSnapshot], list[WorkerRecord], list[bytes]]:
    """Return the readings by scheduler, the records of workers, and the keys of all result streams.

    Records that have expired in between or are not valid are left out.
    """
    redis, settings = resources.redis, resources.settings
    meters, workers, results = (
        f"{settings.key(kind)}:" for kind in (names.METERS, names.WORKERS, names.RESULTS_STREAM)
    )
    keys = sorted(set(redis.scan_iter(match=settings.key("maabo:[rmw][eo]*"), count=1000)))
    records = [key for key in keys if key.startswith((meters.encode(), workers.encode()))]
    readings: dict[str, MetricsSnapshot] = {}
    active: list[WorkerRecord] = []
    for key, text in zip(records, redis.mget(records) if records else [], strict=True):
        name = key.decode(errors="replace")
        try:
            if text is not None and name.startswith(meters):
                readings[name.removeprefix(meters)] = MetricsSnapshot.read(text)
            elif text is not None:
                active.append(WorkerRecord.model_validate_json(text))
        except FormatError as error:
            logger.warning("invalid metrics of a scheduler", scheduler=name.removeprefix(meters), reason=error)
        except ValidationError:  # of another version, or forged
            continue
    return readings, active, [key for key in keys if key.startswith(results.encode())]


def _gauge(name: str, text: str, values: float | Mapping[Any, float], *labels: str) -> Metric:
    """Return a gauge with one value or, with labels, with a value for each tuple of label values."""
    family = GaugeMetricFamily(f"maabo_{name}", text, labels=labels)
    for label_values, value in values.items() if isinstance(values, Mapping) else [((), values)]:
        family.add_metric(label_values, value)
    return family


def check_writable(resources: Resources) -> None:
    """Raise an error if Redis refuses writes, for example because its memory is full."""
    # Has no effect, since the key exists; where it does not, event streams start anew, as they have to.
    resources.redis.set(resources.settings.key(names.EVENTS_EPOCH), token_hex(8), nx=True)
