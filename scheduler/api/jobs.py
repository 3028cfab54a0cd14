"""`/v1/jobs`: submit, list, inspect, pause, resume, cancel and delete jobs."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any
from uuid import uuid4

from fastapi import Header, Path, Query, Request, Response
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from redis import RedisError
from starlette.concurrency import run_in_threadpool

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
from maabo_dist.settings import MiningSettings, TableSettings
from scheduler.api.datasets import DatasetId, find_dataset
from scheduler.api.dependencies import ApiState, Caller, Cursor, Limit, Reader, Submitter, cut_page, decode_cursor
from scheduler.api.plans import PlanRequest, settle
from scheduler.api.problems import ConflictError, ForbiddenError, NotFoundError, correlation_of, documented
from scheduler.api.routing import Router, run_while_connected
from scheduler.api.tables import ColumnsRequest, PreparedColumns
from scheduler.ledger.jobs import COMMANDS, JobRow
from scheduler.ledger.submissions import Submission
from scheduler.ledger.tenants import DatasetRow
from scheduler.messaging.publishers import StatusPublisher
from scheduler.messaging.webhooks import check_address
from scheduler.resources import Resources

router = Router(prefix="/v1", tags=["jobs"])

JSON = "application/json"
MAX_FUNNELS = 1000  # that a process remembers


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
async def submit(
    request: Request, response: Response, body: JobRequest, caller: Submitter, key: Key = None
) -> JobDetails:
    """Queue a job.

    A request with the same key and body returns the same job. A request with the same data and settings as an earlier
    job returns that job, unless `fresh` is set.
    """
    traceparent = valid_traceparent(request.headers.get("traceparent"))
    with caller.api.resources.tracing.span("submit", traceparent, "server") as span:
        document = SubmittedDocument(body, caller, key, correlation_of(request), span.traceparent)
        outcome = await run_in_threadpool(document.submit)
        if isinstance(outcome, ColumnsRequest):  # no thread waits while the table is read
            columns = await run_while_connected(request, caller.api.tables.prepare(outcome))
            outcome = await run_in_threadpool(document.submit_with, outcome.table, columns)
    if not outcome.created:
        response.status_code = 200
    response.headers["Location"] = f"/v1/jobs/{outcome.details.id}"
    return outcome.details


@router.get("/jobs", response_model=Page[Job], responses=documented("invalid-settings"))
async def list_jobs(
    caller: Reader,
    state: Annotated[JobState | None, Query(description="Only jobs in this state.")] = None,
    dataset: Annotated[DatasetId | None, Query(description="Only jobs on this table.")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """List jobs, newest first."""
    query = _JobQuery(caller.tenant, state, dataset, decode_cursor(cursor, float, str), limit)
    return Response(await caller.api.call(_load_pages, query), media_type=JSON)


@router.get("/jobs/{job}", response_model=JobDetails, responses=_ONE)
async def get_job(job: JobPath, caller: Reader) -> Response:
    """Return the status and settings of a job."""
    document = await caller.api.call(_load_documents, (caller.tenant, job))
    if document is None:
        raise _unknown(job)
    return Response(document, media_type=JSON)


@dataclass(frozen=True, slots=True)
class _JobQuery:
    tenant: str
    state: JobState | None
    dataset: str | None
    after: tuple[float, str] | None
    limit: int


def _load_pages(api: ApiState, queries: Sequence[_JobQuery]) -> dict[_JobQuery, bytes]:
    """Return the pages of jobs as JSON."""
    pages = {}
    for query in queries:
        rows = api.ledger.jobs.page(
            query.tenant, state=query.state, dataset=query.dataset, after=query.after, limit=query.limit + 1
        )
        page, following = cut_page(rows, query.limit, lambda row: (row.created, row.id))
        items = [job.model_dump(mode="json") for job in _job_statuses(api, page)]
        pages[query] = to_json({"items": items, "next": following})
    return pages


def _load_documents(api: ApiState, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
    """Return the details of jobs as JSON, by tenant and job."""
    wanted = set(keys)
    rows = api.ledger.jobs.get_many({job for _, job in keys})
    chosen = [row for row in rows if (row.spec.tenant, row.id) in wanted]
    details = zip(chosen, all_details(api, chosen), strict=True)
    return {(row.spec.tenant, row.id): each.model_dump_json().encode() for row, each in details}


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
    caller.record("job.delete", job)
    with suppress(RedisError):  # these keys also expire
        StatusPublisher(caller.api.resources).remove([job])


def find_job(caller: Caller, job: str) -> JobRow:
    """Return a job of the caller's tenant. Jobs of other tenants look as if they did not exist."""
    row = caller.api.ledger.jobs.get(job, tenant=caller.tenant)
    if row is None:
        raise _unknown(job)
    return row


