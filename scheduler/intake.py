"""`Intake`: requests from the intake stream, into the ledger before they leave the stream."""

from collections.abc import Sequence

from maabo_dist.cluster.logs import Journal
from maabo_dist.cluster.streams import HEADER
from maabo_dist.contract.job import JobSpec, JobState
from maabo_dist.contract.messages import Request
from maabo_dist.contract.record import JobRecord
from maabo_dist.errors import MaaboError, SettingsError
from scheduler.active import record_of
from scheduler.mirror import Mirror
from scheduler.parts import Parts

journal = Journal("maabo.scheduler.intake")

_WANTED = {"pause": "pause", "resume": "run", "cancel": "cancel"}
Entry = tuple[bytes, dict[bytes, bytes]]


class Intake:
    """Takes jobs in and notes what their owners want. Refusals are answered, and kept with their reason."""

    def __init__(self, parts: Parts, mirror: Mirror) -> None:
        self._ledger, self._mirror = parts.ledger, mirror

    def take_in(self, entries: Sequence[Entry], now: float) -> None:
        """Deal with requests."""
        requests = [request for _, fields in entries if (request := self._read(fields)) is not None]
        specs = [spec for request in requests if request.kind == "submit" and (spec := self._checked(request, now))]
        self._ledger.add(specs, now)
        for request in requests:
            if request.kind in _WANTED:
                self._ledger.ask(request.job, _WANTED[request.kind], now)
                journal.tell(f"{request.kind} asked", job=request.job)
        self._show({request.job for request in requests})

    def _show(self, ids: set[str]) -> None:
        rows = self._ledger.jobs(ids)
        self._mirror.show(record_of(row) for row in rows)
        for row in rows:
            if row.state is JobState.DONE and (document := self._ledger.document(row.id)) is not None:
                self._mirror.show_document(row.id, document)

    def _read(self, fields: dict[bytes, bytes]) -> Request | None:
        data = fields.get(HEADER, b"")
        try:
            return Request.read(data)
        except MaaboError as error:
            journal.warn("request refused", reason=error)
            self._mirror.refuse(data, str(error))
            return None

    def _checked(self, request: Request, now: float) -> JobSpec | None:
        try:
            spec = JobSpec.parse(request.document)
            if spec.id != request.job:
                raise SettingsError(f"id: the document is of job {spec.id}, the request of {request.job}.")
        except MaaboError as error:
            journal.warn("job refused", job=request.job, reason=error)
            self._mirror.refuse(request.model_dump_json().encode(), str(error))
            if not self._mirror.has_record(request.job):  # never over a job that was taken in
                refused = JobRecord(id=request.job, state=JobState.FAILED, created=now, finished=now, reason=str(error))
                self._mirror.show([refused])
            return None
        journal.tell("job queued", job=spec.id, dataset=spec.dataset.name, priority=spec.priority.value)
        return spec
