"""`/v1/plans` and `/v1/jobs`: preview, submit, list, inspect, pause, resume, cancel and delete jobs."""

import json
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Header, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, ValidationError
from redis import RedisError

from maabo_dist.cluster.streams import send_request
from maabo_dist.cluster.tracing import valid_traceparent
from maabo_dist.contract import names
from maabo_dist.contract.api import Job, Page
from maabo_dist.contract.job import (
    PAST_TENSE,
    AnyCallback,
    Callback,
    DatasetRef,
    JobCommand,
    JobRecord,
    JobSpec,
    JobState,
    Priority,
    dump_with_secrets,
)
from maabo_dist.contract.messages import Request as SchedulerRequest
from maabo_dist.contract.selection import FunnelCounts
from maabo_dist.contract.wording import large_number
from maabo_dist.search.explanation import explain_plan
from maabo_dist.search.plan import SearchPlan, core_seconds, round_trip_seconds
from maabo_dist.settings import MiningSettings, TableSettings
from maabo_dist.study import check_classes
from scheduler.api.datasets import DatasetId, find_dataset
from scheduler.api.dependencies import ApiState, Caller, Cursor, Limit, Reader, Submitter, cut_page, decode_cursor
from scheduler.api.problems import ConflictError, ForbiddenError, NotFoundError, correlation_of, documented
from scheduler.api.tables import PreparedColumns
from scheduler.ledger.jobs import COMMANDS, JobRow
from scheduler.ledger.submissions import Submission
from scheduler.ledger.tenants import DatasetRow
from scheduler.messaging.publishers import StatusPublisher
from scheduler.messaging.webhooks import check_address
from scheduler.resources import Resources

router = APIRouter(prefix="/v1", tags=["jobs"])

_PROBLEMS = documented("invalid-settings", "invalid-dataset", "not-found", "too-large")
JOB_EXAMPLE: dict[str, Any] = {
    "dataset": "d41f0c9be4a1",
    "table": {"target": "survived", "exclude": ["name", "ticket"]},
    "settings": {"seed": 5, "trees": 200, "holdout": 0.2},
}


