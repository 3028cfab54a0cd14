"""`Intake`: reads requests from the intake stream and writes them to the ledger before they leave the stream."""

from collections.abc import Sequence

from pydantic import ValidationError

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.streams import HEADER
from maabo_dist.contract import names
from maabo_dist.contract.job import Callback, JobRecord, JobSpec, JobState
from maabo_dist.contract.messages import Request
from maabo_dist.contract.problem import Problem, problem_of
from maabo_dist.errors import MaaboError, SettingsError
from scheduler.ledger.database import LedgerError
from scheduler.ledger.jobs import COMMANDS
from scheduler.ledger.submissions import KeyReusedError
from scheduler.messaging.publishers import StatusPublisher, TaskPublisher
from scheduler.messaging.webhooks import check_address
from scheduler.resources import BrokerError, Resources

logger = StructuredLogger("maabo.scheduler.intake")

Entry = tuple[bytes, dict[bytes, bytes]]


class Intake:
    """Admits jobs and records commands. Refused requests are answered, and kept with the reason."""

    def __init__(self, resources: Resources, status: StatusPublisher, publisher: TaskPublisher) -> None:
        self._ledger, self._settings = resources.ledger, resources.settings
        self._status, self._publisher = status, publisher

    def handle(self, entries: Sequence[Entry], now: float) -> None:
        """Handle requests. One that is invalid, whatever its bytes, is refused; the others are not affected."""
        headers = [fields.get(HEADER, b"") for _, fields in entries]
        received = [(request, data) for data in headers if (request := self._read(data)) is not None]
        requests = [request for request, _ in received]
        submitted = [(request, data) for request, data in received if request.kind == "submit"]
        existing = {row.id: row.spec for row in self._ledger.jobs.get_many([request.job for request, _ in submitted])}
        specs = [spec for request, data in submitted if (spec := self._admit_or_refuse(request, data, existing, now))]
        self._ledger.jobs.add(specs, now)
        for request in requests:
            if request.kind in COMMANDS:
                self._ledger.jobs.set_command(request.job, COMMANDS[request.kind], self._ledger.now)
                logger.info(f"{request.kind} requested", job=request.job)
        rows = self._ledger.jobs.get_many({request.job for request in requests})
        self._status.publish(row.record for row in rows)
        for row in rows:
            if row.state is JobState.DONE and (document := self._ledger.jobs.document(row.id)) is not None:
                self._status.publish_document(row.id, document)

    def _read(self, data: bytes) -> Request | None:
        try:
            return Request.read(data)
        except MaaboError as error:
            logger.warning("request refused", reason=error)
            self._status.add_refused(names.INTAKE_STREAM, data, problem_of(error))
            return None

    def _admit_or_refuse(
        self, request: Request, data: bytes, existing: dict[str, JobSpec], now: float
    ) -> JobSpec | None:
        try:
            spec = self._admit(request, existing, now)
        except LedgerError:
            raise
        except MaaboError as error:
            self._refuse(request, data, problem_of(error, request.correlation), now)
            return None
        facts = {"dataset": spec.dataset.name, "priority": spec.priority.value, "correlation": spec.correlation}
        logger.info("job queued", job=spec.id, **facts)
        return spec

    def _admit(self, request: Request, existing: dict[str, JobSpec], now: float) -> JobSpec:
        """Check a document. Queue it here if the tenant has a quota; else the caller queues all jobs together."""
        spec = JobSpec.parse(request.document)
        if spec.id != request.job:
            raise SettingsError(f"id: the document is for job {spec.id}, the request for {request.job}.", field="id")
        if not _is_same(existing.setdefault(spec.id, spec), spec):
            raise KeyReusedError(spec.id, spec.id)
        check_address(spec.callback, self._settings)
        if self._ledger.quotas.get(spec.tenant).queued is not None:
            self._ledger.submissions.submit(spec, now, fresh=True)
        return spec

    def _refuse(self, request: Request, data: bytes, problem: Problem, now: float) -> None:
        logger.warning("job refused", job=request.job, reason=problem.detail, correlation=request.correlation)
        self._status.add_refused(names.INTAKE_STREAM, data, problem)
        if not self._status.has_record(request.job):  # never in place of an admitted job
            record = {"state": JobState.FAILED, "created": now, "finished": now, "reason": problem.detail}
            self._status.publish([JobRecord.model_validate({"id": request.job} | record)])
        callback = _callback(request)
        if callback is not None:
            values: dict[str, object] = {"job": request.job, "state": "refused", "digest": None}
            try:
                self._publisher.call_back(callback, values | {"problem": problem.to_json()})
            except BrokerError as error:  # other requests must not wait; the refused request is kept
                logger.warning("callback of a refused job not sent", job=request.job, reason=error)


def _is_same(one: JobSpec, other: JobSpec) -> bool:
    """True if a document was sent again; the ids of requests and traces do not matter, nor a sample drawn since."""
    return _as_submitted(one) == _as_submitted(other)


def _as_submitted(spec: JobSpec) -> JobSpec:
    plain: dict[str, object] = {"correlation": None, "trace": None}
    if spec.dataset.many is not None:
        many = spec.dataset.many.model_copy(update={"drawn": None, "info": None})
        drawn = {"fingerprint": "", "notes": (), "many": many}
        plain["dataset"] = spec.dataset.model_copy(update=drawn)
    return spec.model_copy(update=plain)


def _callback(request: Request) -> Callback | None:
    """The callback of a document, even if the rest of it is invalid."""
    try:
        return Callback.model_validate((request.document or {}).get("callback"))
    except ValidationError:
        return None
