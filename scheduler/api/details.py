"""What the API shows of jobs: `Job`, their status, and `JobDetails`."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from redis import RedisError

from maabo_dist.contract import names
from maabo_dist.contract.api import Job
from maabo_dist.contract.job import JobRecord, JobState, Obstacle
from maabo_dist.contract.selection import FunnelCounts
from maabo_dist.settings import MiningSettings, TableSettings
from scheduler.api.dependencies import ApiState
from scheduler.ledger.jobs import JobRow
from scheduler.resources import Resources

MAX_FUNNELS, MAX_RENDERED = 1000, 1000  # that a process remembers
_HELD = {JobState.RUNNING, JobState.MINING}  # a scheduler works on these jobs
# Choosing the rules and computing the figures of the report, after the search.
RULES_SECONDS = 0.7
# The time left is estimated from this many seconds after the first trees, or from this share of the trees.
MIN_SECONDS, MIN_SHARE = 1.0, 0.05
# Of a search whose first trees take so long, the start is a small part.
SLOW_SECONDS = 5.0


class JobDetails(Job):
    """A job with its settings."""

    table: TableSettings | None = None
    settings: MiningSettings
    correlation: str | None = None
    # Number of leaves that remain after each selection step; null before the first selection of rules.
    funnel: dict[str, Any] | None = None


def job_details(api: ApiState, row: JobRow) -> JobDetails:
    """Return everything about a job except its rules."""
    (details,) = all_details(api, [row])
    return details


def all_details(api: ApiState, rows: Sequence[JobRow]) -> list[JobDetails]:
    """Like `job_details`, of several jobs."""
    return [_details(api, row, live) for row, live in zip(rows, _find_live(api, rows), strict=True)]


def new_details(api: ApiState, row: JobRow) -> JobDetails:
    """Return the details of a job that has just been added."""
    return _details(api, row, _ENDED)


def _details(api: ApiState, row: JobRow, live: "_Live") -> JobDetails:
    fields = _status_fields(row, live)
    return JobDetails(
        **fields,
        table=row.spec.dataset.settings,
        settings=row.spec.settings,
        correlation=row.spec.correlation,
        funnel=None if fields["rules"] is None else _find_funnel(api, row),
    )


def _find_funnel(api: ApiState, row: JobRow) -> dict[str, Any] | None:
    """Return the funnel of the rules so far. That of final rules is remembered: documents are long."""
    final = row.state is JobState.DONE
    if final and row.id in api.funnels:
        return api.funnels[row.id]
    funnel = None
    with suppress(RedisError, ValidationError):  # without Redis, or with a document of another version
        if (text := find_document(api.resources, row)) is not None:
            funnel = _FunnelOfDocument.model_validate_json(text).funnel.to_json()
    if final:
        if len(api.funnels) >= MAX_FUNNELS:
            api.funnels.clear()
        api.funnels[row.id] = funnel
    return funnel


class _FunnelOfDocument(BaseModel):
    """The part of a result document that `JobDetails` shows."""

    funnel: FunnelCounts


def find_document(resources: Resources, row: JobRow) -> str | bytes | None:
    """Return the final result document from the ledger or the preliminary one from Redis; None if there is none yet."""
    if row.state is JobState.DONE and (text := resources.ledger.jobs.document(row.id)) is not None:
        return text
    preliminary: bytes | None = resources.redis.get(resources.settings.key(f"{names.JOB_DOCUMENT}:{row.id}"))
    return preliminary


def time_left(record: JobRecord) -> float | None:
    """Estimate the time to the end of a job from the time that its trees have taken; None if they are too few.

    The first trees do not count: the time until then includes the start, screens, and workers that fetch the table.
    """
    if not record.planned:
        return None
    trees, seconds = record.trees, record.seconds
    if record.first_trees is not None and record.first_seconds is not None and trees > record.first_trees:
        trees, seconds = trees - record.first_trees, max(0.0, seconds - record.first_seconds)
        if seconds < MIN_SECONDS and trees < MIN_SHARE * record.planned:
            return None
    elif not trees or seconds < SLOW_SECONDS:
        return None
    return max(0.0, seconds * (record.planned - record.trees) / trees) + RULES_SECONDS


def progress_fields(record: JobRecord) -> dict[str, Any]:
    """Return the fields of `JobProgress`."""
    progress = eta = None
    if record.state is JobState.DONE:
        progress = 1.0
    elif record.planned:
        progress = min(1.0, record.trees / record.planned)
        if record.state is JobState.RUNNING and record.obstacle is None:
            eta = time_left(record)
    return record.model_dump() | {"progress": progress, "eta_seconds": eta}


def job_statuses(api: ApiState, rows: Sequence[JobRow]) -> list[Job]:
    """Return the statuses of jobs.

    The states come from the ledger; Redis may have newer values of the rest of jobs that have not ended.
    """
    return [_status(row, live) for row, live in zip(rows, _find_live(api, rows), strict=True)]


@dataclass(frozen=True, slots=True)
class _Live:
    """What the ledger's row of a job does not have: its record in Redis, and the outage of its scheduler, if any."""

    record: bytes | None = None
    outage: Obstacle | None = None


