"""How long a job takes on this cluster, for users who are about to start it."""

from collections.abc import Iterable
from contextlib import suppress

from pydantic import ValidationError
from redis import RedisError

from maabo_dist.contract import names
from maabo_dist.contract.job import WorkerRecord
from maabo_dist.search.plan import SearchPlan, core_seconds, planned_shuffles, repeat_seconds, round_trip_seconds
from maabo_dist.settings import MiningSettings
from scheduler import metrics
from scheduler.api.details import RULES_SECONDS
from scheduler.api.monitoring import read_records
from scheduler.api.tables import PreparedColumns
from scheduler.metrics import MetricsSnapshot
from scheduler.resources import Resources

# Preparing a job.
START_SECONDS = 0.4
# Of the searches on shuffled labels that are planned by default: mostly none is needed, because a bound certifies the
# rules, and the first ones may decide.
EXPECTED_SHUFFLES = 0.1
# The speed of the workers is used once there are this many seconds to compare, and within limits.
MIN_COMPARED_SECONDS, MAX_SLOWDOWN = 1.0, 20.0


def count_processes(resources: Resources) -> int | None:
    """Return the tasks that all workers can run at the same time; None if Redis cannot be reached."""
    redis, prefix = resources.redis, resources.settings.key(names.WORKERS)
    total = 0
    try:
        keys = list(redis.scan_iter(match=f"{prefix}:*", count=1000))
        for text in redis.mget(keys) if keys else []:
            with suppress(ValidationError):  # of another version
                total += 0 if text is None else WorkerRecord.model_validate_json(text).processes
    except RedisError:
        return None
    return total


def measure_slowdown(readings: Iterable[MetricsSnapshot]) -> float:
    """Return how many times as long as expected the tasks of these schedulers took so far; 1 if that is unknown."""
    amounts = [reading.amounts.get(metrics.SEARCH_SECONDS.name, {}) for reading in readings]
    measured, expected = (sum(each.get(source, 0.0) for each in amounts) for source in ("measured", "expected"))
    if expected < MIN_COMPARED_SECONDS:
        return 1.0
    return min(MAX_SLOWDOWN, max(1 / MAX_SLOWDOWN, measured / expected))


def read_slowdown(resources: Resources) -> float:
    """Return the slowdown that all schedulers have measured; 1 if Redis cannot be reached."""
    try:
        return measure_slowdown(read_records(resources)[0].values())
    except RedisError:
        return 1.0


def estimate_seconds(
    plan: SearchPlan,
    settings: MiningSettings,
    columns: PreparedColumns,
    processes: int | None,
    slowdown: float = 1.0,
) -> float:
    """Estimate the time from the start to the end of a job, if these worker processes have nothing else to do."""
    size = {"rows": columns.rows, "classes": len(columns.classes)}
    shuffles = planned_shuffles(plan, settings, **size, independent=columns.independent)
    # Each task has one subset at least, and only the batches in flight are worked on at the same time.
    parallel = min(max(1, processes or 1), plan.batch * plan.in_flight)
    search = core_seconds(plan, settings, **size) / parallel + round_trip_seconds(plan)
    expected = EXPECTED_SHUFFLES if settings.certify == "auto" and columns.independent else 1.0
    certificate = expected * shuffles * repeat_seconds(plan, settings, **size) / max(1, processes or 1)
    return START_SECONDS + slowdown * (search + certificate) + RULES_SECONDS
