"""`Metrics`: the counters, gauges and histograms of a scheduler process, from 0 at its start.

Metrics.count, observe, set ──► MetricsSnapshot ──JSON──► Redis, `maabo:meters:<owner>` ──► the API
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from maabo_dist.errors import FormatError

# Upper bounds of buckets, in seconds; one more bucket holds larger values.
SHORT = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
MIDDLE = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0)
LONG = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)


Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class MetricDefinition:
    """The name, meaning and labels of a metric."""

    kind: Kind
    name: str
    help: str
    label: str = ""
    # The label's values; one empty value if there is no label.
    values: tuple[str, ...] = ("",)
    bounds: tuple[float, ...] = ()


ALL: list[MetricDefinition] = []


def _define(
    kind: Kind, name: str, text: str, label: str = "", *values: str, bounds: tuple[float, ...] = ()
) -> MetricDefinition:
    metric = MetricDefinition(kind, name, text, label, values or ("",), bounds)
    ALL.append(metric)
    return metric


_counter, _gauge, _histogram = partial(_define, "counter"), partial(_define, "gauge"), partial(_define, "histogram")
_TASKS = ("task", "evaluate", "screen", "shuffle", "count", "rules")

TREES = _counter("trees_observed", "Trees observed.")
BATCHES_IN_FLIGHT = _gauge("batches_in_flight", "Batches proposed and not observed.")
TASKS_IN_FLIGHT = _gauge("tasks_in_flight", "Tasks sent and not answered.", *_TASKS)
TASKS_UNSENT = _gauge(
    "tasks_unsent",
    "Tasks that could be sent but wait because the queue is full enough.",
    *("task", "evaluate", "screen", "shuffle", "count"),
)
TASKS_SENT = _counter("tasks_sent", "Tasks sent, including repetitions.", *_TASKS)
RESENT = _counter(
    "tasks_resent",
    "Tasks to be sent again: no answer, or the worker lost it, failed or could not begin.",
    *("reason", "silent", "lost", "failed", "unavailable"),
)
LOST = _counter("tasks_lost", "Tasks whose process died or ran out of time.", *_TASKS)
FAILED_SUBSETS = _counter("subsets_failed", "Subsets given up after repeated failures.")
DROPPED = _counter("answers_dropped", "Answers dropped because another one had arrived first.", *_TASKS)
REFUSED = _counter("answers_refused", "Answers refused because they are invalid.")
LEASES = _counter("leases", "Changes of leases.", "change", "taken", "lost", "given_back")
OUTAGES = _counter(
    "outages",
    "Attempts that failed because a service could not be reached or written.",
    *("part", "ledger", "redis", "broker", "store", "other"),
)
ENDED = _counter("jobs_ended", "Jobs that this scheduler ended.", "state", "done", "failed", "cancelled")
WEBHOOKS = _counter("webhooks", "Attempts to call webhooks.", "outcome", "delivered", "failed", "given_up")
TASK_SECONDS = _histogram("task_duration_seconds", "Time that workers took for tasks.", *_TASKS, bounds=MIDDLE)
# What estimates are corrected by; from tasks that are long enough not to be dominated by their messages.
SEARCH_SECONDS = _counter(
    "search_seconds",
    "Time of evaluation tasks of at least 20 ms: as measured by workers, and as expected from the size of the table.",
    *("source", "measured", "expected"),
)
JOB_WAIT = _histogram("job_wait_seconds", "Time from the submission of a job to its start.", bounds=LONG)
COMMIT_SECONDS = _histogram("ledger_commit_seconds", "Duration of transactions that write to the ledger.", bounds=SHORT)

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Timing(BaseModel):
    """A histogram."""

    model_config = ConfigDict(frozen=True)

    bounds: tuple[Amount, ...]
    # One more than there are bounds; not cumulative.
    counts: tuple[Annotated[int, Field(ge=0)], ...]
    sum: Amount

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(self.counts) != len(self.bounds) + 1 or list(self.bounds) != sorted(set(self.bounds)):
            raise ValueError(f"{len(self.counts)} counts do not fit {len(self.bounds)} rising bounds")
        return self

    def cumulative(self) -> list[tuple[str, float]]:
        """Upper bounds as Prometheus writes them, each with the number of values up to it."""
        bounds = [*map(repr, self.bounds), "+Inf"]
        return [(bound, float(sum(self.counts[: index + 1]))) for index, bound in enumerate(bounds)]


class MetricsSnapshot(BaseModel):
    """All metrics of a scheduler at one moment, by name and label value."""

    model_config = ConfigDict(frozen=True)

    # Counters and gauges.
    amounts: dict[str, dict[str, Amount]]
    timings: dict[str, dict[str, Timing]]

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """Read a snapshot from Redis."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise FormatError(
                f"A scheduler's metrics are invalid: {error.errors(include_url=False)[0]['msg']}."
            ) from None


class _Histogram:
    """A `Timing` in the making."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, seconds: float) -> None:
        seconds = max(0.0, seconds)  # clocks may be set back
        self._counts[bisect_left(self._bounds, seconds)] += 1
        self._sum += seconds

    def timing(self) -> Timing:
        return Timing(bounds=self._bounds, counts=tuple(self._counts), sum=self._sum)


class Metrics:
    """Used by the loop and by the threads of webhooks."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._amounts = {
            metric.name: dict.fromkeys(metric.values, 0.0) for metric in ALL if metric.kind in {"counter", "gauge"}
        }
        self._timings = {
            metric.name: {value: _Histogram(metric.bounds) for value in metric.values}
            for metric in ALL
            if metric.kind == "histogram"
        }

    def count(self, metric: MetricDefinition, value: str = "", number: float = 1) -> None:
        """Add to a counter."""
        with self._lock:
            self._amounts[metric.name][value] += number

    def set(self, metric: MetricDefinition, level: float, value: str = "") -> None:
        """Set a gauge."""
        with self._lock:
            self._amounts[metric.name][value] = level

    def observe(self, metric: MetricDefinition, seconds: float, value: str = "") -> None:
        """Add a duration to a histogram."""
        with self._lock:
            self._timings[metric.name][value].add(seconds)

    def snapshot(self) -> MetricsSnapshot:
        """A copy of all values."""
        with self._lock:
            return MetricsSnapshot(
                amounts={name: dict(values) for name, values in self._amounts.items()},
                timings={
                    name: {value: histogram.timing() for value, histogram in values.items()}
                    for name, values in self._timings.items()
                },
            )
