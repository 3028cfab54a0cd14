"""`/v1/jobs`: asked for, listed, looked at, paused, resumed, cancelled, forgotten."""

import json
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Header, Path, Query, Request, Response
from redis import RedisError

from maabo_dist.cluster.streams import send_request
from maabo_dist.cluster.tracing import checked
from maabo_dist.contract import names
from maabo_dist.contract.job import Callback, DatasetRef, JobSpec, JobState, Webhook, with_secrets
from maabo_dist.contract.messages import Request as Wish
from maabo_dist.contract.record import JobRecord
from maabo_dist.settings import SearchPlan
from scheduler.api.callers import Caller, Reader, Submitter
from scheduler.api.documents import result_of
from scheduler.api.pages import Cursor, Limit, Page, cursor_of, place_of
from scheduler.api.problems import ConflictError, ForbiddenError, NotFoundError, correlation_of, documented
from scheduler.api.shapes import DatasetId, Job, JobDetails, JobRequest
from scheduler.api.state import Service, service_of
from scheduler.core.job import record_of
from scheduler.ledger.jobs import JobRow
from scheduler.ledger.tenants import Submitted
from scheduler.messaging.webhooks import check_place

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

JobPath = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", examples=["0123456789abcdef0123456789abcdef"])]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]
_WANTED = {"pause": "pause", "resume": "run", "cancel": "cancel"}
_PAST = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}
_ONE = documented("invalid-document", "unauthorized", "forbidden", "not-found")
_SUBMITTED: dict[int | str, dict[str, Any]] = {
    200: {"model": JobDetails, "description": "It was there: asked for before, or one that does the same"},
    **documented(
        *("invalid-document", "invalid-settings", "invalid-dataset", "unauthorized", "forbidden", "not-found"),
        *("key-reused", "too-large", "quota-exceeded"),
    ),
}


@router.post("", status_code=202, responses=_SUBMITTED)
def submit(request: Request, response: Response, asked: JobRequest, caller: Submitter, key: Key = None) -> JobDetails:
    """Queue a job. The same key and body give the same job; the same data and settings find the earlier result."""
    service = service_of(request)
    with service.parts.tracing.span("submit", checked(request.headers.get("traceparent")), "server") as span:
        submitted = _submitted(service, asked, caller, key, Origin(correlation_of(request), span.traceparent))
    if submitted.created:
        _tell(service, submitted.job)
    else:
        response.status_code = 200
    response.headers["Location"] = f"/v1/jobs/{submitted.job}"
    return details(service, owned(service, caller, submitted.job))


