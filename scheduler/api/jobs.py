"""The result of a job as the cluster has it: final from the ledger, or so far from Redis."""

import json
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Header, Path, Query, Request, Response
from redis import RedisError

from maabo_dist.cluster.streams import send_request
from maabo_dist.cluster.tracing import valid_traceparent
from maabo_dist.contract import names
from maabo_dist.contract.job import Callback, DatasetRef, JobSpec, JobState, Webhook, dump_with_secrets
from maabo_dist.contract.messages import Request as Wish
from maabo_dist.contract.record import JobRecord
from maabo_dist.search.plan import SearchPlan
from scheduler.api.auth import Caller, Reader, Submitter
from scheduler.api.models import Cursor, DatasetId, Job, JobDetails, JobRequest, Limit, Page, cursor_of, place_of
from scheduler.api.problems import ConflictError, ForbiddenError, NotFoundError, correlation_of, documented
from scheduler.api.state import ApiState, api_state
from scheduler.core.job import record_of
from scheduler.ledger.jobs import JobRow
from scheduler.ledger.submissions import Submission
from scheduler.messaging.webhooks import check_place
from scheduler.resources import Resources


@dataclass(frozen=True, slots=True)
class Result:
    """The rules of a job, as the JSON document of `maabo mine`."""

    document: dict[str, Any]
    final: bool


def result_of(resources: Resources, row: JobRow) -> Result | None:
    """What there is of a job's rules; None before anyone has looked."""
    if row.state is JobState.DONE and (text := resources.ledger.jobs.document(row.id)) is not None:
        return Result(json.loads(text), final=True)
    found = resources.redis.get(resources.settings.key(f"{names.JOB_DOCUMENT}:{row.id}"))
    return None if found is None else Result(json.loads(found), final=False)


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
    api = api_state(request)
    with api.resources.tracing.span("submit", valid_traceparent(request.headers.get("traceparent")), "server") as span:
        submitted = _submitted(api, asked, caller, key, Origin(correlation_of(request), span.traceparent))
    if submitted.created:
        _tell(api, submitted.job)
    else:
        response.status_code = 200
    response.headers["Location"] = f"/v1/jobs/{submitted.job}"
    return details(api, owned(api, caller, submitted.job))


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
    api = api_state(request)
    place = place_of(cursor, float, str)
    after = None if place is None else (float(place[0]), str(place[1]))
    ledger = api.resources.ledger
    rows = ledger.jobs.page(caller.tenant, state=state, dataset=dataset, after=after, limit=limit + 1)
    shown, more = rows[:limit], len(rows) > limit
    last = cursor_of(shown[-1].created, shown[-1].id) if more else None
    records = _mirrored(api, shown)
    return Page[Job](items=[_job(row, records.get(row.id)) for row in shown], next=last)


@router.get("/{job}", responses=_ONE)
def get_job(request: Request, job: JobPath, caller: Reader) -> JobDetails:
    """Where a job stands."""
    api = api_state(request)
    return details(api, owned(api, caller, job))


@router.post("/{job}/cancel", status_code=202, responses=_ONE | documented("conflict"))
def cancel(request: Request, job: JobPath, caller: Submitter) -> JobDetails:
    """End a job. It is heeded within seconds; until then `wanted` tells of it."""
    return _ask(api_state(request), caller, job, "cancel")


@router.post("/{job}/pause", status_code=202, responses=_ONE | documented("conflict"))
def pause(request: Request, job: JobPath, caller: Submitter) -> JobDetails:
    """Let a job rest, with all that it has found."""
    return _ask(api_state(request), caller, job, "pause")


@router.post("/{job}/resume", status_code=202, responses=_ONE | documented("conflict"))
def resume(request: Request, job: JobPath, caller: Submitter) -> JobDetails:
    """Let a paused job go on."""
    return _ask(api_state(request), caller, job, "resume")


