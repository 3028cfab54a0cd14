"""`Intake`: requests from the intake stream, into the ledger before they leave the stream."""

from collections.abc import Sequence

from pydantic import ValidationError

from maabo_dist.cluster.logs import StructuredLogger
from maabo_dist.cluster.streams import HEADER
from maabo_dist.contract.job import Callback, JobSpec, JobState, Webhook
from maabo_dist.contract.messages import Request
from maabo_dist.contract.problem import Problem, problem_of
from maabo_dist.contract.record import JobRecord
from maabo_dist.errors import MaaboError, SettingsError
from scheduler.core.job import record_of
from scheduler.ledger.database import LedgerError
from scheduler.ledger.submissions import KeyReusedError
from scheduler.messaging.publisher import Post, PostError
from scheduler.messaging.status import Mirror
from scheduler.messaging.webhooks import check_place
from scheduler.resources import Resources

logger = StructuredLogger("maabo.scheduler.intake")

_WANTED = {"pause": "pause", "resume": "run", "cancel": "cancel"}
Entry = tuple[bytes, dict[bytes, bytes]]


class Intake:
    """Takes jobs in and notes what their owners want. Refusals are answered, and kept with their reason."""

    def __init__(self, resources: Resources, mirror: Mirror, post: Post) -> None:
        self._ledger, self._settings, self._mirror, self._post = resources.ledger, resources.settings, mirror, post

    def take_in(self, entries: Sequence[Entry], now: float) -> None:
        """Deal with requests."""
        requests = [request for _, fields in entries if (request := self._read(fields)) is not None]
        submitted = [request for request in requests if request.kind == "submit"]
        known = {row.id: row.spec for row in self._ledger.jobs.get_many([request.job for request in submitted])}
        specs = [spec for request in submitted if (spec := self._checked(request, known, now))]
        self._ledger.jobs.add(specs, now)
        for request in requests:
            if request.kind in _WANTED:
                self._ledger.jobs.set_command(request.job, _WANTED[request.kind], now)
                logger.info(f"{request.kind} asked", job=request.job)
        self._show({request.job for request in requests})

    def _show(self, ids: set[str]) -> None:
        rows = self._ledger.jobs.get_many(ids)
        self._mirror.show(record_of(row) for row in rows)
        for row in rows:
            if row.state is JobState.DONE and (document := self._ledger.jobs.document(row.id)) is not None:
                self._mirror.show_document(row.id, document)

    def _read(self, fields: dict[bytes, bytes]) -> Request | None:
        data = fields.get(HEADER, b"")
        try:
            return Request.read(data)
        except MaaboError as error:
            logger.warning("request refused", reason=error)
            self._mirror.refuse(data, problem_of(error))
            return None

    def _checked(self, request: Request, known: dict[str, JobSpec], now: float) -> JobSpec | None:
        try:
            spec = self._admitted(request, known, now)
        except LedgerError:
            raise
        except MaaboError as error:
            self._refuse(request, problem_of(error, request.correlation), now)
            return None
        facts = {"dataset": spec.dataset.name, "priority": spec.priority.value, "correlation": spec.correlation}
        logger.info("job queued", job=spec.id, **facts)
        return spec

    def _admitted(self, request: Request, known: dict[str, JobSpec], now: float) -> JobSpec:
        spec = JobSpec.parse(request.document)
        if spec.id != request.job:
            raise SettingsError(f"id: the document is of job {spec.id}, the request of {request.job}.", field="id")
        if not _same(known.setdefault(spec.id, spec), spec):
            raise KeyReusedError(spec.id, spec.id)
        if isinstance(spec.callback, Webhook):
            check_place(spec.callback, self._settings)
        if self._ledger.quotas.get(spec.tenant).queued is not None:  # counted one by one; else all go in together
            self._ledger.submissions.submit(spec, now, fresh=True)
        return spec

    def _refuse(self, request: Request, problem: Problem, now: float) -> None:
        logger.warning("job refused", job=request.job, reason=problem.detail, correlation=request.correlation)
        self._mirror.refuse(request.model_dump_json().encode(), problem)
        if not self._mirror.has_record(request.job):  # never over a job that was taken in
            told = {"state": JobState.FAILED, "created": now, "finished": now, "reason": problem.detail}
            self._mirror.show([JobRecord.model_validate({"id": request.job} | told)])
        callback = _callback(request)
        if callback is not None:
            said: dict[str, object] = {
                "job": request.job,
                "state": "refused",
                "digest": None,
                "problem": problem.to_json(),
            }
            try:
                self._post.call(callback, said)
            except PostError as error:  # other requests must not wait; the dead letter is there
                logger.warning("refusal not called back", job=request.job, reason=error)


def _same(one: JobSpec, other: JobSpec) -> bool:
    """Whether a document came again; what the sender calls the request does not matter."""
    plain = {"correlation": None, "trace": None}
    return one.model_copy(update=plain) == other.model_copy(update=plain)


def _callback(request: Request) -> Callback | None:
    """The task that a document names, whatever else is wrong with it."""
    try:
        return Callback.model_validate((request.document or {}).get("callback"))
    except ValidationError:
        return None