def _unknown(job: str) -> NotFoundError:
    return NotFoundError(f"There is no job {job}.", field="job", remedy="GET /v1/jobs lists all jobs.")


def job_details(api: ApiState, row: JobRow) -> JobDetails:
    """Return everything about a job except its rules."""
    (details,) = all_details(api, [row])
    return details


def all_details(api: ApiState, rows: Sequence[JobRow]) -> list[JobDetails]:
    """Like `job_details`, of several jobs."""
    return [
        JobDetails.model_construct(
            **dict(status),
            table=row.spec.dataset.settings,
            settings=row.spec.settings,
            correlation=row.spec.correlation,
            funnel=None if status.rules is None else _find_funnel(api, row),
        )
        for row, status in zip(rows, _job_statuses(api, rows), strict=True)
    ]


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


def _command(caller: Caller, job: str, command: JobCommand) -> JobDetails:
    row = find_job(caller, job)
    if row.state.ended:
        raise ConflictError(
            f"Job {job} is {row.state.value}; it cannot be {PAST_TENSE[command]}.",
            remedy="Only unfinished jobs can be paused, resumed or cancelled.",
        )
    caller.api.ledger.jobs.set_command(job, COMMANDS[command], caller.api.resources.clock())
    caller.record(f"job.{command}", job)
    _notify_scheduler(caller.api, job)
    return job_details(caller.api, find_job(caller, job))


@dataclass(frozen=True, slots=True)
class _Submitted:
    """A job that was submitted, now or before."""

    created: bool
    details: JobDetails


@dataclass(frozen=True, slots=True)
class SubmittedDocument:
    """A request to submit a job. Its methods run in threads."""

    body: JobRequest
    caller: Caller
    key: str | None
    correlation: str | None
    trace: str | None

    def submit(self) -> _Submitted | ColumnsRequest:
        """Queue the job, or return what has to be prepared before."""
        body, caller, submissions = self.body, self.caller, self.caller.api.ledger.submissions
        if self.key is not None:
            existing = submissions.find_by_key(caller.tenant, self.key, self._digest)
            if existing is not None:
                return self._submitted(Submission(existing, created=False))
        _check_callback(body, caller)
        table = find_dataset(caller, body.dataset)
        request = ColumnsRequest(table, body.table, names=body.settings.names_columns)
        columns = caller.api.tables.find(request)
        return request if columns is None else self.submit_with(table, columns)

    def submit_with(self, table: DatasetRow, columns: PreparedColumns) -> _Submitted:
        """Queue the job on a prepared table."""
        body, api = self.body, self.caller.api
        plan = settle(body, columns)
        reference = DatasetRef(
            fingerprint=columns.fingerprint, name=table.name, settings=body.table, notes=columns.notes
        )
        spec = JobSpec(
            id=uuid4().hex,
            dataset=reference,
            settings=body.settings,
            priority=body.priority,
            tenant=self.caller.tenant,
            callback=body.callback,
            dataset_id=table.id,
            correlation=self.correlation,
            trace=self.trace,
        )
        entry = self.caller.entry("job.submit", spec.id)
        submission = api.ledger.submissions.submit(
            spec,
            api.resources.clock(),
            key=self.key,
            body=self._digest,
            fresh=body.fresh,
            trees=plan.trees,
            entry=entry,
        )
        return self._submitted(submission)

    @property
    def _digest(self) -> str:
        """Identifies the document, whatever the order of its fields."""
        return sha256(json.dumps(dump_with_secrets(self.body), sort_keys=True).encode()).hexdigest()

    def _submitted(self, submission: Submission) -> _Submitted:
        if submission.created:
            _notify_scheduler(self.caller.api, submission.job)
        return _Submitted(submission.created, job_details(self.caller.api, find_job(self.caller, submission.job)))


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
        if record.state is JobState.RUNNING and record.trees:
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
    live: dict[str, JobRecord] = {}
    for job, text in zip(running, texts, strict=False):  # no texts without Redis
        with suppress(ValidationError):  # no record, or one of another version
            live[job] = JobRecord.model_validate_json(text or b"")
    statuses = []
    for row in rows:
        record = live[row.id].model_copy(update={"state": row.state}) if row.id in live else row.record
        statuses.append(Job(**progress_fields(record), wanted=row.command, dataset=row.spec.dataset_id))
    return statuses