@router.delete("/{job}", status_code=204, responses=_ONE | documented("conflict"))
def delete_job(request: Request, job: JobPath, caller: Submitter) -> None:
    """Forget a job that has ended, with its result."""
    api = api_state(request)
    row = owned(api, caller, job)
    if not api.resources.ledger.jobs.delete(caller.tenant, job):
        raise ConflictError(f"Job {job} is {row.state.value}.", remedy="Cancel it first, and wait until it has ended.")
    settings = api.resources.settings
    with suppress(RedisError):  # what is mirrored expires by itself
        api.resources.redis.delete(*(settings.key(f"{kind}:{job}") for kind in names.JOB_KEYS))
        api.resources.redis.zrem(settings.key(names.JOB_LIST), job)


def owned(api: ApiState, caller: Caller, job: str) -> JobRow:
    """A job of the caller's tenant. Of others' jobs nobody learns even that they are there."""
    row = api.resources.ledger.jobs.get(job, tenant=caller.tenant)
    if row is None:
        raise NotFoundError(f"There is no job {job}.", field="job", remedy="GET /v1/jobs lists those there are.")
    return row


def _ask(api: ApiState, caller: Caller, job: str, wish: str) -> JobDetails:
    row = owned(api, caller, job)
    if row.state.ended:
        raise ConflictError(
            f"Job {job} is {row.state.value}; it cannot be {_PAST[wish]}.", remedy="Only jobs that go on can."
        )
    api.resources.ledger.jobs.set_command(job, _WANTED[wish], api.resources.clock())
    _tell(api, job)
    return details(api, owned(api, caller, job))


@dataclass(frozen=True, slots=True)
class Origin:
    """By what a request is known in logs and traces."""

    correlation: str | None
    trace: str | None


def _submitted(api: ApiState, asked: JobRequest, caller: Caller, key: str | None, origin: Origin) -> Submission:
    ledger = api.resources.ledger
    body = sha256(json.dumps(dump_with_secrets(asked), sort_keys=True).encode()).hexdigest()
    if key is not None and (known := ledger.submissions.find_by_key(caller.tenant, key, body)) is not None:
        return Submission(known, created=False)
    _check_callback(api, asked, caller)
    table = ledger.datasets.get(caller.tenant, asked.dataset)
    if table is None:
        raise NotFoundError(
            f"There is no table {asked.dataset}.", field="dataset", remedy="Upload it with POST /v1/datasets."
        )
    prepared = api.tables.prepared(table, asked.table)
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
    now = api.resources.clock()
    return ledger.submissions.submit(spec, now, key=key, body=body, fresh=asked.fresh, trees=plan.trees)


def _check_callback(api: ApiState, asked: JobRequest, caller: Caller) -> None:
    if isinstance(asked.callback, Webhook):
        check_place(asked.callback, api.resources.settings)
    if isinstance(asked.callback, Callback) and not caller.may("admin"):
        raise ForbiddenError(
            "A callback task goes to a queue of the cluster's broker, which needs the scope 'admin'.",
            field="callback",
            remedy='Name a webhook: {"url": "https://…", "secret": "…"}.',
        )


def _tell(api: ApiState, job: str) -> None:
    """A scheduler that hears of it looks at once; without Redis, in a few seconds."""
    with suppress(RedisError):
        send_request(api.resources.redis, api.resources.settings, Wish(kind="look", job=job))


def details(api: ApiState, row: JobRow) -> JobDetails:
    """All that can be said of a job."""
    job = _job(row, _mirrored(api, [row]).get(row.id))
    result = None
    with suppress(RedisError):
        result = result_of(api.resources, row)
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
    return Job.of(record, tenant=record.tenant, wanted=row.command, dataset=row.spec.dataset_id)


def _mirrored(api: ApiState, rows: list[JobRow]) -> dict[str, JobRecord]:
    going = [row.id for row in rows if not row.state.ended]
    if not going:
        return {}
    settings = api.resources.settings
    try:
        texts = api.resources.redis.mget([settings.key(f"{names.JOB_RECORD}:{job}") for job in going])
    except RedisError:
        return {}
    records = (JobRecord.model_validate_json(text) for text in texts if text is not None)
    return {record.id: record for record in records}