@router.get("", responses=documented("invalid-document", "invalid-settings", "unauthorized", "forbidden"))
def list_jobs(
    request: Request,
    caller: Reader,
    state: Annotated[JobState | None, Query(description="Only jobs in this state.")] = None,
    dataset: Annotated[DatasetId | None, Query(description="Only jobs on this table.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Page[Job]:
    """Jobs, the newest first."""
    service = service_of(request)
    place = place_of(cursor, float, str)
    after = None if place is None else (float(place[0]), str(place[1]))
    registry = service.parts.ledger.registry
    rows = registry.list_jobs(caller.tenant, state=state, dataset=dataset, after=after, most=limit + 1)
    shown, more = rows[:limit], len(rows) > limit
    last = cursor_of(shown[-1].created, shown[-1].id) if more else None
    records = _mirrored(service, shown)
    return Page[Job](items=[_job(row, records.get(row.id)) for row in shown], next=last)


@router.get("/{job}", responses=_ONE)
def get_job(request: Request, job: JobPath, caller: Reader) -> JobDetails:
    """Where a job stands."""
    service = service_of(request)
    return details(service, owned(service, caller, job))


@router.post("/{job}/cancel", status_code=202, responses=_ONE | documented("conflict"))
def cancel(request: Request, job: JobPath, caller: Submitter) -> JobDetails:
    """End a job. It is heeded within seconds; until then `wanted` tells of it."""
    return _ask(service_of(request), caller, job, "cancel")


@router.post("/{job}/pause", status_code=202, responses=_ONE | documented("conflict"))
def pause(request: Request, job: JobPath, caller: Submitter) -> JobDetails:
    """Let a job rest, with all that it has found."""
    return _ask(service_of(request), caller, job, "pause")


@router.post("/{job}/resume", status_code=202, responses=_ONE | documented("conflict"))
def resume(request: Request, job: JobPath, caller: Submitter) -> JobDetails:
    """Let a paused job go on."""
    return _ask(service_of(request), caller, job, "resume")


@router.delete("/{job}", status_code=204, responses=_ONE | documented("conflict"))
def delete_job(request: Request, job: JobPath, caller: Submitter) -> None:
    """Forget a job that has ended, with its result."""
    service = service_of(request)
    row = owned(service, caller, job)
    if not service.parts.ledger.registry.delete_job(caller.tenant, job):
        raise ConflictError(f"Job {job} is {row.state.value}.", remedy="Cancel it first, and wait until it has ended.")
    settings = service.parts.settings
    with suppress(RedisError):  # what is mirrored expires by itself
        service.parts.redis.delete(*(settings.key(f"{kind}:{job}") for kind in names.OF_A_JOB))
        service.parts.redis.zrem(settings.key(names.JOB_LIST), job)


def owned(service: Service, caller: Caller, job: str) -> JobRow:
    """A job of the caller's tenant. Of others' jobs nobody learns even that they are there."""
    row = service.parts.ledger.registry.job(caller.tenant, job)
    if row is None:
        raise NotFoundError(f"There is no job {job}.", field="job", remedy="GET /v1/jobs lists those there are.")
    return row


def _ask(service: Service, caller: Caller, job: str, wish: str) -> JobDetails:
    row = owned(service, caller, job)
    if row.state.ended:
        raise ConflictError(
            f"Job {job} is {row.state.value}; it cannot be {_PAST[wish]}.", remedy="Only jobs that go on can."
        )
    service.parts.ledger.ask(job, _WANTED[wish], service.parts.clock())
    _tell(service, job)
    return details(service, owned(service, caller, job))


@dataclass(frozen=True, slots=True)
class Origin:
    """By what a request is known in logs and traces."""

    correlation: str | None
    trace: str | None


def _submitted(service: Service, asked: JobRequest, caller: Caller, key: str | None, origin: Origin) -> Submitted:
    registry = service.parts.ledger.registry
    body = sha256(json.dumps(with_secrets(asked), sort_keys=True).encode()).hexdigest()
    if key is not None and (known := registry.job_of_key(caller.tenant, key, body)) is not None:
        return Submitted(known, created=False)
    _check_callback(service, asked, caller)
    table = registry.dataset(caller.tenant, asked.dataset)
    if table is None:
        raise NotFoundError(
            f"There is no table {asked.dataset}.", field="dataset", remedy="Upload it with POST /v1/datasets."
        )
    prepared = service.tables.prepared(table, asked.table)
    plan = SearchPlan.settle(asked.settings, prepared.features + asked.settings.probes)
    spec = JobSpec(
        id=uuid4().hex,
        dataset=DatasetRef(
            fingerprint=prepared.fingerprint, name=table.name, settings=asked.table, notes=prepared.notes
        ),
        settings=asked.settings,
        priority=asked.priority,
        tenant=caller.tenant,
        callback=asked.callback,
        dataset_id=table.id,
        correlation=origin.correlation,
        trace=origin.trace,
    )
    now = service.parts.clock()
    return registry.submit(spec, now, key=key, body=body, fresh=asked.fresh, trees=plan.trees)


def _check_callback(service: Service, asked: JobRequest, caller: Caller) -> None:
    if isinstance(asked.callback, Webhook):
        check_place(asked.callback, service.parts.settings)
    if isinstance(asked.callback, Callback) and not caller.may("admin"):
        raise ForbiddenError(
            "A callback task goes to a queue of the cluster's broker, which needs the scope 'admin'.",
            field="callback",
            remedy='Name a webhook: {"url": "https://…", "secret": "…"}.',
        )


def _tell(service: Service, job: str) -> None:
    """A scheduler that hears of it looks at once; without Redis, in a few seconds."""
    with suppress(RedisError):
        send_request(service.parts.redis, service.parts.settings, Wish(kind="look", job=job))


def details(service: Service, row: JobRow) -> JobDetails:
    """All that can be said of a job."""
    job = _job(row, _mirrored(service, [row]).get(row.id))
    result = None
    with suppress(RedisError):
        result = result_of(service.parts, row)
    return JobDetails(
        **job.model_dump(),
        table=row.spec.dataset.settings,
        settings=row.spec.settings,
        correlation=row.spec.correlation,
        funnel=None if result is None else result.document.get("funnel"),
    )


def _job(row: JobRow, mirrored: JobRecord | None) -> Job:
    """The ledger says the state; what Redis shows of a job that goes on may be newer in all else."""
    record = record_of(row) if mirrored is None else mirrored.model_copy(update={"state": row.state})
    return Job.of(record, tenant=record.tenant, wanted=row.wanted, dataset=row.spec.dataset_id)


def _mirrored(service: Service, rows: list[JobRow]) -> dict[str, JobRecord]:
    going = [row.id for row in rows if not row.state.ended]
    if not going:
        return {}
    settings = service.parts.settings
    try:
        texts = service.parts.redis.mget([settings.key(f"{names.JOB_RECORD}:{job}") for job in going])
    except RedisError:
        return {}
    records = (JobRecord.model_validate_json(text) for text in texts if text is not None)
    return {record.id: record for record in records}
