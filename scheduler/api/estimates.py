"""How long a job takes on this cluster, for users who are about to start it."""

from contextlib import suppress

from pydantic import ValidationError
from redis import RedisError

from maabo_dist.contract import names
from maabo_dist.contract.job import WorkerRecord
from maabo_dist.search.plan import SearchPlan, core_seconds, planned_shuffles, repeat_seconds, round_trip_seconds
from maabo_dist.settings import MiningSettings
from scheduler.api.tables import PreparedColumns
from scheduler.resources import Resources

# Starting a job, choosing its rules and computing the figures of the report.
FIXED_SECONDS = 1.0


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


def estimate_seconds(
    plan: SearchPlan, settings: MiningSettings, columns: PreparedColumns, processes: int | None
) -> float:
    """Estimate the time from the start to the end of a job, if these worker processes have nothing else to do."""
    size = {"rows": columns.rows, "classes": len(columns.classes)}
    shuffles = planned_shuffles(plan, settings, **size, independent=columns.independent)
    # Each task has one subset at least, and only the batches in flight are worked on at the same time.
    parallel = min(max(1, processes or 1), plan.batch * plan.in_flight)
    search = core_seconds(plan, settings, **size) / parallel + round_trip_seconds(plan)
    certificate = shuffles * repeat_seconds(plan, settings, **size) / max(1, processes or 1)
    return FIXED_SECONDS + search + certificate
