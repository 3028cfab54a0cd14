"""`submit_all`: queues the jobs of all requests that wait, in one transaction."""

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated
from uuid import uuid4

from pydantic import Field
from redis import RedisError

from maabo_dist.cluster.streams import send_request
from maabo_dist.contract.api import DIRECTORY
from maabo_dist.contract.job import AnyCallback, Callback, DatasetRef, JobSpec, Priority, dump_with_secrets
from maabo_dist.contract.messages import Request as SchedulerRequest
from maabo_dist.errors import InputError, MaaboError, SettingsError
from scheduler.api.datasets import unknown_dataset
from scheduler.api.dependencies import ApiState, Caller
from scheduler.api.details import new_details, render_details
from scheduler.api.plans import PlanRequest, count_trees
from scheduler.api.problems import ForbiddenError
from scheduler.api.tables import ColumnsRequest, Key, PreparedColumns
from scheduler.ledger.jobs import queued_job
from scheduler.ledger.submissions import Submission, SubmissionRequest
from scheduler.ledger.tenants import DatasetRow
from scheduler.messaging.webhooks import check_address


class JobRequest(PlanRequest):
    """A job to queue."""

    priority: Priority = Priority.NORMAL
    callback: AnyCallback | None = None
    fresh: bool = False  # run the job even if an identical one has run before
    # Rows of a directory to search; the evidence is counted on all of its rows. By default, 200,000.
    sample: Annotated[int, Field(ge=1)] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SubmittedDocument:
    """A request to submit a job; `columns` are given if the table has just been prepared for it."""

    body: JobRequest
    caller: Caller
    key: str | None
    trace: str | None
    columns: PreparedColumns | None = None

    @property
    def digest(self) -> str:
        """Identifies the document, whatever the order of its fields; only needed with a key."""
        if self.key is None:
            return ""
        return sha256(json.dumps(dump_with_secrets(self.body), sort_keys=True).encode()).hexdigest()

    def find_existing(self, digest: str) -> Submission | None:
        """Return the job of the same key, which stays valid when its table is deleted."""
        if self.key is None:
            return None
        job = self.caller.api.ledger.submissions.find_by_key(self.caller.tenant, self.key, digest)
        return None if job is None else Submission(job, created=False)

    def to_request(self, table: DatasetRow, columns: PreparedColumns, digest: str) -> SubmissionRequest:
        """Return the job for the ledger, if the settings fit the table."""
        body = self.body
        trees = count_trees(body, columns)
        reference = DatasetRef(
            fingerprint=columns.fingerprint, name=table.name, settings=body.table, notes=columns.notes
        )
        return self._request(table, reference, digest, trees)

    def to_sampling_request(self, dataset: str, digest: str) -> SubmissionRequest:
        """Return the job on a directory for the ledger; the number of trees is known once its sample is drawn."""
        table = self.caller.api.ledger.datasets.get(self.caller.tenant, dataset)
        if table is None:
            raise unknown_dataset(dataset)
        from scheduler.api.directories import many_reference  # noqa: PLC0415 - pandas, which other jobs do not need

        reference = DatasetRef(fingerprint=table.digest, name=table.name, settings=self.body.table)
        many = many_reference(
            table, self.caller.api.settings.tables_url, reference, self.body.settings, self.body.sample
        )
        return self._request(table, many, digest, None)

    def _request(self, table: DatasetRow, reference: DatasetRef, digest: str, trees: int | None) -> SubmissionRequest:
        body, caller = self.body, self.caller
        spec = JobSpec(
            id=uuid4().hex,
            dataset=reference,
            settings=body.settings,
            priority=body.priority,
            tenant=caller.tenant,
            callback=body.callback,
            dataset_id=table.id,
            correlation=caller.correlation,
            trace=self.trace,
        )
        now, entry = caller.api.resources.clock(), caller.entry("job.submit", spec.id)
        return SubmissionRequest(spec, now, self.key, digest, body.fresh, trees, entry)


@dataclass(frozen=True, slots=True)
class SubmittedJob:
    """A job that was submitted, now or before, with its details as JSON."""

    job: str
    created: bool
    details: bytes


Outcome = SubmittedJob | ColumnsRequest