class PlanRequest(BaseModel):
    """A table and settings. Names are those of the options of `maabo mine`."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra={"examples": [JOB_EXAMPLE]})

    dataset: DatasetId  # ID of an uploaded table
    table: TableSettings = TableSettings()
    settings: MiningSettings = MiningSettings()


class Plan(BaseModel):
    """The search that a job would run."""

    features: int  # number of features, including probes
    rows: int
    classes: int
    space: str  # number of subsets of features, as text because it can exceed the integers of most languages
    space_text: str  # the same, abbreviated: `161,700`, `1.3×10¹²`
    subset_sizes: list[int]
    trees: int
    batch: int
    initial: int
    screened: bool  # True if pairs of features are screened before the search
    core_seconds: float  # estimated work, in seconds of one core
    round_trip_seconds: float  # estimated additional time for messages between scheduler and workers
    explained: list[str]  # the choices made for this search, with their reasons
    notes: list[str]  # changes made to the table, and settings that do not fit it


@router.post("/plans", responses=_PROBLEMS)
def make_plan(body: PlanRequest, caller: Submitter) -> Plan:
    """Preview a job: the size of its search, the choices made for it and its estimated duration.

    Rejects whatever `POST /v1/jobs` would reject, except for quotas.
    """
    table = find_dataset(caller, body.dataset)
    columns, plan = _settle(body, table, caller.api, keep=False)
    return Plan(
        features=plan.features,
        rows=columns.rows,
        classes=len(columns.classes),
        space=str(plan.space_size),
        space_text=large_number(plan.space_size),
        subset_sizes=list(plan.sizes),
        trees=plan.trees,
        batch=plan.batch,
        initial=plan.initial,
        screened=plan.screened,
        core_seconds=core_seconds(plan, body.settings, rows=columns.rows, classes=len(columns.classes)),
        round_trip_seconds=round_trip_seconds(plan),
        explained=list(
            explain_plan(
                plan,
                body.settings,
                rows=columns.rows,
                classes=len(columns.classes),
                independent=columns.independent,
            )
        ),
        notes=[*columns.notes, *plan.notes],
    )


class JobDetails(Job):
    """A job with its settings."""

    table: TableSettings | None = None
    settings: MiningSettings
    correlation: str | None = None
    # Number of leaves that remain after each selection step; null before the first selection of rules.
    funnel: dict[str, Any] | None = None


JobPath = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", examples=["0123456789abcdef0123456789abcdef"])]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]
_ONE = documented("not-found")
_CHANGE = _ONE | documented("conflict")
_SUBMITTED: dict[int | str, dict[str, Any]] = {
    200: {"model": JobDetails, "description": "An existing job: the same request, or the same data and settings"},
    **documented("invalid-settings", "invalid-dataset", "not-found", "key-reused", "too-large", "quota-exceeded"),
}


class JobRequest(PlanRequest):
    """A job to queue."""

    priority: Priority = Priority.NORMAL
    callback: AnyCallback | None = None
    fresh: bool = False  # run the job even if an identical one has run before


@router.post("/jobs", status_code=202, responses=_SUBMITTED)
def submit(request: Request, response: Response, body: JobRequest, caller: Submitter, key: Key = None) -> JobDetails:
    """Queue a job.

    A request with the same key and body returns the same job. A request with the same data and settings as an earlier
    job returns that job, unless `fresh` is set.
    """
    traceparent = valid_traceparent(request.headers.get("traceparent"))
    with caller.api.resources.tracing.span("submit", traceparent, "server") as span:
        submitted = _submit(body, caller, key, correlation_of(request), span.traceparent)
    if submitted.created:
        _notify_scheduler(caller.api, submitted.job)
    else:
        response.status_code = 200
    response.headers["Location"] = f"/v1/jobs/{submitted.job}"
    return job_details(caller.api, find_job(caller, submitted.job))


@router.get("/jobs", responses=documented("invalid-settings"))
def list_jobs(
    caller: Reader,
    state: Annotated[JobState | None, Query(description="Only jobs in this state.")] = None,
    dataset: Annotated[DatasetId | None, Query(description="Only jobs on this table.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[Job]:
    """List jobs, newest first."""
    after = decode_cursor(cursor, float, str)
    rows = caller.api.ledger.jobs.page(caller.tenant, state=state, dataset=dataset, after=after, limit=limit + 1)
    page, following = cut_page(rows, limit, lambda row: (row.created, row.id))
    return Page[Job](items=_job_statuses(caller.api, page), next=following)


@router.get("/jobs/{job}", responses=_ONE)
def get_job(job: JobPath, caller: Reader) -> JobDetails:
    """Return the status and settings of a job."""
    return job_details(caller.api, find_job(caller, job))


@router.post("/jobs/{job}/cancel", status_code=202, responses=_CHANGE)
def cancel(job: JobPath, caller: Submitter) -> JobDetails:
    """Cancel a job. It ends within seconds; until then, `wanted` shows the command."""
    return _command(caller, job, "cancel")


@router.post("/jobs/{job}/pause", status_code=202, responses=_CHANGE)
def pause(job: JobPath, caller: Submitter) -> JobDetails:
    """Pause a job and keep its results so far."""
    return _command(caller, job, "pause")


@router.post("/jobs/{job}/resume", status_code=202, responses=_CHANGE)
def resume(job: JobPath, caller: Submitter) -> JobDetails:
    """Resume a paused job."""
    return _command(caller, job, "resume")


@router.delete("/jobs/{job}", status_code=204, responses=_CHANGE)
def delete_job(job: JobPath, caller: Submitter) -> None:
    """Delete a job that has ended, with its result."""
    row = find_job(caller, job)
    if not caller.api.ledger.jobs.delete(caller.tenant, job):
        raise ConflictError(f"Job {job} is {row.state.value}.", remedy="Cancel it first, and wait until it has ended.")
    with suppress(RedisError):  # these keys also expire
        StatusPublisher(caller.api.resources).remove([job])


def find_job(caller: Caller, job: str) -> JobRow:
    """Return a job of the caller's tenant. Jobs of other tenants look as if they did not exist."""
    row = caller.api.ledger.jobs.get(job, tenant=caller.tenant)
    if row is None:
        raise NotFoundError(f"There is no job {job}.", field="job", remedy="GET /v1/jobs lists all jobs.")
    return row


def job_details(api: ApiState, row: JobRow) -> JobDetails:
    """Return everything about a job except its rules."""
    (status,) = _job_statuses(api, [row])
    funnel = None
    with suppress(RedisError, ValidationError):  # without Redis, or with a document of another version
        if (text := find_document(api.resources, row)) is not None:
            funnel = _FunnelOfDocument.model_validate_json(text).funnel.to_json()
    return JobDetails(
        **status.model_dump(),
        table=row.spec.dataset.settings,
        settings=row.spec.settings,
        correlation=row.spec.correlation,
        funnel=funnel,
    )


class _FunnelOfDocument(BaseModel):
    """The part of a result document that `JobDetails` shows."""

    funnel: FunnelCounts