_ENDED = _Live()


def _find_live(api: ApiState, rows: Sequence[JobRow]) -> list[_Live]:
    unended = [row for row in rows if not row.state.ended]
    if not unended:
        return [_ENDED for _ in rows]
    texts: list[bytes | None] = [None for _ in unended]
    with suppress(RedisError):
        texts = api.resources.redis.mget(
            [api.resources.settings.key(f"{names.JOB_RECORD}:{row.id}") for row in unended]
        )
    outages = api.current_outages() if any(row.state in _HELD for row in unended) else {}
    live = {
        row.id: _Live(text, outages.get(row.owner or "") if row.state in _HELD else None)
        for row, text in zip(unended, texts, strict=True)
    }
    return [live.get(row.id, _ENDED) for row in rows]


def _status(row: JobRow, live: _Live) -> Job:
    return Job(**_status_fields(row, live))


def _status_fields(row: JobRow, live: _Live) -> dict[str, Any]:
    """Return the fields of `Job`."""
    record = row.record
    if live.record is not None:
        with suppress(ValidationError):  # a record of another version
            record = JobRecord.model_validate_json(live.record).model_copy(update={"state": row.state})
    if live.outage is not None:
        # The record may be older: the scheduler cannot write to Redis if that is what is missing.
        record = record.model_copy(update={"obstacle": live.outage})
    owner = {"wanted": row.command, "dataset": row.spec.dataset_id, "title": row.title, "note": row.note}
    return progress_fields(record) | owner


Rendered = tuple[JobRow, _Live, bytes]


def render_statuses(api: ApiState, rows: Sequence[JobRow]) -> list[bytes]:
    """Return the statuses of jobs as JSON."""
    return _render(api, rows, api.statuses, lambda row, live: (_status(row, live), True))


def render_details(api: ApiState, rows: Sequence[JobRow]) -> list[bytes]:
    """Return the details of jobs as JSON."""

    def describe(row: JobRow, live: _Live) -> tuple[Job, bool]:
        details = _details(api, row, live)
        # The funnel of preliminary rules is in Redis, and changes by itself.
        return details, details.rules is None or row.state is JobState.DONE

    return _render(api, rows, api.details, describe)


def _render(
    api: ApiState,
    rows: Sequence[JobRow],
    remembered: dict[str, Rendered],
    describe: Callable[[JobRow, _Live], tuple[Job, bool]],
) -> list[bytes]:
    """Return documents. Those that are still true are remembered; the ledger and Redis are read every time.

    `describe` returns a document, and whether it depends on its arguments only.
    """
    documents = []
    for row, live in zip(rows, _find_live(api, rows), strict=True):
        known = remembered.get(row.id)
        if known is None or known[0] is not row or known[1] != live:
            job, reusable = describe(row, live)
            known = row, live, job.model_dump_json().encode()
            if len(remembered) >= MAX_RENDERED:
                remembered.clear()
            if reusable:
                remembered[row.id] = known
        documents.append(known[2])
    return documents
