"""Task `maabo.submit`: a job document from a service that has only Celery, handed to the schedulers."""

from hashlib import sha256
from typing import Any

from maabo_dist.cluster.streams import send_request
from maabo_dist.contract import names
from maabo_dist.contract.messages import Request
from maabo_dist.errors import MaaboError
from workers.task import ClusterTask


class SubmitTask(ClusterTask):
    """Passes a document on. A document without an id gets one made of the task's: sent twice, it is one job."""

    name = names.SUBMIT

    def run(self, **document: Any) -> str:
        """Returns one line for people, shown by Flower. The schedulers check the document, and refuse with a reason."""
        job = document.get("id") or sha256(str(self.request.id).encode()).hexdigest()[:32]
        try:
            request = Request.read({"kind": "submit", "job": job, "document": document | {"id": job}})
        except MaaboError as error:
            return f"refused: {error}"
        send_request(self.redis, self._settings, request)
        return f"job {job}"
