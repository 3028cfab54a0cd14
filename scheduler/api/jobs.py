"""`/v1/jobs`: submit, list, inspect, pause, resume, cancel and delete jobs."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import Header, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json
from redis import RedisError

from maabo_dist.cluster.tracing import valid_traceparent
from maabo_dist.contract.api import Job, Page
from maabo_dist.contract.job import PAST_TENSE, JobCommand, JobState
from scheduler.api.datasets import DatasetId
from scheduler.api.dependencies import ApiState, Caller, Cursor, Limit, Reader, Submitter, cut_page, decode_cursor
from scheduler.api.details import JobDetails, job_details, render_details, render_statuses
from scheduler.api.problems import ConflictError, NotFoundError, documented
from scheduler.api.routing import Router, run_while_connected
from scheduler.api.submissions import JobRequest, SubmittedDocument, SubmittedJob, notify_scheduler, submit_all
from scheduler.api.tables import ColumnsRequest
from scheduler.ledger.jobs import COMMANDS, JobRow
from scheduler.messaging.publishers import StatusPublisher

router = Router(prefix="/v1", tags=["jobs"])

JSON = "application/json"


MAX_NOTE = 5000  # characters
JobPath = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", examples=["0123456789abcdef0123456789abcdef"])]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]
_ONE = documented("not-found")
_CHANGE = _ONE | documented("conflict")
_SUBMITTED: dict[int | str, dict[str, Any]] = {
    200: {"model": JobDetails, "description": "An existing job: the same request, or the same data and settings"},
    **documented("invalid-settings", "invalid-dataset", "not-found", "key-reused", "too-large", "quota-exceeded"),
}


@router.post("/jobs", status_code=202, response_model=JobDetails, responses=_SUBMITTED)
async def submit(request: Request, body: JobRequest, caller: Submitter, key: Key = None) -> Response:
    """Queue a job.

    A request with the same key and body returns the same job. A request with the same data and settings as an earlier
    job returns that job, unless `fresh` is set.
    """
    traceparent = valid_traceparent(request.headers.get("traceparent"))
    with caller.api.resources.tracing.span("submit", traceparent, "server") as span:
        document = SubmittedDocument(body, caller, key, span.traceparent)
        outcome = await caller.api.call(submit_all, document, at_once=True)
        if isinstance(outcome, ColumnsRequest):  # no thread waits while the table is read
            columns = await run_while_connected(request, caller.api.tables.prepare(outcome))
            outcome = await caller.api.call(submit_all, replace(document, columns=columns), at_once=True)
    if not isinstance(outcome, SubmittedJob):
        raise ConflictError("The job was deleted as soon as it was submitted.", remedy="Submit it again.")
    if outcome.created:
        caller.api.start(notify_scheduler, outcome.job)  # the answer need not wait for Redis
    headers = {"Location": f"/v1/jobs/{outcome.job}"}
    return Response(outcome.details, 202 if outcome.created else 200, headers, media_type=JSON)


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
    return Response(await caller.api.read(_load_pages, query), media_type=JSON)


@router.get("/jobs/{job}", response_model=JobDetails, responses=_ONE)
async def get_job(job: JobPath, caller: Reader) -> Response:
    """Return the status and settings of a job."""
    document = await caller.api.read(_load_documents, (caller.tenant, job))
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
        items = b",".join(render_statuses(api, page))
        pages[query] = b'{"items":[%b],"next":%b}' % (items, to_json(following))
    return pages


def _load_documents(api: ApiState, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], bytes]:
    """Return the details of jobs as JSON, by tenant and job."""
    wanted = set(keys)
    rows = api.ledger.jobs.get_many({job for _, job in keys})
    chosen = [row for row in rows if (row.spec.tenant, row.id) in wanted]
    documents = zip(chosen, render_details(api, chosen), strict=True)
    return {(row.spec.tenant, row.id): document for row, document in documents}


class JobLabels(BaseModel):
    """The owner's name for a job and a note about it. A field that is not given stays as it is; null removes it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"title": "Without the price"}]})

    title: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    note: Annotated[str, Field(min_length=1, max_length=MAX_NOTE)] | None = None


@router.patch("/jobs/{job}", responses=_ONE | documented("invalid-settings"))
def label_job(job: JobPath, body: JobLabels, caller: Submitter) -> JobDetails:
    """Name a job, or write a note about it."""
    find_job(caller, job)
    caller.api.ledger.jobs.set_labels(job, body.model_dump(exclude_unset=True))
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


def _command(caller: Caller, job: str, command: JobCommand) -> JobDetails:
    row = find_job(caller, job)
    if row.state.ended:
        raise ConflictError(
            f"Job {job} is {row.state.value}; it cannot be {PAST_TENSE[command]}.",
            remedy="Only unfinished jobs can be paused, resumed or cancelled.",
        )
    caller.api.ledger.jobs.set_command(job, COMMANDS[command], caller.api.ledger.now)
    caller.record(f"job.{command}", job)
    notify_scheduler(caller.api, [job])
    return job_details(caller.api, find_job(caller, job))