def find_document(resources: Resources, row: JobRow) -> str | bytes | None:
    """Return the final result document from the ledger or the preliminary one from Redis; None if there is none yet."""
    if row.state is JobState.DONE and (text := resources.ledger.jobs.document(row.id)) is not None:
        return text
    preliminary: bytes | None = resources.redis.get(resources.settings.key(f"{names.JOB_DOCUMENT}:{row.id}"))
    return preliminary


def _command(caller: Caller, job: str, command: JobCommand) -> JobDetails:
    row = find_job(caller, job)
    if row.state.ended:
        raise ConflictError(
            f"Job {job} is {row.state.value}; it cannot be {PAST_TENSE[command]}.",
            remedy="Only unfinished jobs can be paused, resumed or cancelled.",
        )
    caller.api.ledger.jobs.set_command(job, COMMANDS[command], caller.api.ledger.now)
    _notify_scheduler(caller.api, job)
    return job_details(caller.api, find_job(caller, job))


def _submit(
    body: JobRequest, caller: Caller, key: str | None, correlation: str | None, trace: str | None
) -> Submission:
    api, ledger = caller.api, caller.api.ledger
    digest = sha256(json.dumps(dump_with_secrets(body), sort_keys=True).encode()).hexdigest()
    if key is not None and (existing := ledger.submissions.find_by_key(caller.tenant, key, digest)) is not None:
        return Submission(existing, created=False)
    _check_callback(body, caller)
    table = find_dataset(caller, body.dataset)
    columns, plan = _settle(body, table, api)
    spec = JobSpec(
        id=uuid4().hex,
        dataset=DatasetRef(fingerprint=columns.fingerprint, name=table.name, settings=body.table, notes=columns.notes),
        settings=body.settings,
        priority=body.priority,
        tenant=caller.tenant,
        callback=body.callback,
        dataset_id=table.id,
        correlation=correlation,
        trace=trace,
    )
    return ledger.submissions.submit(
        spec, api.resources.clock(), key=key, body=digest, fresh=body.fresh, trees=plan.trees
    )


def _settle(
    body: PlanRequest, table: DatasetRow, api: ApiState, *, keep: bool = True
) -> tuple[PreparedColumns, SearchPlan]:
    """Prepare the table and check the settings against it."""
    columns = api.tables.prepare(table, body.table, keep=keep, names=body.settings.names_columns)
    check_classes(columns.classes, body.settings)
    return columns, SearchPlan.settle(body.settings, columns.features + body.settings.probes, columns.column_names)


def _check_callback(body: JobRequest, caller: Caller) -> None:
    check_address(body.callback, caller.api.resources.settings)
    if isinstance(body.callback, Callback) and not caller.may("admin"):
        raise ForbiddenError(
            "A callback task goes to a queue of the cluster's message broker, which needs the scope 'admin'.",
            field="callback",
            remedy='Use a webhook: {"url": "https://…", "secret": "…"}.',
        )


def _notify_scheduler(api: ApiState, job: str) -> None:
    """Make a scheduler look at the job immediately; without Redis, it does so within seconds."""
    with suppress(RedisError):
        send_request(api.resources.redis, api.resources.settings, SchedulerRequest(kind="look", job=job))


def progress_fields(record: JobRecord) -> dict[str, Any]:
    """Return the fields of `JobProgress`. The job is assumed to continue at its average speed so far."""
    progress = eta = None
    if record.state is JobState.DONE:
        progress = 1.0
    elif record.planned:
        progress = min(1.0, record.trees / record.planned)
        if record.state is JobState.RUNNING and record.trees and record.obstacle is None:
            eta = max(0.0, record.seconds * (record.planned - record.trees) / record.trees)
    return record.model_dump() | {"progress": progress, "eta_seconds": eta}


def _job_statuses(api: ApiState, rows: Sequence[JobRow]) -> list[Job]:
    """The states come from the ledger; Redis may have newer values of the rest of jobs that have not ended."""
    running = [row.id for row in rows if not row.state.ended]
    texts: list[bytes | None] = []
    if running:
        keys = [api.resources.settings.key(f"{names.JOB_RECORD}:{job}") for job in running]
        with suppress(RedisError):
            texts = api.resources.redis.mget(keys)
    records = (JobRecord.model_validate_json(text) for text in texts if text is not None)
    live = {record.id: record for record in records}
    statuses = []
    for row in rows:
        record = live[row.id].model_copy(update={"state": row.state}) if row.id in live else row.record
        statuses.append(Job(**progress_fields(record), wanted=row.command, dataset=row.spec.dataset_id))
    return statuses