def submit_all(api: ApiState, documents: Sequence[SubmittedDocument]) -> dict[SubmittedDocument, Outcome | Exception]:
    """Queue jobs. A document whose table has to be prepared first gets a request for that."""
    outcomes: dict[SubmittedDocument, Outcome | Exception] = {}
    submissions: dict[SubmittedDocument, Submission] = {}
    requests: dict[SubmittedDocument, SubmissionRequest] = {}
    tables = api.ledger.datasets.get_many({document.body.dataset for document in documents})
    found: dict[Key, PreparedColumns | None] = {}
    for document in documents:
        try:
            digest = document.digest
            existing = document.find_existing(digest)
            if existing is not None:
                submissions[document] = existing
                continue
            _check_callback(document.body, document.caller)
            wanted = _columns_request(document, tables)
            if wanted.table.format == DIRECTORY:
                requests[document] = document.to_sampling_request(wanted.table.id, digest)
                continue
            columns = document.columns or _find_columns(api, wanted, found)
            if columns is None:
                outcomes[document] = wanted
            else:
                requests[document] = document.to_request(wanted.table, columns, digest)
        except MaaboError as error:
            outcomes[document] = error
    for document, outcome in zip(requests, _submit(api, list(requests.values())), strict=True):
        if isinstance(outcome, InputError):
            outcomes[document] = outcome
        elif outcome.created:
            outcomes[document] = _describe_new(api, requests[document])
        else:
            submissions[document] = outcome
    return outcomes | _describe(api, submissions)


def _find_columns(
    api: ApiState, wanted: ColumnsRequest, found: dict[Key, PreparedColumns | None]
) -> PreparedColumns | None:
    """Return columns that were prepared before; `found` has those of other documents."""
    key = wanted.key
    if key not in found:
        found[key] = api.tables.find(wanted)
    return found[key]


def _columns_request(document: SubmittedDocument, tables: dict[str, DatasetRow]) -> ColumnsRequest:
    body = document.body
    table = tables.get(body.dataset)
    if table is None or table.tenant != document.caller.tenant:
        raise unknown_dataset(body.dataset)
    if body.sample is not None and table.format != DIRECTORY:
        raise SettingsError("A table of one file is searched as a whole.", field="sample", remedy="Leave sample out.")
    return ColumnsRequest(table, body.table, names=body.settings.names_columns)


def _submit(api: ApiState, requests: list[SubmissionRequest]) -> list[Submission | InputError]:
    if not requests:
        return []
    return api.ledger.submissions.submit_many(requests)


def _describe_new(api: ApiState, request: SubmissionRequest) -> SubmittedJob:
    """Describe a job that was just added; nothing has to be read for that."""
    details = new_details(api, queued_job(request.spec, request.now))
    return SubmittedJob(request.spec.id, created=True, details=details.model_dump_json().encode())


def _describe(
    api: ApiState, submissions: dict[SubmittedDocument, Submission]
) -> dict[SubmittedDocument, Outcome | Exception]:
    """Describe jobs that existed before."""
    if not submissions:
        return {}
    rows = api.ledger.jobs.get_many({submission.job for submission in submissions.values()})
    details = {row.id: document for row, document in zip(rows, render_details(api, rows), strict=True)}
    return {
        document: SubmittedJob(submission.job, submission.created, details[submission.job])
        for document, submission in submissions.items()
        if submission.job in details
    }


def notify_scheduler(api: ApiState, jobs: Sequence[str]) -> dict[str, None]:
    """Make a scheduler look at jobs immediately; without Redis, it does so within seconds."""
    resources = api.resources
    with suppress(RedisError), resources.redis.pipeline(transaction=False) as pipe:
        for job in jobs:
            send_request(pipe, resources.settings, SchedulerRequest(kind="look", job=job))
        pipe.execute()
    return {}


def _check_callback(body: JobRequest, caller: Caller) -> None:
    check_address(body.callback, caller.api.resources.settings)
    if isinstance(body.callback, Callback) and not caller.may("admin"):
        raise ForbiddenError(
            "A callback task goes to a queue of the cluster's message broker, which needs the scope 'admin'.",
            field="callback",
            remedy='Use a webhook: {"url": "https://…", "secret": "…"}.',
        )
