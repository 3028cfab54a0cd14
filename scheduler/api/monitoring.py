"""`/healthz`, `/readyz`, `/v1/about`, `/metrics` and `/v1/load`: the state and load of this process and of the cluster.

    metrics in Redis, one record per scheduler ─┐
    lengths of streams and of queues ───────────┼─► `ClusterCollector` ─► the text that Prometheus scrapes
    worker records in Redis ────────────────────┤
    jobs in the ledger ─────────────────────────┘

A component that cannot be reached is reported as `maabo_up 0`, and its metrics are left out.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel, ValidationError
from redis import RedisError
from starlette.responses import Response

from maabo_dist._version import __version__
from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.contract import names
from maabo_dist.contract.job import JobState, WorkerRecord
from maabo_dist.contract.problem import MEDIA_TYPE, Problem
from maabo_dist.errors import FormatError, MaaboError
from scheduler import metrics
from scheduler.api.dependencies import Reader, api_state, authorize
from scheduler.api.problems import RETRY_SECONDS, ProblemResponse, correlation_of, documented
from scheduler.ledger.database import LedgerError
from scheduler.metrics import MetricDefinition, MetricsSnapshot, Timing
from scheduler.resources import BrokerError, Resources

logger = StructuredLogger("maabo.api.metrics")

router = APIRouter(tags=["health"])

_ABSENT = "columns/" + "0" * 64


class Health(BaseModel):
    """The process is alive."""

    status: str = "ok"


class Readiness(BaseModel):
    """Each component of the cluster with `ok` or its problem."""

    ready: bool
    parts: dict[str, str]


class NotReady(Problem):
    """A problem document with the state of each component."""

    ready: bool = False
    parts: dict[str, str]


class About(BaseModel):
    """Public information about a server."""

    version: str
    needs_token: bool  # True if all other requests need a token
    flower: str | None  # address of Flower, if configured


_NOT_READY = {
    "description": "A component of the cluster is not available",
    "content": {MEDIA_TYPE: {"schema": NotReady.model_json_schema()}},
}


@router.get("/healthz")
async def healthz() -> Health:
    """Check that this process is alive. Does not contact any other component."""
    return Health()


@router.get("/readyz", response_model=Readiness, responses={503: _NOT_READY})
def readyz(request: Request) -> Readiness | Response:
    """Check that a new job would be processed; if not, name the components that are not available."""
    resources = api_state(request).resources
    components = ("ledger", "redis", "scheduler", "store", *(["broker"] if resources.broker.is_separate else []))
    states = {component: _check(component, resources) for component in components}
    missing = [f"{name}: {state}" for name, state in states.items() if state != "ok"]
    if not missing:
        return Readiness(ready=True, parts=states)
    problem = Problem.of("unavailable", "; ".join(missing), instance=correlation_of(request))
    content = NotReady(**problem.model_dump(), parts=states).to_json()
    return ProblemResponse(content, problem.status, {"Retry-After": str(RETRY_SECONDS)})


def _check(component: str, resources: Resources) -> str:
    """Return `ok` or a problem; the response does not reveal addresses."""
    try:
        match component:
            case "ledger":
                resources.ledger.tokens.any_exist()
            case "redis":
                resources.redis.ping()
            case "scheduler":
                if not resources.redis.exists(resources.settings.key(names.CLUSTER)):
                    return "none is running"
            case "store":
                resources.store.has(_ABSENT)
            case "broker":
                resources.broker.waiting([names.EVALUATE_QUEUE])
    except (MaaboError, BrokerError, RedisError, OSError):
        return "cannot be reached"
    return "ok"


@router.get("/v1/about", responses=documented(public=True))
def about(request: Request) -> About:
    """Return the version of the server and how to use it. Needs no token."""
    api = api_state(request)
    return About(version=__version__, needs_token=api.needs_tokens(), flower=api.settings.flower_url)


QUEUES = (names.EVALUATE_QUEUE, names.RULES_QUEUE, names.JOBS_QUEUE)
# Only the tenants with the most jobs are shown, because anyone with access to Redis can create tenants.
MAX_TENANTS = 50
_FAMILIES: dict[str, Any] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}
_TEXT = {"description": "Prometheus text format", "content": {"text/plain": {"schema": {"type": "string"}}}}


@router.get("/metrics", response_class=Response, responses={200: _TEXT, **documented()})
def get_metrics(request: Request) -> Response:
    """Return all metrics. Needs the scope `admin`, because they cover all tenants, unless MAABO_OPEN_METRICS is set."""
    api = api_state(request)
    if not api.settings.open_metrics:
        authorize(request, "admin")
    return Response(generate_latest(api.metrics.registry), media_type=CONTENT_TYPE_LATEST)


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
        """Count a request."""
        self._latency.labels(method, route, str(status)).observe(seconds)


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
        readings, workers, result_streams = _read_records(self._resources)
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
    resources = caller.api.resources
    waiting = sum(resources.broker.waiting((names.EVALUATE_QUEUE, names.RULES_QUEUE)))
    readings, workers, _ = _read_records(resources)
    tasks = int(_total(readings, metrics.TASKS_IN_FLIGHT))
    timings = (reading.timings.get(metrics.TASK_SECONDS.name, {}) for reading in readings.values())
    return Load(
        tasks=tasks,
        waiting=min(tasks, waiting),
        work_seconds=sum(timing.sum for each in timings for timing in each.values()),
        processes=sum(worker.processes for worker in workers),
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


def _read_records(resources: Resources) -> tuple[dict[str, MetricsSnapshot], list[WorkerRecord], list[bytes]]:
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
