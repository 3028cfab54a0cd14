"""Task `maabo.submit`: a job document from a service that has only Celery, handed to the schedulers."""

import re
from hashlib import sha256
from typing import Any

from maabo_dist.cluster.streams import send_request
from maabo_dist.contract import names
from maabo_dist.contract.job import JobSpec
from maabo_dist.contract.messages import Request
from maabo_dist.contract.problem import problem_of
from maabo_dist.errors import MaaboError
from workers.task import ClusterTask


class SubmitTask(ClusterTask):
    """Passes a document on. A document without an id gets one made of the task's: sent twice, it is one job."""

    name = names.SUBMIT
    ignore_result = False

    def run(self, **document: Any) -> str | dict[str, Any]:  # type: ignore[override]  # for another service, not for people
        """Returns the job's id, or the problem of a document that cannot be one.

        The schedulers get such a document too: they keep it among the refused, and call its callback.
        """
        own = _id(str(self.request.id), document.get("tenant"))
        document["id"] = document.get("id") or own
        job = document["id"] if _is_id(document["id"]) else own
        request = Request(kind="submit", job=job, document=document)
        send_request(self.redis, self._settings, request)
        try:
            return JobSpec.parse(document).id
        except MaaboError as error:
            return problem_of(error, request.correlation).to_json()


def _id(task: str, tenant: object) -> str:
    """Tenants who call their tasks alike do not meet in one job."""
    said = task if tenant is None or tenant == "default" else f"{tenant}\0{task}"
    return sha256(said.encode()).hexdigest()[:32]


def _is_id(given: object) -> bool:
    return isinstance(given, str) and re.fullmatch(r"[0-9a-f]{32}", given) is not None
