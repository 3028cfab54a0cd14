"""Whether parts do their work, asked of them. A part that cannot be asked is not healthy."""

from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from deploy.local.processes import LOOPBACK, Part, Plan, worker_node
from deploy.local.supervisor import Running
from maabo_dist.cluster.broker import BROKER_ERRORS, make_celery
from maabo_dist.contract import names

PING_SECONDS = 0.25
HTTP_SECONDS = 0.5
_ANYWHERE = {"0.0.0.0": LOOPBACK, "::": "::1", "": LOOPBACK}  # noqa: S104 - an address to ask, not to listen on


class HealthChecks:
    """Asks the parts of one plan."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        # Without retries: who waits here restarts nothing.
        self._redis: Any = redis.Redis.from_url(plan.settings.redis_url, socket_timeout=1, retry=Retry(NoBackoff(), 0))
        self._celery = make_celery(plan.settings)
        self._known_scheduler: int | None = None

    def __call__(self, unsure: Sequence[tuple[Part, Running]]) -> set[str]:
        """Of the parts given, the names of those that are healthy."""
        healthy = {part.name for part, _ in unsure if part.role == "flower" and self._flower_answers()}
        healthy |= {part.name for part, p in unsure if part.role == "service" and self._service_answers(p)}
        with suppress(*BROKER_ERRORS):
            self._redis.ping()  # without Redis nobody else can be
            healthy |= {part.name for part, _ in unsure if part.role == "redis"}
            healthy |= {part.name for part, p in unsure if part.role == "scheduler" and self._scheduler_ready(p)}
            healthy |= self._answering([part.name for part, _ in unsure if part.role == "worker"])
        return healthy

    def _scheduler_ready(self, process: Running) -> bool:
        """It says so in Redis, or in its log. What an earlier one said is wiped out first."""
        key = self._plan.settings.key(names.CLUSTER)
        if process.pid != self._known_scheduler:
            self._redis.delete(key)
            self._known_scheduler = process.pid
        return bool(self._redis.exists(key)) or "ready as" in process.output()

    def _answering(self, workers: Sequence[str]) -> set[str]:
        if not workers:
            return set()
        nodes = {worker_node(name): name for name in workers}
        replies = self._celery.control.ping(destination=list(nodes), timeout=PING_SECONDS)
        return {nodes[node] for reply in replies or () for node in reply if node in nodes}

    def _flower_answers(self) -> bool:
        host = _ANYWHERE.get(self._plan.flower_host, self._plan.flower_host)
        return _answers(host, self._plan.flower_port, "/healthcheck")

    def _service_answers(self, process: Running) -> bool:
        """Itself: at its port there may be somebody else's."""
        return "listening on" in process.output() and _answers(LOOPBACK, self._plan.http_port, "/healthz")


def _answers(host: str, port: int | None, path: str) -> bool:
    connection = HTTPConnection(host, port, timeout=HTTP_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
